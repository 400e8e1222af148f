#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "trace/analysis.hpp"

namespace braid::trace {

/// Where the time of a trace went, put together once.
struct explanation {
  std::vector<account> streams;
  std::vector<costly_wait> waits;
  critical_path path;
  bounds at_best;
  std::vector<std::string> violations;
};
explanation explain(const trace& t, std::size_t most_waits = 10);

/// For people; `most_steps` of the critical path are listed, the longest.
std::string to_text(const trace& t, const explanation& e, std::size_t most_steps = 12);
nlohmann::json to_json(const trace& t, const explanation& e);

}  // namespace braid::trace
