#include <algorithm>
#include <charconv>
#include <cstring>
#include <system_error>

#include "braid/settings.hpp"
#include "nvtx.hpp"
#include "state.hpp"

namespace braid::cuda {

// ---- Streams and events.

stream::~stream() {
  if (state_ != nullptr) state_->close();
}

event::~event() {
  if (home_ != nullptr) home_->give_event(native_);
}

// ---- The backend.

namespace {

std::vector<int> devices_of(const runtime_options& with) {
  if (!with.devices.empty()) return with.devices;
  int number = 0;
  const char* const end = with.device.data() + with.device.size();
  const auto [last, error] = std::from_chars(with.device.data(), end, number);
  if (!with.device.empty() && (last != end || error != std::errc{})) {
    throw usage_error(misuse::no_device,
                      "there is no CUDA device '" + with.device + "': they are numbered from 0");
  }
  return {number};
}

}  // namespace

backend::backend(const runtime_options& with)
    : state_(std::make_shared<detail::shared_state>(devices_of(with), with.priorities,
                                                    with.nvtx.value_or(settings::process().nvtx.value))) {}

stream backend::create_stream(stream_id id) {
  const auto& devices = state_->devices();
  const std::size_t index = id.is_special() ? 0 : id.value % devices.size();
  const detail::device& d = devices[index];
  return stream(
      &state_->make_stream(index, id.is_special() ? d.lowest_priority : state_->priority_of(d, id.value)));
}

stream backend::adopt(native_stream native) {
  if (state_->is_orphaned()) throw detail::forked_error();
  if (native == CU_STREAM_PER_THREAD) {
    throw usage_error(misuse::null_resource,
                      "cudaStreamPerThread is another stream for each thread, and cannot be adopted: adopt "
                      "one made by cudaStreamCreateWithFlags");
  }
  if (native == nullptr) native = CU_STREAM_LEGACY;
  const auto& devices = state_->devices();
  CUcontext context = nullptr;
  if (native == CU_STREAM_LEGACY) {
    (void)state_->cu().cuCtxGetCurrent(&context);
    if (context == nullptr) context = devices.front().context;
  } else {
    state_->expect("cuStreamGetCtx", state_->cu().cuStreamGetCtx(native, &context));
  }
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const detail::device& d) { return d.context == context; });
  if (found == devices.end()) {
    throw usage_error(
        misuse::no_device,
        "the CUDA stream to adopt belongs to a device or context that this runtime does not use");
  }
  const auto index = static_cast<std::size_t>(found - devices.begin());
  return stream(&state_->add(std::make_unique<detail::stream_state>(*state_, index, native, true)));
}

event backend::adopt(native_event native) {
  if (native != nullptr) return {nullptr, native, 0};
  throw usage_error(misuse::null_resource, "a null CUDA event was adopted: record one with cudaEventRecord");
}

bool backend::wants_graphs() const {
  return settings::process().graphs.value;
}

graph_maker backend::make_graph(std::span<const stream* const> like) const {
  auto made = std::make_shared<detail::graph_state>(state_);
  made->streams.reserve(like.size());
  for (const stream* s : like) made->streams.push_back(&state_->take_capture_stream(*s->state_));
  return graph_maker(std::move(made));
}

event backend::flush(stream& s) {
  event made(s.state_, s.state_->take_event(), 0);
  flush_again(s, made);
  return made;
}

void backend::flush_watched(stream& s, event& e) {
  if (state_->is_orphaned()) throw detail::forked_error();
  e.covers_.store(s.hot_->ops.handed(), std::memory_order_relaxed);  // before it is recorded
  const detail::current_context current(s.state_->native_context());
  if (!state_->is_lost()) expect_or_lost("cuEventRecord", s.hot_->record_event(e.native_, s.hot_->native));
}

event backend::record(stream& s) {
  event made = flush(s);
  made.kept_ = state_;
  return made;
}

void backend::wait_watched(stream& s, const event& e) {
  if (state_->is_orphaned()) throw detail::forked_error();
  const detail::current_context current(s.state_->native_context());
  if (!state_->is_lost())
    expect_or_lost("cuStreamWaitEvent", s.hot_->wait_event(s.hot_->native, e.native_, 0));
}

void backend::expect_or_lost(const char* call, int code) {
  state_->expect_or_lost(call, static_cast<CUresult>(code));
}

void backend::wait_event_sync(const event& e) {
  if (const auto why = state_->failure()) std::rethrow_exception(why);
  const detail::relaxed_capture relaxed;
  const CUresult code = state_->cu().cuEventSynchronize(e.native_);
  if (code == CUDA_ERROR_DEINITIALIZED) return;  // the process ends, the driver has gone before us
  state_->expect_answer("cuEventSynchronize", code);
  if (e.home_ != nullptr) e.home_->ops.note_complete(e.covers());
}

