#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "braid/detail/lock.hpp"
#include "braid/hazard.hpp"
#include "braid/op_label.hpp"
#include "braid/resource.hpp"
#include "braid/stream_id.hpp"

// A routine is a sequence of ops that a thread gives again and again.
//
// While it is followed, its ops are not analysed: the waits between them were found once, and hold for each
// round. The slots and the written resources of the routine stay locked by it from one op to the next; one
// lock, its own, stands for all of them. Whoever else comes for one of these locks ends the routine, and so
// does its thread with any other op: then what the rounds did is entered into clocks and histories, and
// nobody can tell that there was one. Resources that it only reads are not held: a standing reader in their
// histories keeps writers off, who end the routine when they meet it.
//
// Here are the parts that know no backend: how a routine is noticed, what its ops wait for, and how those who
// come for a lock find it. See multi_stream_routine.hpp and multi_stream_follow.hpp for the rest.

namespace braid::detail {

/// The cursor of a standing reader: it is never committed.
constexpr std::uint64_t standing_cursor = (std::uint64_t{1} << 48) - 1;

/// Resources whose end somebody has to learn of. Who looks at them has seen, under the registry's mutex, that
/// none has gone.
class noted_resources {
 public:
  noted_resources() = default;
  ~noted_resources();
  noted_resources(const noted_resources&) = delete;
  noted_resources& operator=(const noted_resources&) = delete;
  /// They are alive: an op on them is open.
  void add(std::span<const binding> bindings);
  void clear() noexcept;
  /// A hint: one may go right after.
  [[nodiscard]] bool has_all() const noexcept;

 private:
  friend struct routine_registry;
  void let_go() noexcept;  // under the registry's mutex
  std::vector<resource_state*> all_;
  bool is_one_gone_ = false;  // then none is noted any more
};

/// Notices that the ops of a thread repeat themselves, and takes down one round of them. Used by one thread.
class routine_finder {
 public:
  static constexpr std::uint32_t longest = 2048;        // ops of a round,
  static constexpr std::uint32_t most_bindings = 8192;  // and of all of them

  struct op {
    void* slot;
    stream_id id;
    const op_label* label;
    std::uint64_t cursor;
    std::uint32_t first;  // of its bindings
    std::uint32_t count;
  };

  /// An op was given. `number`: of its engine; ops of another one begin anew.
  void note(std::uint64_t number, const op& given, std::span<const binding> bindings) {
    if (number != number_) [[unlikely]]
      begin_anew(number);
    if (rest_ != 0) {
      --rest_;
      return;
    }
    look(given, bindings);
  }
  /// Whether `ops()` are a round that came twice before, and the next op is expected to be the first of it.
  [[nodiscard]] bool is_ready() const noexcept { return is_ready_; }
  [[nodiscard]] bool is_of(std::uint64_t number) const noexcept { return number_ == number; }
  [[nodiscard]] std::span<const op> ops() const noexcept { return ops_; }
  [[nodiscard]] std::span<const binding> bindings_of(const op& o) const noexcept {
    return {bindings_.data() + o.first, o.count};
  }
  [[nodiscard]] const noted_resources& resources() const noexcept { return noted_; }
  /// Begins anew, after so many more ops.
  void forget(std::uint32_t rest = 0) noexcept;
  /// A routine of so many ops a round and so many streams lasted for some ops: if it was not worth its
  /// beginning and its end, the next one is not looked for at once.
  void note_end(std::uint64_t ops, std::uint64_t round = 0, std::uint64_t streams = 0) noexcept;

 private:
  void drop_round() noexcept;
  void begin_anew(std::uint64_t number) noexcept;
  void look(const op& given, std::span<const binding> bindings);
  /// An op did not repeat what came before: after many of them there is a rest.
  void note_other() noexcept;

  std::uint32_t rest_ = 0;
  bool is_ready_ = false;
  bool is_taking_down_ = false;
  std::uint32_t period_ = 0;  // of the last `run_` ops
  std::uint32_t run_ = 0;
  std::uint32_t others_ = 0;  // ops that were not as a period before
  std::uint32_t penalty_ = 0;
  std::uint32_t last_rest_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t at_ = 0;
  std::uint64_t before_ = 0;           // the hash of the op before
  std::vector<std::uint64_t> keys_;    // of the last ops
  std::vector<std::uint64_t> places_;  // by a part of the key: which op had it last
  std::vector<op> ops_;
  std::vector<binding> bindings_;
  noted_resources noted_;  // of the bindings
};

/// What the ops of a routine wait for, in a round that follows on another one: the same in all of them.
class routine_plan {
 public:
  struct use {
    std::uint32_t resource;
    access kind;  // not accumulate
  };
  struct wait {
    std::uint32_t op;    // that is waited for,
    std::uint32_t back;  // of this round, or 1: of the one before
    std::uint32_t binding;
    hazard why;
    bool is_implied;  // by another one: it is not waited for
  };
  struct op {
    std::uint32_t part;  // which stream
    std::uint32_t rank;  // in its part: 1 for the first
    std::vector<use> uses;
    std::vector<wait> shared;  // all that it needs and does not know,
    std::vector<wait> waits;   // and of each stream the newest of those
    std::uint32_t same = 0;    // needs that were of its own stream,
    std::uint32_t known = 0;   // or known
    bool is_awaited = false;
    bool is_awaited_later = false;     // in the round after
    std::uint32_t mark = 0;            // which of the marks it records, if it is awaited
    std::vector<std::int64_t> knew{};  // if it is awaited later: as `routine_plan::known`, by part
  };
  /// What a resource was last used by: ops of the last round.
  struct resource {
    std::vector<std::uint32_t> last;
    std::vector<std::uint32_t> readers;  // since; one for each part
    bool is_written = false;
  };

