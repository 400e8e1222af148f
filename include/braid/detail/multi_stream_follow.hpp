#pragma once

// How multi_stream notices a routine and follows it; part of multi_stream.hpp. See routine.hpp.

#include "braid/detail/multi_stream_routine_end.hpp"

namespace braid {

// An op was given in the usual way.
template <event_stream_backend B, class T>
void multi_stream<B, T>::observe(const slot_type& s, stream_id id, const op_label* label,
                                 std::span<const binding> bindings) {
  auto* finder = detail::here.finder;
  // The op is given: if memory runs out here, it goes on in the usual way.
  try {
    if (finder == nullptr) [[unlikely]]
      finder = detail::make_finder();
    if (finder == nullptr) [[unlikely]]
      return;
    finder->note(number_, {const_cast<slot_type*>(&s), id, label, s.cursor, 0, 0}, bindings);
  } catch (const std::bad_alloc&) {
    if (finder == nullptr) return;
    finder->forget();
  }
  detail::here.is_ready = finder->is_ready();
}

// The thread's ops repeat themselves, and the next one is expected to be the first of a round.
template <event_stream_backend B, class T>
void multi_stream<B, T>::begin_routine() {
  detail::routine_finder& finder = *detail::here.finder;
  detail::here.is_ready = false;
  // Whether what is expected is complete would decide what is followed.
  const bool may_follow = !deterministic_ && !in_flight_ && marks_ == mark_policy::learned &&
                          !log_->is_enabled(log_area::streaming);  // each wait is told
  if (!may_follow || detail::innermost_open_op != nullptr || !finder.is_of(number_) ||
      !finder.resources().has_all())
    return finder.note_end(0);
  try {
    auto made = std::make_shared<routine>(*this);
    if (!made->describe_ops(finder) || !detail::begin_routine(made, finder.resources()))
      return finder.note_end(0);
    detail::keep_followed(number_, std::move(made));
    finder.forget();
  } catch (const std::bad_alloc&) {
    finder.note_end(0);  // it goes on in the usual way
  }
}

// Waits for the last ops on a resource that the routine of this thread writes, which goes on. False: it does
// not hold it.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::wait_in_routine(const detail::resource_state& r) {
  std::vector<std::pair<slot_type*, std::uint64_t>> last;
  {
    auto& followed = static_cast<routine&>(*detail::here.followed);
    const std::scoped_lock lock(followed.lock_);
    if (!followed.is_followed_ || !followed.holds(r.lock)) return false;
    followed.last_accesses(r, [&](slot_type& s, std::uint64_t cursor) { last.emplace_back(&s, cursor); });
  }
  std::exception_ptr first;
  for (const auto& [s, cursor] : last) {
    try {
      host_wait(*s, cursor);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  return true;
}

// False: the op is to be given in the usual way.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::follow(slot_type& s, stream_id id, const op_label* label,
                                std::span<const binding> bindings) {
  if (detail::innermost_open_op != nullptr) [[unlikely]]
    return false;
  auto& r = static_cast<routine&>(*detail::here.followed);
  r.lock_.lock();
  if (!r.is_followed_ || !r.expects(s, id, label, bindings)) [[unlikely]] {
    leave_followed(r);
    return false;
  }
  follow_expected(r, s);
  return true;
}

// Likewise, for an op that is known to be the expected one.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::follow_next(slot_type& s) {
  if (detail::innermost_open_op != nullptr) [[unlikely]]
    return false;
  auto& r = static_cast<routine&>(*detail::here.followed);
  r.lock_.lock();
  if (!r.is_followed_) [[unlikely]] {
    leave_followed(r);
    return false;
  }
  follow_expected(r, s);
  return true;
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::note_open(const slot_type& s, std::unique_ptr<detail::attachment> note) noexcept {
  if constexpr (follows) static_cast<routine*>(s.followed)->note(std::move(note));
}

// Under its lock, which is given back with the commit, or if this throws.
template <event_stream_backend B, class T>
void multi_stream<B, T>::follow_expected(routine& r, slot_type& s) {
  s.cursor = s.committed.load(std::memory_order_relaxed) + 1;  // the slot is the routine's
  if (s.has_waits) [[unlikely]]
    s.forget_waits();
  try {
    r.open();
  } catch (...) {
    leave_followed(r);
    throw;
  }
  detail::innermost_open_op = &s;
  detail::here.expected = nullptr;
  detail::here.is_inside = true;
}

// Under its lock, which is given back.
template <event_stream_backend B, class T>
void multi_stream<B, T>::leave_followed(routine& r) noexcept {
  const auto [length, round, streams] = r.extent();
  if (r.is_followed_) r.finish(false);
  r.lock_.unlock();
  detail::forget_followed();
  if (detail::here.finder->is_of(number_)) detail::here.finder->note_end(length, round, streams);
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::commit_followed(slot_type& s) noexcept {
  auto& r = *static_cast<routine*>(s.followed);
  s.committed.store(s.cursor, std::memory_order_release);  // as in commit()
  detail::innermost_open_op = nullptr;
  detail::here.is_inside = false;
  if (s.has_afterwork) [[unlikely]]
    finish(s);
  try {
    r.close();
  } catch (const std::exception& e) {
    log_error(e.what());  // who waits for the op records an event in the usual way
    return leave_followed(r);
  }
  detail::here.expected = r.noted();
  r.lock_.unlock();
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::describe_followed(slot_type& s) const {
  if constexpr (follows) {
    static_cast<const routine*>(s.followed)->describe(s.aligned);
    s.has_waits = true;
  }
}

}  // namespace braid
