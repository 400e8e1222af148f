#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "braid/detail/history.hpp"
#include "braid/detail/lock.hpp"
#include "braid/op_label.hpp"

namespace braid::detail {

/// What a layer above the engine keeps with a resource: dies with it.
struct attachment {
  virtual ~attachment() = default;
};

/// What a resource handle refers to.
///
/// `lock` guards everything from `owner` to `past`. A writer holds it from resolve to commit. A reader
/// holds it only to enter itself among the readers: while its op is not committed (its slot's committed
/// cursor is below its point) that entry is what keeps writers off, so readers never keep each other
/// waiting and give nothing back. See detail/op_locks.hpp.
struct alignas(64) resource_state {
  resource_state(std::uint64_t bytes, std::string text);
  ~resource_state();
  resource_state(const resource_state&) = delete;
  resource_state& operator=(const resource_state&) = delete;

  // What an op looks at stands first, in two cache lines.
  spin_lock lock;
  std::atomic<std::uint16_t> writers_waiting{0};  // new readers stay off while it is not 0
  bool handed_on = false;
  std::uint8_t crossed : 1 = 0;              // since the last write, a slot met an access of another one here
  std::uint8_t score : 7 = 0;                // above 0: other slots tend to need what is done here
  std::atomic<stamp_arena*> owner{nullptr};  // the engine's; set once, by the first op
  op_label* writer = nullptr;
  history past;

  std::uint64_t size;
  std::uint64_t id;
  std::atomic<std::uint32_t> refs{1};
  std::string name;
  std::atomic<attachment*> attached{nullptr};  // set once, by the layer above
  // That use it, or may: taken back, with release, when they do not any more.
  std::atomic<std::uint32_t> routines{0};
  // Memory for one op, which goes back to its pool while a routine would go on with it: no routine uses it.
  bool is_passing = false;

  /// Learns from what became of the last write, and starts the next.
  void note_written(op_label* by) noexcept {
    if (writer != nullptr && crossed == 0) writer->learn(false);
    if (crossed != 0) {
      score = 2;
      crossed = 0;
    } else if (score > 0) {
      --score;
    }
    writer = by;
  }
  /// Whether note_written() would change nothing but the writer, and nothing asks for an early mark.
  [[nodiscard, gnu::always_inline]] bool is_quiet() const noexcept {
    return crossed == 0 && score == 0 && (writer == nullptr || !writer->is_likely_shared());
  }
  void note_crossed() noexcept {
    crossed = 1;
    if (writer != nullptr) writer->learn(true);
  }
};

/// The last handle is gone: deletes the state, or leaves that to the guard of this thread that uses it.
void dispose(resource_state* state) noexcept;

inline void retain(resource_state* state) noexcept {
  state->refs.fetch_add(1, std::memory_order_relaxed);  // the caller holds a handle
}
inline void release(resource_state* state) noexcept {
  // acq_rel: the deleter sees what every other holder did
  if (state->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) dispose(state);
}

/// The guards that the calling thread holds, innermost first. A slot is one while its op is open.
struct open_op {
  const void* engine = nullptr;
  open_op* outer = nullptr;
  [[nodiscard]] virtual bool uses(const resource_state* state) const noexcept = 0;
  /// Deletes the state when the op is committed.
  virtual void adopt(resource_state* state) noexcept = 0;

 protected:
  ~open_op() = default;
};

extern constinit thread_local open_op* innermost_open_op;

/// The op is not open any more. Mostly it is the innermost one; guards of several engines end in any order.
inline void leave_open_op(open_op& op) noexcept {
  open_op** at = &innermost_open_op;
  while (*at != &op) at = &(*at)->outer;
  *at = op.outer;
}

[[nodiscard]] inline bool is_inside_guard_of(const void* engine) noexcept {
  for (const open_op* op = innermost_open_op; op != nullptr; op = op->outer) {
    if (op->engine == engine) return true;
  }
  return false;
}

}  // namespace braid::detail
