#pragma once

// The bodies of basic_runtime's members that move data, as bytes, whatever the elements are; part of
// runtime.hpp.
//
// Where bodies are the work, a read's body fills the future. Where bodies only enqueue, data goes through
// memory of the host that the device can reach: a stage, which only the one op uses. Of a read, whoever comes
// first after the op empties the stage: the thread that waits for the future, or braid's own.

#include <cstring>

#include "braid/detail/runtime_class.hpp"

namespace braid {

namespace detail {

/// Moves bytes as part of an op: on the host at once, or by putting it on the op's native stream.
struct host_mover {
  static void copy(void* to, const void* from, std::uint64_t bytes) {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }
  static void fill(void* to, const void* value, std::size_t size, std::uint64_t count) {
    const auto repeat = [&]<class Word>(Word word) {
      std::memcpy(&word, value, sizeof word);
      auto* at = static_cast<std::byte*>(to);
      for (std::uint64_t i = 0; i < count; ++i) std::memcpy(at + i * sizeof word, &word, sizeof word);
    };
    switch (size) {
      case 1: return repeat(std::uint8_t{});
      case 2: return repeat(std::uint16_t{});
      case 4: return repeat(std::uint32_t{});
      case 8: return repeat(std::uint64_t{});
      default: break;
    }
    auto* at = static_cast<std::byte*>(to);
    for (std::uint64_t i = 0; i < count; ++i) std::memcpy(at + i * size, value, size);
  }
};

/// A body that is given a mover and the views, as the backend calls bodies.
template <class B, class F>
struct moving_body {
  static constexpr bool is_moving = true;
  F f;

