#pragma once

// How a runtime runs what it recorded; part of runtime.hpp. Where the library has compiled it for a backend,
// a program need not.

#include <algorithm>

#include "braid/detail/mark.hpp"
#include "braid/detail/recorded.hpp"
#include "braid/detail/runtime_class.hpp"
#include "braid/detail/runtime_graph.hpp"

namespace braid {

namespace detail {

/// A recorded op on its way, where it runs later.
struct replayed_op {
  std::shared_ptr<const recorded_ops> of;
  any_frame* frame;
  op_rank rank;
  struct {
    const any_frame* of;
    [[nodiscard]] std::vector<touched> touches() const { return of->touches(); }
  } held;

  void operator()(std::uint64_t cursor) noexcept { frame->run(cursor, rank, nullptr); }
  [[nodiscard]] op_info info(std::uint64_t cursor) const noexcept {
    return {&frame->label().name(), rank.order(), op_point(rank.lane(), cursor)};
  }
};

}  // namespace detail

template <runtime_backend B>
struct basic_runtime<B>::sequence final : detail::recorded_sequence {
  sequence(detail::runtime_link of, std::shared_ptr<detail::recorded_ops> ops)
      : runtime(of), made(std::move(ops)) {}
  // What a graph uses may not go before its runs are over.
  ~sequence() override {
    if constexpr (detail::graph_backend<B>) {
      auto* const home = static_cast<basic_runtime*>(runtime.get());
      if (graph == nullptr || home == nullptr || home->engine_->backend().is_orphaned()) return;
      const stream_id after = graph->stream();
      try {
        home->engine_->retire(std::move(graph), after);
      } catch (const std::exception&) {
        // Shut down: they are over.
      }
    }
  }
  sequence(const sequence&) = delete;
  sequence& operator=(const sequence&) = delete;
  void replay(std::uint64_t times) override {
    auto& home = static_cast<basic_runtime&>(runtime.expect("replay()"));
    home.expect_outside_body("replay()");
    constexpr std::uint64_t most_ops = std::uint64_t{1} << 40;
    if (times > most_ops / std::max<std::uint64_t>(1, ops())) detail::throw_too_often(times, ops(), most_ops);
    if constexpr (detail::graph_backend<B>) {
      if (graph) times = graph->replay(home, times);
    }
    if (times == 0) return;
    // Where bodies are called meanwhile, others are let in now and then.
    const std::uint64_t at_once = detail::enqueueing_backend<B>
                                      ? std::max<std::uint64_t>(1, 256 / std::max<std::uint64_t>(1, ops()))
                                      : times;
    for (; times > at_once; times -= at_once) give(home, at_once);
    give(home, times);
  }
  [[nodiscard]] std::uint64_t ops() const noexcept override { return made->sequence.size(); }
  [[nodiscard]] std::uint64_t waits() const noexcept override { return made->inner_waits; }
  [[nodiscard]] bool is_graph() const noexcept override { return graph != nullptr; }

  class one_by_one;
  void give(basic_runtime& home, std::uint64_t times);
  template <class Visit>
  static void each_op(const detail::recorded_ops& ops, std::uint64_t times,
                      std::span<const std::uint64_t> before, Visit visit);
  static void trace(basic_runtime& home, const detail::recorded_ops& ops, std::uint64_t times,
                    std::span<const std::uint64_t> before);

