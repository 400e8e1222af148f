#include "state.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <functional>
#include <map>
#include <shared_mutex>

#include "braid/detail/trace_hooks.hpp"

namespace braid::cuda::detail {

namespace {

// All that are alive, for a child of fork() to tell them that they are not its own.
struct alive {
  std::mutex mutex;
  std::vector<shared_state*> all;
};
alive& states() {
  static alive* it = [] {
    // Without memory for it a child is not recognised.
    (void)pthread_atfork([] { states().mutex.lock(); }, [] { states().mutex.unlock(); },
                         [] {
                           for (shared_state* s : states().all) {
                             s->watch.fetch_or(shared_state::forked, std::memory_order_relaxed);
                           }
                           states().mutex.unlock();
                         });
    return new alive;  // for good: runtimes may go after statics do
  }();
  return *it;
}

// The handles of each native stream, for attachment(). A default stream is one for each context.
struct registry {
  using place = std::pair<CUstream, void*>;  // with the context
  std::shared_mutex mutex;
  std::map<place, std::shared_ptr<stream_handles>> streams;
};
registry& all_streams() {
  static registry* it = new registry;  // for good: runtimes may go after statics do
  return *it;
}

bool is_of_capture(CUresult code) noexcept {
  return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

// The default stream is that of the context that is current: which has to be looked at in each call.
constinit std::atomic<std::uint32_t> always{~std::uint32_t{0}};

device open_device(const driver_functions& cu, int ordinal) {
  int count = 0;
  expect("cuDeviceGetCount", cu.cuDeviceGetCount(&count));
  if (ordinal < 0 || ordinal >= count) {
    throw usage_error(
        misuse::no_device,
        fmt::format("there is no CUDA device {}: this machine has {}, numbered from 0", ordinal, count));
  }
  device d;
  d.ordinal = ordinal;
  expect("cuDeviceGet", cu.cuDeviceGet(&d.handle, ordinal));
  const relaxed_capture relaxed;
  expect("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain(&d.context, d.handle));
  const current_context current(d.context);
  (void)cu.cuCtxGetStreamPriorityRange(&d.lowest_priority, &d.highest_priority);
  return d;
}

}  // namespace

usage_error forked_error() {
  return {
      misuse::forked,
      "a CUDA runtime was used in a child of the process that made it: a device cannot be used across "
      "fork(); make the runtime in the child, before which no runtime may be made in the parent, or start "
      "the child with exec"};
}

shared_state::shared_state(std::span<const int> ordinals, std::vector<int> priorities, bool nvtx)
    : watch(nvtx ? std::uint32_t{ranges} : 0), cu_(driver()), priorities_(std::move(priorities)) {
  expect_same_process();
  devices_.reserve(ordinals.size());
  try {
    for (const int ordinal : ordinals) devices_.push_back(open_device(cu_, ordinal));
  } catch (...) {
    release_devices();
    throw;
  }
  for (device& d : devices_) {
    for (const device& peer : devices_) d.reaches.push_back(reaches(d, peer));
  }
  watch_traces();
  const std::scoped_lock lock(states().mutex);
  states().all.push_back(this);
  if (braid::detail::is_tracing()) watch.fetch_or(traced, std::memory_order_relaxed);
}

bool shared_state::reaches(const device& from, const device& to) const noexcept {
  if (from.handle == to.handle) return true;
  int can = 0;
  if (cu_.cuDeviceCanAccessPeer(&can, from.handle, to.handle) != CUDA_SUCCESS || can == 0) return false;
  const current_context current(from.context);
  const CUresult code = cu_.cuCtxEnablePeerAccess(to.context, 0);
  return code == CUDA_SUCCESS || code == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

void each_state(const std::function<void(shared_state&)>& visit) {
  const std::scoped_lock lock(states().mutex);
  for (shared_state* each : states().all) visit(*each);
}

shared_state::~shared_state() {
  {
    const std::scoped_lock lock(states().mutex);
    std::erase(states().all, this);
  }
  if (!is_orphaned()) {
    timings.settle();
    timings.give_events();
  }
  for (stream_state* s : capture_streams_) s->close();
  streams_.clear();
  if (is_orphaned()) return;
  release_devices();
}

void shared_state::release_devices() noexcept {
  for (const device& d : devices_) (void)cu_.cuDevicePrimaryCtxRelease(d.handle);
}

int shared_state::priority_of(const device& d, std::uint64_t stream) const noexcept {
  if (priorities_.empty()) return d.lowest_priority;
  return std::clamp(priorities_[stream % priorities_.size()], d.highest_priority, d.lowest_priority);
}

bool shared_state::is_orphaned() const noexcept {
  return (watch.load(std::memory_order_relaxed) & forked) != 0;
}

std::exception_ptr shared_state::failure() const noexcept {
  // acquire: pairs with note_lost()
  const std::uint32_t seen = watch.load(std::memory_order_acquire) & (lost | forked);
  if (seen == 0) [[likely]]
    return nullptr;
  if ((seen & forked) != 0) return std::make_exception_ptr(forked_error());
  const std::scoped_lock lock(mutex_);
  return failure_;
}

stream_state& shared_state::add(std::unique_ptr<stream_state> made) {
  stream_state& s = *made;
  {
    const std::scoped_lock lock(mutex_);
    streams_.push_back(std::move(made));
  }
  registry& all = all_streams();
  const std::scoped_lock lock(all.mutex);
  auto& handles = all.streams[{s.native, s.context}];
  if (handles == nullptr) handles = std::make_shared<stream_handles>();
  ++handles->users;
  s.handles = handles;
  return s;
}

stream_state& shared_state::make_stream(std::size_t device_index, int priority) {
  const current_context current(devices_[device_index].context);
  const relaxed_capture relaxed;
  CUstream made = nullptr;
  expect_or_lost("cuStreamCreateWithPriority",
                 cu_.cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, priority));
  auto state = std::make_unique<stream_state>(*this, device_index, made, false);
  state->priority = priority;
  return add(std::move(state));
}

stream_state& shared_state::take_capture_stream(const stream_state& like) {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = std::find_if(capture_streams_.begin(), capture_streams_.end(), [&](const auto* s) {
      return s->device_index == like.device_index && s->priority == like.priority;
    });
    if (found != capture_streams_.end()) {
      stream_state* taken = *found;
      capture_streams_.erase(found);
      return *taken;
    }
    capture_streams_.reserve(streams_.size() + 1);  // so that it can be given back
  }
  stream_state& made = make_stream(like.device_index, like.priority);
  made.is_for_graphs = true;
  return made;
}

void shared_state::give_capture_stream(stream_state& s) noexcept {
  const std::scoped_lock lock(mutex_);
  capture_streams_.push_back(&s);
}

std::string shared_state::ops_in_flight() const {
  std::string text;
  for (const auto& s : streams_) s->ops.add_names(text);
  return text.empty() ? "none of braid's" : text;
}

void shared_state::fail(const char* call, CUresult code) {
  if (is_orphaned()) throw forked_error();
  note_lost(call, code);
  if (const auto why = failure()) std::rethrow_exception(why);
  throw error(static_cast<int>(code), text_of(call, code));
}

void shared_state::note_lost(const char* call, CUresult code) {
  if (detail::is_lost(code)) note_lost(code, text_of(call, code));
}

void shared_state::note_lost(CUresult code, const std::string& text) {
  if (detail::is_lost(code)) lose(code, text);
}

void shared_state::lose(CUresult code, const std::string& text) {
  const std::scoped_lock lock(mutex_);
  if (failure_) return;
  failure_ = std::make_exception_ptr(
      device_lost(static_cast<int>(code),
                  fmt::format("the CUDA device is lost: {}; ops in flight: {}", text, ops_in_flight())));
  watch.fetch_or(lost, std::memory_order_release);  // pairs with is_lost()
}

void shared_state::expect_answer(const char* call, CUresult code) {
  if (code == CUDA_SUCCESS) return;
  note_lost(call, code);
  if (!is_of_capture(code)) look_for_loss();
  fail(call, code);
}

void shared_state::look_for_loss() noexcept {
  if (is_lost() || is_orphaned()) return;
  try {
    std::vector<const stream_state*> asked;  // one of each device
    {
      const std::scoped_lock lock(mutex_);
      for (const auto& s : streams_) {
        const bool is_first = std::ranges::none_of(
            asked, [&](const stream_state* other) { return other->device_index == s->device_index; });
        if (is_first && !s->is_adopted && !s->is_for_graphs && s->native != nullptr) asked.push_back(s.get());
      }
    }
    for (const stream_state* s : asked) {
      const current_context current(s->native_context());
      const relaxed_capture relaxed;
      const CUresult code = cu_.cuStreamQuery(s->native);
      const bool is_answer =
          code == CUDA_SUCCESS || code == CUDA_ERROR_NOT_READY || code == CUDA_ERROR_DEINITIALIZED;
      if (!is_answer && !is_of_capture(code)) lose(code, text_of("cuStreamQuery", code));
    }
  } catch (const std::exception&) {
    // no memory: the next call tells
  }
}

// ---- A stream.

hot_state& hot(stream_state& s) noexcept {
  return s;
}

stream_state::stream_state(shared_state& by, std::size_t on, CUstream native_handle, bool adopted)
    : home(by), device_index(on) {
  native = native_handle;
  context = by.devices()[on].context;
  // An enum, pointers and an unsigned, as there.
  get_current = reinterpret_cast<int (*)(void**)>(by.cu().cuCtxGetCurrent);
  record_event = reinterpret_cast<int (*)(native_event, native_stream)>(by.cu().cuEventRecord);
  wait_event = reinterpret_cast<int (*)(native_stream, native_event, unsigned)>(by.cu().cuStreamWaitEvent);
  watch = native == CU_STREAM_LEGACY ? &always : &by.watch;
  is_adopted = adopted;
}

// The engine is done with the stream; events of it may be left.
void stream_state::close() noexcept {
  if (home.is_orphaned()) return;  // a thread of the parent may have had the lock
  std::vector<stream_handles::handle> left;
  {
    registry& all = all_streams();
    const std::scoped_lock lock(all.mutex);
    const auto mine = std::exchange(handles, nullptr);
    if (mine != nullptr && --mine->users == 0) {
      all.streams.erase({native, context});
      left = std::move(mine->all);  // no body asks for them any more
    }
  }
  const current_context current(native_context());
  const relaxed_capture relaxed;
  CUcontext now = nullptr;
  // Of a driver that has gone, libraries must not be called either: what they had is gone with it.
  if (home.cu().cuCtxGetCurrent(&now) != CUDA_ERROR_DEINITIALIZED) {
    for (const auto& each : left) each.destroy(each.object);
  }
  if (is_adopted || native == nullptr) return;
  (void)home.cu().cuStreamSynchronize(native);  // all is over: also for tools that do not see how braid knows
  (void)home.cu().cuStreamDestroy(native);
}

stream_state::~stream_state() {
  if (home.is_orphaned()) return;
  for (CUevent e : free_events) {
    if (e != nullptr) (void)home.cu().cuEventDestroy(e);  // null: made of a device that was lost
  }
}

CUevent stream_state::take_event() {
  if (home.is_orphaned()) throw forked_error();
  {
    const std::lock_guard<braid::detail::spin_lock> lock(events_lock);
    if (!free_events.empty()) {
      CUevent e = free_events.back();
      free_events.pop_back();
      return e;
    }
  }
  const current_context current(native_context());
  CUevent made = nullptr;
  home.expect_or_lost("cuEventCreate", home.cu().cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
  home.events.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard<braid::detail::spin_lock> lock(events_lock);
  free_events.reserve(++events_made);
  return made;
}

void stream_state::give_event(CUevent e) noexcept {
  if (home.is_orphaned()) return;  // a thread of the parent may have had the lock
  const std::lock_guard<braid::detail::spin_lock> lock(events_lock);
  free_events.push_back(e);
}

void* attachment(native_stream stream, const void* key, void* (*make)(native_stream),
                 void (*destroy)(void*)) {
  expect_same_process();
  registry& all = all_streams();
  std::shared_ptr<stream_handles> handles;
  {
    const std::shared_lock lock(all.mutex);
    CUcontext now = nullptr;
    (void)driver().cuCtxGetCurrent(&now);
    auto found = all.streams.find({stream, now});
    if (found == all.streams.end()) found = all.streams.lower_bound({stream, nullptr});  // of another context
    if (found != all.streams.end() && found->first.first == stream) handles = found->second;
  }
  if (handles == nullptr) {
    throw usage_error(
        misuse::unused_stream,
        "a handle was asked for a CUDA stream that is not one of a runtime: use the stream that "
        "the body is given");
  }
  const std::scoped_lock lock(handles->mutex);
  for (const stream_handles::handle& each : handles->all) {
    if (each.key == key) return each.object;
  }
  handles->all.reserve(handles->all.size() + 1);
  const relaxed_capture relaxed;
  handles->all.push_back({key, make(stream), destroy});
  return handles->all.back().object;
}

}  // namespace braid::cuda::detail
