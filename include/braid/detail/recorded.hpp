#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "braid/alignment.hpp"
#include "braid/detail/buffer_core.hpp"
#include "braid/detail/recorder.hpp"
#include "braid/detail/recording_session.hpp"
#include "braid/detail/runtime_base.hpp"
#include "braid/detail/shared_marks.hpp"

namespace braid::detail {

/// Some of all waits: those of an op in the first of several sequences that follow each other, or in another.
struct recorded_waits {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// An op, as the stream that runs it sees it.
struct recorded_op {
  any_frame* frame;
  std::uint32_t number;  // in the sequence, from 0
  bool is_awaited;       // by an op of another part, perhaps of the sequence that follows
  bool is_last;          // what comes after may wait for it
  recorded_waits once;
  recorded_waits again;
  std::uint32_t first_read = 0;  // among `reads`, if it waits
  std::uint32_t reads = 0;
};

/// Each wait's binding becomes the one of `bound` with its resource; one past the end if there is none.
void find_bindings(std::vector<stream_wait>& waits, std::span<const binding> bound) noexcept;

/// The ops of a recording.
struct recorded_ops {
  replay_plan plan;
  std::vector<std::vector<recorded_op>> parts;
  std::vector<std::size_t> begins;           // of the parts, among all ops
  std::vector<recorder::wait> waits;         // of all ops
  std::vector<std::uint32_t> awaited_marks;  // of each wait, the mark
  std::vector<std::uint32_t> mark_parts;     // of each mark, its part
  /// The marks that may serve those who come after the sequence: of each part the newest, in their order.
  std::vector<std::uint32_t> last_marks;
  std::size_t inner_waits = 0;  // of these, in a first sequence
  /// Where the memory begins that ops read which wait for others, up to some of each: it may be in another
  /// core's caches.
  std::vector<const std::byte*> reads;

  struct described {  // for traces, and for backends that get one op after the other
    recorded_place at;
    recorded_waits once;
    recorded_waits again;
    bool is_named = false;
    recorded_frame frame;
    std::uint32_t mark = shared_marks::none;  // that it records, where events are waited for
  };
  std::shared_ptr<void> memory;  // of the frames
  std::vector<described> sequence;
  std::vector<buffer_handle> buffers;                        // that the ops use
  std::vector<std::pair<buffer_core*, byte_range>> written;  // of the buffers

  [[nodiscard]] std::span<const recorder::wait> waits_of(const described& op, bool is_first) const noexcept {
    const recorded_waits& some = is_first ? op.once : op.again;
    return {waits.data() + some.first, some.count};
  }
  /// Where the op stands among all, part after part; also one of the sequence before.
  [[nodiscard]] std::size_t place_of(const recorded_place& at) const noexcept {
    const std::int64_t size = static_cast<std::int64_t>(parts[at.part].size());
    return begins[at.part] + static_cast<std::size_t>((at.index > 0 ? at.index : at.index + size) - 1);
  }
  /// The mark of the op that is waited for.
  [[nodiscard]] std::uint32_t awaited_mark(const recorder::wait& of) const noexcept {
    return awaited_marks[static_cast<std::size_t>(&of - waits.data())];
  }
  [[nodiscard]] bool is_awaited(const recorded_place& at) const noexcept {
    return parts[at.part][static_cast<std::size_t>(at.index) - 1].is_awaited;
  }
  /// Where all ops are one command, which runs on the stream of the first. The program's streams take part.
  [[nodiscard]] replay_plan as_one_command() const;
  /// "replay of 9 ops: join, fork"
  [[nodiscard]] std::string name() const;
  /// The order that ops which are given now come after, and what is known when they were: the last one's.
  [[nodiscard]] std::uint64_t order_before() const noexcept;
  void note_given(std::uint64_t last_order) const;
  /// All ops are there: sorts them by parts.
  void finish(recorder& analysis);
  /// Then, where events are waited for: which marks the ops record.
  void assign_marks();
};

}  // namespace braid::detail
