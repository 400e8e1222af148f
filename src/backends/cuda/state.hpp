#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "braid/cuda.hpp"
#include "braid/detail/lock.hpp"
#include "driver.hpp"
#include "tracer.hpp"

namespace braid::cuda::detail {

/// A device that a runtime uses, by its primary context, which kernels of the program use as well.
struct device {
  CUdevice handle = 0;
  CUcontext context = nullptr;
  int ordinal = 0;
  int lowest_priority = 0;
  int highest_priority = 0;
  std::vector<bool> reaches{};  // the memory of which devices, by their index
};

[[nodiscard]] usage_error forked_error();

/// Makes a context current for a scope, and for longer if there was none; does nothing if it is already.
class current_context {
 public:
  explicit current_context(CUcontext wanted) noexcept {
    (void)driver().cuCtxGetCurrent(&before_);
    if (before_ == wanted) return;
    (void)driver().cuCtxSetCurrent(wanted);
    is_switched_ = true;
  }
  ~current_context() {
    if (is_switched_ && before_ != nullptr) (void)driver().cuCtxSetCurrent(before_);
  }
  current_context(const current_context&) = delete;
  current_context& operator=(const current_context&) = delete;

 private:
  CUcontext before_ = nullptr;
  bool is_switched_ = false;
};

/// What the streams, events and memory of one runtime share.
class shared_state {
 public:
  /// Throws usage_error(no_device) for ordinals that are not there.
  shared_state(std::span<const int> ordinals, std::vector<int> priorities, bool nvtx);
  ~shared_state();
  shared_state(const shared_state&) = delete;
  shared_state& operator=(const shared_state&) = delete;

  [[nodiscard]] const driver_functions& cu() const noexcept { return cu_; }
  [[nodiscard]] const std::vector<device>& devices() const noexcept { return devices_; }
  [[nodiscard]] int priority_of(const device& d, std::uint64_t stream) const noexcept;

  /// Of a process that was forked from the one that made this: nothing may be asked of the driver.
  [[nodiscard]] bool is_orphaned() const noexcept;
  [[nodiscard]] bool is_lost() const noexcept {
    return (watch.load(std::memory_order_acquire) & lost) != 0;  // pairs with note_lost()
  }
  /// Null while the device works, and this process is the one that opened it.
  [[nodiscard]] std::exception_ptr failure() const noexcept;
  /// If that is what the code says. `text`: of the error.
  void note_lost(CUresult code, const std::string& text);
  void note_lost(const char* call, CUresult code);
  void lose(CUresult code, const std::string& text);
  /// Asks the driver, whose next call tells of a kernel that faulted. Where it cannot tell how far a stream
  /// is, the device is lost as well, whatever it says.
  void look_for_loss() noexcept;
  /// Of a question after an event. A code that is not of a capture may be that of a device that is lost.
  void expect_answer(const char* call, CUresult code);

  /// Throws for a call that did not go well; device_lost from the first one on after which nothing does.
  void expect(const char* call, CUresult code) {
    if (code != CUDA_SUCCESS) [[unlikely]]
      fail(call, code);
  }
  /// Likewise, but a lost device is only noted: it has no order left to keep.
  void expect_or_lost(const char* call, CUresult code) {
    if (code == CUDA_SUCCESS || code == CUDA_ERROR_DEINITIALIZED) [[likely]]
      return;  // or the process ends, and the driver has gone before us
    note_lost(call, code);
    if (!is_lost()) fail(call, code);
  }

  /// The streams live as long as this does, because their events do.
  stream_state& add(std::unique_ptr<stream_state> made);
  stream_state& make_stream(std::size_t device_index, int priority);
  /// A stream that nothing runs on: what it is given goes into a graph. It is the graph's for as long as that
  /// lives, because handles of libraries that are attached to it have memory that the graph uses.
  stream_state& take_capture_stream(const stream_state& like);
  void give_capture_stream(stream_state& s) noexcept;

  enum : std::uint32_t { lost = 1, ranges = 2, forked = 4, traced = 8 };
  std::atomic<std::uint32_t> watch{0};  // of these; what ops have to look at more closely
  std::atomic<std::uint64_t> events{0};
  timed_ops timings{*this};

 private:
  [[noreturn]] void fail(const char* call, CUresult code);
  void release_devices() noexcept;
  /// Kernels of the one can use memory of the other from now on, if that is possible.
  [[nodiscard]] bool reaches(const device& from, const device& to) const noexcept;
  [[nodiscard]] std::string ops_in_flight() const;

  const driver_functions& cu_;
  std::vector<device> devices_;
  const std::vector<int> priorities_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<stream_state>> streams_;
  std::vector<stream_state*> capture_streams_;  // that no graph has
  std::exception_ptr failure_;
};

/// Calls `visit` with the state of each runtime, one after the other.
void each_state(const std::function<void(shared_state&)>& visit);

/// The handles of libraries for a native stream: of all that stand for it, which are several where several
/// runtimes have adopted it. They go with the last of those.
struct stream_handles {
  struct handle {
    const void* key;
    void* object;
    void (*destroy)(void*);
  };
  std::mutex mutex;
  std::vector<handle> all;
  std::size_t users = 0;  // that stand for the stream; under the registry's mutex
};

/// A stream with its pool of events.
struct stream_state : hot_state {
  stream_state(shared_state& by, std::size_t on, CUstream native_handle, bool adopted);
  ~stream_state();
  stream_state(const stream_state&) = delete;
  stream_state& operator=(const stream_state&) = delete;
  void close() noexcept;

  shared_state& home;
  const std::size_t device_index;
  int priority = 0;
  std::atomic<bool> is_for_graphs{false};  // what it is given is captured: it is not to be asked
  [[nodiscard]] CUcontext native_context() const noexcept { return static_cast<CUcontext>(context); }

  braid::detail::spin_lock events_lock;
  std::vector<CUevent> free_events;  // has room for all that were made
  std::size_t events_made = 0;

  std::shared_ptr<stream_handles> handles;  // null: nobody knows of the stream yet, or any more

  CUevent take_event();
  void give_event(CUevent e) noexcept;
};

struct graph_state {
  explicit graph_state(std::shared_ptr<shared_state> of) noexcept : home(std::move(of)) {}
  ~graph_state();
  graph_state(const graph_state&) = delete;
  graph_state& operator=(const graph_state&) = delete;

  const std::shared_ptr<shared_state> home;
  std::vector<stream_state*> streams;
  struct event_of {
    stream_state* stream;
    CUevent native;
  };
  std::unordered_map<std::size_t, event_of> places;  // while it is made
  void give_events() noexcept;
  bool is_capturing = false;
  CUgraph made = nullptr;
  CUgraphExec runnable = nullptr;
};

}  // namespace braid::cuda::detail
