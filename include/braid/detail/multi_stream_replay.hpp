#pragma once

// How multi_stream gives a recorded sequence of ops again; part of multi_stream.hpp.

#include "braid/detail/multi_stream_class.hpp"
#include "braid/detail/recorder.hpp"

namespace braid {

// All slots of the sequence are locked, in the order of their lanes, then all resources (see replay_locks).
// What the parts need from before stands in front of each part. Between themselves the ops are ordered by
// waits that were found when they were recorded.
//
// Where bodies are called while the ops are handed over, that takes a while: what is only read is entered and
// unlocked before it, as in give(), so that others may read it meanwhile.
template <event_stream_backend B, class T>
template <class HandOver>
void multi_stream<B, T>::replay(const detail::replay_plan& plan, std::uint64_t times, HandOver hand_over) {
  expect_outside_guards("replay()");
  detail::end_routine_inside();
  if (closed_.load(std::memory_order_acquire)) throw_closed();
  if (plan.parts.empty() || times == 0) return;
  const std::uint64_t bytes = in_flight_ ? admit(plan.resources) : 0;
  try {
    replay_locks held(*this, plan);
    std::vector<std::uint64_t> before;  // each part's cursor
    before.reserve(plan.parts.size());
    for (const auto& part : plan.parts) {
      // Written under the slot's lock only.
      before.push_back(pool_.lane(part.lane).committed.load(std::memory_order_relaxed));
    }
    bool is_entered = true;
    try {
      std::vector<tally> seen(plan.parts.size());
      for (std::size_t i = 0; i < plan.parts.size(); ++i) {
        slot_type& s = pool_.lane(plan.parts[i].lane);
        s.cursor = before[i] + 1;
        if (s.last_id != plan.parts[i].id || s.mark_wanted) prepare(s, plan.parts[i].id);
        s.forget_waits();
        s.use_count = 0;
      }
      if (plan.is_one_command) join_parts(plan, before);
      for (std::uint32_t i = 0; i < plan.first.size(); ++i) {
        const auto& use = plan.first[i];
        collect(pool_.lane(plan.parts[use.at.part].lane), use.bound, i, seen[use.at.part]);
      }
      for (std::size_t i = 0; i < plan.parts.size(); ++i) {
        slot_type& s = pool_.lane(plan.parts[i].lane);
        note(s, seen[i]);
        if (!s.needs.empty()) align(s, {});
        s.use_count = 0;
      }
      if constexpr (points) {
        hand_over(std::span<const std::uint64_t>(before));
      } else {
        is_entered = enter_last(plan, times, before, false);
        if (is_entered) held.release_reads();
      }
    } catch (...) {
      for (std::size_t i = 0; i < plan.parts.size(); ++i) {
        slot_type& s = pool_.lane(plan.parts[i].lane);
        s.release_needs();
        if (!s.plan.empty()) aligner_.let_go(s);
        s.forget_waits();
        s.use_count = 0;
        s.cursor = before[i];
      }
      throw;
    }
    [&]() noexcept {
      if constexpr (points) {
        is_entered = enter_last(plan, times, before, false);
      } else {
        hand_over(std::span<const std::uint64_t>(before));
      }
      commit_replay(plan, times, before, is_entered);
      for (std::size_t i = 0; in_flight_ && i < plan.parts.size(); ++i) {
        const slot_type& s = pool_.lane(plan.parts[i].lane);
        in_flight_->add({s.lane, s.cursor, i == 0 ? bytes : 0}, i == 0);
      }
    }();
  } catch (...) {
    if (in_flight_) in_flight_->abandon(bytes);
    throw;
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::commit_replayed(detail::lane_id lane, std::uint64_t cursor) noexcept {
  slot_type& s = pool_.lane(lane);
  s.cursor = cursor;
  commit_point(s);
  s.committed.store(cursor, std::memory_order_release);  // as in commit()
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::wait_replayed(detail::lane_id lane, std::span<const detail::mark<B>* const> all) {
  slot_type& s = pool_.lane(lane);
  if constexpr (detail::waits_at_once<B>) {
    s.awaited.clear();
    for (const detail::mark<B>* m : all) s.awaited.push_back(&m->recorded());
    backend_.wait_events(s.stream, s.awaited);
  } else {
    for (const detail::mark<B>* m : all) backend_.wait_event(s.stream, m->recorded());
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::keep_replayed(detail::lane_id lane, std::span<detail::mark<B>** const> marks,
                                       std::uint64_t recorded) noexcept {
  slot_type& s = pool_.lane(lane);
  const locked lock(s.list_lock);
  s.marks_recorded += recorded;
  if (!deterministic_)
    s.marks.drop_up_to(s.completed.load(std::memory_order_acquire));  // as aligner::record()
  for (detail::mark<B>** const m : marks) {
    if (!aligner_type::is_worth_keeping(s, **m)) continue;
    s.now->retain_for_mark();  // what the stream knew before the sequence
    aligner_type::keep_mark(s, std::exchange(*m, nullptr), s.now);
  }
}

// The leader comes after all that the streams of the other parts hold.
template <event_stream_backend B, class T>
void multi_stream<B, T>::join_parts(const detail::replay_plan& plan, std::span<const std::uint64_t> before) {
  slot_type& s = pool_.lane(plan.parts[plan.leader].lane);
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    const detail::lane_id lane = plan.parts[i].lane;
    if (i == plan.leader || before[i] == 0 || s.known.covers(lane, before[i])) continue;
    if (!deterministic_ && pool_.lane(lane).is_complete(before[i])) continue;
    s.needs.push_back({.cursor = before[i],
                       .lane = lane,
                       .binding = static_cast<std::uint32_t>(plan.first.size()),
                       .why = hazard::user});
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::fork_parts(const detail::replay_plan& plan, std::uint64_t cursor) noexcept {
  if (plan.parts.size() < 2) return;
  slot_type& leader = pool_.lane(plan.parts[plan.leader].lane);
  try {
    detail::mark<B>* const end = aligner_.hold_mark(leader, cursor);
    const std::unique_ptr<detail::mark<B>, void (*)(detail::mark<B>*)> held(
        end, [](detail::mark<B>* m) { m->release(); });
    for (const auto& part : plan.parts) {
      if (part.lane != leader.lane) wait_replayed(part.lane, std::span(&end, 1));
    }
  } catch (const std::exception& e) {
    log_error(e.what());
    wait_surely(leader, cursor);
  }
}

// The last accesses of resources that the sequence changes, or of those that it only reads. With what each
// part knew at its beginning: an op in its middle may not have waited for more. False: memory ran out.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::enter_last(const detail::replay_plan& plan, std::uint64_t times,
                                    std::span<const std::uint64_t> before, bool are_changed) {
  try {
    for (const auto& use : plan.last) {
      if (use.is_changed != are_changed) continue;
      slot_type& s = pool_.lane(plan.parts[use.at.part].lane);
      const std::uint64_t cursor = before[use.at.part] + (times - 1) * plan.parts[use.at.part].ops +
                                   static_cast<std::uint64_t>(use.at.index);
      const binding& b = use.bound;
      if (b.state->past.apply(b.kind, b.tag, b.range, b.whole, cursor, stamp_of(s), s.lane)) {
        ++s.coarsened;
      }
      learn_from(s, b, nullptr);
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::commit_replay(const detail::replay_plan& plan, std::uint64_t times,
                                       std::span<const std::uint64_t> before, bool is_entered) noexcept {
  is_entered = enter_last(plan, times, before, true) && is_entered;
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    slot_type& s = pool_.lane(plan.parts[i].lane);
    s.cursor = before[i] + times * plan.parts[i].ops;
    s.committed.store(s.cursor, std::memory_order_release);  // as in commit()
    for (unsigned h = 0; h < hazard_count; ++h) {
      s.waits[h] += plan.parts[i].waits[h] + (times - 1) * plan.parts[i].again[h];
    }
  }
  for (const auto& learned : plan.learned) {
    const auto& of = plan.parts[learned.of.part];
    const std::uint64_t cursor =
        before[learned.of.part] + (times - 1) * of.ops + static_cast<std::uint64_t>(learned.of.index);
    pool_.lane(plan.parts[learned.part].lane).known.learn(of.lane, cursor);
    slot_type& origin = pool_.lane(of.lane);
    const locked lock(origin.list_lock);
    origin.note_learned(cursor);
  }
  for (const auto& part : plan.parts) {
    slot_type& s = pool_.lane(part.lane);
    aligner_.publish(s);
    s.leave_before();
    if (s.is_adopted) mark_adopted(s);
  }
  if (is_entered) return;
  // What no history could be told of has to be over before anybody else may look.
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    slot_type& s = pool_.lane(plan.parts[i].lane);
    wait_surely(s, s.cursor);
  }
}

// An op that has to wait takes resources that it reads once more, for a moment, while it holds those that it
// writes. So nobody may hold a resource that an op may read while waiting for another: where one of the
// resources is not free all are given back, it is waited for, and taken first.
template <event_stream_backend B, class T>
struct multi_stream<B, T>::replay_locks {
  replay_locks(multi_stream& engine, const detail::replay_plan& of) : self(engine), plan(of) {
    for (; slots < plan.parts.size(); ++slots) {
      if constexpr (sync) self.pool_.lane(plan.parts[slots].lane).lock.lock();
    }
    try {
      for (std::size_t busy = 0; taken < plan.resources.size(); busy = taken) {
        release_resources();
        has_first = take(busy, true);
        first = busy;
        while (taken < plan.resources.size() && (taken == first || take(taken, false))) ++taken;
      }
    } catch (...) {
      release();
      throw;
    }
  }
  ~replay_locks() { release(); }
  replay_locks(const replay_locks&) = delete;
  replay_locks& operator=(const replay_locks&) = delete;

  void release_reads() noexcept {
    if constexpr (sync) {
      for (const binding& b : plan.resources) {
        if (b.kind == access::read) b.state->lock.unlock();
      }
    }
    has_reads = false;
  }

  bool take(std::size_t i, bool may_wait) {
    const binding& b = plan.resources[i];
    return self.locks_.lock_for_replay(self.pool_.lane(plan.parts.front().lane), *b.state,
                                       b.kind != access::read, may_wait);
  }
  void unlock(std::size_t i) noexcept {
    const binding& b = plan.resources[i];
    if constexpr (sync) {
      if (has_reads || b.kind != access::read) b.state->lock.unlock();
    }
  }
  void release_resources() noexcept {
    while (taken > 0) {
      if (--taken != first) unlock(taken);
    }
    if (std::exchange(has_first, false)) unlock(first);
  }
  void release() noexcept {
    release_resources();
    if constexpr (sync) {
      while (slots > 0) self.pool_.lane(plan.parts[--slots].lane).lock.unlock();
    }
  }

  multi_stream& self;
  const detail::replay_plan& plan;
  std::size_t slots = 0;
  std::size_t first = 0;   // the resource that was waited for,
  bool has_first = false;  // if it is held
  std::size_t taken = 0;   // and all others in front of this one are
  bool has_reads = true;
};

}  // namespace braid