  const detail::runtime_link runtime;
  const std::shared_ptr<detail::recorded_ops> made;
  std::shared_ptr<detail::graph_replay<B>> graph;  // null: the ops are given one by one
};

template <runtime_backend B>
recording basic_runtime<B>::finish_record(detail::recording_session& session,
                                          [[maybe_unused]] record_options options) {
  auto ops = session.finish();
  if constexpr (!point_backend<B>) ops->assign_marks();
  auto made = std::make_shared<sequence>(link_, std::move(ops));
  if constexpr (detail::graph_backend<B>) {
    if (options.graph) made->graph = detail::graph_replay<B>::of(*this, made->made);
  }
  return recording(std::move(made));
}

// Behind the op that wrote something that this one uses, if that is the last one of its part; else in turn.
template <runtime_backend B>
stream_id basic_runtime<B>::place_recorded(std::span<detail::buffer_core* const> used) {
  if (placement_ == placement::single) return stream_id{0};
  if (placement_ == placement::per_thread) return stream_id::current();
  detail::recording_session& on = *detail::inside_record::session;
  const std::size_t device = pools_.size() == 1 ? any_device : device_near(used);
  if (const auto behind = on.behind(used); behind && (device == any_device || may_place(*behind, device)))
    return *behind;
  for (std::uint32_t tried = 0; tried < width_; ++tried) {
    const stream_id next{on.next() % width_};
    if (may_place(next, device)) return next;
  }
  return stream_id{0};
}

template <runtime_backend B>
void basic_runtime<B>::sequence::give(basic_runtime& home, std::uint64_t times) {
  engine_type& engine = *home.engine_;
  const detail::replay_plan& plan = made->plan;
  detail::admit_parts(engine, plan);
  const std::uint64_t order = made->order_before();
  const auto stream_of = [&](std::size_t part) ->
      typename B::stream& { return engine.stream_of(plan.parts[part].lane); };
  if constexpr (requires(std::span<const std::uint64_t> before) {
                  engine.backend().launch_replay(made, times, order, before, stream_of);
                }) {
    engine.replay(plan, times, [&](std::span<const std::uint64_t> before) {
      if (home.is_traced()) [[unlikely]]
        trace(home, *made, times, before);
      engine.backend().launch_replay(made, times, order, before, stream_of);
    });
  } else {
    one_by_one launch(home, made, order);
    engine.replay(plan, times, [&](std::span<const std::uint64_t> before) { launch(times, before); });
  }
  made->note_given(order + times * made->sequence.size());
}

/// Hands over one op after the other. When a call fails, that op and those after it are given up: their data
/// carries the error.
template <runtime_backend B>
class basic_runtime<B>::sequence::one_by_one {
 public:
  one_by_one(basic_runtime& of, const std::shared_ptr<detail::recorded_ops>& all, std::uint64_t after)
      : self_(of), ops_(all), order_(after) {
    if constexpr (!point_backend<B>) {
      awaited_.reserve(ops_->plan.parts.size());  // one for each other part at most
      marks_.take(*self_.engine_, *ops_);
      recorded_.resize(ops_->plan.parts.size());
    }
  }
  one_by_one(const one_by_one&) = delete;
  one_by_one& operator=(const one_by_one&) = delete;

  void operator()(std::uint64_t times, std::span<const std::uint64_t> before) noexcept {
    if (self_.is_traced()) [[unlikely]] {
      try {
        trace(self_, *ops_, times, before);
      } catch (...) {
        fail();
      }
    }
    each_op(*ops_, times, before, [&](const auto& each, std::uint64_t cursor, bool is_first, auto cursor_of) {
      hand_over(each, cursor, is_first, cursor_of);
    });
    if constexpr (!point_backend<B>) keep_marks();
  }

 private:
  using described = detail::recorded_ops::described;

