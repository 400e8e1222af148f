#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "braid/opencl.hpp"

// When ops ran on the device, for traces: markers in front of each body and behind it, on queues with
// profiling, tell when the queue was there.

namespace braid::opencl::detail {

class shared_state;
struct stream_state;

struct timed_op {
  std::uint32_t runtime;
  braid::detail::lane_id lane;
  std::uint64_t cursor;
};

/// The events of ops that were not looked at yet, of one runtime.
class timed_ops {
 public:
  explicit timed_ops(shared_state& of) noexcept : of_(of) {}

  /// The marker in front of a body, null if there is none; and when it was put there.
  struct started {
    cl_event event = nullptr;
    std::int64_t given = 0;
  };
  [[nodiscard]] started begin(stream_state& s, const timed_op& op) noexcept;
  void end(stream_state& s, const timed_op& op, const started& began) noexcept;
  /// Waits for what is still on its way, and tells the trace.
  void settle() noexcept;

  /// A moment, by both clocks.
  struct anchor {
    std::int64_t device;
    std::int64_t host;
  };

 private:
  struct entry {
    timed_op op;
    started began;
    cl_event ended;
  };
  void tell(const std::deque<entry>& all) noexcept;

  shared_state& of_;
  std::mutex mutex_;
  std::deque<entry> entries_;
  std::optional<anchor> first_;  // of this trace
};

/// Tells traces that there are devices. Once is enough.
void watch_traces();

}  // namespace braid::opencl::detail
