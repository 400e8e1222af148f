#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "braid/detail/given_ops.hpp"
#include "braid/opencl.hpp"
#include "tracer.hpp"

namespace braid::opencl {

struct program_text {
  std::string source;
  std::string options;
};

}  // namespace braid::opencl

namespace braid::opencl::detail {

/// "clFlush: CL_OUT_OF_RESOURCES"
std::string text_of(const char* call, cl_int code);
/// Throws opencl::error unless the call went well.
void expect(const char* call, cl_int code);

/// A device as the loader knows it.
struct device_entry {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  device_info info;
};
/// Throws usage_error(no_device).
device_entry entry_for(std::string_view choice);

/// A device with the context that all runtimes on it share, so that they can copy between each other; and
/// what belongs to that context.
class device_context {
 public:
  /// The one that is open already, or a new one.
  static std::shared_ptr<device_context> open(const device_entry& of);
  explicit device_context(const device_entry& of);
  ~device_context();
  device_context(const device_context&) = delete;
  device_context& operator=(const device_context&) = delete;

  [[nodiscard]] cl_context native() const noexcept { return context_; }
  [[nodiscard]] cl_device_id device() const noexcept { return of_.device; }
  [[nodiscard]] const device_info& info() const noexcept { return of_.info; }
  [[nodiscard]] cl_command_queue make_queue(bool is_profiled) const;

  // Memory. Addresses stand for buffers of OpenCL: those of shared virtual memory and of the host are what
  // they are, all others are reserved and never touched.
  void add(const void* base, std::uint64_t bytes, const found_memory& with);
  /// Takes out what add() put in.
  void remove(const void* base, cl_mem buffer) noexcept;
  /// Its buffer is null if the address stands for nothing.
  [[nodiscard]] found_memory find(const void* data, std::uint64_t bytes) const;

  /// Built for this device. Throws build_error.
  [[nodiscard]] cl_program program(const program_text& text);

 private:
  struct segment {
    std::uint64_t bytes;
    found_memory with;
  };
  struct built {
    std::mutex mutex;
    cl_program program = nullptr;
  };

  device_entry of_;
  cl_context context_ = nullptr;
  mutable std::shared_mutex memory_mutex_;
  std::multimap<const std::byte*, segment> segments_;
  std::mutex programs_mutex_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<built>> programs_;
};

/// What the streams, events and memory of one runtime share.
class shared_state {
 public:
  shared_state(std::shared_ptr<device_context> on, bool has_svm);
  ~shared_state();
  shared_state(const shared_state&) = delete;
  shared_state& operator=(const shared_state&) = delete;

  [[nodiscard]] device_context& device() const noexcept { return *device_; }
  [[nodiscard]] bool has_svm() const noexcept { return has_svm_; }
  /// Of a process that was forked from the one that made this: the device's threads are not here.
  [[nodiscard]] bool is_orphaned() const noexcept;

  [[nodiscard]] bool is_lost() const noexcept {
    return lost_.load(std::memory_order_acquire);  // pairs with note_lost()
  }
  /// Null while the device works.
  [[nodiscard]] std::exception_ptr failure() const noexcept;
  void note_lost(const char* call, cl_int code);
  /// Notes it, and throws it.
  [[noreturn]] void lose(const char* call, cl_int code);

  /// The streams live as long as this does, because their events refer to them.
  stream_state& add(std::unique_ptr<stream_state> made);
  /// No stream keeps a view of this memory any longer.
  void forget_views(const void* base, std::uint64_t bytes) noexcept;
  /// For maps of staging memory; made at the first call. Throws error.
  [[nodiscard]] cl_command_queue service_queue();

  std::atomic<bool> is_traced{false};
  std::atomic<std::uint64_t> markers{0};
  std::atomic<std::uint64_t> barriers{0};
  timed_ops timings{*this};

 private:
  const std::shared_ptr<device_context> device_;
  const bool has_svm_;
  const std::uint64_t forks_;  // of the process, when this was made
  std::atomic<bool> lost_{false};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<stream_state>> streams_;
  std::exception_ptr failure_;
  cl_command_queue service_queue_ = nullptr;
};

/// As find_memory(), of memory that a view may begin at. Throws usage_error(misaligned).
found_memory find_aligned(const shared_state& in, const void* data, std::uint64_t bytes);

/// Calls `visit` with the state of each runtime, one after the other.
void each_state(const std::function<void(shared_state&)>& visit);

struct stream_state {
  /// Takes the queue over.
  stream_state(shared_state& by, cl_command_queue made, bool adopted, bool profiled);
  ~stream_state() { close(); }
  stream_state(const stream_state&) = delete;
  stream_state& operator=(const stream_state&) = delete;
  /// The engine is done with the stream; events of it may be left.
  void close() noexcept;

  /// Later work on the queue comes after these. By the holder of the slot.
  void put_barrier(std::span<const cl_event> behind);
  /// Behind all that was put on the queue, and on its way. By anybody.
  [[nodiscard]] cl_event put_marker();
  /// Lets the device begin, unless it was told to a moment ago. By the holder of the slot.
  void flush_if_due() noexcept;
  /// Lets displaced views go that nothing uses any more. Under views_lock, before the views of an op are
  /// found.
  void let_views_go();
  /// Goes on with a queue that tells when commands ran. By the holder of the slot.
  void make_profiled();

  shared_state& home;
  const bool is_adopted;
  bool is_profiled;
  braid::detail::given_ops ops;

  cl::CommandQueue queue;                   // of the holder of the slot
  std::atomic<cl_command_queue> marked_on;  // the same, for others
  cl::CommandQueue former;                  // that it was before: others may be putting a marker there
  using clock = std::chrono::steady_clock;
  clock::time_point flushed;        // behind an op; of the holder of the slot, as those below
  clock::duration flush_cost{0};    // of that
  clock::duration flush_credit{0};  // what the next ones may take; grows with time
  clock::time_point credited;
  std::vector<cl_event> behind;  // what the holder of the slot is about to wait for

  // Views that ops of this stream got, by address and size.
  struct kept_view {
    const void* data = nullptr;
    std::uint64_t bytes = 0;
    cl_mem buffer = nullptr;
    bool is_pointer = false;
  };
  braid::detail::spin_lock views_lock;
  std::array<kept_view, 64> views{};
  // Those that others displaced. Some drivers need a view until the commands that use it are over, also
  // behind a barrier; so they go in batches, each behind a marker.
  static constexpr std::size_t batch = 64;
  std::vector<kept_view> displaced;
  std::vector<kept_view> going;
  cl_event gone = nullptr;  // behind all commands that use what is going

  // Of the holder of the slot.
  struct kept_kernel {
    std::shared_ptr<const program_text> of;
    std::string name;
    cl::Kernel kernel;
  };
  std::vector<std::unique_ptr<kept_kernel>> kernels;

  /// Whose body the calling thread is in.
  static thread_local stream_state* running;
};

}  // namespace braid::opencl::detail