  /// `ops` with their parts, ranks and uses. False if their waits do not become the same in each round, or
  /// reach back by more than one.
  bool analyse(std::vector<op> ops, std::uint32_t parts, std::uint32_t resources);

  std::vector<op> ops;
  std::vector<resource> resources;
  std::vector<std::uint32_t> lengths;  // ops of each part
  /// By part and part: up to which op of the other one, counted back from the end of the round (0: its last
  /// op), this one knows at the end of a round; never: nothing.
  static constexpr std::int64_t never = INT64_MAX;
  std::vector<std::int64_t> known;
  /// After so many rounds all of that comes from waits of these rounds, and what a part knew before has come
  /// to all parts that wait for it, directly or through others.
  [[nodiscard]] static constexpr std::uint64_t settled_after(std::uint64_t parts) noexcept {
    return 2 * parts + 5;
  }
  /// Of each mark: its part. A mark is recorded again when all who wait for it have been told to.
  std::vector<std::uint32_t> marks;

 private:
  struct analysis;
  void assign_marks();
};

/// A routine that is followed, for those who come for what it holds.
class routine_base {
 public:
  routine_base() = default;
  virtual ~routine_base() = default;
  routine_base(const routine_base&) = delete;
  routine_base& operator=(const routine_base&) = delete;

  [[nodiscard]] virtual bool holds(const spin_lock& lock) const noexcept = 0;
  [[nodiscard]] virtual bool uses(const resource_state& state) const noexcept = 0;
  [[nodiscard]] virtual bool is_of(const void* engine) const noexcept = 0;
  /// Whether it can be followed from now on. Waits for nobody. Under the registry's mutex.
  [[nodiscard]] virtual bool begin() = 0;
  /// Ends it, if it is still followed: on any thread, also inside one of its ops.
  virtual void end() noexcept = 0;
  /// What was noted with the next op, if anything was.
  [[nodiscard]] virtual attachment* noted() const noexcept = 0;
  /// A hint: whether it has ended.
  [[nodiscard]] bool is_over() const noexcept { return is_over_.load(std::memory_order_relaxed); }

 protected:
  std::atomic<bool> is_over_{false};
};

/// Begins it, if all resources are there: whoever comes for what it holds finds it then.
[[nodiscard]] bool begin_routine(const std::shared_ptr<routine_base>& routine,
                                 const noted_resources& resources);
void leave_routine(const routine_base& routine) noexcept;
void end_routine_of(const spin_lock& lock) noexcept;
/// Also before the resource goes, or changes otherwise than by an op.
void end_routines_of(const resource_state& state) noexcept;
void end_routines_of(const void* engine) noexcept;
void end_all_routines() noexcept;

/// What the calling thread follows: one routine an engine, of a few engines.
struct routine_here {
  std::uint64_t number = 0;  // of the engine that it was last used with; 0: none is followed there
  routine_base* followed = nullptr;
  attachment* expected = nullptr;  // noted with its next op; null also while one of its ops is open
  routine_finder* finder = nullptr;
  std::uint32_t others = 0;  // that are followed elsewhere,
  std::uint64_t missed = 0;  // but not with this engine
  bool is_inside = false;    // one of its ops is open
  bool is_ready = false;     // as the finder says
  bool is_ending = false;    // the thread: nothing is kept any more
};
alignas(64) extern constinit thread_local routine_here here;
/// Ends the routine that an open op of this thread is one of: the op goes on as any other. Before the thread
/// waits for a lock of another engine, whose holder may wait for what the routine keeps.
inline void end_routine_inside() noexcept {
  if (here.is_inside) here.followed->end();
}
/// Made at first use, and kept until the thread ends: then null.
routine_finder* make_finder();
/// It is the one that is followed with this engine from now on.
void keep_followed(std::uint64_t number, std::shared_ptr<routine_base> routine);
/// The one that is followed here is not followed any more.
void forget_followed() noexcept;
/// Turns to the one that is followed with this engine, if there is one.
[[nodiscard]] bool turn_to_followed(std::uint64_t number) noexcept;

}  // namespace braid::detail
