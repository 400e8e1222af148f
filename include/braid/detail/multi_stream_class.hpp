#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "braid/alignment.hpp"
#include "braid/backend.hpp"
#include "braid/detail/aligner.hpp"
#include "braid/detail/in_flight.hpp"
#include "braid/detail/multi_stream_fwd.hpp"
#include "braid/detail/op_locks.hpp"
#include "braid/detail/retire_thread.hpp"
#include "braid/detail/routine.hpp"
#include "braid/detail/slot.hpp"
#include "braid/detail/time.hpp"
#include "braid/error.hpp"
#include "braid/log.hpp"
#include "braid/op_label.hpp"
#include "braid/policies.hpp"
#include "braid/resolved_streams.hpp"
#include "braid/resource.hpp"
#include "braid/shutdown_report.hpp"
#include "braid/stream_id.hpp"
#include "braid/stream_pool.hpp"
#include "braid/stream_stats.hpp"

// multi_stream.hpp without the bodies of the members: where the library has compiled them for a backend, a
// program need not.

namespace braid {

namespace detail {
struct replay_plan;
}

/// What is not set comes from the settings of the process: environment, braid.toml, defaults.
struct multi_stream_options {
  std::optional<std::uint32_t> max_streams{};
  std::optional<std::uint32_t> special_streams{};
  std::shared_ptr<braid::logger> logger{};
  std::optional<mark_policy> marks{};
  std::optional<bool> deterministic{};
  std::optional<std::uint64_t> ops_in_flight{};    ///< 0: no limit
  std::optional<std::uint64_t> bytes_in_flight{};  ///< 0: no limit
};

template <event_stream_backend B, class Threading>
class multi_stream final : private detail::gate_keeper {
 public:
  using guard = resolved_streams<B, Threading>;

  /// Throws usage_error for 0 streams, for more than max_slots, and for settings that do not parse.
  explicit multi_stream(B backend, multi_stream_options options = {});
  /// Finishes submitted work, destroys everything retired, joins the thread; then streams and events go, then
  /// the backend. Errors that nobody asked about are logged.
  ~multi_stream();
  multi_stream(const multi_stream&) = delete;
  multi_stream& operator=(const multi_stream&) = delete;

  /// Aligns the stream with every stream whose work the bindings depend on, gives it one more op, and returns
  /// the op's guard. Makes the stream on first use. Throws usage_error for misuse, with nothing changed, and
  /// whatever the backend throws: then the op is not given, and waits already handed over stay known.
  guard resolve(stream_id id, std::span<const binding> bindings) { return open(id, nullptr, bindings); }
  guard resolve(stream_id id, std::initializer_list<binding> bindings) {
    return open(id, nullptr, {bindings.begin(), bindings.size()});
  }
  /// With a label to learn from (see op_label).
  guard resolve(stream_id id, op_label& label, std::span<const binding> bindings) {
    return open(id, &label, bindings);
  }
  guard resolve(stream_id id, op_label& label, std::initializer_list<binding> bindings) {
    return open(id, &label, {bindings.begin(), bindings.size()});
  }

  /// What resolve would do. Changes nothing, calls no backend, makes no stream.
  [[nodiscard]] alignment analyse(stream_id id, std::span<const binding> bindings) const;
  [[nodiscard]] alignment analyse(stream_id id, std::initializer_list<binding> bindings) const {
    return analyse(id, std::span<const binding>(bindings.begin(), bindings.size()));
  }

  /// How many ops the stream's slot has been given; 0 for one never used.
  [[nodiscard]] std::uint64_t cursor(stream_id id) const {
    const slot_type* s = pool_.find(id);
    return s != nullptr ? s->committed.load(std::memory_order_acquire) : 0;  // pairs with commit()
  }
  /// Up to which op of `origin` the stream has waited, directly or through others; 0 for never.
  [[nodiscard]] std::uint64_t last_synced(stream_id stream, stream_id origin) const;
  /// Calls `fn` with the first id of each other stream of this engine that it has waited for, and up to
  /// where.
  template <class F>
  void each_synced(stream_id stream, F fn) const;
  /// The streams forget what they waited for: safe, and later waits are less exact. For an engine that begins
  /// with something new. False: memory ran out, and some remember.
  [[nodiscard]] bool forget_synced() noexcept
    requires(!Threading::synchronised);

  /// Destroys the object after all work now on `after`, on a braid thread, within a millisecond or so. Never
  /// blocks. The destructor may submit and retire.
  template <class T>
  void retire(T&& object, stream_id after) {
    retire_after(detail::retired::of(std::forward<T>(object)), after);
  }

