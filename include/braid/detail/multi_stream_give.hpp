#pragma once

// How multi_stream gives an op: from its bindings to the guard, and from the guard to the commit; part of
// multi_stream.hpp.

#include <algorithm>

#include "braid/detail/multi_stream_class.hpp"

namespace braid {

template <event_stream_backend B, class T>
auto multi_stream<B, T>::open(stream_id id, op_label* label, std::span<const binding> bindings) -> guard {
  slot_type* s = pool_.find_plain(id);
  if (s == nullptr || is_special_.load(std::memory_order_relaxed) || detail::innermost_open_op != nullptr)
      [[unlikely]] {
    return open_slowly(id, label, bindings);
  }
  return open_on(*s, id, label, bindings);
}

// A stream is made, or the work in flight is limited, or the engine is closed, or a guard is open.
template <event_stream_backend B, class T>
auto multi_stream<B, T>::open_slowly(stream_id id, op_label* label, std::span<const binding> bindings)
    -> guard {
  expect_outside_guards("resolve()");
  if (closed_.load(std::memory_order_acquire)) throw_closed();
  detail::end_routine_inside();  // with another engine: what it keeps may be what another thread here waits
                                 // for
  if (!in_flight_) return open_on(slot_of(id), id, label, bindings);
  const std::uint64_t bytes = admit(bindings);
  try {
    guard op = open_on(slot_of(id), id, label, bindings);
    op.slot_->admitted_bytes = bytes;
    op.slot_->has_afterwork = true;
    return op;
  } catch (...) {
    in_flight_->abandon(bytes);
    throw;
  }
}

template <event_stream_backend B, class T>
auto multi_stream<B, T>::open_on(slot_type& s, stream_id id, op_label* label,
                                 std::span<const binding> bindings) -> guard {
  if constexpr (follows) {
    if (detail::here.is_ready) [[unlikely]]
      begin_routine();
    if (is_following() && follow(s, id, label, bindings)) return guard(this, &s);
  }
  if constexpr (sync) s.lock.lock();
  s.cursor = s.committed.load(std::memory_order_relaxed) + 1;  // written under the slot's lock only
  try {
    if (s.other_ops != 0 || s.last_id != id || !give_trying(s, label, bindings)) [[unlikely]]
      give(s, id, label, bindings);
  } catch (...) {
    s.cursor = s.committed.load(std::memory_order_relaxed);
    s.use_count = 0;
    if constexpr (sync) s.lock.unlock();
    throw;
  }
  if constexpr (follows) observe(s, id, label, bindings);
  s.outer = detail::innermost_open_op;
  detail::innermost_open_op = &s;
  return guard(this, &s);
}

// The shortest way, for plain bindings of resources that nobody holds: it tries their locks, so that there is
// no order of locks to keep. False: nothing is held or entered.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::give_trying(slot_type& s, op_label* label, std::span<const binding> bindings) {
  // Without locks one resource that is bound twice would not be found.
  if (bindings.size() > (sync ? s.use_capacity : 1)) [[unlikely]]
    return false;
  if constexpr (points) {
    return !s.mark_wanted && give_own(s, bindings);
  } else {
    if (s.mark_wanted) {
      aligner_.record_early(s);
      s.mark_wanted = false;
    }
    if (s.has_waits) [[unlikely]]
      s.forget_waits();
    if (!try_locks(s, bindings)) return false;
    give_locked(s, label, bindings);
    return true;
  }
}

// Where points are waited for: resources that this stream wrote and nobody else has used since. There is
// nothing to wait for and nothing to learn.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::give_own(slot_type& s, std::span<const binding> bindings) noexcept {
  constexpr std::size_t few = 4;
  const std::size_t count = bindings.size();
  if (count > few) [[unlikely]]
    return false;
  auto* const uses = s.use_list.get();
  const detail::lane_id own = s.lane;
  std::uint32_t i = 0;
  for (; i < count; ++i) {
    const binding& b = bindings[i];
    if (!locks_.try_lock_plain(b)) [[unlikely]]
      break;
    uses[i] = {b.state, i, b.kind != access::read};
    if (b.state->past.is_of(own)) [[likely]]
      continue;
    if constexpr (sync) b.state->lock.unlock();
    break;
  }
  if (i < count) [[unlikely]] {
    back_off(s, i);
    return false;
  }
  if (s.has_waits) [[unlikely]]
    s.forget_waits();
  s.use_count = static_cast<std::uint32_t>(count);
  s.elided_same_stream += count;
  for (i = 0; i < count; ++i) {
    detail::resource_state& r = *uses[i].state;
    if (uses[i].exclusive) {
      r.past.write_own(s.cursor, s.now, own);
    } else {
      r.past.read_own(s.cursor, s.now, own);
      if constexpr (sync) r.lock.unlock();
    }
  }
  return true;
}

