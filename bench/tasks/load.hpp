#pragma once

#include <string>
#include <vector>

#include "rival.hpp"

namespace braid::bench {

/// A runtime of the report.
struct task_runtime {
  std::string name;
  /// Orders tasks by hand, with nothing that tracks or states what depends on what: not a rival of equal use.
  bool lower_bound = false;
  /// Its submitting thread runs no tasks.
  bool idle_submitter = false;
  const rival_entry* entry = nullptr;  ///< null: see `reason`
  std::string reason;                  ///< why it cannot be measured
};

/// What runtimes are measured with: the patterns of `bench tasks`, or grids.
enum class task_runtime_use { small_tasks, grids };

/// The names of all runtimes, in the order of the report; braid is the first.
std::vector<std::string> task_runtime_names(task_runtime_use use);

/// Loads the runtimes of these names; all of them if there are none. Modules lie in the folder of the command
/// and stay loaded.
std::vector<task_runtime> load_task_runtimes(task_runtime_use use, const std::vector<std::string>& names);

}  // namespace braid::bench
