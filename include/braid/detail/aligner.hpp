#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "braid/alignment.hpp"
#include "braid/detail/foreign_lanes.hpp"
#include "braid/detail/slot.hpp"
#include "braid/detail/stamp_pool.hpp"
#include "braid/error.hpp"
#include "braid/log.hpp"
#include "braid/policies.hpp"
#include "braid/stream_pool.hpp"

// From the points that an op needs to the waits that its stream is told to make.
//
// Needs of one origin become one, for its newest cursor. On backends with events each then gets the oldest
// kept mark that covers it, or, where none does, one to be recorded at the origin's tail. A need is removed
// if it is complete, or if what another need that stays will be waited on brings it along: one at a time, so
// that no two remove each other. What stays is waited for in the order of the lanes, and learned.
//
// Called by the holder of the slot's lock. Takes the list lock of one slot at a time and holds it while it
// records there, never while it waits.

namespace braid::detail {

/// Says who waits on whom, and at the full level why.
void log_wait(logger& log, stream_id waiting, std::uint64_t cursor, const stream_wait& wait,
              const std::string& resource);

/// An access that braid did not submit, known by its event. Kept while a history refers to its stamp.
template <class B>
struct foreign_access {
  stamp* by;
  std::shared_ptr<typename B::event> event;
};

template <class B, bool Synchronised>
class aligner {
 public:
  static constexpr bool points = point_backend<B>;
  /// Whether an event is asked before it is waited for.
  static constexpr bool asks = !points && !requires { B::asks_as_dearly_as_it_waits; };
  using slot_type = slot<B>;
  using planned = planned_wait<B>;
  using locked = scoped_lock<Synchronised>;

  aligner(B& backend, stream_pool<slot_type>& pool, logger& log, mark_policy policy, bool deterministic)
      : backend_(backend), pool_(pool), log_(log), policy_(policy), deterministic_(deterministic) {}

  /// Makes `s` wait for all of its needs. If the backend throws, what was handed over stays known.
  void align(slot_type& s) {
    group(s.needs, s.plan);
    align_planned(s);
  }

  /// Likewise, where the needs have been planned for one by one.
  [[gnu::always_inline]] void align_planned(slot_type& s) {
    if constexpr (!points && !waits_at_once<B>) {
      if (s.plan.size() == 1 && !is_foreign(s.plan.front().n.lane)) return align_with(s, s.plan.front());
    }
    publish_at_exit published{*this, s};
    choose(s);
    s.elided_implied += remove_implied(s.plan);
    if constexpr (waits_at_once<B>) {
      wait_at_once(s);
      for (planned& p : s.plan) {
        if (p.removed) continue;
        learn(s, p);
        published.note(p);
      }
    } else {
      for (planned& p : s.plan) {
        if (p.removed) continue;
        record_before_wait(s);
        hand_over(s, p);
        learn(s, p);
        published.note(p);
      }
    }
    published.is_done = true;
  }

  /// Likewise, where there is one origin, which is what most ops meet that wait.
  [[gnu::always_inline]] void align_with(slot_type& s, planned& p) {
    struct dropped_at_exit {
      aligner& self;
      slot_type& s;
      planned& p;
      bool is_done = false;
      ~dropped_at_exit() {
        if (!is_done) [[unlikely]]
          self.let_go(s, p);
        drop(p);
      }
    } at_exit{*this, s, p};
    if (is_over_already(s, pool_.lane(p.n.lane), p)) {
      p.removed = true;
      ++s.elided_complete;
    } else {
      record_before_wait(s);
      backend_.wait_event(s.stream, mark_for(s, p).recorded());
      learn(s, p);
      publish(s, {p.reached, p.n.lane});
    }
    at_exit.is_done = true;
  }

  /// The op that the slot's plan was for will not be committed, though its stream waits.
  void let_go(slot_type& s) noexcept {
    for (const planned& p : s.plan) let_go(s, p);
  }

