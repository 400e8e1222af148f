#define CL_USE_DEPRECATED_OPENCL_1_2_APIS  // for devices of 1.2
#include "state.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <functional>

#include "braid/detail/trace_hooks.hpp"

namespace braid::opencl::detail {

namespace {

// How often this process is a child of one that used OpenCL.
std::atomic<std::uint64_t> forks{0};

struct alive {
  std::mutex mutex;
  std::vector<shared_state*> states;
  std::vector<std::pair<cl_device_id, std::weak_ptr<device_context>>> contexts;
};
alive& all() {
  static alive* const it = [] {
    // Without memory for it a child is not recognised.
    (void)pthread_atfork([] { all().mutex.lock(); }, [] { all().mutex.unlock(); },
                         [] {
                           forks.fetch_add(1, std::memory_order_relaxed);
                           for (auto& each : all().contexts) each.second.reset();
                           all().mutex.unlock();
                         });
    return new alive;  // for good: runtimes may go after statics do
  }();
  return *it;
}

}  // namespace

// ---- A device.

std::shared_ptr<device_context> device_context::open(const device_entry& of) {
  alive& known = all();
  const std::scoped_lock lock(known.mutex);
  std::erase_if(known.contexts, [](const auto& each) { return each.second.expired(); });
  for (const auto& [device, context] : known.contexts) {
    if (device != of.device) continue;
    if (auto found = context.lock()) return found;
  }
  auto made = std::make_shared<device_context>(of);
  known.contexts.emplace_back(of.device, made);
  return made;
}

device_context::device_context(const device_entry& of) : of_(of) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(of.platform), 0};
  cl_int code = CL_SUCCESS;
  context_ = clCreateContext(properties, 1, &of_.device, nullptr, nullptr, &code);
  expect("clCreateContext", code);
}

device_context::~device_context() {
  for (const auto& [text, each] : programs_) {
    if (each->program != nullptr) (void)clReleaseProgram(each->program);
  }
  (void)clReleaseContext(context_);
}

cl_command_queue device_context::make_queue(bool is_profiled) const {
  const cl_command_queue_properties flags = is_profiled ? CL_QUEUE_PROFILING_ENABLE : 0;
  cl_int code = CL_SUCCESS;
  if (of_.info.version.starts_with("OpenCL 1.")) {
    const cl_command_queue made = clCreateCommandQueue(context_, of_.device, flags, &code);
    expect("clCreateCommandQueue", code);
    return made;
  }
  const cl_queue_properties properties[] = {CL_QUEUE_PROPERTIES, flags, 0};
  const cl_command_queue made = clCreateCommandQueueWithProperties(context_, of_.device, properties, &code);
  expect("clCreateCommandQueueWithProperties", code);
  return made;
}

void device_context::add(const void* base, std::uint64_t bytes, const found_memory& with) {
  const std::unique_lock lock(memory_mutex_);
  segments_.emplace(static_cast<const std::byte*>(base), segment{bytes, with});
}

void device_context::remove(const void* base, cl_mem buffer) noexcept {
  const std::unique_lock lock(memory_mutex_);
  auto [first, last] = segments_.equal_range(static_cast<const std::byte*>(base));
  for (auto each = first; each != last; ++each) {
    if (each->second.with.buffer != buffer) continue;
    segments_.erase(each);
    return;
  }
}

found_memory device_context::find(const void* data, std::uint64_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(data);
  const std::shared_lock lock(memory_mutex_);
  // What the host lent may overlap: so the next one below need not be the one.
  for (auto each = segments_.upper_bound(begin); each != segments_.begin();) {
    --each;
    const auto& [base, s] = *each;
    const auto offset = static_cast<std::uint64_t>(begin - base);
    if (offset > s.bytes || bytes > s.bytes - offset) continue;
    found_memory found = s.with;
    found.offset = offset;
    return found;
  }
  return {};
}

