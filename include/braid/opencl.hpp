#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// The bindings ask for both. 1.2 is what a device has to have; the bindings of some versions do not compile
// when told so.
#ifndef CL_HPP_TARGET_OPENCL_VERSION
#define CL_HPP_TARGET_OPENCL_VERSION 300
#endif
#ifndef CL_HPP_MINIMUM_OPENCL_VERSION
#define CL_HPP_MINIMUM_OPENCL_VERSION 200
#endif
#include <CL/opencl.hpp>

#include "braid/backend.hpp"
#include "braid/detail/given_ops.hpp"
#include "braid/detail/lock.hpp"
#include "braid/detail/runtime_class.hpp"
#include "braid/error.hpp"
#include "braid/memory.hpp"

// GPUs and other devices by OpenCL 1.2 or later.
//
//   braid::opencl::runtime rt;
//   const braid::opencl::program scaling("kernel void scale(global float* x, float by) { ... }");
//   auto x = rt.make_buffer<float>(n, "x");
//   rt.fill(x, 1.0F);
//   rt.submit("scale", read_write(x), [&](cl::CommandQueue& queue, const cl::Buffer& x) {
//     cl::Kernel& scale = scaling.kernel(queue, "scale");
//     scale.setArg(0, x);
//     scale.setArg(1, 2.0F);
//     queue.enqueueNDRangeKernel(scale, cl::NullRange, cl::NDRange(n));
//   });
//   std::vector<float> host = rt.read(x).get();
//
// A body is called inside submit() and puts its work on the queue that it is given, which is in order. It
// gets each buffer or slice as a buffer_view<T>, which is a cl::Buffer of just those bytes; or, where it asks
// for it, as a part<T>: see there. A body that throws has failed, also if part of its work is on the queue.
// With CL_HPP_ENABLE_EXCEPTIONS calls that fail throw by themselves; without, pass their codes to check().
//
// libOpenCL.so.1 is opened when the first runtime is made, and hands every call on: programs link neither it
// nor any other part of OpenCL.

namespace braid::opencl {

/// A call failed. The text has the call and the name of the code.
class error : public execution_error {
 public:
  error(int code, const std::string& text) : execution_error(text), code_(code) {}
  [[nodiscard]] int code() const noexcept { return code_; }

 private:
  int code_;
};

/// A command ended abnormally, or the device does not even say whether it ended: no op of this runtime can
/// run any more. The text names the ops that were in flight.
class device_lost : public error {
 public:
  using error::error;
};

/// A program could not be built. The text has the compiler's log.
class build_error : public error {
 public:
  build_error(int code, const std::string& text, std::string log) : error(code, text), log_(std::move(log)) {}
  [[nodiscard]] const std::string& log() const noexcept { return log_; }

 private:
  std::string log_;
};

/// "CL_OUT_OF_RESOURCES"; "-9999" for a code that has no name.
std::string name_of(int code);
/// Throws `error` unless the code is CL_SUCCESS: check(queue.enqueueFillBuffer(...), "clEnqueueFillBuffer").
void check(int code, const char* call);

struct device_info {
  int ordinal = 0;  ///< of all devices of all platforms, in the loader's order
  std::string name;
  std::string platform;
  std::string version;  ///< of OpenCL: "OpenCL 3.0 PoCL ..."
  std::string driver;
  std::string kind;                      ///< "CPU", "GPU", "accelerator", "other"
  std::uint64_t memory = 0;              ///< bytes
  std::uint64_t largest_allocation = 0;  ///< bytes
  unsigned compute_units = 0;
  unsigned slice_alignment = 1;     ///< bytes: where a view of a slice may begin
  bool has_unified_memory = false;  ///< with the host
  bool has_doubles = false;
  bool has_profiling = false;
  std::string shared_virtual_memory;  ///< "none", "coarse", "fine", "fine, with atomics"
};
/// The devices of this machine. Throws usage_error(no_device), with the reason, if there is no loader or no
/// device.
std::vector<device_info> devices();
/// The one that `choice` says: a number of devices(), or a part of the name, platform, kind or version of the
/// device; empty: what the setting opencl.device says, else the first GPU, else the first one. Throws
/// usage_error(no_device) with what there is.
device_info device_for(std::string_view choice);

class program;

namespace detail {

class shared_state;
struct stream_state;

/// Of the memory at an address that a runtime handed out: the buffer that it lies in, and where.
struct found_memory {
  cl_mem buffer = nullptr;
  std::uint64_t offset = 0;
  bool is_pointer = false;  ///< the address is one of shared virtual memory
  bool is_lent = false;     ///< it is memory of the host, for a while
};
found_memory find_memory(const shared_state& in, const void* data, std::uint64_t bytes);
shared_state& home_of(const stream_state& s) noexcept;
/// Before the views of an op are found. They stay at least until its commands are over.
std::unique_lock<braid::detail::spin_lock> begin_views(stream_state& s);
/// The sub-buffer of just these bytes. Throws usage_error(misaligned). Between begin_views() and the
/// unlocking.
found_memory sub_buffer(stream_state& s, const void* data, std::uint64_t bytes);
cl::CommandQueue& queue_of(stream_state& s) noexcept;
/// The error of a call of the bindings.
error error_of(int code, const char* call);

}  // namespace detail

/// The buffer or slice that an op has bound: a cl::Buffer of just those bytes. T is const where the op only
/// reads. A null buffer where there are no elements.
template <class T>
class buffer_view : public cl::Buffer {
 public:
  buffer_view(const detail::found_memory& in, T* data, std::uint64_t count) noexcept
      : data_(in.is_pointer ? data : nullptr), count_(count), is_borrowed_(true) {
    object_ = in.buffer;
  }
  /// A copy may outlive the body.
  buffer_view(const buffer_view& other) : cl::Buffer(other), data_(other.data_), count_(other.count_) {}
  buffer_view& operator=(const buffer_view&) = delete;
  ~buffer_view() {
    if (is_borrowed_) object_ = nullptr;
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return count_ * sizeof(T); }
  /// With shared virtual memory: the address, for setArg(). Else null.
  [[nodiscard]] T* data() const noexcept { return data_; }

