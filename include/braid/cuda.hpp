#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "braid/backend.hpp"
#include "braid/detail/given_ops.hpp"
#include "braid/detail/runtime_class.hpp"
#include "braid/error.hpp"
#include "braid/memory.hpp"

// NVIDIA GPUs.
//
//   braid::cuda::runtime rt;
//   auto x = rt.make_buffer<float>(n, "x");
//   rt.fill(x, 1.0F);
//   rt.submit("scale", read_write(x), [](cudaStream_t stream, std::span<float> x) {
//     scale<<<blocks, threads, 0, stream>>>(x.data(), x.size());
//     braid::cuda::check(cudaGetLastError());
//   });
//   std::vector<float> host = rt.read(x).get();
//
// A body is called inside submit() and puts its work on the stream that it is given; the spans are device
// memory. Kernels, cuBLAS, cuSOLVER, CUB and copies work there as they do elsewhere. A body that throws has
// failed, also if part of its work is on the stream.
//
// The driver is opened when the first runtime is made. This header needs no header of CUDA's.

struct CUstream_st;
struct CUevent_st;

namespace braid::cuda {

using native_stream = CUstream_st*;  ///< a cudaStream_t, a CUstream
using native_event = CUevent_st*;    ///< a cudaEvent_t, a CUevent

/// A call of the driver failed.
class error : public execution_error {
 public:
  error(int code, const std::string& text) : execution_error(text), code_(code) {}
  [[nodiscard]] int code() const noexcept {
    return code_;
  }  ///< a CUresult, a cudaError_t, or the status of a library

 private:
  int code_;
};

/// A kernel faulted, or the device fell over: no op on it can run any more, in this process. The text names
/// the ops that were in flight; one of them did it.
class device_lost : public error {
 public:
  using error::error;
};

namespace detail {
[[noreturn]] void throw_error(int code);  // with the driver's name and text
}

/// Throws `error` unless the code is that of success: check(cudaGetLastError()), or of a call of the driver.
template <class Code>
void check(Code code) {
  if (static_cast<int>(code) == 0) return;
  if constexpr (requires { cudaGetErrorString(code); }) {
    throw error(static_cast<int>(code), cudaGetErrorString(code));
  } else {
    detail::throw_error(static_cast<int>(code));  // a CUresult
  }
}

struct device_info {
  int ordinal = 0;
  std::string name;
  std::uint64_t memory = 0;  ///< bytes
  unsigned multiprocessors = 0;
};
/// The devices of this machine. Throws usage_error(no_device), with the reason, if there is no driver.
std::vector<device_info> devices();

namespace detail {

class shared_state;
class traced_scope;
struct stream_state;
struct graph_state;

/// Of a stream: what each op looks at.
struct alignas(64) hot_state {
  native_stream native = nullptr;  // null: made of a device that was lost
  void* context = nullptr;
  // Of the driver; called from where they are needed, because it costs to return from each function between.
  int (*get_current)(void** context) = nullptr;
  int (*record_event)(native_event event, native_stream on) = nullptr;
  int (*wait_event)(native_stream on, native_event event, unsigned flags) = nullptr;
  const std::atomic<std::uint32_t>* watch = nullptr;  // 0: neither lost nor forked, and no ranges are wanted
  bool is_adopted = false;
  braid::detail::given_ops ops;

  [[nodiscard]] bool is_plain() const noexcept {
    void* now = nullptr;
    // relaxed: an op that is being given when the device is lost is in flight
    return watch->load(std::memory_order_relaxed) == 0 && get_current(&now) == 0 && now == context;
  }
};

hot_state& hot(stream_state& s) noexcept;
void* attachment(native_stream stream, const void* key, void* (*make)(native_stream), void (*destroy)(void*));
}  // namespace detail

class stream {
 public:
  stream(stream&& other) noexcept : state_(std::exchange(other.state_, nullptr)), hot_(other.hot_) {}
  stream& operator=(stream&& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(hot_, other.hot_);
    return *this;
  }
  ~stream();
  [[nodiscard]] native_stream native() const noexcept { return hot_->native; }

 private:
  friend class backend;
  explicit stream(detail::stream_state* state) noexcept : state_(state), hot_(&detail::hot(*state)) {}
  detail::stream_state* state_;
  detail::hot_state* hot_;
};

/// Goes back to the pool of its stream at its end; one that was adopted is left alone. One of record() or of
/// runtime::last_write() may outlive its runtime.
class event {
 public:
  event(event&& other) noexcept
      : home_(std::exchange(other.home_, nullptr)),
        native_(other.native_),
        covers_(other.covers()),
        kept_(std::move(other.kept_)) {}
  event& operator=(event&& other) noexcept {
    std::swap(home_, other.home_);
    std::swap(native_, other.native_);
    other.covers_.store(covers_.exchange(other.covers(), std::memory_order_relaxed),
                        std::memory_order_relaxed);
    std::swap(kept_, other.kept_);
    return *this;
  }
  ~event();
  [[nodiscard]] native_event native() const noexcept { return native_; }

