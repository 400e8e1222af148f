#pragma once

#include <filesystem>
#include <span>
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

/// The CPU that the calling thread runs on at the moment.
[[nodiscard]] unsigned cpu_of_this_thread() noexcept;

/// Those that it may run on, ascending; at least one.
[[nodiscard]] std::vector<unsigned> cpus_of_this_thread();

/// Of some CPUs, ascending, the one that comes so many after `from`, in turn.
[[nodiscard]] unsigned cpu_after(std::span<const unsigned> cpus, unsigned from, unsigned so_many) noexcept;

/// Takes the calling thread to a CPU that it may run on; it is free to leave again. A system may put a new
/// thread where the one that made it runs, and take milliseconds to see that both are busy. False if that
/// is not possible.
bool begin_on(unsigned cpu) noexcept;

/// From now on the calling thread runs on this CPU only. False, and nothing changed, if that is not possible.
bool pin_this_thread(unsigned cpu) noexcept;

}  // namespace braid::detail