  /// One entry an origin, in the order of the lanes, for its newest cursor and the first binding that needs
  /// it.
  [[gnu::always_inline]] static void add_to(std::vector<planned>& plan, const need& n) {
    if (plan.empty() || plan.back().n.lane < n.lane) {
      plan.emplace_back(n);
      return;
    }
    const std::size_t at = place_of(plan, n.lane);
    if (plan[at].n.lane != n.lane) {
      plan.emplace_back(plan.back().n);
      for (std::size_t i = plan.size() - 2; i > at; --i) plan[i].n = plan[i - 1].n;
      plan[at].n = n;
    } else if (need& known = plan[at].n;
               known.cursor < n.cursor || (known.cursor == n.cursor && n.binding < known.binding)) {
      known = n;
    }
  }

  /// What align() would do. Nothing changes; no backend is called.
  alignment preview(std::vector<need> needs) const {
    std::vector<planned> plan;
    group(needs, plan);
    for (planned& p : plan) {
      if (is_foreign(p.n.lane)) continue;
      slot_type& origin = pool_.lane(p.n.lane);
      if (!deterministic_ && origin.is_complete(p.n.cursor)) {
        p.removed = true;
        continue;
      }
      find(origin, p, nullptr);
    }
    remove_implied(plan);
    alignment a;
    describe(needs, plan, a);
    for (planned& p : plan) drop(p);
    return a;
  }

  /// What was grouped and planned, in words. Sorts the needs.
  void describe(std::vector<need>& needs, const std::vector<planned>& plan, alignment& a) const {
    sort(needs);
    for (std::size_t i = 0; i < needs.size(); ++i) {
      const need& n = needs[i];
      if (i > 0 && needs[i - 1].lane == n.lane && needs[i - 1].binding == n.binding) continue;  // older
      a.shared.push_back({id_of(n), n.cursor, n.binding, resource_of(n), n.why});
    }
    for (const planned& p : plan) {
      if (!p.removed) a.waits.push_back(describe(p));
    }
  }

  /// Records a mark for the slot's last op unless there is one.
  void record_early(slot_type& s) {
    if constexpr (!points) {
      if (s.marked.load(std::memory_order_relaxed) >= s.committed.load(std::memory_order_relaxed)) return;
      const locked lock(s.list_lock);
      record(s);
      ++s.marks_early;
    }
  }

  /// Makes what the slot has learned visible to others; with points leave_before() is to be called then.
  /// `from`: where all that it has learned since the last time comes from, if that is one mark.
  /// False: memory ran out, and others go on with what the slot knew before.
  bool publish(slot_type& s, clock_entry from = {}) noexcept {
    const locked lock(s.list_lock);
    try {
      stamp* old = std::exchange(s.now, s.stamps.make_current(s.known, from, s.published));
      s.published = s.cursor;
      if constexpr (points) {
        if (stamp* older = std::exchange(s.before, old)) older->leave();
      } else {
        old->leave_to_marks();
      }
      return true;
    } catch (const std::bad_alloc&) {
      ++s.errors;  // what was known before is less, and therefore safe
      return false;
    }
  }

  /// A mark that covers `cursor`, held for the caller; recorded if there is none.
  mark<B>* hold_mark(slot_type& origin, std::uint64_t cursor) {
    const locked lock(origin.list_lock);
    mark<B>* m = origin.marks.covering(cursor);
    if (m == nullptr) m = record_late(origin);
    m->retain();
    return m;
  }

  /// A mark that only the caller knows, until he keeps it for others or gives it back.
  mark<B>* take_mark(slot_type& of) {
    const locked lock(of.list_lock);
    mark<B>* const m = of.marks.take();
    m->cursor = 0;
    m->clock = nullptr;
    return m;
  }
  void give_back_mark(slot_type& of, mark<B>* m) noexcept {
    const locked lock(of.list_lock);
    of.marks.give_back(m);
  }
  /// Whether it would serve those who come later: no newer one does. Under the list lock, as keep_mark().
  [[nodiscard]] static bool is_worth_keeping(const slot_type& of, const mark<B>& m) noexcept {
    return m.cursor > of.marked.load(std::memory_order_relaxed);
  }
  /// It serves those who come later. `known`: what its op knew, held for the mark.
  static void keep_mark(slot_type& of, mark<B>* m, stamp* known) noexcept {
    m->clock = known;
    of.marks.add(m);
    of.marked.store(m->cursor, std::memory_order_relaxed);  // as in record()
  }

