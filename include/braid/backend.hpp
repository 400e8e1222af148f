#pragma once

#include <concepts>
#include <cstdint>
#include <span>

// What braid asks of a device.
//
// flush(s) may run at the same time as any other use of s, from any thread; the other calls on s are
// serialised by its slot. Events may be queried, awaited and destroyed by any thread. A backend pools its
// events: it may use one again when the engine has destroyed it, which is when no mark refers to it.
//
// Any call may throw. The engine stays usable: what was handed over stays known, the op is not given.

namespace braid {

class op_label;

template <class B>
concept event_stream_backend =
    std::movable<B> && std::movable<typename B::stream> && std::movable<typename B::event> &&
    requires(B& b, typename B::stream& s, const typename B::event& e) {
      { b.create_stream() } -> std::same_as<typename B::stream>;
      { b.flush(s) } -> std::same_as<typename B::event>;  // submit what is pending; an event behind it
      { b.wait_event(s, e) };                             // later work on s starts after e
      { b.wait_event_sync(e) };                           // blocks the host; throws execution_error
      { b.is_complete(e) } -> std::same_as<bool>;         // never blocks; throws execution_error
    };

/// It may offer more:
///   b.create_stream(id)       in place of create_stream(), where the id matters
///   b.flush_again(s, e)       as flush(s), with an event of the same stream that nobody refers to any more
///   b.wait_events(s, span of const event*)    all waits of an op in one call, in place of several
///   B::asks_as_dearly_as_it_waits    wait_event() costs no more than is_complete(), which is not used then
///   B::events_fail_with_the_device, b.failure()    an event has failed only if failure() is not null: if it
///       is, a question that threw has told nothing. Else one that throws execution_error says that the work
///       is over
///   b.wait_stream(s)          blocks the host until all is over that s was given; for where no event can be
///       recorded
///   b.note_over(s, cursor)    this op of the stream, and all before it, are over

/// A backend that can make a stream wait for one op of another, without an event. It may offer more:
///   b.commit_point(s, cursor)         what was handed to s since the last call is op `cursor`
///   b.is_point_complete(s, cursor)    never blocks; any thread; throws execution_error
///   b.wait_point_sync(s, cursor)      blocks the host; any thread; throws execution_error
/// Without the last two, the engine flushes for an event to learn of completion.
template <class B>
concept point_backend =
    event_stream_backend<B> && requires(B& b, typename B::stream& s, const typename B::stream& origin,
                                        std::uint64_t cursor) { b.wait_point(s, origin, cursor); };

namespace detail {

template <class B>
concept waits_at_once =
    !point_backend<B> && requires(B& b, typename B::stream& s,
                                  std::span<const typename B::event* const> all) { b.wait_events(s, all); };

template <class B>
concept commits_points = requires(B& b, typename B::stream& s, std::uint64_t c) { b.commit_point(s, c); };

template <class B>
concept queries_points = point_backend<B> && requires(B& b, const typename B::stream& s, std::uint64_t c) {
  { b.is_point_complete(s, c) } -> std::same_as<bool>;
  { b.wait_point_sync(s, c) };
};

/// Bodies put work on a native stream, which is their first argument, instead of being the work: they are
/// called inside submit(). Such a backend has beside launch()
///   B::native_stream
///   B::mover(native).copy(to, from, bytes), .fill(to, value, size, count)    copies also from and to stages
///   b.is_reachable(p, bytes)    whether copies from and to this memory of the host need no stage
///   b.failure()             why no op can run any more: an exception, or null
///   b.note_thrown(what)     optional: a body threw this, which may be the first sign of such a failure
///   b.shares_memory_with(other)    optional: whether its copies reach the memory of a runtime over `other`
///   b.reach(data, bytes)    optional: lets ops use memory of the host while what it returns lives
///   b.expect_usable<Body>(spans...)    optional, with B::checks_bodies: throws where the body could not be
///   called
///   B::plain_native(s), note_begin(s, cursor, label), note_end(s, cursor)    optional: what the body is
///   called with between the other two; null if launch() has more to do
template <class B>
concept enqueueing_backend = requires { typename B::native_stream; };
template <class B>
concept plainly_enqueueing =
    enqueueing_backend<B> && requires(typename B::stream& s, std::uint64_t cursor, const op_label* label) {
      { B::plain_native(s) } -> std::same_as<const typename B::native_stream*>;
      B::note_begin(s, cursor, label);
      B::note_end(s, cursor);
    };

}  // namespace detail

}  // namespace braid
