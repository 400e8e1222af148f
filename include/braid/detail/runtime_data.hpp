#pragma once

// The bodies of basic_runtime's members that move data; part of runtime.hpp.
//
// Where bodies are the work, a read's body fills the future. Where bodies only enqueue, data goes through
// memory of the host that the device can reach: a stage, which only the one op uses. Of a read, whoever comes
// first after the op empties the stage: the thread that waits for the future, or braid's own.

#include "braid/detail/runtime_class.hpp"

namespace braid {

namespace detail {

/// Moves bytes as part of an op: on the host at once, or by putting it on the op's native stream.
struct host_mover {
  static void copy(void* to, const void* from, std::uint64_t bytes) {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }
  template <class T>
  static void fill(std::span<T> to, const T& value) {
    const T kept = value;  // which might be one of them
    for (T& each : to) each = kept;
  }
};

/// A body that is given a mover and the views, as the backend calls bodies.
template <class B, class F>
auto moving(F f) {
  if constexpr (enqueueing_backend<B>) {
    return [f = std::move(f)](typename B::native_stream stream, auto... views) mutable {
      f(typename B::mover(stream), views...);
    };
  } else {
    return [f = std::move(f)](auto... views) mutable { f(host_mover{}, views...); };
  }
}

template <class T>
struct read_body {
  std::shared_ptr<future_state<std::vector<T>>> to;
  void operator()(std::span<const T> from) { to->prepare().assign(from.begin(), from.end()); }
  void finish(const failure_ptr& why) noexcept {
    if (!why) return to->set_ready();
    to->set_failure(why);
  }
};

template <class T>
struct read_into_body {
  std::shared_ptr<future_state<void>> state;
  std::span<T> to;
  void operator()(std::span<const T> from) { host_mover::copy(to.data(), from.data(), from.size_bytes()); }
  void finish(const failure_ptr& why) noexcept {
    if (!why) {
      (void)state->prepare();
      return state->set_ready();
    }
    state->set_failure(why);
  }
};

/// Brings what is read into the stage; the rest follows when the op is over.
template <class B, class T>
struct stage_body {
  std::shared_ptr<future_state_base> state;
  void operator()(typename B::native_stream stream, std::span<const T> from, std::span<T> stage) {
    typename B::mover(stream).copy(stage.data(), from.data(), from.size_bytes());
  }
  void finish(const failure_ptr& why) noexcept {
    if (why) state->set_failure(why);
  }
};

/// Of a copy from another runtime, whose failures are kept there.
template <class B, class T>
struct copy_body {
  runtime_base* home;
  held_buffer<const T, access::read> from;
  [[nodiscard]] failure_ptr refuse() const {
    const byte_range r = from.range();
    return home->needs_attention() ? home->failure_of(*from.memory, r.offset, r.end()) : nullptr;
  }
  void operator()(std::span<T> to) const { host_mover::copy(to.data(), from.data, to.size_bytes()); }
  template <class Native>
  void operator()(Native stream, std::span<T> to) const {
    typename B::mover(stream).copy(to.data(), from.data, to.size_bytes());
  }
};

/// Of a copy from a runtime whose memory this one's devices cannot reach: the second half, from the host.
template <class B, class T>
struct carried_body {
  failure_ptr why;  // of the first half
  std::shared_ptr<std::vector<T>> through;
  [[nodiscard]] const failure_ptr& refuse() const { return why; }
  void operator()(typename B::native_stream stream, std::span<T> to) const {
    typename B::mover(stream).copy(to.data(), through->data(), to.size_bytes());
  }
};

}  // namespace detail

// ---- From and to the host.

// An op on `a` and on a stage, which is handed to `prepare` before the op is submitted.
template <runtime_backend B>
template <access StageKind, class T, access Kind, class Prepare, class Body>
auto basic_runtime<B>::give_staged(std::string_view label, const detail::buffer_argument<T, Kind>& a,
                                   Prepare prepare, Body&& body) -> staged {
  if (detail::running_body != nullptr) expect_outside_body(Kind == access::read ? "read()" : "write()");
  check(a);
  detail::op_point before[2];
  detail::op_point* end = before;
  add_points(a, end);
  const stream_id id = place({before, end});
  const detail::lane_id lane = engine_->lane_of(id);
  const std::uint64_t bytes = a.count * sizeof(T);
  // The op uses the stage, so that the stage keeps the op in its history and nobody uses it before.
  stage_handle stage(take_stage(lane, bytes), {staging_.get()});
  prepare(stage->data);
  look_at_order(a, detail::last_order);
  scratch_blocks<0> none{*this};
  const auto held = hold(none, lane, a);
  using stage_type = detail::element_of<StageKind, std::remove_const_t<T>>;
  const detail::held_buffer<stage_type, StageKind> staged_part{
      stage.get(), reinterpret_cast<stage_type*>(stage->data), a.count, {}};
  const binding bound[] = {bind(a, held), staged_part.bind(a.count != 0)};
  using pack = detail::held_pack<std::decay_t<decltype(held)>, std::decay_t<decltype(staged_part)>>;
  const detail::op_point op =
      launch(id, lane, label, std::forward<Body>(body), pack{{held, staged_part}}, bound);
  note_use(a, op);
  return {op, std::move(stage)};
}

// `take(data)` is called with what was read, when it is there.
template <runtime_backend B>
template <class State, class T, class Take>
void basic_runtime<B>::read_staged(const std::shared_ptr<State>& state, const buffer_slice<T>& from,
                                   Take take) {
  auto [op, stage] = give_staged<access::write>(
      "read", braid::read(from), [](const std::byte*) {}, detail::stage_body<B, T>{state});
  state->come_from(op);
  if (state->is_ready()) return;  // refused
  std::shared_ptr<detail::block> held = std::move(stage);
  state->finish_with([this, held = std::move(held), take = std::move(take), to = state.get()]() mutable {
    if (const std::exception_ptr lost = engine_->backend().failure()) {
      to->set_error(lost);
    } else {
      try {
        take(reinterpret_cast<const T*>(held->data));
        to->set_ready();
      } catch (...) {
        to->set_error(std::current_exception());  // no memory for the result
      }
    }
  });
  engine_->retire(detail::retired::of(detail::at_destruction([state]() noexcept { state->finish(); })),
                  engine_->id_of(op.lane()));
}

template <runtime_backend B>
template <element T>
future<std::vector<T>> basic_runtime<B>::read(const buffer_slice<T>& from) {
  if (detail::running_body != nullptr) expect_outside_body("read()");
  auto state = std::make_shared<detail::future_state<std::vector<T>>>(link_, detail::op_point{});
  if constexpr (detail::enqueueing_backend<B>) {
    expect_ours(from.handle().get());
    read_staged(state, from,
                [to = state.get(), n = from.size()](const T* data) { to->prepare().assign(data, data + n); });
  } else {
    state->come_from(submit("read", braid::read(from), detail::read_body<T>{state}).op());
  }
  return future<std::vector<T>>(std::move(state));
}

template <runtime_backend B>
template <element T>
future<void> basic_runtime<B>::read(const buffer_slice<T>& from, std::span<T> to) {
  if (detail::running_body != nullptr) expect_outside_body("read()");
  expect_ours(from.handle().get());
  if (from.size() != to.size()) {
    detail::throw_other_length("read()", from.handle()->name, from.size(), to.size());
  }
  auto state = std::make_shared<detail::future_state<void>>(link_, detail::op_point{});
  if constexpr (detail::enqueueing_backend<B>) {
    read_staged(state, from, [end = state.get(), to](const T* data) {
      detail::host_mover::copy(to.data(), data, to.size_bytes());
      (void)end->prepare();
    });
  } else {
    state->come_from(submit("read", braid::read(from), detail::read_into_body<T>{state, to}).op());
  }
  return future<void>(std::move(state));
}

template <runtime_backend B>
template <element T>
submission basic_runtime<B>::write(const buffer_slice<T>& to, std::span<const std::type_identity_t<T>> from) {
  expect_ours(to.handle().get());
  if (from.size() != to.size()) {
    detail::throw_other_length("write()", to.handle()->name, to.size(), from.size());
  }
  const auto prepare = [&](std::byte* stage) {
    detail::host_mover::copy(stage, from.data(), from.size_bytes());
  };
  const staged made = give_staged<access::read>(
      "write", braid::write(to), prepare,
      detail::moving<B>([](const auto& mover, std::span<T> x, std::span<const T> stage) {
        mover.copy(x.data(), stage.data(), x.size_bytes());
      }));
  return {link_, made.op};
}

template <runtime_backend B>
template <element T, class Owner>
submission basic_runtime<B>::write_from(const buffer_slice<T>& to, Owner owner) {
  if (detail::running_body != nullptr) expect_outside_body("write_from()");
  const std::span<const T> from(std::as_const(owner));
  expect_ours(to.handle().get());
  if (from.size() != to.size()) {
    detail::throw_other_length("write_from()", to.handle()->name, to.size(), from.size());
  }
  if constexpr (detail::enqueueing_backend<B>) {
    // What the device cannot reach has to be staged.
    if (!engine_->backend().is_reachable(from.data())) return write(to, from);
    auto kept = std::make_shared<Owner>(std::move(owner));
    const std::span<const T> held(std::as_const(*kept));
    const submission op =
        submit("write", braid::write(to), [held](typename B::native_stream stream, std::span<T> x) {
          typename B::mover(stream).copy(x.data(), held.data(), x.size_bytes());
        });
    engine_->retire(std::move(kept), engine_->id_of(op.op().lane()));
    return op;
  } else {
    return submit("write", braid::write(to), [owner = std::move(owner)](std::span<T> x) {
      const std::span<const T> kept(owner);
      detail::host_mover::copy(x.data(), kept.data(), kept.size_bytes());
    });
  }
}

// ---- Between buffers.

template <runtime_backend B>
template <element T>
submission basic_runtime<B>::fill(const buffer_slice<T>& to, const std::type_identity_t<T>& value) {
  return submit("fill", braid::write(to),
                detail::moving<B>([value](const auto& mover, std::span<T> x) { mover.fill(x, value); }));
}

template <runtime_backend B>
template <element T>
void basic_runtime<B>::zero(const buffer<T>& made) {
  submit("zero", braid::write(made), detail::moving<B>([](const auto& mover, std::span<T> x) {
           mover.fill(std::span(reinterpret_cast<std::byte*>(x.data()), x.size_bytes()), std::byte{0});
         }));
}

template <runtime_backend B>
template <element T>
submission basic_runtime<B>::copy(const buffer_slice<T>& to,
                                  const buffer_slice<std::type_identity_t<T>>& from) {
  expect_ours(to.handle().get());
  if (!from.handle()) detail::throw_null_buffer();
  if (from.size() != to.size()) {
    detail::throw_other_length("copy()", to.handle()->name, to.size(), from.size());
  }
  if (!(from.handle()->runtime == link_)) {
    detail::runtime_base* other = from.handle()->runtime.get();
    if (other == nullptr || other->kind() != kind()) {
      detail::throw_foreign_buffer(*from.handle().get(), other == nullptr);
    }
    auto& source = static_cast<basic_runtime&>(*other);
    if constexpr (requires { engine_->backend().shares_memory_with(source.backend()); }) {
      if (!engine_->backend().shares_memory_with(source.backend())) return carry_over(source, to, from);
    }
    return copy_between(source, to, from);
  }
  return submit("copy", braid::read(from), braid::write(to),
                detail::moving<B>([](const auto& mover, std::span<const T> s, std::span<T> x) {
                  mover.copy(x.data(), s.data(), x.size_bytes());
                }));
}

template <runtime_backend B>
auto basic_runtime<B>::event_behind(typename B::stream& stream, std::uint64_t cursor) -> typename B::event {
  if constexpr (requires { engine_->backend().event_of(stream, cursor); }) {
    return engine_->backend().event_of(stream, cursor);
  } else {
    return engine_->backend().flush(stream);
  }
}

template <runtime_backend B>
template <class T, access Kind>
void basic_runtime<B>::note(const detail::buffer_argument<T, Kind>& a, typename B::event event) {
  expect_outside_body("note()");
  check(a);
  scratch_blocks<0> none{*this};
  const stream_id aside = stream_id::special(0);
  const auto held = hold(none, engine_->lane_of(aside), a);
  engine_->note(bind(a, held), std::move(event));
  if constexpr (Kind != access::read) a.core->note_written(a.range());
}

template <runtime_backend B>
template <element T>
auto basic_runtime<B>::last_write(const buffer<T>& of) -> typename B::event {
  expect_outside_body("last_write()");
  const auto a = braid::read(of);
  check(a);
  const stream_id aside = stream_id::special(0);
  scratch_blocks<0> none{*this};
  const auto held = hold(none, engine_->lane_of(aside), a);
  const binding bound = bind(a, held);
  auto op = engine_->resolve(aside, std::span<const binding>(&bound, 1));
  return event_behind(op.current(), op.cursor());
}

// On the source's side an op that reads the source stays open while the copy is submitted here: nobody can
// write to the source in between. The copy waits for that op's event, and its own event is noted with the
// source, so that whoever writes there next waits for the copy.
template <runtime_backend B>
template <element T>
submission basic_runtime<B>::copy_between(basic_runtime& other, const buffer_slice<T>& to,
                                          const buffer_slice<T>& from) {
  static std::mutex one_at_a_time;  // two copies in opposite directions would wait for each other
  const auto source = braid::read(from);
  const auto target = braid::write(to);
  if (detail::running_body != nullptr) expect_outside_body("copy()");
  other.check(source);
  check(target);
  const stream_id aside = stream_id::special(0);
  const detail::lane_id other_lane = other.engine_->lane_of(aside);
  scratch_blocks<0> none{*this};
  const auto held = other.hold(none, other_lane, source);
  detail::op_point before[2];
  detail::op_point* end = before;
  add_points(target, end);
  const stream_id id = place({before, end});
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
  const detail::op_point op = launch(id, lane, "copy", detail::copy_body<B, T>{&other, held}, pack{{sink}},
                                     std::span<const binding>(&writes, 1));
  other.engine_->note_inside_guard(reads, event_behind(engine_->stream_of(lane), op.cursor()));
  note_use(target, op);
  return {link_, op};
}

template <runtime_backend B>
template <element T>
submission basic_runtime<B>::carry_over(basic_runtime& other, const buffer_slice<T>& to,
                                        const buffer_slice<T>& from) {
  check(braid::write(to));
  auto through = std::make_shared<std::vector<T>>(from.size());
  const detail::op_point out =
      other
          .submit("copy", braid::read(from),
                  [&through](typename B::native_stream stream, std::span<const T> source) {
                    typename B::mover(stream).copy(through->data(), source.data(), source.size_bytes());
                  })
          .op();
  other.engine_->retire(through, other.engine_->id_of(out.lane()));
  note(braid::write(to), other.event_behind(other.engine_->stream_of(out.lane()), out.cursor()));
  const submission in =
      submit("copy", braid::write(to), detail::carried_body<B, T>{other.failure_of(out), through});
  engine_->retire(std::move(through), engine_->id_of(in.op().lane()));
  return in;
}

}  // namespace braid