  /// Whether the op at `cursor`, which was handed over, is over. Records a mark if there is none to ask.
  bool is_known_complete(slot_type& origin, std::uint64_t cursor) {
    if (origin.is_complete(cursor)) return true;
    if constexpr (queries_points<B>) {
      try {
        if (!backend_.is_point_complete(origin.stream, cursor)) return false;
      } catch (const execution_error& e) {
        log_failure(origin, e);  // over, if not well
        keep_failure(origin, cursor);
      }
      origin.raise_completed(cursor);
      return true;
    } else {
      mark<B>* m = hold_mark(origin, cursor);
      const bool complete = is_mark_complete(origin, *m);
      m->release();
      return complete;
    }
  }

  /// The mark was seen to be complete, and so is all that it covers.
  void note_complete(const mark<B>& m) noexcept {
    note_over(m.clock->lane(), m.cursor);
    for (const clock_entry& e : m.clock->entries()) {
      if (!is_foreign(e.lane)) note_over(e.lane, e.cursor);
    }
  }
  /// Whether an event that was asked for, or waited for, and threw is over: it has failed.
  [[nodiscard]] bool is_over_if_it_throws() const noexcept {
    if constexpr (requires { B::events_fail_with_the_device; }) {
      return backend_.failure() != nullptr;
    } else {
      return true;
    }
  }
  /// Its event could not be asked: if that may be because of the event it is recorded again, where it reaches
  /// further, and can be asked later. Not on a stream of the program's, which may be captured by now.
  void record_again([[maybe_unused]] mark<B>& m) noexcept {
    if constexpr (requires { B::events_fail_with_the_device; }) {
      slot_type& origin = pool_.lane(m.clock->lane());
      if (origin.is_adopted) return;
      try {
        const locked lock(origin.list_lock);
        flush(origin.stream, m.event);
      } catch (const std::exception& e) {
        log_.write(log_area::errors, log_level::basic, e.what());  // the next who asks tries again
      }
    }
  }

  /// The op at `cursor` has failed with the exception that is handled now, which somebody was told who does
  /// not wait for it: who does will be told as well.
  /// `is_new`: nobody else can have told. Else, who waited has told before he noted that the op is over.
  static void keep_failure(slot_type& origin, std::uint64_t cursor, bool is_new = false) noexcept {
    const locked lock(origin.list_lock);
    if (origin.failure || (!is_new && origin.is_complete(cursor))) return;
    origin.failure = std::current_exception();
    origin.failed_at = cursor;
    origin.has_failed.store(true, std::memory_order_release);  // pairs with host_wait()
  }
  /// The failure that was kept, if the op at `cursor` comes after it; once.
  [[nodiscard]] static std::exception_ptr take_failure(slot_type& origin, std::uint64_t cursor) noexcept {
    const locked lock(origin.list_lock);
    if (origin.failed_at > cursor) return nullptr;
    origin.has_failed.store(false, std::memory_order_relaxed);
    return std::exchange(origin.failure, nullptr);
  }
  static void tell_failure(slot_type& origin, std::uint64_t cursor) {
    if (const std::exception_ptr why = take_failure(origin, cursor)) std::rethrow_exception(why);
  }

