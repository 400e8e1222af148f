#pragma once

// The bodies of multi_stream's members; part of multi_stream.hpp.

#include <algorithm>
#include <chrono>

#include "braid/detail/multi_stream_class.hpp"
#include "braid/detail/time.hpp"

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
  end_routines();
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
      if (s.is_complete(cursor)) continue;
      try {
        wait_until_over(s, cursor);
      } catch (const std::exception& e) {
        log_error(e.what());
        s.raise_completed(cursor);  // a device that cannot be asked will not say more
      }
      s.waited_out.store(cursor, std::memory_order_relaxed);  // read by the retire thread, again and again
    }
    is_ending_.store(true, std::memory_order_relaxed);  // likewise
    retirer_.drain(std::chrono::steady_clock::time_point::max());
  } while (retirer_.pending() != 0 || !is_idle());
  // acq_rel: as in shutdown()
  closed_.exchange(true, std::memory_order_acq_rel);
  is_special_.store(true, std::memory_order_relaxed);
  retirer_.stop();
  if constexpr (follows) detail::end_routines_of(this);  // that retired destructors have begun; no more do
  stranded_.clear();
  aligner_.release_foreign();
  arena_->close();
}

template <event_stream_backend B, class T>
auto multi_stream<B, T>::slot_of(stream_id id) -> slot_type& {
  return pool_.get(id, [&](detail::lane_id lane) {
    if constexpr (requires { backend_.create_stream(id); }) {
      // Of ids that share a slot it does not matter which one comes first.
      const stream_id slot = id.is_special() ? id : stream_id{pool_.index(id)};
      return make_slot(lane, id, backend_.create_stream(slot));
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
    auto adopted = make_slot(lane, id, std::move(made));
    adopted->is_adopted = adopted->has_afterwork = true;
    return adopted;
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
  if (log_->is_enabled(log_area::streaming)) [[unlikely]] {
    const stream_id foreign = stream_id::special(index_of(detail::first_foreign_lane));
    detail::log_wait(*log_, id, op.cursor(), {.origin = foreign, .cursor = 1, .why = hazard::user}, {});
  }
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
    try {
      gate = gate_after(s);
    } catch (const std::exception& e) {
      log_error(e.what());
      const std::uint64_t cursor = s.committed.load(std::memory_order_acquire);  // pairs with commit()
      gate = tagged(std::make_unique<unmarked_gate>(unmarked_gate{&s, cursor}));
    }
    retirer_.add(s.lane, gate, std::move(object));
  } catch (const std::exception& e) {
    strand(gate, std::move(object), e.what());
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
  if (const auto* event = as<foreign_gate>(gate)) {
    try {
      return backend_.is_complete(**event);
    } catch (const std::exception& e) {
      return is_over_after(e) || is_ending_.load(std::memory_order_relaxed);
    }
  }
  if (const auto* unmarked = as<unmarked_gate>(gate)) {
    try {
      return aligner_.is_known_complete(*unmarked->slot, unmarked->cursor);
    } catch (const std::exception&) {
      return is_waited_out(*unmarked->slot, unmarked->cursor);  // the first time it was logged
    }
  }
  auto& m = *static_cast<detail::mark<B>*>(gate);
  try {
    if (m.event) {
      if (!backend_.is_complete(*m.event)) return false;
    } else if constexpr (detail::queries_points<B>) {
      if (!backend_.is_point_complete(pool_.lane(m.clock->lane()).stream, m.cursor)) return false;
    }
  } catch (const std::exception& e) {
    slot_type& origin = pool_.lane(m.clock->lane());
    if (!is_over_after(e) && !is_waited_out(origin, m.cursor)) {
      if constexpr (!points) aligner_.record_again(m);
      return false;
    }
    aligner_.keep_failure(origin, m.cursor);
  }
  aligner_.note_complete(m);
  return true;
}

template <event_stream_backend B, class T>
bool multi_stream<B, T>::is_over_after(const std::exception& e) noexcept {
  log_error(e.what());
  const bool tells_of_the_work = dynamic_cast<const execution_error*>(&e) != nullptr;
  return tells_of_the_work && aligner_.is_over_if_it_throws();
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::forget(void* gate) noexcept {
  if (auto* event = as<foreign_gate>(gate)) {
    delete event;
  } else if (auto* unmarked = as<unmarked_gate>(gate)) {
    delete unmarked;
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
  try {
    if (auto event = aligner_.foreign_event(after.lane))
      gate = tagged(std::make_unique<foreign_gate>(std::move(event)));
    retirer_.add(after.lane, gate, std::move(object));
  } catch (const std::exception& e) {
    strand(gate, std::move(object), e.what());
  }
}

// Without memory nobody can tell when: it waits for the end of all work.
template <event_stream_backend B, class T>
void multi_stream<B, T>::strand(void* gate, detail::retired object, const char* why) noexcept {
  if (gate != nullptr) forget(gate);
  log_error(why);
  const std::scoped_lock lock(stranded_mutex_);
  stranded_.push_back(std::move(object));
}

template <event_stream_backend B, class T>
alignment multi_stream<B, T>::analyse(stream_id id, std::span<const binding> bindings) const {
  expect_outside_guards("analyse()");
  detail::end_routine_inside();
  end_routines();
  const slot_type* s = pool_.find(id);
  detail::stamp* known = nullptr;
  if (s != nullptr) {
    const locked lock(const_cast<slot_type*>(s)->list_lock);
    known = s->now;
    known->retain_under_list_lock();
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
      p.retain();
      needs.push_back({p.cursor, p.lane, i, b.state, p.by, why, true});
    });
  }
  const std::vector<detail::need> kept = needs;
  alignment result = aligner_.preview(std::move(needs));
  for (const detail::need& n : kept) {
    if (n.by != nullptr) n.by->release();
  }
  return result;
}

template <event_stream_backend B, class T>
std::uint64_t multi_stream<B, T>::last_synced(stream_id stream, stream_id origin) const {
  end_routines();
  slot_type* s = pool_.find(stream);
  const slot_type* o = pool_.find(origin);
  if (s == nullptr || o == nullptr) return 0;
  const locked lock(s->list_lock);
  return s->now->known(o->lane);
}

template <event_stream_backend B, class T>
template <class F>
void multi_stream<B, T>::each_synced(stream_id stream, F fn) const {
  end_routines();
  slot_type* s = pool_.find(stream);
  if (s == nullptr) return;
  const locked lock(s->list_lock);
  for (const detail::clock_entry& entry : s->now->entries())
    if (!detail::is_foreign(entry.lane)) fn(pool_.lane(entry.lane).first_id, entry.cursor);
}

template <event_stream_backend B, class T>
bool multi_stream<B, T>::forget_synced() noexcept
  requires(!T::synchronised)
{
  bool have_all = true;
  for (std::uint32_t i = 0; i < pool_.used(); ++i) {
    slot_type& s = pool_.lane(static_cast<detail::lane_id>(i));
    s.known = detail::clock(s.lane);
    have_all = aligner_.publish(s) && have_all;
    s.leave_before();
  }
  return have_all;
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::host_wait(slot_type& s, std::uint64_t cursor) {
  try {
    wait_until_over(s, cursor);
  } catch (...) {
    if (s.has_failed.load(std::memory_order_acquire))
      (void)aligner_.take_failure(s, cursor);  // told just now
    throw;
  }
  if (s.has_failed.load(std::memory_order_acquire))
    aligner_.tell_failure(s, cursor);  // pairs with keep_failure(), as above
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::wait_until_over(slot_type& s, std::uint64_t cursor) {
  if (cursor == 0) return;
  if constexpr (requires { backend_.failure(); }) {
    // Not only who waits first is to learn of it.
    if (const std::exception_ptr why = backend_.failure()) [[unlikely]] {
      s.raise_completed(cursor);  // over, if not well
      std::rethrow_exception(why);
    }
  }
  if (!deterministic_ && s.is_complete(cursor)) return;
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
      aligner_.is_over_if_it_throws() ? aligner_.note_complete(*m) : aligner_.record_again(*m);
      throw;
    }
    aligner_.note_complete(*m);
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::wait_surely(slot_type& s, std::uint64_t cursor) noexcept {
  detail::backoff pause;
  constexpr unsigned patience = 4096;  // with what may never end: about a second
  unsigned refused = 0;
  for (unsigned tries = 0;; ++tries, pause.pause()) {
    try {
      if constexpr (requires { backend_.wait_stream(s.stream); }) {
        if (tries % 2 != 0) {  // no event could be recorded, perhaps
          backend_.wait_stream(s.stream);
          return s.raise_completed(cursor);
        }
      }
      return wait_until_over(s, cursor);
    } catch (const std::bad_alloc&) {
      continue;  // until there is memory
    } catch (const std::exception& e) {
      if (refused == 0) log_error(e.what());
      const bool tells_of_the_work = dynamic_cast<const execution_error*>(&e) != nullptr;
      if (tells_of_the_work && aligner_.is_over_if_it_throws()) return aligner_.keep_failure(s, cursor, true);
      if constexpr (requires { backend_.failure(); }) {
        if (backend_.failure()) return;
      }
      if (++refused == patience) return;
    }
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
  detail::end_routine_inside();
  const detail::stamp_arena* owner = r.owner.load(std::memory_order_acquire);
  if (owner == nullptr) return;
  if (owner != arena_.get()) detail::throw_not_ours(r);
  if constexpr (follows) {
    if (is_following() && wait_in_routine(r)) return;
  }
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
  bool has_foreign = false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [lane, cursor] = points_of[i];
    has_foreign = has_foreign || detail::is_foreign(lane);
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
  if (has_foreign) forget_foreign(r);
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
std::optional<stream_id> multi_stream<B, T>::last_on_one_stream(detail::resource_state& r, access kind,
                                                                byte_range range) const {
  const slot_type* only = nullptr;
  bool is_one = true;
  const locked lock(r.lock);
  r.past.needs(kind, 0, range, false, [&](const detail::point& p, hazard) {
    const slot_type* const s = detail::is_foreign(p.lane) ? nullptr : &pool_.lane(p.lane);
    is_one = is_one && s != nullptr && (only == nullptr || only == s) && !s->is_adopted &&
             s->committed.load(std::memory_order_acquire) == p.cursor;  // pairs with commit()
    only = s;
  });
  return is_one && only != nullptr ? std::optional(only->first_id) : std::nullopt;
}

template <event_stream_backend B, class T>
detail::stamp_handle multi_stream<B, T>::knowledge_of(detail::lane_id lane) const {
  slot_type& s = pool_.lane(lane);
  const locked lock(s.list_lock);
  s.now->retain_under_list_lock();
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
  detail::end_routine_inside();
  if (b.state->owner.load(std::memory_order_acquire) != arena_.get()) locks_.own(*b.state);
  const auto [by, cursor] = aligner_.add_foreign(foreign_stamps_, std::move(event));
  const auto give_back = [](detail::stamp* held) { held->release(); };
  const std::unique_ptr<detail::stamp, decltype(give_back)> held(by, give_back);
  forget_foreign(*b.state);
  for (;;) {
    // A routine that only reads the resource does not hold it, and would not come after. One that begins
    // after the look under the lock finds the access.
    if (b.state->routines.load(std::memory_order_acquire) != 0) detail::end_routines_of(*b.state);
    const locked lock(b.state->lock);
    if (b.state->routines.load(std::memory_order_acquire) != 0) continue;
    if (b.state->handed_on) detail::throw_handed_on(*b.state);
    b.state->past.add(b.kind, b.range.offset, b.range.end(), cursor, by, by->lane());
    return;
  }
}

// A resource that is noted again and again, and never written by an op, would remember each of them.
template <event_stream_backend B, class T>
void multi_stream<B, T>::forget_foreign(detail::resource_state& r) {
  if (deterministic_) return;
  std::vector<detail::lane_id> over;
  {
    const locked lock(r.lock);
    r.past.all([&](const detail::point& p) {
      if (detail::is_foreign(p.lane)) over.push_back(p.lane);
    });
  }
  std::sort(over.begin(), over.end());  // the oldest come first
  over.erase(std::unique(over.begin(), over.end()), over.end());
  unsigned asked_in_vain = 0;
  constexpr unsigned patience = 4;
  std::erase_if(over, [&](detail::lane_id lane) {
    if (asked_in_vain == patience) return true;
    if (is_over(lane, 0)) return false;  // of a foreign lane there is one access at a time
    ++asked_in_vain;
    return true;
  });
  if (over.empty()) return;
  const locked lock(r.lock);
  r.past.forget(over);
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
        wait_until_over(s, oldest->cursor);
      } catch (const execution_error& e) {
        log_error(e.what());  // the room is free all the same
        aligner_.keep_failure(s, oldest->cursor, true);
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
  const auto deadline = detail::deadline_in(timeout);
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
      if constexpr (follows) detail::end_routines_of(this);  // no more begin
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
  end_routines();
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
    sum.followed += s.followed_ops;
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
