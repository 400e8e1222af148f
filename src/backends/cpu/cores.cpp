#include "braid/detail/cores.hpp"

#include <fmt/format.h>
#include <hwloc.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "cgroup.hpp"

namespace braid::detail {

namespace {

struct destroy {
  void operator()(hwloc_topology* t) const noexcept { hwloc_topology_destroy(t); }
  void operator()(hwloc_bitmap_s* b) const noexcept { hwloc_bitmap_free(b); }
};
using topology = std::unique_ptr<hwloc_topology, destroy>;
using bitmap = std::unique_ptr<hwloc_bitmap_s, destroy>;

struct processing_units {
  std::vector<unsigned> cpus;
  std::size_t of_machine = 0;
};

topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  topology loaded(raw);
  // With what the process may not use, so that it can be said how much that is.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(raw) != 0) return nullptr;
  return loaded;
}

/// Without any CPU where hwloc cannot tell.
processing_units find_processing_units() {
  processing_units found;
  const topology machine = load_topology();
  const bitmap bound(hwloc_bitmap_alloc());
  if (machine == nullptr || bound == nullptr) return found;
  if (hwloc_get_cpubind(machine.get(), bound.get(), HWLOC_CPUBIND_PROCESS) != 0) return found;
  hwloc_bitmap_and(bound.get(), bound.get(), hwloc_topology_get_allowed_cpuset(machine.get()));
  found.of_machine = static_cast<std::size_t>(hwloc_get_nbobjs_by_type(machine.get(), HWLOC_OBJ_PU));
  for (int each = hwloc_bitmap_first(bound.get()); each >= 0; each = hwloc_bitmap_next(bound.get(), each)) {
    found.cpus.push_back(static_cast<unsigned>(each));
  }
  return found;
}

}  // namespace

std::vector<unsigned> cpus_of_this_thread() {
  std::vector<unsigned> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

cores cores_of_process(const std::filesystem::path& root) {
  processing_units units = find_processing_units();
  if (units.cpus.empty()) {
    units.cpus = cpus_of_this_thread();
    units.of_machine = units.cpus.size();
  }
  cores found;
  found.usable = static_cast<unsigned>(units.cpus.size());
  if (units.cpus.size() < units.of_machine) {
    found.limited_by = fmt::format("bound to {} of {} CPUs", units.cpus.size(), units.of_machine);
  }
  const auto quota = cgroup_cpu_quota(root);
  if (quota.has_value() && quota->rounded_up() < found.usable) {
    found.usable = static_cast<unsigned>(quota->rounded_up());
    found.limited_by =
        fmt::format("{} allows {:.4g} of {} CPUs", quota->file.string(), quota->cpus(), units.cpus.size());
  }
  found.cpus = std::move(units.cpus);
  return found;
}

unsigned cpu_of_this_thread() noexcept {
  const int cpu = sched_getcpu();
  return cpu < 0 ? 0 : static_cast<unsigned>(cpu);
}

unsigned cpu_after(std::span<const unsigned> cpus, unsigned from, unsigned so_many) noexcept {
  const auto up_to =
      static_cast<std::size_t>(std::upper_bound(cpus.begin(), cpus.end(), from) - cpus.begin());
  return cpus[(up_to + cpus.size() - 1 + so_many) % cpus.size()];
}

// A machine with more CPUs than the set has room for refuses the first call.
bool begin_on(unsigned cpu) noexcept {
  cpu_set_t allowed;
  if (pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed) != 0) return false;
  if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed) || !pin_this_thread(cpu)) return false;
  return pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed) == 0;
}

bool pin_this_thread(unsigned cpu) noexcept {
  // The call itself rather than hwloc's, which would need a topology in every thread.
  constexpr unsigned beyond_any_machine = 1U << 16;
  if (cpu >= beyond_any_machine) return false;
  cpu_set_t* set = CPU_ALLOC(cpu + 1);
  if (set == nullptr) return false;
  const std::size_t size = CPU_ALLOC_SIZE(cpu + 1);
  CPU_ZERO_S(size, set);
  CPU_SET_S(cpu, size, set);
  const bool done = pthread_setaffinity_np(pthread_self(), size, set) == 0;
  CPU_FREE(set);
  return done;
}

}  // namespace braid::detail