void backend::wait_stream(const stream& s) {
  if (const auto why = state_->failure()) std::rethrow_exception(why);
  const detail::current_context current(s.state_->native_context());
  const detail::relaxed_capture relaxed;
  const CUresult code = state_->cu().cuStreamSynchronize(s.hot_->native);
  if (code != CUDA_ERROR_DEINITIALIZED) state_->expect_answer("cuStreamSynchronize", code);
}

bool backend::is_complete(const event& e) {
  if (const auto why = state_->failure()) std::rethrow_exception(why);
  const detail::relaxed_capture relaxed;
  const CUresult code = state_->cu().cuEventQuery(e.native_);
  if (code == CUDA_ERROR_NOT_READY) return false;
  if (code == CUDA_ERROR_DEINITIALIZED) return true;
  state_->expect_answer("cuEventQuery", code);
  // It is over; but a tool that looks for races takes an order from a wait only.
  (void)state_->cu().cuEventSynchronize(e.native_);
  if (e.home_ != nullptr) e.home_->ops.note_complete(e.covers());
  return true;
}

// ---- What a runtime needs.

void backend::admit_slowly(const stream& s) const {
  if (state_->is_orphaned()) std::rethrow_exception(state_->failure());
  if (!s.hot_->is_adopted) return;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const detail::current_context current(s.state_->native_context());
  const CUresult code = state_->cu().cuStreamIsCapturing(s.hot_->native, &status);
  // The default stream cannot be captured, but what it is given would end captures elsewhere.
  if (code != CUDA_ERROR_STREAM_CAPTURE_IMPLICIT &&
      (code != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_NONE)) {
    return;
  }
  throw usage_error(misuse::capturing,
                    "a submit to a CUDA stream that is being captured: end the capture first, or submit to "
                    "another stream; what braid inserts has no place in the program's graph");
}

void backend::admit_foreign(const event& e) const {
  const detail::relaxed_capture relaxed;
  const CUresult code = state_->cu().cuEventQuery(e.native_);
  if (code == CUDA_SUCCESS || code == CUDA_ERROR_NOT_READY || code == CUDA_ERROR_DEINITIALIZED) return;
  if (code == CUDA_ERROR_CAPTURED_EVENT) {
    throw usage_error(
        misuse::capturing,
        "an event that was recorded on a CUDA stream while that was being captured: it belongs to the "
        "graph, and what waits for it would too; record one after the capture, on a stream that "
        "launches the graph");
  }
  state_->expect("cuEventQuery", code);
}

backend::inside::inside(detail::stream_state& s, const op_label& label, std::uint32_t of_runtime,
                        braid::detail::lane_id lane, std::uint64_t cursor)
    : failure(s.home.failure()), state(s) {
  const auto& cu = s.home.cu();
  CUcontext now = nullptr;
  (void)cu.cuCtxGetCurrent(&now);
  if (now != s.context) {
    before = now;
    (void)cu.cuCtxSetCurrent(s.native_context());
  }
  const std::uint32_t watch = s.home.watch.load(std::memory_order_relaxed);
  if ((watch & detail::shared_state::traced) != 0 && !failure) {
    traced = std::make_unique<detail::traced_scope>(s, detail::traced_op{of_runtime, lane, cursor});
  }
  if ((watch & (detail::shared_state::ranges | detail::shared_state::traced)) != 0) {
    has_range = true;
    detail::push_range(label.name().c_str());
  }
}

backend::inside::~inside() {
  if (has_range) detail::pop_range();
  traced.reset();
  if (before != nullptr) (void)state.home.cu().cuCtxSetCurrent(static_cast<CUcontext>(before));
}

std::size_t backend::device_of(const stream& s) const noexcept {
  return s.state_->device_index;
}

namespace {

/// What the driver knows of an address.
struct known_memory {
  unsigned type = 0;  // a CUmemorytype, or 0
  int ordinal = -1;
  unsigned is_managed = 0;
};
known_memory look_at(const detail::driver_functions& cu, const void* p) noexcept {
  known_memory found;
  void* values[] = {&found.type, &found.ordinal, &found.is_managed};
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      CU_POINTER_ATTRIBUTE_IS_MANAGED};
  // Asked for several attributes the driver does not call it an error if it does not know the memory.
  if (cu.cuPointerGetAttributes(3, attributes, values, reinterpret_cast<CUdeviceptr>(p)) != CUDA_SUCCESS)
    return {};
  return found;
}

}  // namespace

