#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "braid/alignment.hpp"
#include "braid/detail/callback.hpp"
#include "braid/detail/stamp.hpp"
#include "braid/detail/time.hpp"
#include "braid/resource.hpp"
#include "braid/stream_id.hpp"

// Where a runtime tells what it does, if somebody wants to know: see trace.hpp. Each of these is called only
// while a trace is recorded (runtime_base::is_traced(), is_tracing()), from any thread; none throws, waits or
// takes a lock once its thread has a buffer.

namespace braid::detail {

struct block;
struct op_point;

inline constinit std::atomic<bool> tracing_on{false};

[[nodiscard]] inline bool is_tracing() noexcept {
  return tracing_on.load(std::memory_order_relaxed);  // orders nothing: the edges of a trace are not sharp
}

/// ns of the clock that all times of a trace are taken with.
[[nodiscard]] inline std::int64_t trace_now() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

/// What a trace says of a runtime.
struct traced_runtime {
  std::string backend;
  std::uint32_t workers = 0;
  std::uint32_t streams = 0;
  std::uint32_t width = 0;
  std::string placement;
  callback<std::uint64_t()> live_bytes;    // asked when a trace begins
  std::uint64_t live = 0;                  // what it said
  std::atomic<bool>* is_traced = nullptr;  // set while a trace is recorded
};
/// Starts the trace that the settings ask for, if they do. Returns the runtime's number, from 1.
std::uint32_t trace_add_runtime(traced_runtime what);
/// `is_forked`: in a child of fork(), which does nothing if a thread of the parent had the lock: no trace can
/// be recorded in that child.
void trace_remove_runtime(std::uint32_t number, bool is_forked) noexcept;

struct traced_op {
  std::uint32_t runtime;
  lane_id lane;
  stream_id stream;
  std::uint64_t cursor;
  const std::string& label;
  std::int64_t submitted;
  bool is_named;  // the program named the stream
};
/// An op is being handed over. `lane_of(engine, id)` tells the lane of each wait's origin.
void trace_op(const traced_op& op, std::span<const binding> uses, std::span<const stream_wait> waits,
              lane_id (*lane_of)(void* engine, stream_id id), void* engine) noexcept;

enum class traced_outcome : std::uint8_t { done, failed, skipped };
void trace_run(std::uint32_t runtime, lane_id lane, std::uint64_t cursor, std::int64_t start,
               std::int64_t end, traced_outcome became) noexcept;
/// Likewise, of an op that a device ran.
void trace_device_run(std::uint32_t runtime, lane_id lane, std::uint64_t cursor, std::int64_t start,
                      std::int64_t end) noexcept;
void trace_take(std::uint32_t runtime, const block& taken, std::string_view name) noexcept;
void trace_give(std::uint32_t runtime, const block& given) noexcept;
/// What this thread has used of a core, in ns.
[[nodiscard]] std::int64_t trace_thread_time() noexcept;
/// The calling thread waited since `begin`, when it had used `thread_time` of a core.
void trace_host_wait(std::uint32_t runtime, op_point on, std::int64_t begin,
                     std::int64_t thread_time) noexcept;

}  // namespace braid::detail
