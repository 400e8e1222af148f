#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "braid/detail/buffer_core.hpp"
#include "braid/detail/op_frame.hpp"
#include "braid/detail/recorded_place.hpp"
#include "braid/detail/runtime_base.hpp"

namespace braid::detail {

struct recorded_ops;
class recorder;

/// A recorder that a runtime keeps from one recording to the next.
class spare_recorder {
 public:
  spare_recorder() noexcept = default;
  ~spare_recorder();
  spare_recorder(const spare_recorder&) = delete;
  spare_recorder& operator=(const spare_recorder&) = delete;

  /// The one that is kept, or a new one for so many streams.
  [[nodiscard]] std::unique_ptr<recorder> take(std::uint32_t streams);
  void give(std::unique_ptr<recorder> used) noexcept;

 private:
  std::atomic<recorder*> kept_{nullptr};
};

/// For what stands in memory of the recording.
struct destroy_in_place {
  void operator()(any_frame* frame) const noexcept { frame->~any_frame(); }
};
/// An op that runs once in each replay, always on the same lane and therefore never twice at a time.
using recorded_frame = std::unique_ptr<any_frame, destroy_in_place>;

/// What is being recorded on this thread.
class recording_session {
 public:
  /// `first`: where ops that are placed in turn begin.
  recording_session(spare_recorder& kept, std::uint32_t streams, std::uint32_t first);
  ~recording_session();
  recording_session(const recording_session&) = delete;
  recording_session& operator=(const recording_session&) = delete;

  /// Keeps the buffer. Throws usage_error for bytes that nothing wrote, not even a recorded op.
  void use(buffer_core& core, byte_range range, access kind);
  void keep(buffer_handle scratch);
  /// Of the op that wrote something of these, if that is the last one of its part.
  [[nodiscard]] std::optional<stream_id> behind(std::span<buffer_core* const> used) const;
  [[nodiscard]] std::uint32_t next() noexcept { return rotation_++; }
  recorded_place add(stream_id id, lane_id lane, std::span<const binding> bound, bool is_named,
                     recorded_frame frame);
  /// Makes an op in the recording's memory, among those of this lane.
  template <class Frame>
  [[nodiscard]] recorded_frame make(lane_id lane, typename Frame::frame&& from) {
    return recorded_frame(new (room(lane, sizeof(Frame), alignof(Frame))) Frame(std::move(from)));
  }
  /// The op of this place does that.
  void note(buffer_core& core, byte_range range, access kind, recorded_place at);
  /// All ops are there.
  [[nodiscard]] std::shared_ptr<recorded_ops> finish();

 private:
  [[nodiscard]] void* room(lane_id lane, std::size_t size, std::size_t alignment);

  struct state;
  std::unique_ptr<state> state_;
  std::uint32_t rotation_;
};

/// Makes the calling thread record, for a scope.
class inside_record {
 public:
  inside_record(const runtime_base& of, recording_session& into) noexcept {
    running_body = &label;
    recording_runtime = &of;
    session = &into;
  }
  ~inside_record() {
    running_body = nullptr;
    recording_runtime = nullptr;
    session = nullptr;
  }
  inside_record(const inside_record&) = delete;
  inside_record& operator=(const inside_record&) = delete;

  static inline constinit thread_local recording_session* session = nullptr;

 private:
  static inline const std::string label = "record";
};

}  // namespace braid::detail
