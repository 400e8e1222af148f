#pragma once

// The bodies of multi_stream's members; part of multi_stream.hpp.

#include "braid/multi_stream.hpp"

namespace braid {

template <event_stream_backend B, class T>
multi_stream<B, T>::multi_stream(B backend, multi_stream_options options)
    : backend_(std::move(backend)),
      log_(options.logger ? options.logger : logger::process()),
      foreign_stamps_(arena_->add_pool(detail::first_foreign_lane, sync)),
      pool_(options.max_streams.value_or(detail::process_defaults().max_streams),
            options.special_streams.value_or(detail::process_defaults().special_streams)),
      marks_(options.marks.value_or(detail::process_defaults().marks)),
      deterministic_(options.deterministic.value_or(detail::process_defaults().deterministic)),
      aligner_(backend_, pool_, *log_, marks_, deterministic_),
      locks_(pool_, *arena_.get()),
      retirer_(*this) {
  const std::uint64_t ops = options.ops_in_flight.value_or(detail::process_defaults().ops_in_flight);
  const std::uint64_t bytes = options.bytes_in_flight.value_or(detail::process_defaults().bytes_in_flight);
  if (ops != 0 || bytes != 0) {
    in_flight_ = std::make_unique<detail::in_flight>(ops, bytes);
    is_special_.store(true, std::memory_order_relaxed);
  }
}

template <event_stream_backend B, class T>
multi_stream<B, T>::~multi_stream() {
  if (detail::is_inside_guard_of(this)) {
    log_error("an engine was destroyed while its thread holds one of its guards");
    std::terminate();
  }
  // What others do with this engine's resources, and told it, comes first.
  try {
    aligner_.wait_for_foreign();
  } catch (const std::exception& e) {
    log_error(e.what());
  }
  // Retired destructors may submit: go on until both are quiet.
  do {
    for (std::uint32_t lane = 0; lane < pool_.used(); ++lane) {
      slot_type& s = pool_.lane(static_cast<detail::lane_id>(lane));
      const std::uint64_t cursor = s.committed.load(std::memory_order_acquire);  // pairs with commit()
      try {
        host_wait(s, cursor);
      } catch (const std::exception& e) {
        log_error(e.what());
        s.raise_completed(cursor);  // a device that cannot be asked will not say more
      }
    }
    retirer_.drain(std::chrono::steady_clock::time_point::max());
  } while (retirer_.pending() != 0 || !is_idle());
  // acq_rel: as in shutdown()
  closed_.exchange(true, std::memory_order_acq_rel);
  is_special_.store(true, std::memory_order_relaxed);
  retirer_.stop();
  stranded_.clear();
  aligner_.release_foreign();
  arena_->close();
}

template <event_stream_backend B, class T>
auto multi_stream<B, T>::slot_of(stream_id id) -> slot_type& {
  return pool_.get(id, [&](detail::lane_id lane) {
    if constexpr (requires { backend_.create_stream(id); }) {
      return make_slot(lane, id, backend_.create_stream(id));
    } else {
      return make_slot(lane, id, backend_.create_stream());
    }
  });
}

template <event_stream_backend B, class T>
auto multi_stream<B, T>::make_slot(detail::lane_id lane, stream_id id, typename B::stream stream)
    -> std::unique_ptr<slot_type> {
  auto made = std::make_unique<slot_type>(lane, id, std::move(stream), arena_->add_pool(lane, sync));
  made->engine = this;
  return made;
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::adopt(stream_id id, typename B::stream made) {
  expect_outside_guards("adopt()");
  bool is_ours = false;
  (void)pool_.get(id, [&](detail::lane_id lane) {
    is_ours = true;
    return make_slot(lane, id, std::move(made));
  });
  if (is_ours) return;
  throw usage_error(misuse::used_stream, "stream " + to_string(id) +
                                             " was used already: a stream is adopted before its first use, "
                                             "or under another id");
}

// What the stream did so far gets a mark first: who needs that shall not have to wait for the event.
template <event_stream_backend B, class T>
void multi_stream<B, T>::wait_for(stream_id id, const typename B::event& event) {
  expect_outside_guards("wait_for()");
  slot_type& s = slot_of(id);
  {
    const locked lock(s.lock);
    s.mark_wanted = s.mark_wanted || s.committed.load(std::memory_order_relaxed) != 0;
  }
  guard op = open(id, nullptr, {});
  backend_.wait_event(op.current(), event);
  ++s.waits[static_cast<unsigned>(hazard::user)];
}

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
  if constexpr (sync) s.lock.lock();
  try {
    s.cursor = s.committed.load(std::memory_order_relaxed) + 1;  // written under the slot's lock only
    if (s.last_id != id || s.mark_wanted) [[unlikely]]
      prepare(s, id);
    give(s, label, bindings);
  } catch (...) {
    s.cursor = s.committed.load(std::memory_order_relaxed);
    s.use_count = 0;
    if constexpr (sync) s.lock.unlock();
    throw;
  }
  s.outer = detail::innermost_open_op;
  detail::innermost_open_op = &s;
  return guard(this, &s);
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
void multi_stream<B, T>::give(slot_type& s, op_label* label, std::span<const binding> bindings) {
  if (s.aligned_is_stale) [[unlikely]] {
    s.aligned.shared.clear();
    s.aligned.waits.clear();
    s.aligned_is_stale = false;
  }
  if (label == nullptr || !label->is_likely_shared()) [[likely]] {
    // Most often what is written comes last: where that belongs first, readers would be entered in vain.
    const bool is_turned = bindings.size() > 1 && bindings.back().state < bindings.front().state;
    switch (is_turned ? plainly::not_in_order : give_plainly(s, label, bindings)) {
      case plainly::given: return;
      case plainly::not_in_order:
        if (give_in_order(s, label, bindings)) return;
        break;
      case plainly::not_plain: break;
    }
  }
  give_at_length(s, label, bindings);
}

// The short way, for bindings that are all plain, in the order of their addresses and in no need of a wait:
// no memory is taken, nothing throws. False if one of them is not like that: then nothing is held or entered,
// and the op is still to be given.
template <event_stream_backend B, class T>
auto multi_stream<B, T>::give_plainly(slot_type& s, op_label* label,
                                      std::span<const binding> bindings) noexcept -> plainly {
  if (bindings.size() > s.use_capacity || marks_ == mark_policy::eager) [[unlikely]]
    return plainly::not_plain;
  plainly outcome = plainly::not_plain;
  const detail::lane_id own = s.lane;
  const std::uint64_t cursor = s.cursor;
  detail::stamp* const by = points ? s.now : s.name;
  const detail::clock& clock = s.known;
  const detail::stamp_arena* const arena = arena_.get();
  auto* const uses = s.use_list.get();
  const detail::resource_state* previous = nullptr;
  std::uint64_t same = 0;
  std::uint64_t known = 0;
  std::uint32_t writes = 0;
  std::uint32_t i = 0;
  bool wants_mark = false;
  // A write where another slot was before has something to teach: it goes the long way.
  const auto is_own = [&](const detail::point& p) __attribute__((always_inline)) {
    ++same;
    return p.lane == own;
  };
  const auto is_known = [&](const detail::point& p) __attribute__((always_inline)) {
    if (p.lane == own) {
      ++same;
      return true;
    }
    ++known;
    return clock.covers(p.lane, p.cursor);
  };
  for (const binding& b : bindings) {
    detail::resource_state* const state = b.state;  // null is never whole
    if (!b.whole || state->owner.load(std::memory_order_acquire) != arena) [[unlikely]]
      break;
    if (state <= previous) [[unlikely]] {
      outcome = plainly::not_in_order;
      break;
    }
    detail::resource_state& r = *state;
    previous = &r;
    if (b.kind == access::read) {
      if (!locks_.try_lock_to_read(r)) [[unlikely]]
        break;
      const bool entered = r.past.try_read(
          cursor, by, own, [&](const detail::point& p) __attribute__((always_inline)) {
            return (p.lane == own || r.crossed != 0) && is_known(p);
          });
      wants_mark = wants_mark || r.score != 0;
      if constexpr (sync) r.lock.unlock();
      if (!entered) [[unlikely]]
        break;
      uses[i++] = {&r, i, false};
    } else {
      if (b.kind == access::accumulate || !locks_.try_lock_to_write(s, r)) [[unlikely]]
        break;
      if (!r.is_quiet() || !r.past.is_free_to_write(is_own)) [[unlikely]] {
        if constexpr (sync) r.lock.unlock();
        break;
      }
      uses[i++] = {&r, i, true};
      ++writes;
    }
  }
  s.use_count = i;
  if (i < bindings.size()) [[unlikely]] {
    unlock_writes(s);
    // Whoever takes locks in the order of the addresses may not be a reader already: writers would wait for
    // it.
    if (i > writes) take_back_readers(s, bindings.first(i));
    return outcome;
  }
  if (same != 0) s.elided_same_stream += same;
  if (known != 0) s.elided_known += known;
  if (wants_mark && !points && marks_ == mark_policy::learned) s.mark_wanted = true;
  if (writes != 0) {
    for (std::uint32_t j = 0; j < i; ++j) {
      if (!uses[j].exclusive) continue;
      uses[j].state->past.write(cursor, by, own);
      uses[j].state->writer = label;
    }
  }
  return plainly::given;
}

template <event_stream_backend B, class T>
bool multi_stream<B, T>::give_in_order(slot_type& s, op_label* label, std::span<const binding> bindings) {
  return give_plainly(s, label, s.in_order(bindings)) == plainly::given;
}

// The long way: any binding, with its waits.
template <event_stream_backend B, class T>
void multi_stream<B, T>::give_at_length(slot_type& s, op_label* label, std::span<const binding> bindings) {
  const std::size_t count = bindings.size();
  std::size_t locked_uses = 0;  // taken at least for a moment
  std::size_t entered = 0;      // those that the op only reads are in their histories, and unlocked
  tally seen;
  try {
    locks_.list(s, bindings);
    for (std::size_t i = 0; i < count; ++i) {
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
    if (seen.same != 0) s.elided_same_stream += seen.same;
    if (seen.known != 0) s.elided_known += seen.known;
    if (seen.complete != 0) s.elided_complete += seen.complete;
    if (!s.needs.empty()) {
      s.aligned_is_stale = true;
      aligner_.align(s);
      release_needs(s);
    }
  } catch (...) {
    release_needs(s);
    for (std::size_t i = 0; i < locked_uses; ++i) {
      if (s.use_list[i].exclusive || i >= entered) locks_.unlock(s, i);
    }
    if (!take_back_readers(s, bindings)) commit_without_work(s);
    throw;
  }
  try {
    for (std::size_t i = 0; i < count; ++i) {
      const auto& use = s.use_list[i];
      if (use.exclusive) {
        enter(s, bindings[use.binding], label);
      } else if (points && s.aligned_is_stale) {
        restamp_reader(s, bindings[use.binding]);
      }
    }
  } catch (...) {
    commit_without_work(s);  // memory ran out
    unlock_writes(s);
    throw;
  }
}

// What the binding needs and the slot does not know.
template <event_stream_backend B, class T>
void multi_stream<B, T>::collect(slot_type& s, const binding& b, std::uint32_t index, tally& seen) {
  detail::resource_state& r = *b.state;
  r.past.needs(b.kind, b.tag, b.range, b.whole, [&](const detail::point& p, hazard why) {
    if (p.lane == s.lane) {
      ++seen.same;
      return;
    }
    r.note_crossed();
    if (s.known.covers(p.lane, p.cursor)) [[likely]] {
      ++seen.known;
      return;
    }
    if (!deterministic_ && !detail::is_foreign(p.lane) && pool_.lane(p.lane).is_complete(p.cursor)) {
      ++seen.complete;
      return;
    }
    add_need(s, p, why, index, r.id);
  });
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::add_need(slot_type& s, const detail::point& p, hazard why,
                                  std::uint32_t binding_index, std::uint64_t resource_id) {
  s.needs.push_back({p.lane, why, binding_index, p.cursor, resource_id, p.by});
  if constexpr (points) p.by->retain();  // the stamps of events' points are never counted
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::release_needs(slot_type& s) noexcept {
  if constexpr (points) {
    for (const detail::need& n : s.needs) n.by->release();
  }
  s.needs.clear();
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::enter(slot_type& s, const binding& b, op_label* label) {
  detail::resource_state& r = *b.state;
  if (r.past.apply(b.kind, b.tag, b.range, b.whole, s.cursor, points ? s.now : s.name, s.lane)) [[unlikely]] {
    ++s.coarsened;
  }
  // What became of the last such output here tells more than what became of others elsewhere.
  const bool was_private = r.writer == label && r.crossed == 0;
  if (b.kind != access::read) r.note_written(label);
  if constexpr (points) return;
  if (marks_ == mark_policy::learned) {
    const bool output_is_shared =
        b.kind != access::read && label != nullptr && label->is_likely_shared() && !was_private;
    s.mark_wanted = s.mark_wanted || r.score > 0 || output_is_shared;
  } else {
    s.mark_wanted = marks_ == mark_policy::eager;
  }
}

// The op's entries become the op before it, which has been handed over. False if one has gone to a next
// owner.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::take_back_readers(slot_type& s, std::span<const binding> bindings) noexcept {
  bool reached_all = true;
  for (const binding& b : bindings) {
    if (b.kind != access::read || b.state == nullptr) continue;
    const locked lock(b.state->lock);
    b.state->past.readers_of(s.lane, b.range.offset, b.range.end(), [&](detail::point& p) {
      if (p.cursor == s.cursor) --p.cursor;
      return p.cursor == 0;
    });
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
  b.state->past.readers_of(s.lane, b.range.offset, b.range.end(), [&](detail::point& p) {
    if (p.cursor == s.cursor && p.by != s.now) {
      s.now->retain();
      std::exchange(p.by, s.now)->release();
    }
    return false;
  });
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
  commit_point(s);
  // release: whoever sees the cursor sees the body handed over; pairs with every acquire of `committed`
  s.committed.store(s.cursor, std::memory_order_release);
  detail::innermost_open_op = s.outer;
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
}

template <event_stream_backend B, class T>
void* multi_stream<B, T>::gate_after(slot_type& s) {
  const std::uint64_t cursor = s.committed.load(std::memory_order_acquire);  // pairs with commit()
  if (cursor == 0) return nullptr;
  if constexpr (detail::queries_points<B>) {
    const locked lock(s.list_lock);
    detail::mark<B>* m = s.marks.take();
    m->cursor = cursor;
    m->clock = s.name;  // not what the slot knows now: that may belong to an op behind the point
    m->refs.store(1, std::memory_order_relaxed);  // nobody else knows it yet
    return m;
  } else {
    return aligner_.hold_mark(s, cursor);
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::retire_on(slot_type& s, detail::retired object) noexcept {
  void* gate = nullptr;
  try {
    gate = gate_after(s);
    retirer_.add(s.lane, gate, std::move(object));
  } catch (const std::exception& e) {
    // Without an event nobody can tell when: it waits for the end of all work.
    if (gate != nullptr) forget(gate);
    log_error(e.what());
    const std::scoped_lock lock(stranded_mutex_);
    stranded_.push_back(std::move(object));
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::retire_after(detail::retired object, stream_id after) {
  if (closed_.load(std::memory_order_relaxed)) throw_closed();
  slot_type* s = pool_.find(after);
  retired_.fetch_add(1, std::memory_order_relaxed);  // a statistic
  if (s != nullptr) {
    retire_on(*s, std::move(object));
  } else {
    retirer_.add(detail::first_foreign_lane, nullptr, std::move(object));
  }
}

template <event_stream_backend B, class T>
bool multi_stream<B, T>::is_open(void* gate) noexcept {
  if (const foreign_gate* event = as_foreign(gate)) {
    try {
      return backend_.is_complete(**event);
    } catch (const std::exception& e) {
      log_error(e.what());
      return true;
    }
  }
  const auto& m = *static_cast<const detail::mark<B>*>(gate);
  try {
    if (m.event) {
      if (!backend_.is_complete(*m.event)) return false;
    } else if constexpr (detail::queries_points<B>) {
      if (!backend_.is_point_complete(pool_.lane(m.clock->lane()).stream, m.cursor)) return false;
    }
  } catch (const std::exception& e) {
    log_error(e.what());  // failed, and therefore over
  }
  aligner_.note_complete(m);
  return true;
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::forget(void* gate) noexcept {
  if (foreign_gate* event = as_foreign(gate)) {
    delete event;
  } else {
    static_cast<detail::mark<B>*>(gate)->release();
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::retire(detail::retired object, const detail::point& after) {
  if (closed_.load(std::memory_order_relaxed)) throw_closed();
  retired_.fetch_add(1, std::memory_order_relaxed);  // a statistic
  if (!detail::is_foreign(after.lane)) return retire_on(pool_.lane(after.lane), std::move(object));
  void* gate = nullptr;
  if (auto event = aligner_.foreign_event(after.lane)) {
    auto kept = std::make_unique<foreign_gate>(std::move(event));
    gate = reinterpret_cast<char*>(kept.release()) + 1;
  }
  retirer_.add(after.lane, gate, std::move(object));
}

template <event_stream_backend B, class T>
alignment multi_stream<B, T>::analyse(stream_id id, std::span<const binding> bindings) const {
  expect_outside_guards("analyse()");
  const slot_type* s = pool_.find(id);
  detail::stamp* known = nullptr;
  if (s != nullptr) {
    const locked lock(const_cast<slot_type*>(s)->list_lock);
    known = s->now;
    known->retain();
  }
  const auto give_back = [](detail::stamp* held) {
    if (held != nullptr) held->release();
  };
  const std::unique_ptr<detail::stamp, decltype(give_back)> held(known, give_back);

  std::vector<detail::need> needs;
  for (std::uint32_t i = 0; i < bindings.size(); ++i) {
    const binding& b = bindings[i];
    locks_.check(b, i);
    for (std::uint32_t j = 0; j < i; ++j) {
      if (bindings[j].state == b.state && detail::is_conflict(bindings[j], b)) {
        detail::throw_conflicting(*b.state, j, i);
      }
    }
    const detail::stamp_arena* owner = b.state->owner.load(std::memory_order_acquire);
    if (owner == nullptr) continue;  // nothing happened to it yet
    if (owner != arena_.get()) detail::throw_not_ours(*b.state);
    const locked lock(b.state->lock);
    if (b.state->handed_on) detail::throw_handed_on(*b.state);
    b.state->past.needs(b.kind, b.tag, b.range, b.whole, [&](const detail::point& p, hazard why) {
      if (s != nullptr && (p.lane == s->lane || known->covers(p.lane, p.cursor))) return;
      const bool may_be_complete = !deterministic_ && !detail::is_foreign(p.lane);
      if (may_be_complete && pool_.lane(p.lane).is_complete(p.cursor)) return;
      p.by->retain();
      needs.push_back({p.lane, why, i, p.cursor, b.state->id, p.by});
    });
  }
  const std::vector<detail::need> kept = needs;
  alignment result = aligner_.preview(std::move(needs));
  for (const detail::need& n : kept) n.by->release();
  return result;
}

template <event_stream_backend B, class T>
std::uint64_t multi_stream<B, T>::last_synced(stream_id stream, stream_id origin) const {
  slot_type* s = pool_.find(stream);
  const slot_type* o = pool_.find(origin);
  if (s == nullptr || o == nullptr) return 0;
  const locked lock(s->list_lock);
  return s->now->known(o->lane);
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::host_wait(slot_type& s, std::uint64_t cursor) {
  if (cursor == 0 || (!deterministic_ && s.is_complete(cursor))) return;
  if constexpr (detail::queries_points<B>) {
    std::exception_ptr failure;
    try {
      backend_.wait_point_sync(s.stream, cursor);
    } catch (const execution_error&) {
      failure = std::current_exception();
    }
    s.raise_completed(cursor);
    if (failure) std::rethrow_exception(failure);
  } else {
    detail::mark<B>* m = aligner_.hold_mark(s, cursor);
    const auto give_back = [](detail::mark<B>* held) { held->release(); };
    const std::unique_ptr<detail::mark<B>, decltype(give_back)> held(m, give_back);
    try {
      backend_.wait_event_sync(m->recorded());
    } catch (const execution_error&) {
      aligner_.note_complete(*m);  // over, if not well
      throw;
    }
    aligner_.note_complete(*m);
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::wait(stream_id id) {
  expect_outside_guards("wait()");
  if (slot_type* s = pool_.find(id)) {
    host_wait(*s, s->committed.load(std::memory_order_acquire));  // pairs with commit()
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::wait_all() {
  expect_outside_guards("wait_all()");
  std::exception_ptr first;
  for (std::uint32_t lane = 0; lane < pool_.used(); ++lane) {
    slot_type& s = pool_.lane(static_cast<detail::lane_id>(lane));
    try {
      host_wait(s, s.committed.load(std::memory_order_acquire));  // pairs with commit()
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::wait(const resource& r) {
  expect_outside_guards("wait()");
  const binding whole = read(r);
  locks_.check(whole, 0);
  wait(*whole.state);
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::wait(detail::resource_state& r) {
  expect_outside_guards("wait()");
  const detail::stamp_arena* owner = r.owner.load(std::memory_order_acquire);
  if (owner == nullptr) return;
  if (owner != arena_.get()) detail::throw_not_ours(r);
  // Most resources have one or two points.
  constexpr std::size_t few = 4;
  std::pair<detail::lane_id, std::uint64_t> near[few];
  std::vector<std::pair<detail::lane_id, std::uint64_t>> far;
  std::size_t count = 0;
  {
    const locked lock(r.lock);
    r.past.all([&](const detail::point& p) {
      if (count < few) {
        near[count] = {p.lane, p.cursor};
      } else {
        if (count == few) far.assign(near, near + few);
        far.emplace_back(p.lane, p.cursor);
      }
      ++count;
    });
  }
  auto* const points_of = count > few ? far.data() : near;
  std::sort(points_of, points_of + count);
  std::exception_ptr first;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [lane, cursor] = points_of[i];
    try {
      if (detail::is_foreign(lane)) {
        if (const auto event = aligner_.foreign_event(lane)) backend_.wait_event_sync(*event);
      } else {
        slot_type& s = pool_.lane(lane);
        // A reader that is not committed yet stands in for the slot's earlier ones.
        host_wait(s, std::min(cursor, s.committed.load(std::memory_order_acquire)));  // pairs with commit()
      }
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

template <event_stream_backend B, class T>
bool multi_stream<B, T>::is_over(detail::lane_id lane, std::uint64_t cursor) noexcept {
  try {
    if (detail::is_foreign(lane)) {
      const auto event = aligner_.foreign_event(lane);
      return event == nullptr || backend_.is_complete(*event);
    }
    slot_type& s = pool_.lane(lane);
    if (s.is_complete(cursor)) return true;
    if (s.committed.load(std::memory_order_acquire) < cursor) return false;  // pairs with commit()
    return aligner_.is_known_complete(s, cursor);
  } catch (const std::exception& e) {
    log_error(e.what());
    return false;
  }
}

template <event_stream_backend B, class T>
detail::stamp_handle multi_stream<B, T>::knowledge_of(detail::lane_id lane) const {
  slot_type& s = pool_.lane(lane);
  const locked lock(s.list_lock);
  s.now->retain();
  return detail::stamp_handle(s.now);
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::note(const binding& b, typename B::event event) {
  expect_outside_guards("note()");
  note_inside_guard(b, std::move(event));
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::note_inside_guard(const binding& b, typename B::event event) {
  if (closed_.load(std::memory_order_relaxed)) throw_closed();
  locks_.check(b, 0);
  if (b.state->owner.load(std::memory_order_acquire) != arena_.get()) locks_.own(*b.state);
  detail::stamp* by = aligner_.add_foreign(foreign_stamps_, std::move(event));
  const auto give_back = [](detail::stamp* held) { held->release(); };
  const std::unique_ptr<detail::stamp, decltype(give_back)> held(by, give_back);
  const locked lock(b.state->lock);
  if (b.state->handed_on) detail::throw_handed_on(*b.state);
  b.state->past.add(b.kind, b.range.offset, b.range.end(), 1, by, by->lane());
}

template <event_stream_backend B, class T>
auto multi_stream<B, T>::used_stream(stream_id id) -> typename B::stream& {
  if (slot_type* s = pool_.find(id)) return s->stream;
  throw usage_error(
      misuse::unused_stream,
      "stream " + to_string(id) + " was never used: get() finds streams, only resolve() makes them");
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::expect_outside_guards(const char* what) const {
  if (!detail::is_inside_guard_of(this)) return;
  throw usage_error(misuse::inside_guard, std::string(what) +
                                              " while this thread holds a guard of the same engine: let the "
                                              "guard commit first");
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::throw_closed() const {
  throw usage_error(misuse::after_shutdown, "the engine was shut down: nothing can be submitted any more");
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::log_error(const char* text) noexcept {
  errors_.fetch_add(1, std::memory_order_relaxed);  // a statistic
  log_->write(log_area::errors, log_level::basic, text);
}

template <event_stream_backend B, class T>
std::uint64_t multi_stream<B, T>::admit(std::span<const binding> bindings) {
  std::uint64_t bytes = 0;
  for (const binding& b : bindings) {
    const bool is_token = b.state == nullptr || b.state->size == std::numeric_limits<std::uint64_t>::max();
    if (!is_token && b.range.size < std::numeric_limits<std::uint64_t>::max() - bytes) bytes += b.range.size;
  }
  for (;;) {
    const auto oldest = in_flight_->blocking(bytes);
    if (!oldest.has_value()) return bytes;
    slot_type& s = pool_.lane(oldest->lane);
    if (!s.is_complete(oldest->cursor)) {
      capacity_waits_.fetch_add(1, std::memory_order_relaxed);  // a statistic
      try {
        host_wait(s, oldest->cursor);
      } catch (const execution_error& e) {
        log_error(e.what());  // the room is free all the same
      }
    }
    in_flight_->done(*oldest);
  }
}

template <event_stream_backend B, class T>
bool multi_stream<B, T>::is_idle() const noexcept {
  for (std::uint32_t lane = 0; lane < pool_.used(); ++lane) {
    const slot_type& s = pool_.lane(static_cast<detail::lane_id>(lane));
    if (!s.is_complete(s.committed.load(std::memory_order_acquire))) return false;  // pairs with commit()
  }
  return true;
}

template <event_stream_backend B, class T>
shutdown_report multi_stream<B, T>::shutdown(std::chrono::milliseconds timeout) {
  expect_outside_guards("shutdown()");
  if (closed_.load(std::memory_order_acquire)) return {};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  detail::backoff pause;
  for (;;) {
    bool failed = false;
    for (std::uint32_t lane = 0; lane < pool_.used(); ++lane) {
      slot_type& s = pool_.lane(static_cast<detail::lane_id>(lane));
      const std::uint64_t cursor = s.committed.load(std::memory_order_acquire);  // pairs with commit()
      if (s.is_complete(cursor)) continue;
      try {
        void* gate = gate_after(s);
        if (gate == nullptr) continue;
        is_open(gate);
        forget(gate);
      } catch (const std::exception& e) {
        failed = true;
        log_error(e.what());
      }
    }
    const bool quiet =
        is_idle() &&
        retirer_.drain(std::min(deadline, std::chrono::steady_clock::now() + std::chrono::milliseconds(1))) &&
        retirer_.pending() == 0 && is_idle();
    if (quiet) {
      const std::scoped_lock lock(stranded_mutex_);
      stranded_.clear();
      closed_.exchange(true,
                       std::memory_order_acq_rel);  // pairs with the loads in open_slowly() and retire()
      is_special_.store(true, std::memory_order_relaxed);
      return {};
    }
    if (failed || std::chrono::steady_clock::now() >= deadline) break;
    pause.pause();
  }
  shutdown_report report;
  for (std::uint32_t lane = 0; lane < pool_.used(); ++lane) {
    slot_type& s = pool_.lane(static_cast<detail::lane_id>(lane));
    const std::uint64_t cursor = s.committed.load(std::memory_order_acquire);  // pairs with commit()
    const std::uint64_t completed = s.completed.load(std::memory_order_acquire);
    if (completed >= cursor) continue;
    const locked lock(s.list_lock);
    report.stuck.push_back({s.id_at(cursor), completed, cursor});
  }
  report.objects_pending = retirer_.pending();
  return report;
}

template <event_stream_backend B, class T>
stream_stats multi_stream<B, T>::stats() const {
  stream_stats sum;
  for (std::uint32_t lane = 0; lane < pool_.used(); ++lane) {
    const slot_type& s = pool_.lane(static_cast<detail::lane_id>(lane));
    ++sum.streams;
    sum.ops += s.committed.load(std::memory_order_relaxed);
    for (unsigned h = 0; h < hazard_count; ++h) sum.waits[h] += s.waits[h];
    sum.elided_same_stream += s.elided_same_stream;
    sum.elided_known += s.elided_known;
    sum.elided_implied += s.elided_implied;
    sum.elided_complete += s.elided_complete;
    sum.marks += s.marks_recorded;
    sum.marks_early += s.marks_early;
    sum.marks_reused += s.marks_reused;
    sum.excess_orderings += s.excess;
    sum.waits_forgotten += s.forgotten;
    sum.histories_coarsened += s.coarsened;
    sum.retired += s.retired_objects;
    sum.errors += s.errors;
  }
  sum.waits[static_cast<unsigned>(hazard::capacity)] += capacity_waits_.load(std::memory_order_relaxed);
  sum.retired += retired_.load(std::memory_order_relaxed);
  sum.reclaimed = retirer_.destroyed();
  sum.errors += errors_.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace braid
