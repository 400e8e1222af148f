#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "braid/settings.hpp"
#include "state.hpp"

namespace braid::opencl {

// ---- Streams and events.

stream::~stream() {
  if (state_ != nullptr) state_->close();
}

event::~event() {
  if (native_ != nullptr) (void)clReleaseEvent(native_);
}

// ---- The backend.

namespace {

detail::device_entry chosen(const runtime_options& with) {
  if (with.devices.size() > 1) {
    throw usage_error(
        misuse::no_device,
        "an OpenCL runtime uses one device: make a runtime for each; copy() works between them");
  }
  return detail::entry_for(with.devices.empty() ? with.device : std::to_string(with.devices.front()));
}

}  // namespace

backend::backend(const runtime_options& with) {
  const detail::device_entry on = chosen(with);
  // NVIDIA's driver (580) may crash when sub-buffers of plain buffers are released: see
  // docs/design/opencl.md.
  const bool needs_svm = on.info.platform == "NVIDIA CUDA";
  const bool wants_svm =
      with.shared_virtual_memory.value_or(settings::process().opencl_svm.value || needs_svm);
  const bool has_svm = on.info.shared_virtual_memory != "none";
  if (with.shared_virtual_memory.value_or(false) && !has_svm) {
    throw usage_error(misuse::no_device, on.info.name +
                                             " has no shared virtual memory: leave "
                                             "runtime_options::shared_virtual_memory out");
  }
  state_ = std::make_shared<detail::shared_state>(detail::device_context::open(on), wants_svm && has_svm);
  slice_alignment_ = on.info.slice_alignment;
}

stream backend::create_stream() {
  if (state_->is_orphaned()) throw_orphaned();
  auto made =
      std::make_unique<detail::stream_state>(*state_, state_->device().make_queue(false), false, false);
  return stream(&state_->add(std::move(made)));
}

stream backend::adopt(const cl::CommandQueue& queue) {
  cl_context of = nullptr;
  cl_command_queue_properties properties = 0;
  detail::expect("clGetCommandQueueInfo",
                 clGetCommandQueueInfo(queue(), CL_QUEUE_CONTEXT, sizeof(cl_context), &of, nullptr));
  detail::expect("clGetCommandQueueInfo", clGetCommandQueueInfo(queue(), CL_QUEUE_PROPERTIES,
                                                                sizeof properties, &properties, nullptr));
  if (of != native_context()) {
    throw usage_error(misuse::no_device,
                      "the OpenCL queue to adopt is of another context: make it with the context of the "
                      "runtime's backend");
  }
  if ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0) {
    throw usage_error(misuse::no_device,
                      "the OpenCL queue to adopt runs out of order: a stream has to run in order");
  }
  detail::expect("clRetainCommandQueue", clRetainCommandQueue(queue()));
  return stream(&state_->add(std::make_unique<detail::stream_state>(
      *state_, queue(), true, (properties & CL_QUEUE_PROFILING_ENABLE) != 0)));
}

event backend::flush(stream& s) {
  detail::stream_state& on = *s.state_;
  const std::uint64_t covers = on.ops.handed();  // before the marker
  if (state_->is_lost()) return {nullptr, native_context(), &on, covers};
  return {on.put_marker(), native_context(), &on, covers};
}

event backend::record(stream& s) {
  event made = flush(s);
  made.kept_ = state_;
  return made;
}

event backend::adopt_event(cl_event e) const {
  cl_context of = nullptr;
  detail::expect("clGetEventInfo", clGetEventInfo(e, CL_EVENT_CONTEXT, sizeof(cl_context), &of, nullptr));
  detail::expect("clRetainEvent", clRetainEvent(e));
  return {e, of, nullptr, 0};
}