  struct foreign_point {
    stamp* by;  // held for the caller until a history holds it
    std::uint64_t cursor;
  };
  /// Enters a foreign access, which has a lane of its own.
  foreign_point add_foreign(stamp_pool& stamps, typename B::event event) {
    const std::scoped_lock lock(foreign_mutex_);
    std::erase_if(foreign_, [](const foreign_access<B>& f) {
      if (!f.by->is_held_once()) return false;
      f.by->release();
      return true;
    });
    auto kept = std::make_shared<typename B::event>(std::move(event));
    foreign_.reserve(foreign_.size() + 1);
    const clock_entry point = foreign_lanes_.take([&](lane_id lane) { return has_foreign(lane); });
    stamp* by = stamps.make_named(point.lane);
    foreign_.push_back({by, std::move(kept)});
    by->retain();
    return {by, point.cursor};
  }
  /// Blocks until all of them are over, but for those that cannot be waited for.
  void wait_for_foreign() {
    std::vector<std::shared_ptr<typename B::event>> events;
    {
      const std::scoped_lock lock(foreign_mutex_);
      for (const foreign_access<B>& f : foreign_) events.push_back(f.event);
    }
    for (const auto& event : events) {
      try {
        backend_.wait_event_sync(*event);
      } catch (const std::exception& e) {
        log_.write(log_area::errors, log_level::basic, e.what());
      }
    }
  }
  void release_foreign() noexcept {
    for (const foreign_access<B>& f : foreign_) f.by->release();
    foreign_.clear();
  }
  [[nodiscard]] std::shared_ptr<typename B::event> foreign_event(lane_id lane) const {
    const std::scoped_lock lock(foreign_mutex_);
    for (const foreign_access<B>& f : foreign_) {
      if (f.by->lane() == lane) return f.event;
    }
    return nullptr;
  }

  /// Records an event. A mark that is used again has its event still.
  void flush(typename B::stream& stream, std::optional<typename B::event>& event) {
    if constexpr (requires { backend_.flush_again(stream, *event); }) {
      if (event.has_value()) return backend_.flush_again(stream, *event);
    }
    event.emplace(backend_.flush(stream));
  }

 private:
  [[nodiscard]] bool has_foreign(lane_id lane) const noexcept {  // under the mutex
    return std::any_of(foreign_.begin(), foreign_.end(),
                       [&](const foreign_access<B>& f) { return f.by->lane() == lane; });
  }

  // Makes what the slot learned visible to others, also when a later wait throws.
  struct publish_at_exit {
    aligner& self;
    slot_type& s;
    unsigned learned = 0;
    bool is_done = false;
    clock_entry from{};  // the last one

    void note(const planned& p) noexcept {
      ++learned;
      from = {p.reached, p.n.lane};
    }
    ~publish_at_exit() {
      for (planned& p : s.plan) {
        if (!is_done) [[unlikely]]
          self.let_go(s, p);
        drop(p);
      }
      if (learned != 0) self.publish(s, learned == 1 && !points ? from : clock_entry{});
    }
  };

  static void drop(planned& p) noexcept {
    if constexpr (!points) {
      if (p.m != nullptr) {
        if (!p.is_counted) [[likely]]
          return;  // held until the op is committed, or let_go()
        p.m->release();
      } else if (p.clock != nullptr) {
        p.clock->release();
      }
    }
    p.m = nullptr;
    p.clock = nullptr;
  }

  // The op will not be committed, which is what its mark waits for.
  void let_go(const slot_type& s, const planned& p) noexcept {
    if constexpr (!points && Synchronised) {
      if (p.m == nullptr || p.is_counted) return;
      const locked lock(pool_.lane(p.n.lane).list_lock);
      p.m->let_go(s.committed);
    }
  }

  static void group(const std::vector<need>& needs, std::vector<planned>& plan) {
    plan.clear();
    for (const need& n : needs) add_to(plan, n);
  }
  // Where the lane stands, or belongs. Needs come in the order of lanes for the most part, or are few.
  static std::size_t place_of(const std::vector<planned>& plan, lane_id lane) noexcept {
    constexpr std::size_t few = 16;
    std::size_t below = 0;  // places before this one are of lower lanes
    std::size_t at = plan.size();
    while (at - below > few && plan[at - 1].n.lane >= lane) {
      const std::size_t middle = below + (at - below) / 2;
      (plan[middle].n.lane < lane ? below : at) = middle;
    }
    while (at > below && plan[at - 1].n.lane >= lane) --at;
    return at;
  }

