#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace braid::detail {

/// The CPU cores that this process may use.
struct cores {
  unsigned usable = 1;  ///< how many threads can run at once: the CPUs, or fewer by a cgroup's quota; >= 1
  std::vector<unsigned> cpus;  ///< the CPUs that it may run on, by the system's numbers, ascending
  std::string limited_by;      ///< what keeps it from using the whole machine; empty: nothing does
};

/// Looks anew each time and takes some milliseconds: ask once. The CPUs are those that the process is bound
/// to, together for all its threads, and allowed on. The quota is the smallest from the process's cgroup up
/// to the root, rounded up; what cannot be read limits nothing. `root` stands before /proc and the cgroup
/// folders.
cores cores_of_process(const std::filesystem::path& root = "/");

/// From now on the calling thread runs on this CPU only. False, and nothing changed, if that is not possible.
bool pin_this_thread(unsigned cpu) noexcept;

}  // namespace braid::detail