std::size_t backend::device_of_memory(const void* p) const noexcept {
  const int ordinal = look_at(state_->cu(), p).ordinal;
  const auto& devices = state_->devices();
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const detail::device& d) { return d.ordinal == ordinal; });
  return found != devices.end() ? static_cast<std::size_t>(found - devices.begin()) : 0;
}

bool backend::is_of_all_devices(const void* p) const noexcept {
  const known_memory found = look_at(state_->cu(), p);
  return found.type == CU_MEMORYTYPE_HOST || found.is_managed != 0;
}

bool backend::can_reach(const stream& s, std::size_t device) const noexcept {
  return state_->devices()[s.state_->device_index].reaches[device];
}

// What is registered may be a part of it.
bool backend::is_reachable(const void* p, std::uint64_t bytes) const noexcept {
  if (p == nullptr || state_->is_orphaned()) return false;
  const auto* const first = static_cast<const std::byte*>(p);
  const auto is_registered = [&](const std::byte* at) {
    return look_at(state_->cu(), at).type == CU_MEMORYTYPE_HOST;
  };
  return is_registered(first) && (bytes <= 1 || is_registered(first + bytes - 1));
}

std::exception_ptr backend::failure() const noexcept {
  return state_->failure();
}

// A kernel's fault is told by whichever call comes next: also by one of a body.
void backend::note_thrown(const std::exception_ptr& what) {
  try {
    std::rethrow_exception(what);
  } catch (const error& e) {
    state_->note_lost(static_cast<CUresult>(e.code()), e.what());
  } catch (...) {
    // of something else
  }
  state_->look_for_loss();  // a library has codes of its own for that
}

void backend::look_for_loss() noexcept {
  state_->look_for_loss();
}

bool backend::is_orphaned() const noexcept {
  return state_->is_orphaned();
}

std::uint64_t backend::events_made() const noexcept {
  return state_->events.load(std::memory_order_relaxed);
}

// ---- Moving bytes.

void mover::copy(void* to, const void* from, std::uint64_t bytes) const {
  if (bytes == 0) return;
  detail::expect("cuMemcpyAsync",
                 detail::driver().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                                reinterpret_cast<CUdeviceptr>(from), bytes, on_));
}

// The driver fills with 1, 2 or 4 bytes, at addresses that are multiples of that. Other values are set word
// by word, with the value's size as the distance, in a first part; the rest is copied from there, twice as
// much each time.
void mover::fill(void* to, const void* value, std::size_t size, std::uint64_t count) const {
  if (count == 0) return;
  const auto& cu = detail::driver();
  const auto begin = reinterpret_cast<CUdeviceptr>(to);
  const auto* bytes = static_cast<const unsigned char*>(value);
  const auto part = [&](std::size_t at, std::size_t width) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes + at, width);
    return word;
  };
  const auto is_made_of = [&](std::size_t width) { return size % width == 0 && begin % width == 0; };
  const std::size_t word = is_made_of(4) ? 4 : is_made_of(2) ? 2 : 1;
  bool is_uniform = true;
  for (std::size_t at = word; at < size; at += word)
    is_uniform = is_uniform && part(at, word) == part(0, word);
  if (is_uniform) {
    const std::uint64_t words = count * (size / word);
    const std::uint32_t first = part(0, word);
    return detail::expect("cuMemsetAsync",
                          word == 4 ? cu.cuMemsetD32Async(begin, first, words, on_)
                          : word == 2
                              ? cu.cuMemsetD16Async(begin, static_cast<std::uint16_t>(first), words, on_)
                              : cu.cuMemsetD8Async(begin, static_cast<unsigned char>(first), words, on_));
  }
  std::uint64_t done = std::min<std::uint64_t>(count, 4096);
  for (std::size_t at = 0; at < size; at += word) {
    const std::uint32_t each = part(at, word);
    detail::expect(
        "cuMemsetD2DAsync",
        word == 4   ? cu.cuMemsetD2D32Async(begin + at, size, each, 1, done, on_)
        : word == 2 ? cu.cuMemsetD2D16Async(begin + at, size, static_cast<std::uint16_t>(each), 1, done, on_)
                    : cu.cuMemsetD2D8Async(begin + at, size, static_cast<unsigned char>(each), 1, done, on_));
  }
  while (done < count) {
    const std::uint64_t more = std::min(done, count - done);
    detail::expect("cuMemcpyAsync", cu.cuMemcpyAsync(begin + done * size, begin, more * size, on_));
    done += more;
  }
}

}  // namespace braid::cuda