  [[nodiscard]] static std::uint64_t resource_of(const need& n) noexcept {
    return n.resource != nullptr ? n.resource->id : 0;
  }
  [[nodiscard]] stream_id id_of(const need& n) const {
    if (is_foreign(n.lane)) return stream_id::special(index_of(n.lane));
    slot_type& origin = pool_.lane(n.lane);
    if (!origin.has_many_ids.load(std::memory_order_relaxed)) return origin.first_id;  // the op was committed
    const locked lock(origin.list_lock);
    return origin.id_at(n.cursor);
  }

  // What is to be waited for, and what that teaches. On points the needs hold their stamps. `by`: whose op is
  // being given; null: nobody's.
  void find(slot_type& origin, planned& p, const slot_type* by) const {
    if constexpr (points) {
      p.clock = p.n.by;
      p.reached = p.n.cursor;
    } else {
      const locked lock(origin.list_lock);
      find_mark(origin, p, by);
    }
  }

  // Under the origin's list lock.
  void find_mark(slot_type& origin, planned& p, const slot_type* by) const {
    if (mark<B>* m = origin.marks.covering(p.n.cursor)) {
      take(p, m, by);
    } else {
      p.reached = origin.committed.load(std::memory_order_acquire);  // before the clock: see record()
      p.clock = origin.now;
      p.clock->retain_under_list_lock();
    }
    p.is_news = origin.learned < p.n.cursor;
    origin.note_learned(p.reached);
  }

  // As find(). What no clock knows is implied by nothing and will be waited for: the mark that it needs is
  // recorded at once. So the marks of a join are recorded one after the other, and then waited for likewise,
  // which finds the driver's code in the cache.
  void find_or_record(slot_type& origin, planned& p, const slot_type& by) {
    const locked lock(origin.list_lock);
    if (origin.learned < p.n.cursor && origin.marks.covering(p.n.cursor) == nullptr) {
      take(p, record(origin), &by);
      p.is_news = p.is_recorded = true;
      origin.note_learned(p.reached);
    } else {
      find_mark(origin, p, &by);
    }
  }
  // The mark stays as it is until the op is committed, or is counted. Under the origin's list lock.
  static void take(planned& p, mark<B>* m, const slot_type* by) noexcept {
    p.m = m;
    if constexpr (Synchronised) {
      p.is_counted = by == nullptr || !m->hold_until(by->committed, by->cursor);
      if (p.is_counted) [[unlikely]]
        m->retain();
    }
    p.reached = m->cursor;
  }

  void choose(slot_type& s) {
    for (planned& p : s.plan) {
      if (is_foreign(p.n.lane)) continue;
      slot_type& origin = pool_.lane(p.n.lane);
      if (is_over_already(s, origin, p)) {
        p.removed = true;
        ++s.elided_complete;
      }
    }
    if (!asks || deterministic_ || s.plan.size() < 2) return;
    // An answer about one origin may have told of others before it in the plan.
    for (planned& p : s.plan) {
      if (p.removed || is_foreign(p.n.lane) || !pool_.lane(p.n.lane).is_complete(p.n.cursor)) continue;
      p.removed = true;
      ++s.elided_complete;
    }
  }

  // Else finds what is to be waited for.
  bool is_over_already(slot_type& s, slot_type& origin, planned& p) {
    if (!deterministic_ &&
        (points ? is_known_complete(origin, p.n.cursor) : origin.is_complete(p.n.cursor))) {
      return true;
    }
    if constexpr (points) {
      find(origin, p, &s);
      return false;
    } else if constexpr (!asks) {
      // Where there is one need, nothing is to be implied by it.
      if (s.plan.size() > 1) find_or_record(origin, p, s);
      return false;
    } else {
      bool ask = false;
      {
        const locked lock(origin.list_lock);
        find_mark(origin, p, &s);
        ask = p.m != nullptr && !deterministic_ && is_worth_asking(origin, *p.m);
      }
      if (!ask) return false;
      if (is_mark_complete(s, *p.m)) return true;
      const locked lock(origin.list_lock);
      origin.pending_from = p.m->cursor;
      origin.patience = 8;
      return false;
    }
  }

