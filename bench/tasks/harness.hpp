#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace braid::bench {

struct tasks_options {
  std::uint64_t tasks = 100'000;
  unsigned repetitions = 9;
  std::vector<std::string> patterns;     ///< names; none: all
  std::vector<std::string> runtimes;     ///< names; none: all
  std::chrono::seconds step_limit{300};  ///< for one run; a runtime that takes longer ends the process
};

std::vector<std::string> pattern_names();

/// A runtime ran a task too often, too rarely or too early.
struct wrong_total : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a task costs on each runtime, in ns: medians over interleaved repetitions, after one that is dropped.
/// {"results": [{"pattern", "runtime", "ns", "ns_min", "ns_max"}, ...],
///  "ratios": [{"pattern", "best_rival", "braid_to_best", "braid_to_bound"}, ...],
///  "unavailable": [{"runtime", "reason"}, ...], "versions": {runtime: text}, "machine": ...,
///  "tasks", "repetitions", "foreign_load": cores that others used}
/// Calls `progress(done, of)` after each step. Throws wrong_total.
nlohmann::json run_tasks_bench(const tasks_options& options,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress);

}  // namespace braid::bench