 private:
  friend class backend;
  event(detail::stream_state* home, native_event native, std::uint64_t covers) noexcept
      : home_(home), native_(native), covers_(covers) {}
  detail::stream_state* home_;  // null: adopted
  native_event native_;
  [[nodiscard]] std::uint64_t covers() const noexcept { return covers_.load(std::memory_order_relaxed); }
  std::atomic<std::uint64_t> covers_;  // ops of the stream that come before it, at least; for an error's text
  std::shared_ptr<detail::shared_state> kept_;
};

/// Work of several streams as one command. Copies share it; the last one goes when its runs are over.
class graph {
 public:
  graph() noexcept = default;
  explicit operator bool() const noexcept { return state_ != nullptr; }
  void launch(native_stream on) const;

 private:
  friend class graph_maker;
  explicit graph(std::shared_ptr<detail::graph_state> made) noexcept : state_(std::move(made)) {}
  std::shared_ptr<detail::graph_state> state_;
};

/// Takes what is put on its streams, instead of running it. Used by one thread.
class graph_maker {
 public:
  graph_maker(const graph_maker&) = delete;
  graph_maker& operator=(const graph_maker&) = delete;
  ~graph_maker();
  /// Its device is current from then on.
  [[nodiscard]] native_stream native(std::size_t stream) const noexcept;
  /// What the stream was given so far is `place`.
  void mark(std::size_t stream, std::size_t place);
  /// What the stream is given from here on comes after a place.
  void wait(std::size_t stream, std::size_t place);
  graph finish();

 private:
  friend class backend;
  explicit graph_maker(std::shared_ptr<detail::graph_state> into);
  graph_maker(std::shared_ptr<detail::graph_state> into, void* context_before) noexcept
      : made_(std::move(into)), context_before_(context_before) {}
  std::shared_ptr<detail::graph_state> made_;
  void* context_before_;
};

/// What braid's own copies and fills do.
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
  using stream = cuda::stream;
  using event = cuda::event;
  using native_stream = cuda::native_stream;
  using mover = cuda::mover;
  using graph = cuda::graph;
  static constexpr const char* name = "cuda";

  /// A wait costs the host no more than to ask whether there is a need for it.
  static constexpr bool asks_as_dearly_as_it_waits = true;
  /// An event that was captured, say, cannot be asked, which says nothing about the work before it.
  static constexpr bool events_fail_with_the_device = true;

  /// device, devices, priorities and nvtx are looked at. Throws usage_error(no_device) where there is none.
  explicit backend(const runtime_options& options = {});

  stream create_stream() { return create_stream(stream_id{0}); }
  stream create_stream(stream_id id);
  event flush(stream& s);
  [[gnu::always_inline]] void flush_again(stream& s, event& e) {
    const detail::hot_state& of = *s.hot_;
    if (of.watch->load(std::memory_order_acquire) != 0) [[unlikely]]  // pairs with note_lost()
      return flush_watched(s, e);
    e.covers_.store(of.ops.handed(), std::memory_order_relaxed);  // before it is recorded
    if (const int code = of.record_event(e.native_, of.native); code != 0) [[unlikely]]
      expect_or_lost("cuEventRecord", code);
  }
  [[gnu::always_inline]] void wait_event(stream& s, const event& e) {
    const detail::hot_state& of = *s.hot_;
    if (of.watch->load(std::memory_order_acquire) != 0) [[unlikely]]  // pairs with note_lost()
      return wait_watched(s, e);
    if (const int code = of.wait_event(of.native, e.native_, 0); code != 0) [[unlikely]]
      expect_or_lost("cuStreamWaitEvent", code);
  }
  void wait_event_sync(const event& e);
  /// Blocks until all is over that the stream was given so far. Needs no event.
  void wait_stream(const stream& s);
  bool is_complete(const event& e);

  // Of others.
  /// A stream that braid did not make and will not destroy; for runtime::adopt(). Null is the legacy default
  /// stream of the current context. Throws usage_error for a stream of another device or context, and for
  /// cudaStreamPerThread, which is another one for each thread.
  [[nodiscard]] stream adopt(native_stream native);
  /// An event behind what the stream was given so far.
  [[nodiscard]] event record(stream& s);
  /// An event that braid did not make: it has to stay, as it was recorded, until what waits for it is over.
  [[nodiscard]] static event adopt(native_event native);