// Gives back the first locks of an op that could not have them all, and lets the next ones wait for theirs.
template <event_stream_backend B, class T>
void multi_stream<B, T>::back_off(slot_type& s, std::uint32_t taken) noexcept {
  if constexpr (sync) {
    while (taken-- > 0) s.use_list[taken].state->lock.unlock();
  }
  s.needs.clear();
  s.plan.clear();
  s.other_ops = 7;  // with this one
}

// Holds all resources and plans what the stream has to wait for. False, holding none: one of them is not
// free, or its history is not simple.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::try_locks(slot_type& s, std::span<const binding> bindings) {
  const auto count = static_cast<std::uint32_t>(bindings.size());
  auto* next = s.use_list.get();
  tally seen;
  std::uint32_t held = 0;
  try {
    for (const binding& b : bindings) {
      if (!locks_.try_lock_plain(b)) [[unlikely]]
        break;
      *next++ = {b.state, held, b.kind != access::read};
      ++held;
      if (b.state->past.is_of(s.lane)) {
        ++seen.same;
      } else if (!plan_for(s, b, held - 1, seen)) [[unlikely]] {
        back_off(s, held);
        return false;
      }
    }
  } catch (...) {
    back_off(s, held);
    throw;
  }
  if (held != count) [[unlikely]] {
    back_off(s, held);
    return false;
  }
  note(s, seen);
  s.use_count = count;
  return true;
}

// What the binding needs and the slot does not know goes into the plan. False: it needs what is still being
// handed over, or an access that is not braid's, or more than one set of points.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::plan_for(slot_type& s, const binding& b, std::uint32_t index, tally& seen) {
  detail::resource_state& r = *b.state;
  const auto before = r.past.before_whole(b.kind);
  if (before.points == nullptr) [[unlikely]]
    return false;
  const detail::point* next = before.points->begin();
  for (const detail::point* const end = next + before.points->size(); next != end; ++next) {
    const detail::point& p = *next;
    if (p.lane == s.lane) {
      ++seen.same;
      continue;
    }
    if (s.known.covers(p.lane, p.cursor)) {
      r.note_crossed();
      ++seen.known;
      continue;
    }
    if (detail::is_foreign(p.lane)) [[unlikely]]
      return false;
    slot_type& origin = pool_.lane(p.lane);
    // acquire: pairs with the release in commit(); what the reader's thread did before is seen
    if (before.are_readers && origin.committed.load(std::memory_order_acquire) < p.cursor) [[unlikely]]
      return false;
    if (!deterministic_ && origin.is_complete(p.cursor)) {
      ++seen.complete;  // what is over in time wants no mark
      continue;
    }
    r.note_crossed();
    s.needs.push_back({p.cursor, p.lane, index, &r, p.by, before.why, false});
    aligner_.add_to(s.plan, s.needs.back());
  }
  return true;
}

// The op holds its resources: its readers are entered and unlocked, its stream waits, its writers are
// entered.
template <event_stream_backend B, class T>
void multi_stream<B, T>::give_locked(slot_type& s, op_label* label, std::span<const binding> bindings) {
  const std::uint32_t count = s.use_count;
  auto* const uses = s.use_list.get();
  bool wants_mark = marks_ == mark_policy::eager && count != 0;
  std::uint32_t entered = 0;
  try {
    for (; entered < count; ++entered) {
      if (uses[entered].exclusive) continue;
      detail::resource_state& r = *uses[entered].state;
      r.past.read_all(s.cursor, nullptr, s.lane);
      wants_mark = wants_mark || (r.score != 0 && marks_ == mark_policy::learned);
      if constexpr (sync) r.lock.unlock();
    }
    if (!s.plan.empty()) {
      s.has_waits = true;
      aligner_.align_planned(s);
    }
  } catch (...) {
    if (!give_back(s, bindings, count, entered)) commit_without_work(s);
    throw;
  }
  for (const auto& u : std::span(uses, count)) {
    if (u.exclusive) enter_writer(s, *u.state, label);
  }
  if (wants_mark) s.mark_wanted = true;
}