namespace {

/// An event of this context that is over when one of another is.
cl_event brought_over(cl_context to, cl_event from) {
  cl_int code = CL_SUCCESS;
  const cl_event made = clCreateUserEvent(to, &code);
  detail::expect("clCreateUserEvent", code);
  const auto tell = [](cl_event, cl_int status, void* here) {
    auto* const e = static_cast<cl_event>(here);
    (void)clSetUserEventStatus(e, std::min(status, CL_COMPLETE));
    (void)clReleaseEvent(e);
  };
  (void)clRetainEvent(made);
  code = clSetEventCallback(from, CL_COMPLETE, tell, made);
  if (code != CL_SUCCESS) {
    (void)clReleaseEvent(made);
    (void)clReleaseEvent(made);
    detail::expect("clSetEventCallback", code);
  }
  return made;
}

}  // namespace

void backend::wait_events(stream& s, std::span<const event* const> all) {
  if (state_->is_lost()) return;
  std::vector<cl_event>& behind = s.state_->behind;
  behind.clear();
  std::vector<cl::Event> brought;
  for (const event* e : all) {
    if (e->native_ == nullptr) continue;  // of a device that was lost
    if (e->context_ == native_context()) {
      behind.push_back(e->native_);
    } else {
      behind.push_back(brought.emplace_back(brought_over(native_context(), e->native_), false)());
    }
  }
  if (!behind.empty()) s.state_->put_barrier(behind);
}

void backend::wait_event_sync(const event& e) {
  if (const auto why = state_->failure()) std::rethrow_exception(why);
  if (state_->is_orphaned() || e.native_ == nullptr) return;
  const cl_int code = clWaitForEvents(1, &e.native_);
  if (code == CL_SUCCESS || code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) {
    (void)is_complete(e);  // throws if it did not end well
  } else {
    state_->lose("clWaitForEvents", code);
  }
}