cl_program device_context::program(const program_text& text) {
  built* entry = nullptr;
  {
    const std::scoped_lock lock(programs_mutex_);
    auto& kept = programs_[{text.source, text.options}];
    if (!kept) kept = std::make_unique<built>();
    entry = kept.get();
  }
  const std::scoped_lock lock(entry->mutex);
  if (entry->program != nullptr) return entry->program;
  const char* source = text.source.c_str();
  cl_int code = CL_SUCCESS;
  const cl_program made = clCreateProgramWithSource(context_, 1, &source, nullptr, &code);
  expect("clCreateProgramWithSource", code);
  code = clBuildProgram(made, 1, &of_.device, text.options.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) {
    std::size_t size = 0;
    std::string log;
    if (clGetProgramBuildInfo(made, of_.device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size) == CL_SUCCESS) {
      log.resize(size);
      (void)clGetProgramBuildInfo(made, of_.device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
      while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    }
    (void)clReleaseProgram(made);
    throw build_error(code,
                      fmt::format("{} for {}{}{}{}{}", text_of("clBuildProgram", code), of_.info.name,
                                  text.options.empty() ? "" : " with ", text.options,
                                  log.empty() ? ", without a log" : ":\n", log),
                      log);
  }
  return entry->program = made;
}

// ---- A runtime.

shared_state::shared_state(std::shared_ptr<device_context> on, bool has_svm)
    : device_(std::move(on)), has_svm_(has_svm), forks_(forks.load(std::memory_order_relaxed)) {
  watch_traces();
  const std::scoped_lock lock(all().mutex);
  all().states.push_back(this);
  if (braid::detail::is_tracing()) is_traced = true;
}

shared_state::~shared_state() {
  {
    const std::scoped_lock lock(all().mutex);
    std::erase(all().states, this);
  }
  timings.settle();
  streams_.clear();
  if (service_queue_ != nullptr && !is_orphaned()) (void)clReleaseCommandQueue(service_queue_);
}

void each_state(const std::function<void(shared_state&)>& visit) {
  const std::scoped_lock lock(all().mutex);
  for (shared_state* each : all().states) visit(*each);
}

bool shared_state::is_orphaned() const noexcept {
  return forks.load(std::memory_order_relaxed) != forks_;
}

std::exception_ptr shared_state::failure() const noexcept {
  if (!is_lost()) [[likely]]
    return nullptr;
  const std::scoped_lock lock(mutex_);
  return failure_;
}

void shared_state::note_lost(const char* call, cl_int code) {
  const std::scoped_lock lock(mutex_);
  if (failure_) return;
  std::string in_flight;
  for (const auto& s : streams_) s->ops.add_names(in_flight);
  failure_ = std::make_exception_ptr(device_lost(
      code, fmt::format("the OpenCL device {} is lost: {}; ops in flight: {}", device_->info().name,
                        text_of(call, code), in_flight.empty() ? "none of braid's" : in_flight)));
  lost_.store(true, std::memory_order_release);  // pairs with is_lost()
}

void shared_state::lose(const char* call, cl_int code) {
  note_lost(call, code);
  std::rethrow_exception(failure());
}

stream_state& shared_state::add(std::unique_ptr<stream_state> made) {
  const std::scoped_lock lock(mutex_);
  streams_.push_back(std::move(made));
  return *streams_.back();
}

// All work on it is over.
void shared_state::forget_views(const void* base, std::uint64_t bytes) noexcept {
  const auto* begin = static_cast<const std::byte*>(base);
  const auto release_inside = [&](const stream_state::kept_view& each) {
    const auto* data = static_cast<const std::byte*>(each.data);
    if (each.buffer == nullptr || data < begin || data >= begin + bytes) return false;
    (void)clReleaseMemObject(each.buffer);
    return true;
  };
  const std::scoped_lock lock(mutex_);
  for (const auto& s : streams_) {
    const std::lock_guard<braid::detail::spin_lock> views(s->views_lock);
    for (stream_state::kept_view& each : s->views) {
      if (release_inside(each)) each = {};
    }
    std::erase_if(s->displaced, release_inside);
    std::erase_if(s->going, release_inside);
  }
}

cl_command_queue shared_state::service_queue() {
  const std::scoped_lock lock(mutex_);
  if (service_queue_ == nullptr) service_queue_ = device_->make_queue(false);
  return service_queue_;
}

// ---- A stream.

thread_local stream_state* stream_state::running = nullptr;

stream_state::stream_state(shared_state& by, cl_command_queue made, bool adopted, bool profiled)
    : home(by), is_adopted(adopted), is_profiled(profiled), queue(made, false), marked_on(made) {}

namespace {

void release(std::vector<stream_state::kept_view>& views) noexcept {
  for (const stream_state::kept_view& each : views) (void)clReleaseMemObject(each.buffer);
  views.clear();
}

}  // namespace

void stream_state::close() noexcept {
  if (home.is_orphaned()) {
    // Nothing may be asked of the device, not even to let go.
    queue() = nullptr;
    former() = nullptr;
    for (auto& each : kernels) each->kernel() = nullptr;
    return;
  }
  // All is over, unless the device was lost: then what is on its way shall find its memory.
  if (queue() != nullptr) (void)clFinish(queue());
  kernels.clear();
  release(displaced);
  release(going);
  if (gone != nullptr) (void)clReleaseEvent(std::exchange(gone, nullptr));
  for (kept_view& each : views) {
    if (each.buffer != nullptr) (void)clReleaseMemObject(each.buffer);
    each = {};
  }
  queue = cl::CommandQueue();
  former = cl::CommandQueue();
}

// Who waits for the work puts a marker behind it and flushes then; this is for work that nobody waits for
// yet. Some drivers take 2 us for it: where ops keep coming it gets a part in 64 of the time.
void stream_state::flush_if_due() noexcept {
  constexpr clock::duration often_enough = std::chrono::microseconds(20);
  constexpr clock::duration most_credit = std::chrono::microseconds(20);
  const auto begin = clock::now();
  if (begin - flushed < often_enough) return;
  flush_credit = std::min(flush_credit + (begin - credited) / 64, most_credit);
  credited = begin;
  if (flush_credit < flush_cost) return;
  if (const cl_int code = clFlush(queue()); code != CL_SUCCESS) [[unlikely]]
    home.note_lost("clFlush", code);
  const auto end = clock::now();
  flush_cost = std::min(end - begin, most_credit);  // this thread may have slept
  flush_credit -= flush_cost;
  flushed = end;
}

void stream_state::let_views_go() {
  if (displaced.size() < batch) [[likely]]
    return;
  if (gone != nullptr) {
    cl_int status = CL_QUEUED;
    expect("clGetEventInfo",
           clGetEventInfo(gone, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr));
    if (status > CL_COMPLETE) return;
    (void)clReleaseEvent(std::exchange(gone, nullptr));
    release(going);
  }
  gone = put_marker();
  going.swap(displaced);
}

void stream_state::put_barrier(std::span<const cl_event> after) {
  expect("clEnqueueBarrierWithWaitList",
         clEnqueueBarrierWithWaitList(queue(), static_cast<cl_uint>(after.size()), after.data(), nullptr));
  home.barriers.fetch_add(1, std::memory_order_relaxed);
}

cl_event stream_state::put_marker() {
  const cl_command_queue on = marked_on.load(std::memory_order_acquire);  // pairs with make_profiled()
  cl_event made = nullptr;
  expect("clEnqueueMarkerWithWaitList", clEnqueueMarkerWithWaitList(on, 0, nullptr, &made));
  home.markers.fetch_add(1, std::memory_order_relaxed);
  // Others wait for it: it has to begin by itself.
  if (const cl_int code = clFlush(on); code != CL_SUCCESS) {
    (void)clReleaseEvent(made);
    expect("clFlush", code);
  }
  return made;
}

// Who puts a marker on the former queue meanwhile covers all that was handed over before.
void stream_state::make_profiled() {
  if (is_profiled || is_adopted || !home.device().info().has_profiling) return;
  cl::CommandQueue made(home.device().make_queue(true), false);
  const cl_event last = put_marker();
  std::swap(queue, made);
  try {
    put_barrier({&last, 1});
  } catch (...) {
    std::swap(queue, made);
    (void)clReleaseEvent(last);
    throw;
  }
  (void)clReleaseEvent(last);
  former = std::move(made);
  is_profiled = true;
  marked_on.store(queue(), std::memory_order_release);  // pairs with put_marker()
}

cl::CommandQueue& queue_of(stream_state& s) noexcept {
  return s.queue;
}

std::unique_lock<braid::detail::spin_lock> begin_views(stream_state& s) {
  std::unique_lock lock(s.views_lock);
  s.let_views_go();
  return lock;
}

shared_state& home_of(const stream_state& s) noexcept {
  return s.home;
}

found_memory find_memory(const shared_state& in, const void* data, std::uint64_t bytes) {
  const found_memory found = in.device().find(data, bytes);
  if (found.buffer == nullptr) {
    throw usage_error(misuse::foreign_resource,
                      fmt::format("the memory at {} is not of a buffer on {}: runtime_options::memory has to "
                                  "be memory of the device, or none",
                                  data, in.device().info().name));
  }
  return found;
}

found_memory find_aligned(const shared_state& in, const void* data, std::uint64_t bytes) {
  const found_memory found = find_memory(in, data, bytes);
  const unsigned alignment = in.device().info().slice_alignment;
  if (found.offset % alignment == 0) return found;
  throw usage_error(
      misuse::misaligned,
      fmt::format("a view of a slice has to begin at a multiple of {} bytes on {}, and this one begins {} "
                  "bytes behind one: choose another slice, or let the body take part<T> in place of "
                  "buffer_view<T> or cl::Buffer",
                  alignment, in.device().info().name, found.offset % alignment));
}

found_memory sub_buffer(stream_state& s, const void* data, std::uint64_t bytes) {
  const std::size_t hash = (reinterpret_cast<std::uintptr_t>(data) >> 6) * 0x9E3779B97F4A7C15U >> 58;
  stream_state::kept_view& kept = s.views[hash % s.views.size()];
  if (kept.data == data && kept.bytes == bytes) [[likely]]
    return {.buffer = kept.buffer, .is_pointer = kept.is_pointer};
  const found_memory in = find_aligned(s.home, data, bytes);
  const cl_buffer_region region{in.offset, bytes};
  cl_int code = CL_SUCCESS;
  const cl_mem made =
      clCreateSubBuffer(in.buffer, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
  expect("clCreateSubBuffer", code);
  if (kept.buffer != nullptr) s.displaced.push_back(kept);
  kept = {data, bytes, made, in.is_pointer};
  return {.buffer = made, .is_pointer = in.is_pointer};
}

}  // namespace braid::opencl::detail