// The op writes all of a resource whose history is in one piece.
template <event_stream_backend B, class T>
void multi_stream<B, T>::enter_writer(slot_type& s, detail::resource_state& r, op_label* label) noexcept {
  r.past.write_all(s.cursor, stamp_of(s), s.lane);
  if constexpr (!points) {
    if (r.is_quiet() && (label == nullptr || !label->is_likely_shared())) [[likely]] {
      r.writer = label;
    } else {
      note_output(s, r, label);
    }
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::prepare(slot_type& s, stream_id id) {
  if (s.last_id != id) {
    const locked lock(s.list_lock);
    s.enter_id(s.cursor, id);
    s.last_id = id;
  }
  if (s.mark_wanted) {
    aligner_.record_early(s);
    s.mark_wanted = false;
  }
}

// Readers are entered at once, with what the slot knows so far, and their resources are unlocked: what keeps
// writers off from then on is that the op is not committed. So no reader holds a lock while it waits for
// another one, nor while the backend is called. Writers are entered, and unlocked, at the end.
template <event_stream_backend B, class T>
void multi_stream<B, T>::give(slot_type& s, stream_id id, op_label* label,
                              std::span<const binding> bindings) {
  if (s.other_ops != 0) --s.other_ops;
  if (s.last_id != id || s.mark_wanted) [[unlikely]]
    prepare(s, id);
  if (s.has_waits) [[unlikely]]
    s.forget_waits();
  progress so_far;
  if (!locks_.list_plainly(s, bindings) || !give_plainly(s, label, bindings, so_far)) [[unlikely]]
    give_at_length(s, label, bindings, so_far);
}

// The short way, for bindings that are all plain, each of another resource, and listed. False if a resource
// has a next owner, or a history in pieces: then the others before it are held, or entered, and the long way
// goes on from there. (To take readers back would leave an op in their place that did not read.)
template <event_stream_backend B, class T>
bool multi_stream<B, T>::give_plainly(slot_type& s, op_label* label, std::span<const binding> bindings,
                                      progress& so_far) {
  const auto count = static_cast<std::uint32_t>(bindings.size());
  const detail::lane_id own = s.lane;
  const std::uint64_t cursor = s.cursor;
  const detail::clock& clock = s.known;
  auto* const uses = s.use_list.get();
  tally& seen = so_far.seen;
  std::uint32_t writes = 0;
  std::uint32_t i = 0;
  bool wants_mark = false;
  try {
    for (; i < count; ++i) {
      const std::uint32_t at = uses[i].binding;
      const binding& b = bindings[at];
      detail::resource_state& r = *uses[i].state;
      const auto is_known = [&](const detail::point& p) __attribute__((always_inline)) {
        if (p.lane == own) {
          ++seen.same;
          return true;
        }
        if ((!points && r.crossed == 0) || !clock.covers(p.lane, p.cursor)) return false;
        ++seen.known;
        return true;
      };
      if (!uses[i].exclusive) {
        if (!locks_.lock_plain_to_read(r)) [[unlikely]]
          break;
        if (!r.past.is_free_to_read(is_known)) collect(s, b, at, seen);
        r.past.read_all(cursor, stamp_of(s), own);
        if constexpr (!points) wants_mark = wants_mark || r.score != 0;
        if constexpr (sync) r.lock.unlock();
      } else {
        if (!locks_.lock_plain_to_write(s, r)) [[unlikely]]
          break;
        if (!r.past.is_free_to_write(is_known)) collect(s, b, at, seen);
        ++writes;
      }
    }
    if (i < count) [[unlikely]] {
      so_far.taken = i;
      s.mark_wanted = s.mark_wanted || (wants_mark && marks_ == mark_policy::learned);
      return false;
    }
    s.use_count = count;
    note(s, seen);
    if (!s.needs.empty()) [[unlikely]]
      align(s, bindings);
  } catch (...) {
    if (!give_back(s, bindings, std::min(i + 1, count), i)) commit_without_work(s);
    throw;
  }
  if (writes != 0) {
    for (i = 0; i < count; ++i) {
      if (uses[i].exclusive) enter_writer(s, *uses[i].state, label);
    }
  }
  if constexpr (!points) {
    if (marks_ == mark_policy::learned ? wants_mark : marks_ == mark_policy::eager && count != 0)
      s.mark_wanted = true;
  }
  return true;
}

// The long way: any binding.
template <event_stream_backend B, class T>
void multi_stream<B, T>::give_at_length(slot_type& s, op_label* label, std::span<const binding> bindings,
                                        progress& so_far) {
  const std::uint32_t count = static_cast<std::uint32_t>(bindings.size());
  std::uint32_t locked_uses = so_far.taken;  // at least for a moment
  std::uint32_t entered = so_far.taken;  // those that the op only reads are in their histories, and unlocked
  tally& seen = so_far.seen;
  try {
    if (so_far.taken == 0) locks_.list(s, bindings);
    s.use_count = count;
    for (std::uint32_t i = so_far.taken; i < count; ++i) {
      const auto& use = s.use_list[i];
      const binding& b = bindings[use.binding];
      locks_.lock(s, i);
      locked_uses = i + 1;
      collect(s, b, use.binding, seen);
      if (!use.exclusive) {
        enter(s, b, label);
        locks_.unlock(s, i);
      }
      entered = i + 1;
    }
    note(s, seen);
    if (!s.needs.empty()) align(s, bindings);
  } catch (...) {
    if (!give_back(s, bindings, locked_uses, entered)) commit_without_work(s);
    throw;
  }
  try {
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto& use = s.use_list[i];
      if (use.exclusive) enter(s, bindings[use.binding], label);
    }
  } catch (...) {
    commit_without_work(s);  // memory ran out
    unlock_writes(s);
    throw;
  }
}

// The first uses were taken, and all but what comes after the first `entered` are in their histories: that is
// undone. False if a history cannot be reached any more.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::give_back(slot_type& s, std::span<const binding> bindings, std::uint32_t taken,
                                   std::uint32_t entered) noexcept {
  s.release_needs();
  s.forget_waits();
  for (std::uint32_t i = 0; i < taken; ++i) {
    if (s.use_list[i].exclusive || i >= entered) locks_.unlock(s, i);
  }
  return take_back_readers(s, bindings);
}

