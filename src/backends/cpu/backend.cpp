#include "braid/cpu.hpp"

#include "braid/detail/cores.hpp"
#include "braid/settings.hpp"

namespace braid::cpu {

namespace {

constexpr unsigned most_workers = 4096;

unsigned workers_of(const runtime_options& with, const detail::cores& found) {
  const unsigned asked = with.workers.value_or(settings::process().workers.value);
  if (asked > most_workers) {
    throw usage_error(misuse::bad_settings, "workers is " + std::to_string(asked) + ": at most " +
                                                std::to_string(most_workers) +
                                                " are possible; 0 is one for each core");
  }
  return asked != 0 ? asked : found.usable;
}

}  // namespace

backend::backend(const runtime_options& asked) {
  const detail::cores found = detail::cores_of_process();
  workers_ = workers_of(asked, found);
  const bool pins = asked.pin_workers.value_or(settings::process().pin_workers.value);
  scheduler_ = std::make_shared<detail::cpu_scheduler>(
      workers_ - 1, pins ? found.cpus : detail::cpus_of_this_thread(), pins);
}

std::shared_ptr<memory_source> backend::memory() const {
  return std::make_shared<system_source>();
}

void backend::wait(detail::cpu_queue& q, std::uint64_t cursor) {
  q.home.wait(q, cursor);  // of another runtime, if its event is waited for
  if (q.has_failed.load(std::memory_order_relaxed)) report_failures(q, cursor);  // seen with `done`
}

bool backend::is_complete(detail::cpu_queue& q, std::uint64_t cursor) {
  if (!q.is_done(cursor)) return false;
  if (q.has_failed.load(std::memory_order_relaxed)) report_failures(q, cursor);
  return true;
}

void backend::wait_for_room(detail::cpu_queue& q) {
  // relaxed: bounds
  if (q.is_done(q.room_after.load(std::memory_order_relaxed))) return;
  detail::cpu_scheduler::wait_idly(q, q.half_after.load(std::memory_order_relaxed));
}

// Each failure is reported once, to the first who asks about its op or one behind it.
void backend::report_failures(detail::cpu_queue& q, std::uint64_t cursor) {
  std::string text;
  {
    const std::scoped_lock lock(q.failures_mutex);
    std::erase_if(q.failures, [&](const auto& failure) {
      if (failure.first > cursor) return false;
      if (text.empty()) text = failure.second;
      return true;
    });
    if (q.failures.empty()) q.has_failed.store(false, std::memory_order_relaxed);
  }
  if (!text.empty()) throw execution_error(text);
}

}  // namespace braid::cpu