  /// Blocks until the stream's committed work is done. Throws execution_error if it failed.
  void wait(stream_id id);
  /// Likewise for all streams; waits for all of them before it throws the first error.
  void wait_all();
  /// Blocks until all accesses of the resource that were committed before the call are done.
  void wait(const resource& r);

  /// Enters an access that braid did not submit, over at `event`: whatever conflicts with the binding from
  /// now on waits for it.
  void note(const binding& b, typename B::event event);

  /// Later ops of the stream come after `event`, which is not one of braid's.
  void wait_for(stream_id id, const typename B::event& event);
  /// The stream of this id is one that braid did not make. Before its first use; throws usage_error after.
  void adopt(stream_id id, typename B::stream made);

  /// Waits up to `timeout` for submitted work and retired objects (whose destructors may still submit), and
  /// says what is stuck. If nothing is, the engine refuses ops from then on; else it goes on, and this may be
  /// called again.
  shutdown_report shutdown(std::chrono::milliseconds timeout);

  [[nodiscard]] stream_stats stats() const;
  [[nodiscard]] B& backend() noexcept { return backend_; }

  // For a runtime on top, which knows slots by their lanes.
  /// Makes the stream on first use.
  [[nodiscard]] detail::lane_id lane_of(stream_id id) {
    const slot_type* s = pool_.find_plain(id);
    return s != nullptr ? s->lane : slot_of(id).lane;
  }
  /// As resolve(), on the slot of this lane, which `id` maps to.
  guard resolve(detail::lane_id lane, stream_id id, op_label* label, std::span<const binding> bindings) {
    return resolve(pool_.lane(lane), id, label, bindings);
  }
  /// The slot of an id, if an op was given to it; null also for ids that are not their own slot's number.
  [[nodiscard]] detail::slot<B>* find_used(stream_id id) const noexcept { return pool_.find_plain(id); }
  /// As resolve(), on that slot.
  guard resolve(detail::slot<B>& on, stream_id id, op_label* label, std::span<const binding> bindings) {
    if (is_special_.load(std::memory_order_relaxed) || detail::innermost_open_op != nullptr) [[unlikely]]
      return open_slowly(id, label, bindings);
    return open_on(on, id, label, bindings);
  }
  // Of an op that is one of a routine, so that the layer above knows it again. By the routine's thread.
  /// Whether the calling thread follows a routine of this engine.
  [[nodiscard]] bool is_following() const noexcept {
    if (!follows || detail::here.number == number_) return follows;
    return detail::here.others != 0 && detail::here.missed != number_ && !detail::here.is_inside &&
           detail::turn_to_followed(number_);
  }
  /// Gives the op that is expected next, on its slot; it is open then, without a guard. False: it was not
  /// given.
  [[nodiscard]] bool follow_next(detail::slot<B>& s);
  /// Whether the op that is open on the slot is one of a routine.
  [[nodiscard]] static bool is_followed(const detail::slot<B>& s) noexcept { return s.followed != nullptr; }
  void note_open(const detail::slot<B>& s, std::unique_ptr<detail::attachment> note) noexcept;
  /// The op stays open without its guard, until commit_kept().
  [[nodiscard]] static detail::slot<B>& keep_open(guard& op) noexcept {
    op.engine_ = nullptr;
    return *op.slot_;
  }
  void commit_kept(detail::slot<B>& s) noexcept { commit(s); }
  /// The id that the slot was made for.
  [[nodiscard]] stream_id id_of(detail::lane_id lane) const noexcept { return pool_.lane(lane).first_id; }
  [[nodiscard]] typename B::stream& stream_of(detail::lane_id lane) noexcept {
    return pool_.lane(lane).stream;
  }
  [[nodiscard]] std::uint64_t cursor_of(detail::lane_id lane) const noexcept {
    return pool_.lane(lane).committed.load(std::memory_order_acquire);  // pairs with commit()
  }
  /// Of what others cannot be told of: it has to be over before they may look.
  void wait_surely(detail::lane_id lane, std::uint64_t cursor) noexcept {
    wait_surely(pool_.lane(lane), cursor);
  }
  /// Whether the op is known to be over, well or not, or turns out to be. Never blocks.
  [[nodiscard]] bool is_over(detail::lane_id lane, std::uint64_t cursor) noexcept;
  /// Likewise, without asking the backend.
  [[nodiscard]] bool is_known_over(detail::lane_id lane, std::uint64_t cursor) const noexcept {
    return pool_.lane(lane).is_complete(cursor);
  }
  /// If all that such an access comes after is the last op of one stream, which is braid's own, that stream:
  /// what is put behind it waits for nothing else.
  [[nodiscard]] std::optional<stream_id> last_on_one_stream(detail::resource_state& r, access kind,
                                                            byte_range range) const;
  /// The last op of the slot that is known to be over.
  [[nodiscard]] std::uint64_t known_over(detail::lane_id lane) const noexcept {
    return pool_.lane(lane).completed.load(std::memory_order_relaxed);
  }
  /// What the slot knows to come before its next op.
  [[nodiscard]] detail::stamp_handle knowledge_of(detail::lane_id lane) const;
  /// Blocks until the op is over. Throws execution_error if it failed.
  void wait(detail::lane_id lane, std::uint64_t cursor) {
    expect_outside_guards("wait()");
    host_wait(pool_.lane(lane), cursor);
  }
  void wait(detail::resource_state& r);
  /// As note(), also where this thread holds a guard of an op that only reads the resource.
  void note_inside_guard(const binding& b, typename B::event event);
  /// Destroys the object after the op at a point of some history, which may be foreign, on the braid thread.
  void retire(detail::retired object, const detail::point& after);
  /// The object is destroyed soon, on the braid thread.
  void post(detail::retired object) {
    retired_.fetch_add(1, std::memory_order_relaxed);  // a statistic
    retirer_.add(detail::first_foreign_lane, nullptr, std::move(object));
  }
  [[nodiscard]] bool is_deterministic() const noexcept { return deterministic_; }
  /// The resource belongs to this engine from now on. Throws usage_error if it belongs to another, or if the
  /// binding is wrong.
  void own(const binding& b) {
    locks_.check(b, 0);
    if (b.state->owner.load(std::memory_order_acquire) != arena_.get()) locks_.own(*b.state);
  }
  /// Gives a recorded sequence of ops, so many times, on streams that were used before. Calls `hand_over(span
  /// of the parts' cursors)` when the streams wait for what was before: it puts all ops on their streams and
  /// commits them. On backends with points it may throw, with nothing done; on others it may not.
  template <class HandOver>
  void replay(const detail::replay_plan& plan, std::uint64_t times, HandOver hand_over);
  // Inside hand_over(), for ops that are handed over one by one.
  /// What was handed to the lane since the last call is the op at `cursor`.
  void commit_replayed(detail::lane_id lane, std::uint64_t cursor) noexcept;
  // Where the backend has no points, the marks of those ops, taken before and given back after it: only the
  // caller knows them.
  [[nodiscard]] detail::mark<B>* take_mark(detail::lane_id lane) {
    return aligner_.take_mark(pool_.lane(lane));
  }
  void give_back_mark(detail::lane_id lane, detail::mark<B>* m) noexcept {
    aligner_.give_back_mark(pool_.lane(lane), m);
  }
  /// It stands behind the op that was committed last, from now on.
  [[gnu::always_inline]] void mark_replayed(detail::lane_id lane, std::uint64_t cursor, detail::mark<B>& m) {
    m.cursor = 0;  // if the backend throws there is none
    aligner_.flush(pool_.lane(lane).stream, m.event);
    m.cursor = cursor;
  }
  /// So many marks were recorded, of which these, in the order of their ops, serve those who come later: the
  /// ones that are kept are null then.
  void keep_replayed(detail::lane_id lane, std::span<detail::mark<B>** const> marks,
                     std::uint64_t recorded) noexcept;
  void wait_replayed(detail::lane_id lane, std::span<const detail::mark<B>* const> all);
  /// The leader's op was committed: the other parts of the plan come after it.
  void fork_parts(const detail::replay_plan& plan, std::uint64_t cursor) noexcept;
  /// What the slot was told to wait for, inside hand_over().
  [[nodiscard]] const alignment& waits_of(detail::lane_id lane) { return waits_of(pool_.lane(lane)); }

