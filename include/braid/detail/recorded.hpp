#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "braid/detail/buffer_core.hpp"
#include "braid/detail/recorder.hpp"
#include "braid/detail/runtime_base.hpp"

namespace braid::detail {

/// An op that runs once in each replay, always on the same lane and therefore never twice at a time.
class recorded_frame {
 public:
  virtual ~recorded_frame() = default;
  virtual void run(std::uint64_t cursor, op_rank rank) noexcept = 0;
  [[nodiscard]] virtual const std::string& label() const noexcept = 0;
  [[nodiscard]] virtual std::vector<touched> touches() const = 0;
};

/// An op, as the stream that runs it sees it.
struct recorded_op {
  recorded_frame* frame;
  std::uint32_t number;  // in the sequence, from 0
  std::uint32_t first_wait;
  std::uint32_t waits : 31;
  std::uint32_t is_seen : 1;  // an op of another part may wait for it, or what comes after the sequence
};

/// The ops of a recording.
struct recorded_ops {
  replay_plan plan;
  std::vector<std::vector<recorded_op>> parts;
  std::vector<recorder::wait> waits;  // of all ops

  struct described {  // for traces, and for devices that get one op after the other
    recorded_place at;
    std::uint32_t first_wait = 0;
    std::uint32_t waits = 0;
    bool is_named = false;
    std::unique_ptr<recorded_frame> frame;
  };
  std::vector<described> sequence;
  std::vector<buffer_handle> buffers;                        // that the ops use
  std::vector<resource> tokens;                              // likewise, where ops are submitted again
  std::vector<std::pair<buffer_core*, byte_range>> written;  // of the buffers

  [[nodiscard]] std::span<const recorder::wait> waits_of(const described& op) const noexcept {
    return {waits.data() + op.first_wait, op.waits};
  }
  /// All ops are there: sorts them by parts.
  void finish(recorder& analysis);
};

}  // namespace braid::detail