  /// The marks of the ops that others wait for, as the recording numbers them.
  struct taken_marks {
    taken_marks() = default;
    ~taken_marks() {
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i] != nullptr) engine->give_back_mark(lane_of(i), all[i]);
      }
    }
    taken_marks(const taken_marks&) = delete;
    taken_marks& operator=(const taken_marks&) = delete;
    void take(engine_type& from, const detail::recorded_ops& of) {
      engine = &from;
      ops = &of;
      all.reserve(of.mark_parts.size());
      while (all.size() < of.mark_parts.size()) all.push_back(from.take_mark(lane_of(all.size())));
    }
    [[nodiscard]] detail::lane_id lane_of(std::size_t mark) const {
      return ops->plan.parts[ops->mark_parts[mark]].lane;
    }
    engine_type* engine = nullptr;
    const detail::recorded_ops* ops = nullptr;
    std::vector<detail::mark<B>*> all;
  };

  template <class CursorOf>
  [[gnu::always_inline]] void hand_over(const described& op, std::uint64_t cursor, bool is_first,
                                        CursorOf cursor_of) noexcept {
    const detail::lane_id lane = ops_->plan.parts[op.at.part].lane;
    const detail::op_rank rank(lane, ++order_);
    try {
      if (failure_) std::rethrow_exception(failure_);
      wait(lane, ops_->waits_of(op, is_first), cursor_of);
      launch(self_.engine_->stream_of(lane), cursor, *op.frame, rank);
    } catch (...) {
      if (!failure_) fail();
      op.frame->give_up(cursor, rank, failure_);
    }
    self_.engine_->commit_replayed(lane, cursor);
    if constexpr (!point_backend<B>) {
      if (op.mark != detail::shared_marks::none && !failure_) mark(op, lane, cursor);
    }
  }

  // What is given up carries the error from now on, and is entered as if it had waited: so all before it has
  // to be over.
  void fail() noexcept {
    failure_ = std::current_exception();
    try {
      self_.engine_->wait_all();
    } catch (const std::exception& e) {
      self_.log_->write(log_area::errors, log_level::basic, e.what());
    }
  }

  template <class CursorOf>
  void wait(detail::lane_id lane, std::span<const detail::recorder::wait> waits, CursorOf cursor_of) {
    if (waits.empty()) return;
    engine_type& engine = *self_.engine_;
    if constexpr (point_backend<B>) {
      for (const auto& w : waits) {
        engine.backend().wait_point(engine.stream_of(lane),
                                    engine.stream_of(ops_->plan.parts[w.on.part].lane), cursor_of(w.on));
      }
    } else {
      awaited_.clear();
      for (const auto& w : waits) awaited_.push_back(marks_.all[ops_->awaited_mark(w)]);
      engine.wait_replayed(lane, awaited_);
    }
  }

  [[gnu::always_inline]] void launch(typename B::stream& stream, std::uint64_t cursor,
                                     detail::any_frame& frame, detail::op_rank rank) {
    if constexpr (detail::enqueueing_backend<B>) {
      self_.engine_->backend().launch(stream, cursor,
                                      detail::frame_call{&self_, &frame, frame.label(), rank});
    } else {
      self_.engine_->backend().launch(stream, cursor, detail::replayed_op{ops_, &frame, rank, {&frame}});
    }
  }

  void mark(const described& op, detail::lane_id lane, std::uint64_t cursor) noexcept {
    try {
      self_.engine_->mark_replayed(lane, cursor, *marks_.all[op.mark]);
      ++recorded_[op.at.part];
    } catch (...) {
      fail();
    }
  }

  // They serve whoever comes later.
  void keep_marks() noexcept {
    std::array<detail::mark<B>**, detail::most_kept_marks> newest;
    const auto* next = ops_->last_marks.data();
    const auto* const end = next + ops_->last_marks.size();
    while (next != end) {
      const std::uint32_t part = ops_->mark_parts[*next];
      std::size_t count = 0;
      for (; next != end && ops_->mark_parts[*next] == part; ++next) newest[count++] = &marks_.all[*next];
      self_.engine_->keep_replayed(ops_->plan.parts[part].lane, {newest.data(), count}, recorded_[part]);
    }
  }

  basic_runtime& self_;
  const std::shared_ptr<detail::recorded_ops>& ops_;
  std::uint64_t order_;
  taken_marks marks_;
  std::vector<std::uint64_t> recorded_;          // marks, by part
  std::vector<const detail::mark<B>*> awaited_;  // by one op
  std::exception_ptr failure_;
};

// Calls `visit(op, its cursor, whether it is of the first sequence, the cursor of a place)`.
template <runtime_backend B>
template <class Visit>
void basic_runtime<B>::sequence::each_op(const detail::recorded_ops& ops, std::uint64_t times,
                                         std::span<const std::uint64_t> before, Visit visit) {
  for (std::uint64_t i = 0; i < times; ++i) {
    const auto cursor_of = [&](const detail::recorded_place& at) {
      return before[at.part] + i * ops.plan.parts[at.part].ops + static_cast<std::uint64_t>(at.index);
    };
    for (const auto& each : ops.sequence) visit(each, cursor_of(each.at), i == 0, cursor_of);
  }
}

template <runtime_backend B>
void basic_runtime<B>::sequence::trace(basic_runtime& home, const detail::recorded_ops& ops,
                                       std::uint64_t times, std::span<const std::uint64_t> before) {
  const std::int64_t now = detail::trace_now();
  each_op(ops, times, before, [&](const auto& each, std::uint64_t cursor, bool is_first, auto cursor_of) {
    const auto& part = ops.plan.parts[each.at.part];
    std::vector<binding> bound;
    for (const detail::touched& t : each.frame->touches())
      bound.push_back({t.state, t.kind, byte_range{t.begin, t.end - t.begin}, false, t.tag});
    std::vector<stream_wait> waits;
    if (is_first && each.at.index == 1) {
      // Of all ops of the part; told as this one's, and with its binding if it has the resource.
      waits = home.engine_->waits_of(part.lane).waits;
      detail::find_bindings(waits, bound);
    }
    for (const auto& w : ops.waits_of(each, is_first)) {
      const std::uint64_t on = cursor_of(w.on);
      waits.push_back({ops.plan.parts[w.on.part].id, on, on, w.binding, w.resource, w.why});
    }
    detail::trace_op(
        {home.trace_number(), part.lane, part.id, cursor, each.frame->label().name(), now, each.is_named},
        bound, waits, &lane_in, home.engine_.get());
  });
}

}  // namespace braid