  // A stream runs in order: behind an incomplete mark all are incomplete. Under the origin's list lock.
  bool is_worth_asking(slot_type& origin, const mark<B>& m) const noexcept {
    if (origin.patience == 0 || m.cursor < origin.pending_from) return true;
    --origin.patience;
    return false;
  }

  bool is_mark_complete(slot_type& s, const mark<B>& m) {
    try {
      if (!backend_.is_complete(m.recorded())) return false;
    } catch (const execution_error& e) {
      log_failure(s, e);
      if (!is_over_if_it_throws()) return false;
      keep_failure(pool_.lane(m.clock->lane()), m.cursor);  // over, if not well
    }
    note_complete(m);
    return true;
  }
  void note_over(lane_id lane, std::uint64_t cursor) noexcept {
    slot_type& origin = pool_.lane(lane);
    origin.raise_completed(cursor);
    if constexpr (requires { backend_.note_over(origin.stream, cursor); })
      backend_.note_over(origin.stream, cursor);
  }

  void log_failure(slot_type& s, const execution_error& e) {
    ++s.errors;
    log_.write(log_area::errors, log_level::basic, e.what());
  }

  // Whether waiting for one that stays, other than `without`, brings the need along.
  static planned* implying(std::vector<planned>& plan, const need& n, const planned& without) noexcept {
    for (planned& other : plan) {
      if (&other == &without || other.removed || other.n.lane == n.lane) continue;
      if (brings_along(other, n)) return &other;
    }
    return nullptr;
  }
  [[nodiscard]] static bool brings_along(const planned& p, const need& n) noexcept {
    const stamp* taught = p.m != nullptr ? p.m->clock : p.clock;
    return taught != nullptr && taught->covers(n.lane, n.cursor);
  }

  // A mark may reach further than its need, so that those who know the need do not know all that the mark
  // brings along: one that others were removed for goes only if they are still brought along without it.
  static bool is_dispensable(std::vector<planned>& plan, const planned& p) noexcept {
    for (const planned& gone : plan) {
      if (!gone.is_implied) continue;
      planned* const by = implying(plan, gone.n, p);
      if (by == nullptr) return false;
      by->implies_others = true;
    }
    return true;
  }

  static std::uint64_t remove_implied(std::vector<planned>& plan) {
    std::uint64_t removed = 0;
    if (plan.size() < 2) return 0;
    if (plan.size() == 2 && !brings_along(plan[0], plan[1].n) && !brings_along(plan[1], plan[0].n)) return 0;
    for (planned& p : plan) {
      if (p.removed || p.is_news) continue;
      planned* const by = implying(plan, p.n, p);
      if (by == nullptr || (p.implies_others && !is_dispensable(plan, p))) continue;
      p.removed = p.is_implied = true;
      by->implies_others = true;
      ++removed;
    }
    return removed;
  }

  // Who needs what this slot did so far shall not have to wait for what it now waits for.
  void record_before_wait(slot_type& s) {
    if constexpr (!points) {
      if (policy_ != mark_policy::lazy) record_early(s);
    }
  }

  void wait_at_once(slot_type& s) {
    s.awaited.clear();
    std::vector<std::shared_ptr<typename B::event>> foreign;  // kept until they are handed over
    for (planned& p : s.plan) {
      if (p.removed) continue;
      if (s.awaited.empty()) record_before_wait(s);
      if (is_foreign(p.n.lane)) {
        if (auto event = foreign_event(p.n.lane))
          s.awaited.push_back(foreign.emplace_back(std::move(event)).get());
      } else {
        s.awaited.push_back(&mark_for(s, p).recorded());
      }
    }
    if (!s.awaited.empty()) backend_.wait_events(s.stream, s.awaited);
  }

  void hand_over(slot_type& s, planned& p) {
    if (is_foreign(p.n.lane)) {
      if (const auto event = foreign_event(p.n.lane)) backend_.wait_event(s.stream, *event);
    } else if constexpr (points) {
      backend_.wait_point(s.stream, pool_.lane(p.n.lane).stream, p.n.cursor);
    } else {
      backend_.wait_event(s.stream, mark_for(s, p).recorded());
    }
  }