 private:
  friend class resolved_streams<B, Threading>;
  static constexpr bool sync = Threading::synchronised;
  static constexpr bool points = point_backend<B>;
  using slot_type = detail::slot<B>;
  using locked = detail::scoped_lock<sync>;
  using aligner_type = detail::aligner<B, sync>;

  struct tally {
    std::uint64_t same = 0;
    std::uint64_t known = 0;
    std::uint64_t complete = 0;
  };
  static void note(slot_type& s, const tally& seen) noexcept {
    s.elided_same_stream += seen.same;
    s.elided_known += seen.known;
    s.elided_complete += seen.complete;
  }

  /// What the slot's next op runs after, where histories keep it.
  [[nodiscard]] static detail::stamp* stamp_of(const slot_type& s) noexcept {
    return points ? s.now : nullptr;
  }
  guard open(stream_id id, op_label* label, std::span<const binding> bindings);
  [[gnu::noinline]] guard open_slowly(stream_id id, op_label* label, std::span<const binding> bindings);
  guard open_on(slot_type& s, stream_id id, op_label* label, std::span<const binding> bindings);

  // Routines: see routine.hpp.
  static constexpr bool follows = sync && !points && !aligner_type::asks;
  class routine;
  [[nodiscard]] static std::uint64_t new_number() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // only unique
  }
  [[gnu::noinline]] void begin_routine();
  bool follow(slot_type& s, stream_id id, const op_label* label, std::span<const binding> bindings);
  [[gnu::always_inline]] inline void follow_expected(routine& r, slot_type& s);
  [[gnu::noinline]] void leave_followed(routine& r) noexcept;
  [[gnu::always_inline]] inline void commit_followed(slot_type& s) noexcept;
  [[nodiscard]] bool wait_in_routine(const detail::resource_state& r);
  void observe(const slot_type& s, stream_id id, const op_label* label, std::span<const binding> bindings);
  /// What was done in routines is entered.
  void end_routines() const noexcept {
    if (follows && following_.load(std::memory_order_relaxed) != 0) detail::end_routines_of(this);
  }
  [[gnu::noinline]] void prepare(slot_type& s, stream_id id);
  [[gnu::always_inline]] inline bool give_trying(slot_type& s, op_label* label,
                                                 std::span<const binding> bindings);
  [[gnu::always_inline]] inline bool give_own(slot_type& s, std::span<const binding> bindings) noexcept;
  [[gnu::always_inline]] inline bool try_locks(slot_type& s, std::span<const binding> bindings);
  [[gnu::always_inline]] inline bool plan_for(slot_type& s, const binding& b, std::uint32_t index,
                                              tally& seen);
  [[gnu::always_inline]] inline void give_locked(slot_type& s, op_label* label,
                                                 std::span<const binding> bindings);
  [[gnu::noinline]] void back_off(slot_type& s, std::uint32_t taken) noexcept;
  [[gnu::always_inline]] inline void enter_writer(slot_type& s, detail::resource_state& r,
                                                  op_label* label) noexcept;
  [[gnu::noinline]] void give(slot_type& s, stream_id id, op_label* label, std::span<const binding> bindings);
  /// What one way has done of an op that another one goes on with.
  struct progress {
    std::uint32_t taken = 0;  // so many of the listed uses
    tally seen{};
  };
  [[gnu::always_inline]] inline bool give_plainly(slot_type& s, op_label* label,
                                                  std::span<const binding> bindings, progress& so_far);
  [[gnu::noinline]] void give_at_length(slot_type& s, op_label* label, std::span<const binding> bindings,
                                        progress& so_far);
  [[gnu::noinline]] bool give_back(slot_type& s, std::span<const binding> bindings, std::uint32_t taken,
                                   std::uint32_t entered) noexcept;
  [[gnu::noinline]] void align(slot_type& s, std::span<const binding> bindings);
  [[gnu::noinline]] void collect(slot_type& s, const binding& b, std::uint32_t index, tally& seen);
  void add_unless_complete(slot_type& s, const detail::point& p, hazard why, std::uint32_t index,
                           const binding& b);
  void enter(slot_type& s, const binding& b, op_label* label);
  [[gnu::noinline]] void note_output(slot_type& s, detail::resource_state& r, op_label* label) noexcept;
  [[gnu::noinline]] bool take_back_readers(slot_type& s, std::span<const binding> bindings) noexcept;
  void commit_without_work(slot_type& s) noexcept;
  [[gnu::noinline]] void restamp_reader(slot_type& s, const binding& b) noexcept;
  void unlock_writes(slot_type& s) noexcept;
  [[gnu::noinline]] void finish(slot_type& s) noexcept;
  void mark_adopted(slot_type& s) noexcept;
  void commit(slot_type& s) noexcept;
  const alignment& waits_of(slot_type& s) const {
    if (s.has_waits && s.aligned.empty()) aligner_.describe(s.needs, s.plan, s.aligned);
    if (s.followed != nullptr && !s.has_waits) describe_followed(s);
    return s.aligned;
  }
  void describe_followed(slot_type& s) const;
  void commit_point(slot_type& s) noexcept;
  struct replay_locks;
  void learn_from(slot_type& s, const binding& b, op_label* label) noexcept;
  bool enter_last(const detail::replay_plan& plan, std::uint64_t times, std::span<const std::uint64_t> before,
                  bool are_changed);
  void join_parts(const detail::replay_plan& plan, std::span<const std::uint64_t> before);
  void commit_replay(const detail::replay_plan& plan, std::uint64_t times,
                     std::span<const std::uint64_t> before, bool is_entered) noexcept;

