#pragma once

// How a runtime takes ops: what a program has to compile, because it is made for its bodies; part of
// runtime.hpp.

#include "braid/detail/runtime_class.hpp"

namespace braid {

namespace detail {

/// The arguments of an op with `bindings`.
struct held_list {
  std::vector<touched> all;
  std::vector<view> views;

  template <class Body, class... Native>
  void call(Body& body, Native... native) const {
    if constexpr ((translating<Native> || ...)) {
      (native.call(body, std::span<const view>(views)), ...);
    } else {
      body(native..., std::span<const view>(views));
    }
  }
  [[nodiscard]] const std::vector<touched>& touches() const noexcept { return all; }
};

}  // namespace detail

template <runtime_backend B>
template <class T>
std::uint64_t basic_runtime<B>::bytes_of(std::uint64_t count) {
  if (count > (std::uint64_t{1} << 60) / sizeof(T)) detail::throw_too_large(count, sizeof(T));
  return count * sizeof(T);
}

template <runtime_backend B>
void basic_runtime<B>::expect_ours(const detail::buffer_core* core) const {
  if (core == nullptr) [[unlikely]]
    detail::throw_null_buffer();
  if (!(core->runtime == link_)) [[unlikely]]
    detail::throw_foreign_buffer(*core, core->runtime.get() == nullptr);
}

template <runtime_backend B>
void basic_runtime<B>::check_range(detail::buffer_core* core, byte_range range, access kind) const {
  expect_ours(core);
  if (kind != access::write && !core->is_range_written(range)) [[unlikely]]
    detail::throw_never_written(*core, range);
}

template <runtime_backend B>
template <class Blocks, class T, access Kind>
detail::held_buffer<T, Kind> basic_runtime<B>::hold(Blocks&, detail::lane_id lane,
                                                    const detail::buffer_argument<T, Kind>& a) {
  detail::block* memory = memory_of(*a.core, lane);
  detail::held_buffer<T, Kind> held{memory, reinterpret_cast<T*>(memory->data) + a.first, a.count, {}};
  if constexpr (Kind == access::accumulate) held.tag = a.tag;
  return held;
}

template <runtime_backend B>
template <class Blocks, class T>
detail::held_buffer<T, access::write, true> basic_runtime<B>::hold(Blocks& blocks, detail::lane_id lane,
                                                                   const detail::scratch_argument<T>& a) {
  detail::block* memory = take_scratch(lane, bytes_of<T>(a.count));
  blocks.blocks[blocks.taken++] = memory;
  return {memory, reinterpret_cast<T*>(memory->data), a.count, {}};
}

template <runtime_backend B>
resource basic_runtime<B>::share_of(const binding& b) {
  if (b.state == nullptr) detail::throw_null_buffer();
  return resource::share(b.state);
}

template <runtime_backend B>
void basic_runtime<B>::note_access(detail::buffer_core& core, byte_range range, access kind,
                                   detail::op_point op) {
  if (kind != access::read) core.note_written(range);
  note_given(core, kind, op, detail::last_order);
}

template <runtime_backend B>
template <class Body, class... Args>
submission basic_runtime<B>::give(const stream_id* where, std::string_view text, Body&& body,
                                  const Args&... args) {
  if constexpr (is_plain_op<Body, Args...>) {
    const detail::op_point given =
        give_plain(where, text, std::forward<Body>(body), std::index_sequence_for<Args...>{}, args...);
    if (given.bits != 0) [[likely]]
      return {link_, given};
  }
  if (detail::running_body != nullptr) [[unlikely]] {
    if (is_recorded()) return record_op(where, text, std::forward<Body>(body), args...);
    expect_outside_body("submit()");
  }
  expect_process();
  (check(args), ...);
  stream_id id;
  if (where != nullptr) {
    id = *where;
  } else {
    detail::op_point before[2 * sizeof...(Args) + 1];
    detail::op_point* end = before;
    (add_points(args, end), ...);
    detail::buffer_core* const used[] = {core_of(args)..., nullptr};
    id = place({before, end}, used);
  }
  const detail::lane_id lane = lane_of(id);
  std::uint64_t newest = detail::last_order;
  (look_at_order(args, newest), ...);
  detail::last_order = newest;
  scratch_blocks<(std::size_t{is_scratch<Args>::value} + ... + 0)> blocks{*this};
  detail::held_pack<decltype(hold(blocks, lane, args))...> held{{{hold(blocks, lane, args)}...}};
  const auto bound = held.each.apply(
      [&](const auto&... each) { return std::array<binding, sizeof...(Args)>{bind(args, each)...}; });
  if constexpr (!detail::is_moving<Body>) {
    detail::buffer_core* const used[] = {core_of(args)..., nullptr};
    expect_reachable(text, id, lane, used);
  }
  const detail::op_point op =
      launch(id, lane, text, std::forward<Body>(body), std::move(held), bound, where != nullptr);
  (note_use(args, op), ...);
  return {link_, op};
}

// What most submits go through: what stands before and behind the body is the library's, and the same for
// all. The body itself is called from here: a driver's calls go so deep that the core has forgotten where to
// return to by then, and each function that waits below them costs 25 ns. Returns none if the op was not
// given.
template <runtime_backend B>
template <class Body, std::size_t... I, class... Args>
[[gnu::always_inline]] inline detail::op_point basic_runtime<B>::give_plain(const stream_id* where,
                                                                            std::string_view text,
                                                                            Body&& body,
                                                                            std::index_sequence<I...>,
                                                                            const Args&... args) {
  constexpr std::size_t room = sizeof...(Args) == 0 ? 1 : sizeof...(Args);
  std::byte* data[room];
  given_plainly op;
  const auto with_arguments = [&](auto use) {
    std::array<binding, sizeof...(Args)> bound{
        binding(nullptr, Args::kind, args.range(), false, args.tag)...};
    detail::buffer_core* const cores[room] = {args.core...};
    return use(detail::plain_arguments{bound.data(), cores, data, sizeof...(Args)});
  };
  if (const auto* note = where != nullptr ? expected_note() : nullptr;
      note != nullptr && note->is(*where, text, args...) && follow_plain(*note, op)) {
    ((data[I] = note->arguments[I].data), ...);
  } else if (!with_arguments([&](const auto& all) { return begin_plain(where, text, all, op); }))
      [[unlikely]] {
    return {};
  }
  (note_given(*args.core, Args::kind, op.point, op.order), ...);
  if (!op.is_watched || !with_arguments([&](const auto& all) { return refuse_plain(op, all); })) [[likely]] {
    std::exception_ptr thrown;
    try {
      const detail::inside_body mark(op.label->name());
      // One that the program keeps is copied, as by every other way.
      std::conditional_t<std::is_lvalue_reference_v<Body>, std::decay_t<Body>, Body&> called(body);
      called(*static_cast<const typename B::native_stream*>(op.native),
             std::span<typename Args::element_type>(reinterpret_cast<typename Args::element_type*>(data[I]),
                                                    args.count)...);
    } catch (...) {
      thrown = std::current_exception();
    }
    if (op.is_watched || thrown) [[unlikely]]
      with_arguments([&](const auto& all) { note_plain(op, all, thrown); });
  }
  end_plain(op);
  return op.point;
}

template <runtime_backend B>
template <class Body>
submission basic_runtime<B>::give(const stream_id* where, std::string_view text, Body&& body,
                                  const bindings& list) {
  if (detail::running_body != nullptr) [[unlikely]] {
    if (is_recorded()) return record_list(where, text, std::forward<Body>(body), list);
    expect_outside_body("submit()");
  }
  expect_process();
  for (const auto& item : list.items_) check_range(item.handle.get(), item.range, item.kind);
  std::vector<detail::op_point> before(2 * list.size() + 1);
  std::vector<detail::buffer_core*> used;
  detail::op_point* end = before.data();
  for (const auto& item : list.items_) {
    add_points_of(*item.handle.get(), item.kind, end);
    used.push_back(item.handle.get());
  }
  const stream_id id = where != nullptr ? *where : place({before.data(), end}, used);
  const detail::lane_id lane = lane_of(id);
  for (const auto& item : list.items_) look_at_order_of(*item.handle.get(), detail::last_order);
  std::vector<binding> bound;
  detail::held_list held = hold_list(lane, list, bound);
  expect_reachable(text, id, lane, used);
  const detail::op_point op =
      launch(id, lane, text, std::forward<Body>(body), std::move(held), bound, where != nullptr);
  for (const auto& item : list.items_) note_access(*item.handle.get(), item.range, item.kind, op);
  return {link_, op};
}

template <runtime_backend B>
template <class Body, class Pack>
detail::op_point basic_runtime<B>::launch(stream_id id, detail::lane_id lane, std::string_view text,
                                          Body&& body, Pack&& held, std::span<const binding> bound,
                                          bool is_named) {
  if constexpr (requires {
                  B::checks_bodies;
                  held.template expect_usable<Body>(backend());
                }) {
    held.template expect_usable<Body>(backend());
  }
  if constexpr (detail::enqueueing_backend<B>) {
    // The body is called before this returns. What stands before and behind that is the same for all, and the
    // library's. The body itself is called from here, if it can be: a driver's calls go so deep that the core
    // has forgotten where to return to by then, and each function that waits below them costs 25 ns.
    using frame = detail::any_frame_of<B, std::decay_t<Body>, std::remove_cvref_t<Pack>>;
    frame op({this, detail::label_ref::of(text), detail::op_rank(lane, 0), std::forward<Pack>(held),
              std::forward<Body>(body)});
    const given_now given = give_now(id, lane, op, op.label(), bound, is_named);
    if constexpr (detail::plainly_enqueueing<B>) {
      if (given.native != nullptr) [[likely]] {
        op.run(given.cursor, given.rank, given.native);
        end_now(given);
      }
    }
    return detail::op_point(lane, given.cursor);
  } else {
    detail::label_ref label = detail::label_ref::of(text);
    auto guard = begin(id, lane, label, bound, is_named);
    using frame = detail::op_frame<std::decay_t<Body>, std::remove_cvref_t<Pack>>;
    engine_->backend().launch(guard.current(), guard.cursor(),
                              frame{this, std::move(label), detail::op_rank(lane, ++detail::last_order),
                                    std::forward<Pack>(held), std::forward<Body>(body)});
    return detail::op_point(lane, guard.cursor());
  }
}

}  // namespace braid