// Makes the stream wait for what the op needs.
template <event_stream_backend B, class T>
void multi_stream<B, T>::align(slot_type& s, std::span<const binding> bindings) {
  s.has_waits = true;
  aligner_.align(s);
  if constexpr (points) {
    s.release_needs();
    if (s.before == nullptr) return;  // it has learned nothing
    for (std::uint32_t i = 0; i < s.use_count; ++i) {
      if (!s.use_list[i].exclusive) restamp_reader(s, bindings[s.use_list[i].binding]);
    }
    s.leave_before();
  }
}

// What the binding needs and the slot does not know.
template <event_stream_backend B, class T>
[[gnu::flatten]] void multi_stream<B, T>::collect(slot_type& s, const binding& b, std::uint32_t index,
                                                  tally& seen) {
  detail::resource_state& r = *b.state;
  r.past.needs(b.kind, b.tag, b.range, b.whole, [&](const detail::point& p, hazard why) {
    if (p.lane == s.lane) {
      ++seen.same;
      return;
    }
    if (s.known.covers(p.lane, p.cursor)) [[likely]] {
      if constexpr (!points) r.note_crossed();
      ++seen.known;
      return;
    }
    add_unless_complete(s, p, why, index, b);
  });
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::add_unless_complete(slot_type& s, const detail::point& p, hazard why,
                                             std::uint32_t index, const binding& b) {
  if (!deterministic_ && !detail::is_foreign(p.lane) && pool_.lane(p.lane).is_complete(p.cursor)) {
    ++s.elided_complete;  // what is over in time wants no mark
    return;
  }
  if constexpr (!points) b.state->note_crossed();
  const bool holds = points && b.kind == access::read;  // the stamps of events' points are never counted
  s.needs.push_back({p.cursor, p.lane, index, b.state, p.by, why, holds});
  if (holds) p.retain();
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::enter(slot_type& s, const binding& b, op_label* label) {
  detail::resource_state& r = *b.state;
  if (r.past.apply(b.kind, b.tag, b.range, b.whole, s.cursor, stamp_of(s), s.lane)) [[unlikely]] {
    ++s.coarsened;
  }
  learn_from(s, b, label);
}

// Whether what the op does to the resource wants a mark behind it.
template <event_stream_backend B, class T>
void multi_stream<B, T>::learn_from(slot_type& s, const binding& b, op_label* label) noexcept {
  if constexpr (points) return;
  if (b.kind != access::read) note_output(s, *b.state, label);
  if (marks_ == mark_policy::learned) {
    s.mark_wanted = s.mark_wanted || b.state->score > 0;
  } else {
    s.mark_wanted = marks_ == mark_policy::eager;
  }
}

// Learns from what became of the last output in this resource whether this one wants a mark.
template <event_stream_backend B, class T>
void multi_stream<B, T>::note_output(slot_type& s, detail::resource_state& r, op_label* label) noexcept {
  // What became of the last such output here tells more than what became of others elsewhere.
  const bool was_private = r.writer == label && r.crossed == 0;
  r.note_written(label);
  if (marks_ != mark_policy::learned) return;
  const bool is_shared = label != nullptr && label->is_likely_shared() && !was_private;
  s.mark_wanted = s.mark_wanted || r.score > 0 || is_shared;
}

// The op's entries become the op before it, which has been handed over. False if one has gone to a next
// owner.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::take_back_readers(slot_type& s, std::span<const binding> bindings) noexcept {
  bool reached_all = true;
  for (const binding& b : bindings) {
    if (b.kind != access::read || b.state == nullptr) continue;
    const locked lock(b.state->lock);
    b.state->past.take_back_reader(s.lane, s.cursor, b.range.offset, b.range.end());
    reached_all = reached_all && !b.state->handed_on;
  }
  return reached_all;
}

// The op is not given, but histories name it and cannot be reached: it stays, as one without work, so that
// nobody who meets it waits for ever.
template <event_stream_backend B, class T>
void multi_stream<B, T>::commit_without_work(slot_type& s) noexcept {
  commit_point(s);
  s.committed.store(s.cursor, std::memory_order_release);  // as in commit()
}

// A reader that waited gets the stamp that it runs with. Ignores writers_waiting: they wait for this op.
template <event_stream_backend B, class T>
void multi_stream<B, T>::restamp_reader(slot_type& s, const binding& b) noexcept {
  const locked lock(b.state->lock);
  b.state->past.restamp_reader(s.lane, s.cursor, b.range.offset, b.range.end(), s.before, s.now);
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::commit_point(slot_type& s) noexcept {
  if constexpr (detail::commits_points<B>) {
    try {
      backend_.commit_point(s.stream, s.cursor);
    } catch (const std::exception& e) {
      log_error(e.what());
    }
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::unlock_writes(slot_type& s) noexcept {
  if constexpr (sync) {
    for (std::size_t i = 0; i < s.use_count; ++i) {
      if (s.use_list[i].exclusive) locks_.unlock(s, i);
    }
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::commit(slot_type& s) noexcept {
  if constexpr (follows) {
    if (s.followed != nullptr) return commit_followed(s);
  }
  commit_point(s);
  // release: whoever sees the cursor sees the body handed over; pairs with every acquire of `committed`
  s.committed.store(s.cursor, std::memory_order_release);
  detail::leave_open_op(s);
  unlock_writes(s);
  if (s.has_afterwork) [[unlikely]]
    finish(s);
  if constexpr (sync) s.lock.unlock();
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::finish(slot_type& s) noexcept {
  s.has_afterwork = false;
  s.use_count = 0;
  for (detail::retired& object : s.retiring) retire_on(s, std::move(object));
  s.retired_objects += s.retiring.size();
  s.retiring.clear();
  if (in_flight_) in_flight_->add(detail::in_flight::op{s.lane, s.cursor, s.admitted_bytes});
  for (detail::resource_state* state : s.orphans) detail::dispose(state);
  s.orphans.clear();
  if (s.is_adopted) mark_adopted(s);
}

// What the program does with its stream is not known here: it may put work on it, or capture it. So whoever
// needs an op there finds its mark, and nothing is recorded on the stream but by those who submit to it.
template <event_stream_backend B, class T>
void multi_stream<B, T>::mark_adopted(slot_type& s) noexcept {
  s.has_afterwork = !points;
  try {
    aligner_.record_early(s);
  } catch (const std::exception& e) {
    log_error(e.what());  // who waits for the op records an event in the usual way
  }
}

}  // namespace braid
