#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tasks/grid.hpp"

namespace braid::bench {

struct metg_options {
  std::vector<std::string> patterns{"stencil_1d", "nearest", "spread"};
  std::vector<std::string> runtimes;  ///< names; none: all
  unsigned width = 8;
  unsigned steps = 1000;
  unsigned radix = 5;
  unsigned period = 2;
  bool one_per_row = false;
  grid_kernel kernel = grid_kernel::compute;
  unsigned workers = 0;  ///< threads, and cores that they run on; 0: all of this process
  unsigned repetitions = 5;
  double turns_s = 1;  ///< in each of them a runtime has turns for this long, and at least one
  bool metg = true;
  bool empty = true;                      ///< ns a task with empty kernels
  bool memory = true;                     ///< bytes for each task in flight
  bool scaling = true;                    ///< from one core to all
  std::vector<double> scaling_us{2, 20};  ///< lengths of its tasks
  double longest_run_s = 3;               ///< a kernel that would take a run longer than this is not tried
  std::chrono::seconds step_limit{300};   ///< for one run; a runtime that takes longer ends the process
};

std::vector<std::string> grid_pattern_names();
std::vector<std::string> grid_kernel_names();

/// Grids of tasks on every runtime, in interleaved repetitions after one that is dropped; every run is
/// checked.
/// {"results": [{"pattern", "runtime", "width", "workers", "metg_us", "metg_us_min", "metg_us_max",
///               "turns", "kernel_us",
///               "ns_per_task", "ns_per_task_min", "ns_per_task_max", "bytes_per_task", "tasks_in_flight",
///               "curve": [{"task_us", "kernel_us", "efficiency"}, ...]}, ...],
///  "ratios": [{"pattern", "braid_to_threads", "braid_to_task_group", "best_tracking", "braid_to_best"},
///  ...], "scaling": [{"pattern", "runtime", "width", "workers", "task_us", "seconds", "of_braid",
///  "speedup", "efficiency"}, ...], "unavailable", "versions", "machine", "foreign_load", and the options}
/// A ratio is the median of those of neighbours. What was not measured, or does not exist, is null. Throws
/// wrong_total (harness.hpp) where a task's input was not there, and std::invalid_argument for a grid that
/// does not exist.
nlohmann::json run_metg_bench(const metg_options& options,
                              const std::function<void(std::uint64_t, std::uint64_t)>& progress);

/// The check of the checks: leaves one dependency out, on every runtime that orders tasks, so that a task
/// runs before its input is there, and looks whether that is noticed.
/// {"results": [{"pattern", "runtime", "injected", "caught", "what"}, ...], "unavailable"}
nlohmann::json inject_missing_dependency(const metg_options& options,
                                         const std::function<void(std::uint64_t, std::uint64_t)>& progress);

}  // namespace braid::bench