  // What a runtime needs.
  template <class F>
  [[gnu::always_inline]] void launch(stream& s, std::uint64_t cursor, F&& f) {
    if (const native_stream* on = plain_native(s)) [[likely]] {
      note_begin(s, cursor, f.label.lasting());
      f(cursor, *on);
      note_end(s, cursor);
    } else {
      launch_watched(s, cursor, f);
    }
  }
  // Of launch(), for a caller that calls the body itself.
  /// Null if there is more to do than to call the body.
  [[nodiscard]] static const native_stream* plain_native(const stream& s) noexcept {
    return s.hot_->is_plain() ? &s.hot_->native : nullptr;
  }
  static void note_begin(stream& s, std::uint64_t cursor, const op_label* label) noexcept {
    s.hot_->ops.note(cursor, label);
  }
  static void note_end(stream& s, std::uint64_t cursor) noexcept { s.hot_->ops.note_handed(cursor); }
  static void note_over(stream& s, std::uint64_t cursor) noexcept { s.hot_->ops.note_complete(cursor); }
  /// Of the program's: throws if it was recorded in a capture, and cannot be waited for.
  void admit(const event& e) const {
    if (e.home_ == nullptr) admit_foreign(e);
  }
  /// Throws if the stream is being captured, or this process is a child of the one that opened the device.
  void admit(const stream& s) const {
    if (s.hot_->is_adopted || s.hot_->watch->load(std::memory_order_relaxed) != 0) [[unlikely]]
      admit_slowly(s);
  }
  [[nodiscard]] event event_of(stream& s, std::uint64_t) { return record(s); }
  /// Whether the settings want recordings to become graphs.
  [[nodiscard]] bool wants_graphs() const;
  /// Its streams are like these, and its own.
  [[nodiscard]] graph_maker make_graph(std::span<const stream* const> like) const;
  [[nodiscard]] std::vector<std::shared_ptr<memory_source>> memories() const;
  [[nodiscard]] std::shared_ptr<memory_source> memory() const { return memories().front(); }
  [[nodiscard]] std::shared_ptr<memory_source> staging() const;
  [[nodiscard]] std::size_t device_of(const stream& s) const noexcept;
  /// Of memory that was adopted.
  [[nodiscard]] std::size_t device_of_memory(const void* p) const noexcept;
  /// Likewise: whether each device can use it, as memory of the host that is pinned, and managed memory.
  [[nodiscard]] bool is_of_all_devices(const void* p) const noexcept;
  /// Whether kernels on the stream can use memory of the device.
  [[nodiscard]] bool can_reach(const stream& s, std::size_t device) const noexcept;
  [[nodiscard]] bool is_reachable(const void* p, std::uint64_t bytes) const noexcept;
  [[nodiscard]] std::exception_ptr failure() const noexcept;
  void note_thrown(const std::exception_ptr& what);
  /// Asks the driver whether the device is lost; failure() tells.
  void look_for_loss() noexcept;
  /// Whether this process is a child of the one that opened the device: nothing of it can be used.
  [[nodiscard]] bool is_orphaned() const noexcept;
  /// How many events there are. Grows to what is in use at once, then stays.
  [[nodiscard]] std::uint64_t events_made() const noexcept;

 private:
  /// The device is current and, if asked for, a range of NVTX is open and a trace learns when the op ran.
  struct inside {
    inside(detail::stream_state& s, const op_label& label, std::uint32_t of_runtime,
           braid::detail::lane_id lane, std::uint64_t cursor);
    ~inside();
    inside(const inside&) = delete;
    inside& operator=(const inside&) = delete;
    std::exception_ptr failure;
    detail::stream_state& state;
    void* before = nullptr;  // the context to go back to; null: ours stays
    bool has_range = false;
    std::unique_ptr<detail::traced_scope> traced;
  };
  void admit_slowly(const stream& s) const;
  void admit_foreign(const event& e) const;
  void flush_watched(stream& s, event& e);
  void wait_watched(stream& s, const event& e);
  void expect_or_lost(const char* call, int code);
  template <class F>
  [[gnu::noinline]] void launch_watched(stream& s, std::uint64_t cursor, F& f) {
    note_begin(s, cursor, f.label.lasting());
    {
      const inside op(*s.state_, *f.label.get(), f.home->trace_number(), f.rank.lane(), cursor);
      op.failure ? f.give_up(cursor, op.failure) : f(cursor, s.hot_->native);
    }
    note_end(s, cursor);
  }

  std::shared_ptr<detail::shared_state> state_;
};

static_assert(event_stream_backend<backend> && runtime_backend<backend>);

/// Memory by cuMemAllocAsync, for runtime_options::memory. Blocks are made and freed on a stream of its own.
std::shared_ptr<memory_source> async_source(int device = 0);

using options = runtime_options;
using runtime = basic_runtime<backend>;

}  // namespace braid::cuda

namespace braid {

// Compiled once, in the library.
extern template class basic_runtime<cuda::backend>;

}  // namespace braid
