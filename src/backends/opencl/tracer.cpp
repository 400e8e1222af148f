#include "tracer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>

#include "braid/detail/trace_hooks.hpp"
#include "state.hpp"
#include "trace/recorder.hpp"

namespace braid::opencl::detail {

namespace {

constexpr std::size_t most_entries = 65'536;

// Of the trace that is recorded.
struct session {
  std::atomic<std::uint64_t> ops{0};
  std::atomic<std::int64_t> host_ns{0};  // that recording took
  std::atomic<std::uint64_t> lost{0};    // ops without times
};
session& now() {
  static auto* const one = new session;
  return *one;
}

void begin_trace() {
  session& s = now();
  s.ops = 0;
  s.host_ns = 0;
  s.lost = 0;
  each_state([](shared_state& state) {
    state.timings.settle();
    state.is_traced = true;
  });
}

std::string end_trace() {
  each_state([](shared_state& state) {
    state.is_traced = false;
    state.timings.settle();
  });
  const session& s = now();
  const std::uint64_t ops = s.ops;
  if (ops == 0) return {};
  std::string text = fmt::format("markers with profiling around each body; that took the host {} ns an op",
                                 s.host_ns / static_cast<std::int64_t>(ops));
  if (s.lost != 0) text += fmt::format("; {} have no times", s.lost.load());
  return text;
}

/// Of the device's clock; empty if it does not say.
std::optional<std::int64_t> time_of(cl_event e, cl_profiling_info what) noexcept {
  cl_ulong ns = 0;
  if (clGetEventProfilingInfo(e, what, sizeof ns, &ns, nullptr) != CL_SUCCESS) return {};
  return static_cast<std::int64_t>(ns);
}

/// A moment by both clocks. Commands on a queue of its own tell: each ended after it was given and before
/// that was known.
std::optional<timed_ops::anchor> anchor_on(const device_context& device) noexcept {
  constexpr int samples = 32;
  std::int64_t earliest = std::numeric_limits<std::int64_t>::min();
  std::int64_t latest = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = 0;
  try {
    const cl_command_queue queue = device.make_queue(true);
    for (int i = 0; i < samples; ++i) {
      cl_event e = nullptr;
      const std::int64_t before = braid::detail::trace_now();
      if (clEnqueueMarkerWithWaitList(queue, 0, nullptr, &e) != CL_SUCCESS) break;
      const bool is_over = clWaitForEvents(1, &e) == CL_SUCCESS;
      const std::int64_t after = braid::detail::trace_now();
      if (const auto at = time_of(e, CL_PROFILING_COMMAND_END); is_over && at) {
        earliest = std::max(earliest, before - *at);
        latest = std::min(latest, after - *at);
        last = *at;
      }
      (void)clReleaseEvent(e);
    }
    (void)clReleaseCommandQueue(queue);
  } catch (const error&) {
    // No queue with profiling: no times.
  }
  if (last == 0) return {};
  return timed_ops::anchor{last, last + earliest + (latest - earliest) / 2};
}

}  // namespace

void watch_traces() {
  static const bool once = [] {
    trace::add_device_tracer({begin_trace, end_trace});
    return true;
  }();
  (void)once;
}

timed_ops::started timed_ops::begin(stream_state& s, const timed_op& op) noexcept {
  const std::int64_t before = braid::detail::trace_now();
  // No times yet.
  braid::detail::trace_device_run(op.runtime, op.lane, op.cursor, 0, 0);
  {
    const std::scoped_lock lock(mutex_);
    if (!first_) first_ = anchor_on(of_.device());
  }
  started made{nullptr, braid::detail::trace_now()};
  if (clEnqueueMarkerWithWaitList(s.queue(), 0, nullptr, &made.event) != CL_SUCCESS) ++now().lost;
  ++now().ops;
  now().host_ns += braid::detail::trace_now() - before;
  return made;
}

void timed_ops::end(stream_state& s, const timed_op& op, const started& began) noexcept {
  const std::int64_t before = braid::detail::trace_now();
  cl_event ended = nullptr;
  if (clEnqueueMarkerWithWaitList(s.queue(), 0, nullptr, &ended) != CL_SUCCESS) {
    (void)clReleaseEvent(began.event);
    ++now().lost;
    return;
  }
  std::deque<entry> full;
  {
    const std::scoped_lock lock(mutex_);
    entries_.push_back({op, began, ended});
    if (entries_.size() == most_entries) full.swap(entries_);
  }
  tell(full);
  now().host_ns += braid::detail::trace_now() - before;
}

// The clocks differ, and one may run faster than the other.
void timed_ops::tell(const std::deque<entry>& all) noexcept {
  if (all.empty()) return;
  for (const entry& e : all) (void)clWaitForEvents(1, &e.ended);
  const std::optional<anchor> second = anchor_on(of_.device());
  std::optional<anchor> first;
  {
    const std::scoped_lock lock(mutex_);
    first = first_;
  }
  const auto by_host = [&](std::int64_t device) {
    constexpr double too_short = 1e6;  // to tell a rate, in ns
    const auto elapsed = static_cast<double>(second->device - first->device);
    const double rate = elapsed > too_short ? static_cast<double>(second->host - first->host) / elapsed : 1.0;
    return first->host + static_cast<std::int64_t>(static_cast<double>(device - first->device) * rate);
  };
  std::map<braid::detail::lane_id, std::int64_t> reached;  // by each stream
  for (const entry& e : all) {
    const auto start = time_of(e.began.event, CL_PROFILING_COMMAND_END);
    const auto end = time_of(e.ended, CL_PROFILING_COMMAND_START);
    if (first && second && start && end) {
      // It cannot have begun before it was put there, nor before the op in front of it was over, whatever the
      // clocks say.
      std::int64_t& last = reached[e.op.lane];
      const std::int64_t from = std::max({by_host(*start), e.began.given, last});
      last = std::max(from, by_host(*end));
      braid::detail::trace_device_run(e.op.runtime, e.op.lane, e.op.cursor, from, last);
    } else {
      ++now().lost;
    }
    (void)clReleaseEvent(e.began.event);
    (void)clReleaseEvent(e.ended);
  }
}

void timed_ops::settle() noexcept {
  std::deque<entry> all;
  {
    const std::scoped_lock lock(mutex_);
    all.swap(entries_);
  }
  if (of_.is_orphaned()) return;
  tell(all);
  const std::scoped_lock lock(mutex_);
  first_.reset();
}

}  // namespace braid::opencl::detail