  template <class... Views>
  void operator()(typename B::native_stream stream, Views... views) const {
    f(typename B::mover(stream), views...);
  }
};
template <class B, class F>
auto moving(F f) {
  if constexpr (enqueueing_backend<B>) {
    return moving_body<B, F>{std::move(f)};
  } else {
    return [f = std::move(f)](auto... views) { f(host_mover{}, views...); };
  }
}

/// Where bodies are the work.
struct read_body {
  read_result into;
  void operator()(std::span<const std::byte> from) { into.take(from); }
  void finish(const failure_ptr& why) noexcept {
    if (!why) return into.state->set_ready();
    into.state->set_failure(why);
  }
};

/// Brings what is read into the stage; the rest follows when the op is over.
template <class B>
struct stage_body {
  std::shared_ptr<future_state_base> state;
  void operator()(typename B::native_stream stream, std::span<const std::byte> from,
                  std::span<std::byte> stage) {
    typename B::mover(stream).copy(stage.data(), from.data(), from.size_bytes());
  }
  void finish(const failure_ptr& why) noexcept {
    if (why) state->set_failure(why);
  }
};

/// Brings what is read to where it was asked for, which the device can reach.
template <class B>
struct fetch_body {
  static constexpr bool is_moving = true;
  std::shared_ptr<future_state_base> state;
  void* to;
  void operator()(typename B::native_stream stream, std::span<const std::byte> from) {
    typename B::mover(stream).copy(to, from.data(), from.size());
  }
  void finish(const failure_ptr& why) noexcept {
    if (why) state->set_failure(why);
  }
};

/// Of a copy from another runtime, whose failures are kept there.
template <class B>
struct copy_body {
  runtime_base* home;
  held_buffer<const std::byte, access::read> from;
  [[nodiscard]] failure_ptr refuse() const {
    const byte_range r = from.range();
    return home->needs_attention() ? home->failure_of(*from.memory, r.offset, r.end()) : nullptr;
  }
  void operator()(std::span<std::byte> to) const { host_mover::copy(to.data(), from.data, to.size()); }
  template <class Native>
  void operator()(Native stream, std::span<std::byte> to) const {
    typename B::mover(stream).copy(to.data(), from.data, to.size());
  }
};

/// Of a copy from a runtime whose memory this one's devices cannot reach: the second half, from the host.
template <class B>
struct carried_body {
  failure_ptr why;  // of the first half
  std::shared_ptr<std::vector<std::byte>> through;
  [[nodiscard]] const failure_ptr& refuse() const { return why; }
  void operator()(typename B::native_stream stream, std::span<std::byte> to) const {
    typename B::mover(stream).copy(to.data(), through->data(), to.size());
  }
};

struct give_back_at_end {
  void operator()(block* b) const noexcept { give_back(b); }
};
using stage_handle = std::unique_ptr<block, give_back_at_end>;

}  // namespace detail

// ---- From and to the host.

template <runtime_backend B>
struct basic_runtime<B>::staged {
  detail::op_point op;
  detail::stage_handle stage;
};

// An op on `a` and on a stage, which is handed to `prepare` before the op is submitted.
template <runtime_backend B>
template <access StageKind, class T, access Kind, class Prepare, class Body>
auto basic_runtime<B>::give_staged(std::string_view label, const detail::buffer_argument<T, Kind>& a,
                                   Prepare prepare, Body&& body) -> staged {
  if (detail::running_body != nullptr) expect_outside_body(Kind == access::read ? "read()" : "write()");
  expect_process();
  check(a);
  detail::op_point before[2];
  detail::op_point* end = before;
  add_points(a, end);
  const stream_id id = place({before, end}, {&a.core, 1});
  const detail::lane_id lane = engine_->lane_of(id);
  // The op uses the stage, so that the stage keeps the op in its history and nobody uses it before.
  detail::stage_handle stage(take_stage(lane, a.count));
  prepare(stage->data);
  look_at_order(a, detail::last_order);
  scratch_blocks<0> none{*this};
  const auto held = hold(none, lane, a);
  // As scratch memory it keeps no error: who has the stage next puts data there without an op that heals it.
  const detail::held_buffer<detail::element_of<StageKind, std::byte>, StageKind, true> staged_part{
      stage.get(), stage->data, a.count, {}};
  const binding bound[] = {bind(a, held), staged_part.bind(a.count != 0)};
  using pack = detail::held_pack<std::decay_t<decltype(held)>, std::decay_t<decltype(staged_part)>>;
  const detail::op_point op =
      launch(id, lane, label, std::forward<Body>(body), pack{{{held}, {staged_part}}}, bound);
  note_use(a, op);
  return {op, std::move(stage)};
}

template <runtime_backend B>
void basic_runtime<B>::expect_length(const char* what, const detail::buffer_core* core,
                                     std::uint64_t expected, std::uint64_t given) const {
  expect_ours(core);
  if (expected != given) detail::throw_other_length(what, core->name, expected, given);
}

template <runtime_backend B>
void basic_runtime<B>::read_bytes(bytes_read from, detail::read_result into) {
  if (detail::running_body != nullptr) expect_outside_body("read()");
  expect_process();
  if constexpr (!detail::enqueueing_backend<B>) {
    detail::future_state_base& state = *into.state;
    state.come_from(submit("read", from, detail::read_body{std::move(into)}).op());
  } else {
    const std::shared_ptr<detail::future_state_base> state = into.state;
    detail::op_point op;
    std::shared_ptr<detail::block> stage;
    if (into.to != nullptr && engine_->backend().is_reachable(into.to, from.count)) {
      op = submit("read", from, detail::fetch_body<B>{state, into.to}).op();
    } else {
      auto made = give_staged<access::write>(
          "read", from, [](const std::byte*) {}, detail::stage_body<B>{state});
      op = made.op;
      stage = std::move(made.stage);
    }
    state->come_from(op);
    if (state->is_ready()) return;  // refused
    const bool is_staged = stage != nullptr;
    // Not the state itself, which would own itself.
    state->finish_with([this, held = std::move(stage), take = into.take_into, to = into.to,
                        into = state.get(), bytes = from.count]() mutable {
      std::exception_ptr why = engine_->backend().failure();
      try {
        if (held && !why) take(*into, to, {held->data, bytes});
      } catch (...) {
        why = std::current_exception();  // no memory for the result
      }
      held.reset();  // before anybody is told: who has the result may want a stage for the next
      why ? into->set_error(std::move(why)) : into->set_ready();
    });
    engine_->retire(detail::retired::of(detail::at_destruction([state]() noexcept { state->finish(); })),
                    engine_->id_of(op.lane()));
    if (is_staged) open_reads_.add(state);
  }
}

template <runtime_backend B>
submission basic_runtime<B>::write_bytes(bytes_written to, const void* from) {
  const staged made = give_staged<access::read>(
      "write", to, [&](std::byte* stage) { detail::host_mover::copy(stage, from, to.count); },
      detail::moving<B>([](const auto& mover, std::span<std::byte> x, std::span<const std::byte> stage) {
        mover.copy(x.data(), stage.data(), x.size());
      }));
  return {link_, made.op};
}

template <runtime_backend B>
submission basic_runtime<B>::write_kept(bytes_written to, const void* from, std::shared_ptr<void> owner) {
  if (detail::running_body != nullptr) expect_outside_body("write_from()");
  expect_process();
  if constexpr (detail::enqueueing_backend<B>) {
    // What the device cannot reach has to be staged.
    if (!engine_->backend().is_reachable(from, to.count)) return write_bytes(to, from);
    const submission op =
        submit("write", to, detail::moving<B>([from](const auto& mover, std::span<std::byte> x) {
                 mover.copy(x.data(), from, x.size());
               }));
    engine_->retire(std::move(owner), engine_->id_of(op.op().lane()));
    return op;
  } else {
    return submit("write", to, [from, owner = std::move(owner)](std::span<std::byte> x) {
      detail::host_mover::copy(x.data(), from, x.size());
    });
  }
}

// ---- Between buffers.

template <runtime_backend B>
submission basic_runtime<B>::fill_bytes(std::string_view label, bytes_written to, detail::fill_value value) {
  return submit(label, to,
                detail::moving<B>([value = std::move(value)](const auto& mover, std::span<std::byte> x) {
                  mover.fill(x.data(), value.data(), value.size(), x.size() / value.size());
                }));
}

template <runtime_backend B>
submission basic_runtime<B>::copy_bytes(bytes_written to, bytes_read from) {
  if (!(from.core->runtime == link_)) {
    detail::runtime_base* other = from.core->runtime.get();
    if (other == nullptr || other->kind() != kind()) {
      detail::throw_foreign_buffer(*from.core, other == nullptr);
    }
    auto& source = static_cast<basic_runtime&>(*other);
    if constexpr (requires { engine_->backend().shares_memory_with(source.backend()); }) {
      if (!engine_->backend().shares_memory_with(source.backend())) return carry_over(source, to, from);
    }
    return copy_between(source, to, from);
  }
  return submit("copy", from, to,
                detail::moving<B>([](const auto& mover, std::span<const std::byte> s,
                                     std::span<std::byte> x) { mover.copy(x.data(), s.data(), x.size()); }));
}

template <runtime_backend B>
auto basic_runtime<B>::event_behind(typename B::stream& stream, std::uint64_t cursor) -> typename B::event {
  auto made = [&] {
    if constexpr (requires { engine_->backend().event_of(stream, cursor); }) {
      return engine_->backend().event_of(stream, cursor);
    } else {
      return engine_->backend().flush(stream);
    }
  }();
  expect_device();  // if it was lost just now nothing was recorded
  return made;
}

template <runtime_backend B>
void basic_runtime<B>::note_bytes(detail::buffer_core* core, byte_range range, access kind, std::uint32_t tag,
                                  typename B::event event) {
  expect_outside_body("note()");
  expect_process();
  check_range(core, range, kind);
  if constexpr (requires { engine_->backend().admit(event); }) engine_->backend().admit(event);
  detail::block* memory = memory_of(*core, engine_->lane_of(stream_id::special(0)));
  const bool is_whole = range.size != 0 && range.size == core->bytes;
  engine_->note(binding{memory, kind, range, is_whole, tag}, std::move(event));
  if (kind != access::read) core->note_written(range);
}

// Behind the op that the access comes after, if nothing was put there since: the event waits for nothing else
// then. Else on a stream of its own, where it stands behind those before it.
template <runtime_backend B>
stream_id basic_runtime<B>::aside_for(const detail::buffer_core& core, access kind, byte_range range) const {
  detail::block* const memory = core.memory.load(std::memory_order_acquire);  // pairs with take_memory()
  const auto behind = memory != nullptr ? engine_->last_on_one_stream(*memory, kind, range) : std::nullopt;
  return behind.value_or(stream_id::special(0));
}

template <runtime_backend B>
auto basic_runtime<B>::event_after(const char* what, detail::buffer_core* core, access kind) ->
    typename B::event {
  expect_outside_body(what);
  expect_device();
  expect_ours(core);
  const byte_range all{0, core->bytes};
  check_range(core, all, kind);
  const stream_id aside = aside_for(*core, kind, all);
  const detail::lane_id lane = engine_->lane_of(aside);
  admit(lane);
  const binding bound{memory_of(*core, lane), kind, all, all.size != 0, 0};
  auto op = engine_->resolve(aside, std::span<const binding>(&bound, 1));
  return event_behind(op.current(), op.cursor());
}

// On the source's side an op that reads the source stays open while the copy is submitted here: nobody can
// write to the source in between. The copy waits for that op's event, and its own event is noted with the
// source, so that whoever writes there next waits for the copy.
template <runtime_backend B>
submission basic_runtime<B>::copy_between(basic_runtime& other, bytes_written target, bytes_read source) {
  static std::mutex one_at_a_time;  // two copies in opposite directions would wait for each other
  if (detail::running_body != nullptr) expect_outside_body("copy()");
  other.expect_device();  // an event of a lost one would be no event
  expect_device();
  other.check(source);
  check(target);
  const stream_id aside = other.aside_for(*source.core, access::read, source.range());
  const detail::lane_id other_lane = other.engine_->lane_of(aside);
  other.admit(other_lane);
  scratch_blocks<0> none{*this};
  const auto held = other.hold(none, other_lane, source);
  detail::op_point before[2];
  detail::op_point* end = before;
  add_points(target, end);
  const stream_id id = place({before, end}, {&target.core, 1});
  const detail::lane_id lane = engine_->lane_of(id);
  look_at_order(source, detail::last_order);
  look_at_order(target, detail::last_order);
  const auto sink = hold(none, lane, target);
  const binding reads = bind(source, held);
  const binding writes = bind(target, sink);
  const std::scoped_lock lock(one_at_a_time);
  auto guard = other.engine_->resolve(aside, std::span<const binding>(&reads, 1));
  engine_->note(writes, other.event_behind(guard.current(), guard.cursor()));
  using pack = detail::held_pack<std::decay_t<decltype(sink)>>;
  const detail::op_point op = launch(id, lane, "copy", detail::copy_body<B>{&other, held}, pack{{{sink}}},
                                     std::span<const binding>(&writes, 1));
  note_use(target, op);
  try {
    other.engine_->note_inside_guard(reads, event_behind(engine_->stream_of(lane), op.cursor()));
  } catch (...) {
    // Nobody who writes to the source would wait for the copy: it is over before the guard lets them. (Where
    // bodies are the work the copy waits for the guard.)
    if constexpr (detail::enqueueing_backend<B>) engine_->wait_surely(lane, op.cursor());
    throw;
  }
  return {link_, op};
}

template <runtime_backend B>
submission basic_runtime<B>::carry_over(basic_runtime& other, bytes_written to, bytes_read from)
  requires detail::enqueueing_backend<B>
{
  check(to);
  auto through = std::make_shared<std::vector<std::byte>>(from.count);
  const detail::op_point out =
      other
          .submit("copy", from,
                  [&through](typename B::native_stream stream, std::span<const std::byte> source) {
                    typename B::mover(stream).copy(through->data(), source.data(), source.size());
                  })
          .op();
  other.engine_->retire(through, other.engine_->id_of(out.lane()));
  note(to, other.event_behind(other.engine_->stream_of(out.lane()), out.cursor()));
  const submission in = submit("copy", to, detail::carried_body<B>{other.failure_of(out), through});
  engine_->retire(std::move(through), engine_->id_of(in.op().lane()));
  return in;
}

}  // namespace braid
