#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "braid/detail/stamp.hpp"
#include "driver.hpp"

// When ops ran on the device, for traces.
//
// CUPTI tells of each kernel, copy and fill by itself; an id that is pushed around the body says which op it
// belongs to. Where there is no CUPTI of the version that braid was built for, two events with timing around
// the body tell: they cost the host more, and are exact to about a microsecond.

namespace braid::cuda::detail {

class shared_state;
struct stream_state;

/// Which op it is, for a trace.
struct traced_op {
  std::uint32_t runtime;
  braid::detail::lane_id lane;
  std::uint64_t cursor;
};

/// The events of ops that were not looked at yet, of one runtime.
class timed_ops {
 public:
  explicit timed_ops(shared_state& of) noexcept : of_(of) {}
  timed_ops(const timed_ops&) = delete;
  timed_ops& operator=(const timed_ops&) = delete;

  /// The event to be recorded behind the body; null if there is none.
  CUevent begin(stream_state& s, const traced_op& op);
  /// Waits for what is still on its way, and tells the trace.
  void settle() noexcept;
  /// At the end, while the device is still there.
  void give_events() noexcept;

 private:
  struct entry {
    traced_op op;
    std::size_t device;
    CUevent start;
    CUevent end;
  };
  /// When the device was at the event, the host's clock was there.
  struct anchor {
    CUevent event = nullptr;
    std::int64_t time = 0;
  };
  CUevent take(std::size_t device);
  void tell(const entry& e) noexcept;

  shared_state& of_;
  std::mutex mutex_;
  std::deque<entry> entries_;
  std::vector<anchor> anchors_;             // by device
  std::vector<std::vector<CUevent>> free_;  // by device
};

/// Tells traces that there are devices. Once is enough.
void watch_traces();

/// Around the body of an op, while a trace is recorded.
class traced_scope {
 public:
  traced_scope(stream_state& s, const traced_op& op) noexcept;
  ~traced_scope();
  traced_scope(const traced_scope&) = delete;
  traced_scope& operator=(const traced_scope&) = delete;

 private:
  stream_state& stream_;
  CUevent behind_ = nullptr;
  bool is_pushed_ = false;
};

}  // namespace braid::cuda::detail
