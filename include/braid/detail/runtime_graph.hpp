#pragma once

// How a runtime runs what was recorded as one command of its device; part of runtime.hpp.

#include <algorithm>

#include "braid/detail/recorded.hpp"
#include "braid/detail/runtime_class.hpp"

namespace braid {

namespace detail {

/// Throws where a submit to one of the streams would.
template <class Engine>
void admit_parts(Engine& engine, const replay_plan& plan) {
  for ([[maybe_unused]] const auto& part : plan.parts) {
    if constexpr (requires { engine.backend().admit(engine.stream_of(part.lane)); })
      engine.backend().admit(engine.stream_of(part.lane));
  }
}

/// The arguments of all ops of a recording, as those of one.
struct held_together {
  std::vector<touched> all;

  template <class Body, class Native>
  void call(Body& body, Native native) const {
    body(native);
  }
  [[nodiscard]] const std::vector<touched>& touches() const noexcept { return all; }
};

// The streams that the program has named for its ops keep their meaning: the graph comes after all that was
// given to them, and what they are given later comes after the graph.
template <graph_backend B>
class graph_replay<B> {
 public:
  using basic_runtime = braid::basic_runtime<B>;
  explicit graph_replay(const std::shared_ptr<recorded_ops>& of) : ops_(of) {}
  /// Null if the ops cannot be captured.
  static std::shared_ptr<graph_replay> of(basic_runtime& home, const std::shared_ptr<recorded_ops>& ops) {
    const auto is_adopted = [&](const auto& part) { return home.is_adopted(part.lane); };
    if (!home.engine_->backend().wants_graphs() || ops->sequence.empty()) return nullptr;
    if (std::any_of(ops->plan.parts.begin(), ops->plan.parts.end(), is_adopted)) {
      tell(home, "an op is on a stream that was adopted, whose order is the program's");
      return nullptr;
    }
    try {
      auto made = std::make_shared<graph_replay>(ops);
      made->capture(home);
      made->plan_ = ops->as_one_command();
      made->make_frame(home);
      return made;
    } catch (const std::exception& e) {
      tell(home, e.what());
    } catch (...) {
      tell(home, "a body threw something that is not a std::exception");
    }
    return nullptr;
  }

  [[nodiscard]] stream_id stream() const noexcept { return plan_.parts[plan_.leader].id; }

  /// Returns how many times are left: when some data carries an error, each op has to be looked at.
  std::uint64_t replay(basic_runtime& home, std::uint64_t n) {
    constexpr std::uint64_t most = 64;  // then others are let in
    while (n != 0 && !home.needs_attention()) {
      const std::uint64_t at_once = std::min(n, most);
      give(home, at_once);
      n -= at_once;
    }
    return n;
  }

 private:
  static void tell(basic_runtime& home, const char* why) {
    home.log_->write(log_area::streaming, log_level::basic,
                     std::string("record(): the ops are replayed one by one, not as a graph: ") + why);
  }

  using native_stream = typename B::native_stream;
  struct body {
    const graph_replay* of;
    void operator()(native_stream on) const {
      for (std::uint64_t i = 0; i < of->times_; ++i) of->graph_.launch(on);
    }
  };

  void capture(basic_runtime& home) {
    std::vector<const typename B::stream*> like;
    for (const auto& part : ops_->plan.parts) like.push_back(&home.engine_->stream_of(part.lane));
    auto maker = home.engine_->backend().make_graph(like);
    for (const auto& each : ops_->sequence) {
      for (const auto& w : ops_->waits_of(each, true)) maker.wait(each.at.part, ops_->place_of(w.on));
      const native_stream on = maker.native(each.at.part);
      each.frame->enqueue(&on);
      if (ops_->is_awaited(each.at)) maker.mark(each.at.part, ops_->place_of(each.at));
    }
    graph_ = maker.finish();
  }

  void make_frame(basic_runtime& home) {
    held_together held;
    for (const auto& u : plan_.first) {  // what it reads of what was before
      if (u.bound.kind != access::write)
        held.all.push_back({u.bound.state, nullptr, u.bound.range.offset, u.bound.range.end(), access::read,
                            u.bound.tag, false});
    }
    for (const auto& each : ops_->sequence) {
      for (touched t : each.frame->touches()) {
        if (std::exchange(t.kind, access::write) != access::read) held.all.push_back(t);
      }
    }
    using made_frame = any_frame_of<B, body, held_together>;
    frame_ = std::make_unique<made_frame>(
        typename made_frame::frame{&home, label_ref::of(ops_->name()),
                                   op_rank(plan_.parts[plan_.leader].lane, 0), std::move(held), body{this}});
  }

  void give(basic_runtime& home, std::uint64_t n) {
    auto& engine = *home.engine_;
    const auto& leader = plan_.parts[plan_.leader];
    admit_parts(engine, plan_);
    const std::uint64_t order = ops_->order_before();
    const std::int64_t submitted = home.is_traced() ? trace_now() : 0;
    engine.replay(plan_, 1, [&](std::span<const std::uint64_t> before) {
      const std::uint64_t cursor = before[plan_.leader] + 1;
      if (submitted != 0) [[unlikely]]
        trace(home, cursor, submitted);
      times_ = n;
      const op_rank rank(leader.lane, order + 1);
      try {
        engine.backend().launch(engine.stream_of(leader.lane), cursor,
                                frame_call{&home, frame_.get(), frame_->label(), rank});
      } catch (...) {
        frame_->give_up(cursor, rank, std::current_exception());
      }
      engine.commit_replayed(leader.lane, cursor);
      engine.fork_parts(plan_, cursor);
    });
    ops_->note_given(order + 1);
  }

  void trace(basic_runtime& home, std::uint64_t cursor, std::int64_t submitted) noexcept {
    const auto& leader = plan_.parts[plan_.leader];
    const auto& bound = plan_.resources;
    try {
      std::vector<stream_wait> waits = home.engine_->waits_of(leader.lane).waits;
      find_bindings(waits, bound);
      trace_op(
          {home.trace_number(), leader.lane, leader.id, cursor, frame_->label().name(), submitted, false},
          bound, waits, &basic_runtime::lane_in, home.engine_.get());
    } catch (const std::exception& e) {
      home.log_->write(log_area::errors, log_level::basic,
                       e.what());  // the trace lacks it, the work does not
    }
  }

  const std::shared_ptr<recorded_ops> ops_;
  replay_plan plan_;
  typename B::graph graph_;
  std::unique_ptr<any_frame> frame_;
  std::uint64_t times_ = 0;  // under the locks of its streams
};

}  // namespace detail

}  // namespace braid
