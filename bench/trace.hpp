#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>

namespace braid::bench {

struct trace_options {
  unsigned repetitions = 9;
  std::uint64_t ops = 20'000;  ///< of each run
  std::function<void(std::uint64_t done, std::uint64_t of)> progress{};
};

/// What it costs to trace: ops of some lengths, eight chains on eight streams, plain and traced in turns.
nlohmann::json run_trace_bench(const trace_options& with);

}  // namespace braid::bench