  void retire_after(detail::retired object, stream_id after);
  void retire_on(slot_type& s, detail::retired object) noexcept;
  [[nodiscard]] void* gate_after(slot_type& s);

  slot_type& slot_of(stream_id id);
  std::unique_ptr<slot_type> make_slot(detail::lane_id lane, stream_id id, typename B::stream stream);
  void forget_foreign(detail::resource_state& r);
  typename B::stream& used_stream(stream_id id);
  /// Throws what the work failed with, also if somebody else was told first.
  void host_wait(slot_type& s, std::uint64_t cursor);
  void wait_until_over(slot_type& s, std::uint64_t cursor);
  void wait_surely(slot_type& s, std::uint64_t cursor) noexcept;
  std::uint64_t admit(std::span<const binding> bindings);
  [[nodiscard]] bool is_idle() const noexcept;
  void expect_outside_guards(const char* what) const;
  [[noreturn]] void throw_closed() const;
  void log_error(const char* text) noexcept;

  // Of the retire thread.
  bool is_open(void* gate) noexcept override;
  void forget(void* gate) noexcept override;
  // A gate is a mark, or, with its lowest bit set, the event of a foreign access, or, with the next one, an
  // op that no mark could be recorded for.
  using foreign_gate = std::shared_ptr<typename B::event>;
  struct unmarked_gate {
    slot_type* slot;
    std::uint64_t cursor;
  };
  template <class Gate>
  static constexpr std::uintptr_t tag_of = std::is_same_v<Gate, foreign_gate> ? 1 : 2;
  template <class Gate>
  static void* tagged(std::unique_ptr<Gate> made) noexcept {
    return reinterpret_cast<char*>(made.release()) + tag_of<Gate>;
  }
  template <class Gate>
  static Gate* as(void* gate) noexcept {
    const bool is_one = (reinterpret_cast<std::uintptr_t>(gate) & 3) == tag_of<Gate>;
    return is_one ? reinterpret_cast<Gate*>(static_cast<char*>(gate) - tag_of<Gate>) : nullptr;
  }
  // Of a question that threw: whether it says that the work is over.
  [[nodiscard]] bool is_over_after(const std::exception& e) noexcept;
  // Whether the engine's end has waited for the op, as well as that can be done.
  [[nodiscard]] static bool is_waited_out(const slot_type& s, std::uint64_t cursor) noexcept {
    return s.waited_out.load(std::memory_order_relaxed) >= cursor;
  }
  void strand(void* gate, detail::retired object, const char* why) noexcept;

  // Destroyed in the opposite order: the thread first, then streams and events, then the stamps that they
  // refer to (unless a resource is left), then the backend.
  B backend_;
  std::shared_ptr<logger> log_;
  detail::arena_handle arena_;
  detail::stamp_pool& foreign_stamps_;
  stream_pool<slot_type> pool_;
  const mark_policy marks_;
  const bool deterministic_;
  const std::uint64_t number_ = new_number();
  std::atomic<std::uint32_t> following_{0};  // routines; orders nothing
  aligner_type aligner_;
  detail::op_locks<B, sync> locks_;
  std::unique_ptr<detail::in_flight> in_flight_;  // where a limit is set
  std::atomic<bool> is_special_{false};           // limited or closed: every op has to look closer
  std::atomic<bool> closed_{false};
  std::atomic<bool> is_ending_{
      false};  // foreign accesses that can be waited for were; read by the retire thread
  std::atomic<std::uint64_t> retired_{0};
  std::atomic<std::uint64_t> errors_{0};
  std::atomic<std::uint64_t> capacity_waits_{0};
  std::mutex stranded_mutex_;
  std::vector<detail::retired> stranded_;  // retired, but no event could be recorded for them
  detail::retire_thread retirer_;
};

}  // namespace braid
