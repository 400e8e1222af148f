#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace braid::bench {

/// The CPUs that the calling thread may run on, ascending.
std::vector<unsigned> allowed_cpus();

/// For its lifetime the calling thread and what it starts, or every thread of the process, runs on these CPUs
/// only. A runtime may keep threads, which would stay on the CPUs that they were made on.
class cpu_limit {
 public:
  enum class of : std::uint8_t { caller, process };
  explicit cpu_limit(const std::vector<unsigned>& cpus, of whom = of::caller);
  ~cpu_limit();
  cpu_limit(const cpu_limit&) = delete;
  cpu_limit& operator=(const cpu_limit&) = delete;

 private:
  const of whom_;
  const std::vector<unsigned> before_;
};

/// Threads that are pinned to a CPU each, the calling one being the first of them. They spin while they are
/// idle.
class core_threads {
 public:
  explicit core_threads(unsigned count);
  ~core_threads();
  core_threads(const core_threads&) = delete;
  core_threads& operator=(const core_threads&) = delete;

  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(others_.size()) + 1; }
  /// Calls `f(number)` on every thread at once; the ns from the start until the last has returned.
  double run(const std::function<void(unsigned)>& f);

 private:
  void work(unsigned number, unsigned cpu);

  std::vector<unsigned> cpus_;
  cpu_limit own_;
  const std::function<void(unsigned)>* job_ = nullptr;
  alignas(64) std::atomic<unsigned> round_{0};
  alignas(64) std::atomic<unsigned> ready_{0};
  alignas(64) std::atomic<unsigned> running_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> others_;
};

/// How many ns a cache line takes from one core to another and back: the median of some exchanges. 0 where
/// there is one core only.
double line_round_trip_ns();

}  // namespace braid::bench