 private:
  T* data_;
  std::uint64_t count_;
  bool is_borrowed_ = false;  // from the stream, which keeps it meanwhile: to count it would cost more
};

/// The same for slices that begin anywhere, where a device could not make a buffer of its own of them: a
/// buffer with other things in it, and where the slice begins in it. A body whose arguments are parts gets
/// parts: (cl::CommandQueue&, part<const int>, part<int>).
template <class T>
class part {
 public:
  part(const detail::found_memory& in, T* data, std::uint64_t count)
      : buffer_(in.buffer, true),
        offset_(in.offset / sizeof(T)),
        data_(in.is_pointer ? data : nullptr),
        count_(count) {}
  [[nodiscard]] const cl::Buffer& buffer() const noexcept { return buffer_; }
  /// Elements of the buffer in front of it.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return count_; }
  /// With shared virtual memory: the address. Else null.
  [[nodiscard]] T* data() const noexcept { return data_; }

 private:
  cl::Buffer buffer_;
  std::uint64_t offset_;
  T* data_;
  std::uint64_t count_;
};

/// One of the `bindings` of an op, whose body is called with (cl::CommandQueue&, std::span<const any_part>).
class any_part {
 public:
  any_part(const detail::found_memory& in, std::byte* data, std::uint64_t bytes) noexcept
      : in_(in), data_(data), bytes_(bytes) {}
  template <class T>
  [[nodiscard]] part<T> as() const {
    return {in_, reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  detail::found_memory in_;
  std::byte* data_;
  std::uint64_t bytes_;
};

/// What a body is called with, made into what it asks for.
class native_stream {
 public:
  explicit native_stream(detail::stream_state& state) noexcept : state_(&state) {}
  [[nodiscard]] cl::CommandQueue& queue() const noexcept { return detail::queue_of(*state_); }

  /// Of an op's views, which are spans of addresses that mean something to the device alone.
  template <class Body, class... T>
  void call(Body& body, const std::span<T>&... spans) const {
    translated([&] {
      if constexpr (std::is_invocable_v<Body&, cl::CommandQueue&, const buffer_view<T>&...>) {
        call_with_views(body, spans...);
      } else if constexpr (std::is_invocable_v<Body&, cl::CommandQueue&, part<T>...>) {
        body(queue(), part<T>(find(spans), spans.data(), spans.size())...);
      } else {
        body(*this, spans...);
      }
    });
  }
  template <class Body>
  void call(Body& body, std::span<const braid::view> all) const {
    std::vector<any_part> parts;
    parts.reserve(all.size());
    for (const braid::view& each : all) {
      const std::span<std::byte> bytes = each.as<std::byte>();
      parts.emplace_back(find(bytes), bytes.data(), bytes.size());
    }
    translated([&] { body(queue(), std::span<const any_part>(parts)); });
  }
  [[nodiscard]] detail::stream_state& state() const noexcept { return *state_; }

 private:
  template <class T>
  [[nodiscard]] detail::found_memory find(std::span<T> of) const {
    return of.empty() ? detail::found_memory{}
                      : detail::find_memory(detail::home_of(*state_), of.data(), of.size_bytes());
  }
  template <class T>
  [[nodiscard]] detail::found_memory find_view(std::span<T> of) const {
    return of.empty() ? detail::found_memory{} : detail::sub_buffer(*state_, of.data(), of.size_bytes());
  }
  template <class Body, class... T>
  void call_with_views(Body& body, const std::span<T>&... spans) const {
    std::unique_lock lock = detail::begin_views(*state_);
    const std::array<detail::found_memory, sizeof...(T)> found{find_view(spans)...};
    lock.unlock();
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      body(queue(), lent(buffer_view<T>(found[I], spans.data(), spans.size()))...);
    }(std::index_sequence_for<T...>{});
  }
  /// A body that takes a cl::Buffer by value gets a copy, which is counted, and nothing is moved out of the
  /// view.
  template <class T>
  static const buffer_view<T>& lent(const buffer_view<T>& view) noexcept {
    return view;
  }
  template <class F>
  static void translated(F&& f) {
#ifdef CL_HPP_ENABLE_EXCEPTIONS
    try {
      f();
    } catch (const cl::Error& e) {
      throw detail::error_of(e.err(), e.what());
    }
#else
    f();
#endif
  }

  detail::stream_state* state_;
};

class stream {
 public:
  stream(stream&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  stream& operator=(stream&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~stream();
  [[nodiscard]] cl::CommandQueue& queue() const noexcept { return detail::queue_of(*state_); }

 private:
  friend class backend;
  explicit stream(detail::stream_state* state) noexcept : state_(state) {}
  detail::stream_state* state_;
};

/// Holds an event of OpenCL. One of record() or of runtime::last_write() may outlive its runtime.
class event {
 public:
  event(event&& other) noexcept
      : native_(std::exchange(other.native_, nullptr)),
        context_(other.context_),
        home_(other.home_),
        covers_(other.covers_),
        kept_(std::move(other.kept_)) {}
  event& operator=(event&& other) noexcept {
    std::swap(native_, other.native_);
    std::swap(context_, other.context_);
    std::swap(home_, other.home_);
    std::swap(covers_, other.covers_);
    std::swap(kept_, other.kept_);
    return *this;
  }
  ~event();
  [[nodiscard]] cl_event native() const noexcept { return native_; }

 private:
  friend class backend;
  event(cl_event native, cl_context context, detail::stream_state* home, std::uint64_t covers) noexcept
      : native_(native), context_(context), home_(home), covers_(covers) {}
  cl_event native_;
  cl_context context_;
  detail::stream_state* home_;  // null: adopted
  std::uint64_t covers_;        // ops of the stream that come before it, at least
  std::shared_ptr<detail::shared_state> kept_;
};

/// What braid's own copies and fills do. An address that is not the device's is one of the host.
class mover {
 public:
  explicit mover(native_stream on) noexcept : on_(on) {}
  void copy(void* to, const void* from, std::uint64_t bytes) const;
  void fill(void* to, const void* value, std::size_t size, std::uint64_t count) const;

 private:
  native_stream on_;
};

class backend {
 public:
  using stream = opencl::stream;
  using event = opencl::event;
  using native_stream = opencl::native_stream;
  using mover = opencl::mover;
  static constexpr const char* name = "opencl";

  /// device, devices and shared_virtual_memory are looked at. Throws usage_error(no_device) where there is
  /// none.
  explicit backend(const runtime_options& options = {});

  stream create_stream();
  event flush(stream& s);
  void wait_event(stream& s, const event& e) {
    const event* const one = &e;
    wait_events(s, std::span<const event* const>(&one, 1));
  }
  /// By one barrier.
  void wait_events(stream& s, std::span<const event* const> all);
  void wait_event_sync(const event& e);
  bool is_complete(const event& e);

  // Of others.
  /// A queue that braid did not make, in order and of the runtime's context; for runtime::adopt().
  [[nodiscard]] stream adopt(const cl::CommandQueue& queue);
  /// An event behind what the stream was given so far.
  [[nodiscard]] event record(stream& s);
  [[nodiscard]] event adopt(const cl::Event& e) const { return adopt_event(e()); }
  /// Memory of the runtime's context that braid did not make, for runtime::adopt(span, name, owner):
  ///   auto mine = rt.backend().adopt<float>(buffer);
  ///   auto x = rt.adopt(mine.addresses, "x", mine.owner);
  template <class T>
  struct adopted {
    std::span<T> addresses;
    std::shared_ptr<void> owner;
  };
  template <class T>
  [[nodiscard]] adopted<T> adopt(const cl::Buffer& buffer) const {
    std::uint64_t bytes = 0;
    std::shared_ptr<void> owner = adopt_buffer(buffer(), bytes);
    return {{static_cast<T*>(owner.get()), bytes / sizeof(T)}, owner};
  }
  /// For queues, buffers and kernels of the program's own.
  [[nodiscard]] cl::Context context() const { return cl::Context(native_context(), true); }
  [[nodiscard]] cl::Device device() const { return cl::Device(native_device(), true); }
  [[nodiscard]] const device_info& info() const noexcept;

  // What a runtime needs.
  template <class F>
  void launch(stream& s, std::uint64_t cursor, F&& f) {
    const inside op(*s.state_, f.label.lasting(), f.home->trace_number(), f.rank.lane(), cursor);
    op.failure ? f.give_up(cursor, op.failure) : f(cursor, native_stream(*s.state_));
  }
  /// A body that takes views needs slices that a device can make them of. Throws usage_error(misaligned).
  static constexpr bool checks_bodies = true;
  template <class Body, class... T>
  void expect_usable(const std::span<T>&... spans) const {
    if constexpr (std::is_invocable_v<std::decay_t<Body>&, cl::CommandQueue&,
                                      const opencl::buffer_view<T>&...>) {
      (expect_aligned(spans.data(), spans.size_bytes()), ...);
    }
  }
  /// Throws in a child of the process that opened the device.
  void admit(const stream&) const {
    if (is_orphaned()) [[unlikely]]
      throw_orphaned();
  }
  [[nodiscard]] event event_of(stream& s, std::uint64_t) { return record(s); }
  [[nodiscard]] std::shared_ptr<memory_source> memory() const;
  [[nodiscard]] std::shared_ptr<memory_source> staging() const;
  [[nodiscard]] bool is_reachable(const void* p, std::uint64_t bytes) const noexcept;
  /// Lets the device use this memory of the host for as long as what is returned lives.
  [[nodiscard]] std::shared_ptr<void> reach(void* data, std::uint64_t bytes) const;
  /// Whether copies between the memory of both are possible on a device.
  [[nodiscard]] bool shares_memory_with(const backend& other) const noexcept {
    return native_context() == other.native_context();
  }
  [[nodiscard]] std::exception_ptr failure() const noexcept;
  [[nodiscard]] bool is_orphaned() const noexcept;

  /// Of the commands that braid itself put on queues.
  struct command_counts {
    std::uint64_t markers = 0;
    std::uint64_t barriers = 0;
  };
  [[nodiscard]] command_counts commands() const noexcept;

 private:
  /// Around a body: what the op has to wait for is in front, and a trace learns when the op ran.
  struct inside {
    inside(detail::stream_state& s, const op_label* label, std::uint32_t of_runtime,
           braid::detail::lane_id lane, std::uint64_t cursor);
    ~inside();
    inside(const inside&) = delete;
    inside& operator=(const inside&) = delete;
    std::exception_ptr failure;
    detail::stream_state& state;
    detail::stream_state* outer;  // whose body this thread is in
    std::uint64_t of;
    std::uint32_t runtime = 0;
    braid::detail::lane_id lane{};
    cl_event began = nullptr;  // traced: in front of the body
    std::int64_t given = 0;    // when that was put there
  };
  [[nodiscard]] cl_context native_context() const noexcept;
  [[nodiscard]] cl_device_id native_device() const noexcept;
  [[nodiscard]] event adopt_event(cl_event e) const;
  [[nodiscard]] std::shared_ptr<void> adopt_buffer(cl_mem buffer, std::uint64_t& bytes) const;
  [[noreturn]] static void throw_orphaned();
  void expect_aligned(const void* data, std::uint64_t bytes) const {
    // What is not lent by the host begins at a page.
    if ((reinterpret_cast<std::uintptr_t>(data) & (slice_alignment_ - 1)) != 0 && bytes != 0) [[unlikely]]
      expect_aligned_in_buffer(data, bytes);
  }
  void expect_aligned_in_buffer(const void* data, std::uint64_t bytes) const;

  std::shared_ptr<detail::shared_state> state_;
  std::uintptr_t slice_alignment_ = 1;
};

static_assert(event_stream_backend<backend> && runtime_backend<backend>);

/// OpenCL C, built at its first use on each device; programs with the same source and options share that.
class program {
 public:
  explicit program(std::string source, std::string build_options = {});

  /// The kernel of this name for the op whose body is running: nobody else uses this object meanwhile, so
  /// that its arguments may be set. Throws build_error with the log.
  [[nodiscard]] cl::Kernel& kernel(const cl::CommandQueue& queue, const char* name) const;
  /// For kernels of one's own. Builds it.
  [[nodiscard]] cl::Program native(const cl::CommandQueue& queue) const;

 private:
  std::shared_ptr<const struct program_text> text_;
};

using options = runtime_options;
using runtime = basic_runtime<backend>;

}  // namespace braid::opencl

namespace braid {

// Compiled once, in the library.
extern template class basic_runtime<opencl::backend>;

}  // namespace braid
