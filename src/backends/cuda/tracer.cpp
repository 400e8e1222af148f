#include "tracer.hpp"

#include <fmt/format.h>

#include "braid/detail/trace_hooks.hpp"
#include "braid/settings.hpp"
#include "cupti.hpp"
#include "state.hpp"
#include "trace/recorder.hpp"

namespace braid::cuda::detail {

namespace {

constexpr std::size_t most_entries = 65'536;

// Of the trace that is recorded.
struct session {
  std::atomic<cupti*> by{nullptr};  // null: by events
  std::string reason;               // why not by CUPTI
  std::atomic<std::uint64_t> ops{0};
  std::atomic<std::int64_t> host_ns{0};  // that recording took
  std::atomic<std::uint64_t> lost{0};    // ops whose events had to be used again too early
  std::mutex mutex;
  std::vector<std::uint32_t> runtimes;  // an id has 12 bits for a place in here
};
session& now() {
  static auto* const one = new session;
  return *one;
}

constexpr unsigned cursor_bits = 36;
constexpr unsigned lane_bits = 16;

std::uint64_t id_of(const traced_op& op) {
  session& s = now();
  std::uint64_t place = 0;
  {
    const std::scoped_lock lock(s.mutex);
    while (place < s.runtimes.size() && s.runtimes[place] != op.runtime) ++place;
    if (place == s.runtimes.size()) s.runtimes.push_back(op.runtime);
  }
  return place << (cursor_bits + lane_bits) | std::uint64_t{braid::detail::index_of(op.lane)} << cursor_bits |
         (op.cursor & ((std::uint64_t{1} << cursor_bits) - 1));
}

void tell(std::uint64_t id, std::int64_t start, std::int64_t end) {
  session& s = now();
  const std::uint64_t place = id >> (cursor_bits + lane_bits);
  if (place >= s.runtimes.size()) return;
  braid::detail::trace_device_run(
      s.runtimes[place], static_cast<braid::detail::lane_id>(id >> cursor_bits & ((1U << lane_bits) - 1)),
      id & ((std::uint64_t{1} << cursor_bits) - 1), start, end);
}

void begin_trace() {
  session& s = now();
  s.reason.clear();
  s.ops = 0;
  s.host_ns = 0;
  s.lost = 0;
  {
    const std::scoped_lock lock(s.mutex);
    s.runtimes.clear();
  }
  cupti* by = nullptr;
  if (settings::process().trace_cupti.value) {
    by = cupti::open(s.reason);
  } else {
    s.reason = "trace.cupti is false";
  }
  if (by != nullptr && !by->begin()) {
    s.reason = "it cannot be used with this driver";
    by = nullptr;
  }
  s.by.store(by);
  each_state([](shared_state& state) {
    state.timings.settle();
    state.watch.fetch_or(shared_state::traced, std::memory_order_relaxed);
  });
}

std::string end_trace() {
  session& s = now();
  each_state([](shared_state& state) {
    state.watch.fetch_and(~std::uint32_t{shared_state::traced}, std::memory_order_relaxed);
    state.timings.settle();
  });
  std::uint64_t dropped = s.lost;
  if (cupti* by = s.by.exchange(nullptr)) {
    const std::scoped_lock lock(s.mutex);
    dropped += by->end([](std::uint64_t id, std::int64_t start, std::int64_t end) { tell(id, start, end); });
  }
  const std::uint64_t ops = s.ops;
  if (ops == 0) return {};
  std::string text = s.reason.empty()
                         ? std::string("CUPTI's activity records")
                         : fmt::format("events with timing around each body (no CUPTI: {})", s.reason);
  text += fmt::format("; that took the host {} ns an op", s.host_ns / static_cast<std::int64_t>(ops));
  if (dropped != 0) text += fmt::format("; {} were dropped", dropped);
  return text;
}

}  // namespace

void watch_traces() {
  static const bool once = [] {
    trace::add_device_tracer({begin_trace, end_trace});
    return true;
  }();
  (void)once;
}

// ---- By events.

void timed_ops::give_events() noexcept {
  for (auto& each : free_) {
    for (CUevent e : each) (void)of_.cu().cuEventDestroy(e);
  }
  free_.clear();
}

CUevent timed_ops::take(std::size_t device) {
  if (free_.size() <= device) free_.resize(device + 1);
  if (!free_[device].empty()) {
    CUevent e = free_[device].back();
    free_[device].pop_back();
    return e;
  }
  CUevent made = nullptr;
  of_.expect("cuEventCreate", of_.cu().cuEventCreate(&made, CU_EVENT_DEFAULT));
  return made;
}

CUevent timed_ops::begin(stream_state& s, const traced_op& op) {
  const auto& cu = of_.cu();
  const relaxed_capture relaxed;
  const std::scoped_lock lock(mutex_);
  if (anchors_.size() <= s.device_index) anchors_.resize(s.device_index + 1);
  if (anchor& a = anchors_[s.device_index]; a.event == nullptr) {
    CUevent e = take(s.device_index);
    // On a stream of its own, which nothing stands in front of.
    CUstream idle = nullptr;
    of_.expect("cuStreamCreateWithPriority", cu.cuStreamCreateWithPriority(&idle, CU_STREAM_NON_BLOCKING, 0));
    of_.expect("cuEventRecord", cu.cuEventRecord(e, idle));
    of_.expect("cuEventSynchronize", cu.cuEventSynchronize(e));
    a = {e, braid::detail::trace_now()};
    (void)cu.cuStreamDestroy(idle);
  }
  if (entries_.size() == most_entries) {
    const entry oldest = entries_.front();
    entries_.pop_front();
    if (cu.cuEventQuery(oldest.end) == CUDA_SUCCESS) {
      tell(oldest);
    } else {
      ++now().lost;
    }
    free_[oldest.device].push_back(oldest.start);
    free_[oldest.device].push_back(oldest.end);
  }
  entry made{op, s.device_index, take(s.device_index), take(s.device_index)};
  of_.expect("cuEventRecord", cu.cuEventRecord(made.start, s.native));
  entries_.push_back(made);
  return made.end;
}

void timed_ops::tell(const entry& e) noexcept {
  float start_ms = 0;
  float end_ms = 0;
  const anchor& a = anchors_[e.device];
  if (of_.cu().cuEventElapsedTime(&start_ms, a.event, e.start) != CUDA_SUCCESS ||
      of_.cu().cuEventElapsedTime(&end_ms, a.event, e.end) != CUDA_SUCCESS) {
    ++now().lost;
    return;
  }
  const auto at = [&](float ms) { return a.time + static_cast<std::int64_t>(static_cast<double>(ms) * 1e6); };
  braid::detail::trace_device_run(e.op.runtime, e.op.lane, e.op.cursor, at(start_ms), at(end_ms));
}

void timed_ops::settle() noexcept {
  if (of_.is_orphaned()) return;  // a thread of the parent may have had the lock
  const relaxed_capture relaxed;
  const std::scoped_lock lock(mutex_);
  for (const entry& e : entries_) {
    if (of_.cu().cuEventSynchronize(e.end) == CUDA_SUCCESS) tell(e);
    free_[e.device].push_back(e.start);
    free_[e.device].push_back(e.end);
  }
  entries_.clear();
  for (std::size_t i = 0; i < anchors_.size(); ++i) {
    if (anchors_[i].event != nullptr) free_[i].push_back(anchors_[i].event);
  }
  anchors_.clear();
}

// ---- Around a body.

traced_scope::traced_scope(stream_state& s, const traced_op& op) noexcept : stream_(s) {
  const std::int64_t before = braid::detail::trace_now();
  // No times yet: those of an op that puts nothing on its stream stay away.
  braid::detail::trace_device_run(op.runtime, op.lane, op.cursor, 0, 0);
  session& of = now();
  try {
    if (cupti* by = of.by.load()) {
      by->push(id_of(op));
      is_pushed_ = true;
    } else {
      behind_ = s.home.timings.begin(s, op);
    }
  } catch (const std::exception&) {
    ++of.lost;
  }
  ++of.ops;
  of.host_ns += braid::detail::trace_now() - before;
}

traced_scope::~traced_scope() {
  const std::int64_t before = braid::detail::trace_now();
  session& of = now();
  if (is_pushed_) {
    if (cupti* by = of.by.load()) by->pop();
  } else if (behind_ != nullptr) {
    (void)stream_.home.cu().cuEventRecord(behind_, stream_.native);
  }
  of.host_ns += braid::detail::trace_now() - before;
}

}  // namespace braid::cuda::detail