  // The mark that the plan found, or one that is there by now, or a new one.
  mark<B>& mark_for(slot_type& s, planned& p) {
    if (p.m == nullptr) {
      if (p.clock != nullptr) p.clock->release();
      p.clock = nullptr;
      slot_type& origin = pool_.lane(p.n.lane);
      const locked lock(origin.list_lock);
      mark<B>* m = origin.marks.covering(p.n.cursor);
      p.is_recorded = m == nullptr;
      take(p, p.is_recorded ? record_late(origin) : m, &s);
      origin.note_learned(p.reached);
    }
    if (!p.is_recorded) ++s.marks_reused;
    return *p.m;
  }

  // The wait was handed over.
  void learn(slot_type& s, planned& p) {
    const bool forgotten = s.known.may_have_forgotten(p.n.lane);
    if (is_foreign(p.n.lane)) {
      p.reached = p.n.cursor;
      s.known.learn(p.n.lane, p.n.cursor);
    } else if constexpr (points) {
      s.known.learn(p.n.lane, p.n.cursor);
      s.known.learn(*p.clock, s.lane);
    } else {
      p.reached = p.m->cursor;
      constexpr std::size_t few = 8;  // to learn so many takes no longer than to find out
      const stamp& told = *p.m->clock;
      const bool is_echo = told.entries().size() > few && told.tells_nothing_new(s.known, s.lane);
      s.known.learn(p.n.lane, p.m->cursor);
      if (!is_echo) s.known.learn(told, s.lane);
    }
    ++s.waits[static_cast<unsigned>(p.n.why)];
    if (forgotten) ++s.forgotten;
    s.excess += p.reached - p.n.cursor;
    if (log_.is_enabled(log_area::streaming)) [[unlikely]]
      log_wait(s, p);
  }

  // By somebody who was not let in as the stream's submitter: a stream of the program's may be captured by
  // now.
  [[gnu::always_inline]] mark<B>* record_late(slot_type& origin) {
    if constexpr (requires { backend_.admit(origin.stream); }) {
      if (origin.is_adopted) [[unlikely]]
        backend_.admit(origin.stream);
    }
    return record(origin);
  }

  // Under the origin's list lock, on any thread. The committed cursor first (acquire; pairs with the release
  // in commit), then the clock, then the event: so the mark claims no op that is still being handed over, and
  // no wait that is not in front of the event.
  [[gnu::always_inline]] mark<B>* record(slot_type& origin) {
    if (!deterministic_) origin.marks.drop_up_to(origin.completed.load(std::memory_order_acquire));
    mark<B>* m = origin.marks.take();
    m->cursor = origin.committed.load(std::memory_order_acquire);
    m->clock = origin.now;
    if constexpr (points) {
      m->clock->retain_under_list_lock();
    } else {
      m->clock->retain_for_mark();
    }
    try {
      flush(origin.stream, m->event);
    } catch (...) {
      origin.marks.give_back(m);
      throw;
    }
    origin.marks.add(m);
    origin.marked.store(m->cursor, std::memory_order_relaxed);  // a hint for the holder of the slot's lock
    ++origin.marks_recorded;
    return m;
  }

  [[nodiscard]] stream_wait describe(const planned& p) const {
    return {id_of(p.n), p.n.cursor, p.reached, p.n.binding, resource_of(p.n), p.n.why};
  }

  void log_wait(slot_type& s, const planned& p) {
    detail::log_wait(log_, s.last_id, s.cursor, describe(p),
                     p.n.resource != nullptr ? p.n.resource->name : "?");
  }

  B& backend_;
  stream_pool<slot_type>& pool_;
  logger& log_;
  const mark_policy policy_;
  const bool deterministic_;
  mutable std::mutex foreign_mutex_;
  std::vector<foreign_access<B>> foreign_;
  foreign_lanes foreign_lanes_;
};

}  // namespace braid::detail