// Who cannot be told whether work is over may not go on as if it were: so a question that fails loses the
// device.
bool backend::is_complete(const event& e) {
  if (const auto why = state_->failure()) std::rethrow_exception(why);
  if (state_->is_orphaned() || e.native_ == nullptr) return true;
  cl_int status = CL_QUEUED;
  const cl_int code =
      clGetEventInfo(e.native_, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  if (code != CL_SUCCESS) state_->lose("clGetEventInfo", code);
  if (status > CL_COMPLETE) return false;
  if (status < CL_COMPLETE) {
    // Of one that the program made the program knows more.
    if (e.home_ == nullptr) throw detail::error_of(status, "a command that braid was to wait for");
    state_->lose("a command ended with", status);
  }
  if (e.home_ != nullptr) e.home_->ops.note_complete(e.covers_);
  return true;
}

// ---- What a runtime needs.

void backend::throw_orphaned() {
  throw usage_error(misuse::forked,
                    "an OpenCL runtime was used in a child of the process that made it: a device cannot be "
                    "used across fork(); make the runtime in the child, or start the child with exec");
}

backend::inside::inside(detail::stream_state& s, const op_label* label, std::uint32_t of_runtime,
                        braid::detail::lane_id of_lane, std::uint64_t cursor)
    : failure(s.home.failure()),
      state(s),
      outer(std::exchange(detail::stream_state::running, &s)),
      of(cursor) {
  s.ops.note(cursor, label);
  if (failure) return;
  try {
    const bool is_traced = s.home.is_traced.load(std::memory_order_relaxed);
    if (is_traced) [[unlikely]]
      s.make_profiled();
    if (is_traced && s.is_profiled) [[unlikely]] {
      runtime = of_runtime;
      lane = of_lane;
      const auto started = s.home.timings.begin(s, {runtime, lane, cursor});
      began = started.event;
      given = started.given;
    }
  } catch (...) {
    failure = std::current_exception();  // the queue could not be changed: the op may not run
  }
}

backend::inside::~inside() {
  if (began != nullptr) [[unlikely]]
    state.home.timings.end(state, {runtime, lane, of}, {began, given});
  if (!failure) state.flush_if_due();
  state.ops.note_handed(of);
  detail::stream_state::running = outer;
}

void backend::expect_aligned_in_buffer(const void* data, std::uint64_t bytes) const {
  (void)detail::find_aligned(*state_, data, bytes);
}

cl_context backend::native_context() const noexcept {
  return state_->device().native();
}

cl_device_id backend::native_device() const noexcept {
  return state_->device().device();
}

const device_info& backend::info() const noexcept {
  return state_->device().info();
}

std::exception_ptr backend::failure() const noexcept {
  return state_->failure();
}

bool backend::is_orphaned() const noexcept {
  return state_->is_orphaned();
}

backend::command_counts backend::commands() const noexcept {
  // relaxed: counts
  return {state_->markers.load(std::memory_order_relaxed), state_->barriers.load(std::memory_order_relaxed)};
}

// ---- Moving bytes.

void mover::copy(void* to, const void* from, std::uint64_t bytes) const {
  if (bytes == 0) return;
  detail::stream_state& s = on_.state();
  const detail::device_context& device = s.home.device();
  const detail::found_memory target = device.find(to, bytes);
  const detail::found_memory source = device.find(from, bytes);
  if (target.buffer != nullptr && source.buffer != nullptr) {
    detail::expect("clEnqueueCopyBuffer",
                   clEnqueueCopyBuffer(s.queue(), source.buffer, target.buffer, source.offset, target.offset,
                                       bytes, 0, nullptr, nullptr));
  } else if (target.buffer != nullptr) {
    detail::expect("clEnqueueWriteBuffer",
                   clEnqueueWriteBuffer(s.queue(), target.buffer, CL_FALSE, target.offset, bytes, from, 0,
                                        nullptr, nullptr));
  } else {
    const detail::found_memory known = detail::find_memory(s.home, from, bytes);
    detail::expect("clEnqueueReadBuffer", clEnqueueReadBuffer(s.queue(), known.buffer, CL_FALSE, known.offset,
                                                              bytes, to, 0, nullptr, nullptr));
  }
}

namespace {

/// Of the smallest power of two that the value is a repetition of; 0 if there is none that a device can fill
/// with.
std::size_t period_of(const std::byte* value, std::size_t size) {
  constexpr std::size_t largest = 128;
  for (std::size_t period = 1; period <= std::min(size, largest); period *= 2) {
    if (size % period == 0 && std::memcmp(value, value + period, size - period) == 0) return period;
  }
  return 0;
}

}  // namespace

// What is no power of two, or too large, is brought there once and then copied, twice as much each time.
void mover::fill(void* to, const void* value, std::size_t size, std::uint64_t count) const {
  if (count == 0) return;
  detail::stream_state& s = on_.state();
  const std::uint64_t bytes = size * count;
  const detail::found_memory target = detail::find_memory(s.home, to, bytes);
  const auto* first = static_cast<const std::byte*>(value);
  if (const std::size_t period = period_of(first, size); period != 0) {
    return detail::expect("clEnqueueFillBuffer",
                          clEnqueueFillBuffer(s.queue(), target.buffer, value, period, target.offset, bytes,
                                              0, nullptr, nullptr));
  }
  auto kept = std::make_unique<std::vector<std::byte>>(first, first + size);
  cl_event there = nullptr;
  detail::expect("clEnqueueWriteBuffer",
                 clEnqueueWriteBuffer(s.queue(), target.buffer, CL_FALSE, target.offset, size, kept->data(),
                                      0, nullptr, &there));
  const auto drop = [](cl_event, cl_int, void* held) { delete static_cast<std::vector<std::byte>*>(held); };
  const cl_int code = clSetEventCallback(there, CL_COMPLETE, drop, kept.get());
  if (code != CL_SUCCESS) (void)clWaitForEvents(1, &there);
  (void)clReleaseEvent(there);
  if (code == CL_SUCCESS) (void)kept.release();
  for (std::uint64_t done = size; done < bytes;) {
    const std::uint64_t more = std::min(done, bytes - done);
    detail::expect("clEnqueueCopyBuffer",
                   clEnqueueCopyBuffer(s.queue(), target.buffer, target.buffer, target.offset,
                                       target.offset + done, more, 0, nullptr, nullptr));
    done += more;
  }
}

}  // namespace braid::opencl
