#pragma once

// How a runtime records ops; part of runtime.hpp. What was recorded is run by runtime_replay.hpp.

#include "braid/detail/runtime_submit.hpp"

namespace braid {

template <runtime_backend B>
template <class F>
recording basic_runtime<B>::record(F&& fn, record_options options) {
  if (detail::running_body != nullptr) expect_outside_body("record()");
  expect_process();
  // relaxed: others begin elsewhere
  detail::recording_session session(recorders_, streams_, rotation_.fetch_add(1, std::memory_order_relaxed));
  {
    const detail::inside_record mark(*this, session);
    std::forward<F>(fn)();
  }
  return finish_record(session, options);
}

// ---- An op is recorded.

template <runtime_backend B>
template <class T, access Kind>
void basic_runtime<B>::check_recorded(const detail::buffer_argument<T, Kind>& a) const {
  expect_ours(a.core);
  detail::inside_record::session->use(*a.core, a.range(), Kind);
}

template <runtime_backend B>
template <class T>
detail::held_buffer<T, access::write, true> basic_runtime<B>::hold_recorded(
    detail::lane_id lane, const detail::scratch_argument<T>& a) {
  // Kept with the recording, as a buffer that nobody else knows.
  detail::buffer_handle made = make_core(a.count != 0 ? bytes_of<T>(a.count) : 1, "scratch");
  detail::block* memory = memory_of(*made.get(), lane);
  detail::inside_record::session->keep(std::move(made));
  return {memory, reinterpret_cast<T*>(memory->data), a.count, {}};
}

template <runtime_backend B>
template <class Body, class... Args>
submission basic_runtime<B>::record_op(const stream_id* where, std::string_view text, Body&& body,
                                       const Args&... args) {
  (check_recorded(args), ...);
  std::vector<detail::buffer_core*> used{core_of(args)...};
  std::erase(used, nullptr);
  const stream_id id = where != nullptr ? *where : place_recorded(used);
  const detail::lane_id lane = lane_of(id);
  detail::held_pack<decltype(hold_recorded(lane, args))...> held{{{hold_recorded(lane, args)}...}};
  const auto bound = held.each.apply(
      [&](const auto&... each) { return std::array<binding, sizeof...(Args)>{bind(args, each)...}; });
  if constexpr (!detail::is_moving<Body>) expect_reachable(text, id, lane, used);
  [[maybe_unused]] const detail::recorded_place at =
      record_frame(id, lane, text, std::forward<Body>(body), std::move(held), bound, where != nullptr);
  (note_recorded(args, at), ...);
  return {};
}

template <runtime_backend B>
template <class Body>
submission basic_runtime<B>::record_list(const stream_id* where, std::string_view text, Body&& body,
                                         const bindings& list) {
  std::vector<detail::buffer_core*> used;
  for (const auto& item : list.items_) {
    expect_ours(item.handle.get());
    detail::inside_record::session->use(*item.handle.get(), item.range, item.kind);
    used.push_back(item.handle.get());
  }
  const stream_id id = where != nullptr ? *where : place_recorded(used);
  const detail::lane_id lane = lane_of(id);
  std::vector<binding> bound;
  detail::held_list held = hold_list(lane, list, bound);
  expect_reachable(text, id, lane, used);
  const detail::recorded_place at =
      record_frame(id, lane, text, std::forward<Body>(body), std::move(held), bound, where != nullptr);
  for (const auto& item : list.items_)
    detail::inside_record::session->note(*item.handle.get(), item.range, item.kind, at);
  return {};
}

template <runtime_backend B>
template <class Body, class Pack>
detail::recorded_place basic_runtime<B>::record_frame(stream_id id, detail::lane_id lane,
                                                      std::string_view text, Body&& body, Pack&& held,
                                                      std::span<const binding> bound, bool is_named) {
  using made_frame = detail::any_frame_of<B, std::decay_t<Body>, std::remove_cvref_t<Pack>>;
  if constexpr (requires {
                  B::checks_bodies;
                  held.template expect_usable<Body>(backend());
                }) {
    held.template expect_usable<Body>(backend());
  }
  own(bound);
  detail::recording_session& session = *detail::inside_record::session;
  // Where one thread calls all bodies, the ops stand behind each other.
  constexpr bool is_work = !detail::enqueueing_backend<B>;
  return session.add(id, lane, bound, is_named,
                     session.make<made_frame>(is_work ? lane : detail::lane_id{},
                                              {this, detail::label_ref::of(text), detail::op_rank(lane, 0),
                                               std::forward<Pack>(held), std::forward<Body>(body)}));
}

}  // namespace braid
