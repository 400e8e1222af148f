#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace braid::bench {

struct engine_options {
  unsigned repetitions = 9;
  bool quick = false;  ///< fewer repetitions, no 10^7 ops and no 10^6 resources
  std::string filter;  ///< only rows whose name contains this
};

/// One row: something that can be done n times. Made fresh for each row, so that rows do not disturb each
/// other.
struct engine_case {
  std::string name;
  std::function<std::function<void(std::uint64_t n)>()> make;
  std::uint64_t batch = 20'000;  ///< calls a repetition
  bool single_thread = true;     ///< whether instructions can be counted by stepping
};

/// All rows, in the order of the report.
std::vector<engine_case> engine_cases(const engine_options& options);

/// Two threads on one engine against two engines with one thread each, interleaved. {"ratio": ..., ...}
nlohmann::json measure_two_threads(const engine_options& options);
/// Resident memory after 10^4 and after 10^7 ops, and with 10,000 streams that exchange data at random on a
/// backend that completes nothing.
nlohmann::json measure_memory(const engine_options& options);

/// {"benchmarks": [{"name", "ns", "allocations", "instructions"}, ...], "machine": ..., ...}. Medians over
/// interleaved repetitions; `progress(done, of)` is called after each step.
nlohmann::json run_engine_bench(const engine_options& options,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress);

}  // namespace braid::bench
