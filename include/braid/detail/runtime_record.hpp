#pragma once

// How a runtime records ops and runs them again; part of runtime.hpp.

#include "braid/detail/runtime_impl.hpp"

namespace braid {

namespace detail {

/// On lines of its own: a body may change what it captured, and the next op runs on another core.
template <class B, class Body, class Pack>
class alignas(64) recorded_frame_of final : public recorded_frame {
 public:
  using frame = op_frame<Body, Pack>;
  explicit recorded_frame_of(frame&& f) : frame_(std::move(f)) {}
  void run(std::uint64_t cursor, op_rank rank, [[maybe_unused]] const void* native) noexcept override {
    if constexpr (enqueueing_backend<B>) {
      frame_.run(cursor, rank, *static_cast<const typename B::native_stream*>(native));
    } else {
      frame_.run(cursor, rank);
    }
  }
  void enqueue([[maybe_unused]] const void* native) override {
    if constexpr (enqueueing_backend<B>) {
      const inside_body mark(frame_.label.name());
      frame_.held.call(frame_.body, *static_cast<const typename B::native_stream*>(native));
    }
  }
  void give_up(std::uint64_t cursor, op_rank rank, const std::exception_ptr& cause) noexcept override {
    frame_.give_up(cursor, rank, cause);
  }
  [[nodiscard]] const label_ref& label() const noexcept override { return frame_.label; }
  [[nodiscard]] std::vector<touched> touches() const override {
    const auto all = frame_.held.touches();
    return {all.begin(), all.end()};
  }

 private:
  frame frame_;
};

/// A recorded op on its way, where it runs later.
struct replayed_op {
  std::shared_ptr<const recorded_ops> of;
  recorded_frame* frame;
  op_rank rank;
  struct {
    const recorded_frame* of;
    [[nodiscard]] std::vector<touched> touches() const { return of->touches(); }
  } held;

  void operator()(std::uint64_t cursor) noexcept { frame->run(cursor, rank, nullptr); }
  [[nodiscard]] op_info info(std::uint64_t cursor) const noexcept {
    return {&frame->label().name(), rank.order(), op_point(rank.lane(), cursor)};
  }
};

/// Likewise, where its body is called at once.
struct replayed_call {
  runtime_base* home;
  recorded_frame* frame;
  const label_ref& label;
  op_rank rank;

  template <class Native>
  void operator()(std::uint64_t cursor, const Native& native) noexcept {
    frame->run(cursor, rank, &native);
  }
  void give_up(std::uint64_t cursor, const std::exception_ptr& cause) noexcept {
    frame->give_up(cursor, rank, cause);
  }
};

/// What is being recorded on this thread.
struct recording_session {
  explicit recording_session(std::uint32_t streams) : analysis(streams) {
    made->sequence.reserve(few_ops);
    made->waits.reserve(few_ops);
    made->buffers.reserve(few_ops);
  }
  static constexpr std::size_t few_ops = 64;

  recorder analysis;
  std::shared_ptr<recorded_ops> made = std::make_shared<recorded_ops>();
  struct tracked {
    std::unique_ptr<buffer_core> written;  // tells what is written, by recorded ops as well; null: all
    recorded_place last_write;
    bool is_kept = false;

    [[nodiscard]] bool is_written(byte_range range) const {
      return written == nullptr || written->is_range_written(range);
    }
  };
  std::unordered_map<buffer_core*, tracked> buffers;
  std::vector<std::uint64_t> ops_of;  // by part
  std::uint32_t rotation = 0;

  tracked& of(buffer_core& core) {
    tracked& found = buffers[&core];
    if (!std::exchange(found.is_kept, true)) {
      core.refs.fetch_add(1, std::memory_order_relaxed);  // the caller holds a share
      made->buffers.emplace_back(&core);
      if (!core.is_range_written({0, core.bytes})) {
        found.written = std::make_unique<buffer_core>(core.runtime, core.bytes, core.name);
        core.each_written([&](byte_range r) { found.written->note_written(r); });
      }
    }
    return found;
  }
};

/// Makes the calling thread record, for a scope.
class inside_record {
 public:
  inside_record(const runtime_base& of, recording_session& into) noexcept {
    running_body = &label;
    recording_runtime = &of;
    session = &into;
  }
  ~inside_record() {
    running_body = nullptr;
    recording_runtime = nullptr;
    session = nullptr;
  }
  inside_record(const inside_record&) = delete;
  inside_record& operator=(const inside_record&) = delete;

  static inline constinit thread_local recording_session* session = nullptr;

 private:
  static inline const std::string label = "record";
};

}  // namespace detail

template <runtime_backend B>
struct basic_runtime<B>::sequence final : detail::recorded_sequence {
  sequence(detail::runtime_link of, detail::recording_session&& from)
      : runtime(of), made(std::move(from.made)) {
    made->finish(from.analysis);
  }
  // What a graph uses may not go before its runs are over.
  ~sequence() override {
    if constexpr (detail::graph_backend<B>) {
      auto* const home = static_cast<basic_runtime*>(runtime.get());
      if (graph == nullptr || home == nullptr) return;
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
      if (graph && !home.needs_attention()) return graph->replay(home, times);
    }
    // Where bodies are called meanwhile, others are let in now and then.
    const std::uint64_t at_once = detail::enqueueing_backend<B>
                                      ? std::max<std::uint64_t>(1, 256 / std::max<std::uint64_t>(1, ops()))
                                      : times;
    for (; times > at_once; times -= at_once) home.give_again(made, at_once);
    home.give_again(made, times);
  }
  [[nodiscard]] std::uint64_t ops() const noexcept override { return made->sequence.size(); }
  [[nodiscard]] std::uint64_t waits() const noexcept override { return made->inner_waits; }
  [[nodiscard]] bool is_graph() const noexcept override { return graph != nullptr; }

  const detail::runtime_link runtime;
  const std::shared_ptr<detail::recorded_ops> made;
  std::shared_ptr<detail::graph_replay<B>> graph;  // null: the ops are given one by one
};

template <runtime_backend B>
template <class F>
recording basic_runtime<B>::record(F&& fn, [[maybe_unused]] record_options options) {
  if (detail::running_body != nullptr) expect_outside_body("record()");
  detail::recording_session session(streams_);
  session.rotation = rotation_.fetch_add(1, std::memory_order_relaxed);  // others begin elsewhere
  {
    const detail::inside_record mark(*this, session);
    std::forward<F>(fn)();
  }
  auto made = std::make_shared<sequence>(link_, std::move(session));
  if constexpr (detail::graph_backend<B>) {
    if (options.graph) made->graph = detail::graph_replay<B>::of(*this, made->made);
  }
  return recording(std::move(made));
}

// ---- An op is recorded.

template <runtime_backend B>
template <class T, access Kind>
void basic_runtime<B>::check_recorded(const detail::buffer_argument<T, Kind>& a) const {
  expect_ours(a.core);
  const auto& tracked = detail::inside_record::session->of(*a.core);
  if (Kind != access::write && !tracked.is_written(a.range()))
    detail::throw_never_written(*a.core, a.range());
}

template <runtime_backend B>
template <class T>
detail::held_buffer<T, access::write, true> basic_runtime<B>::hold_recorded(
    detail::lane_id lane, const detail::scratch_argument<T>& a) {
  // Kept with the recording, as a buffer that nobody else knows.
  auto& kept = detail::inside_record::session->made->buffers;
  kept.push_back(make_core(std::max<std::uint64_t>(1, bytes_of<T>(a.count)), "scratch"));
  detail::block* memory = memory_of(*kept.back().get(), lane);
  return {memory, reinterpret_cast<T*>(memory->data), a.count, {}};
}

// Behind the op that wrote something that this one uses, if that is the last one of its part; else in turn.
template <runtime_backend B>
stream_id basic_runtime<B>::place_recorded(std::span<detail::buffer_core* const> used) {
  if (placement_ == placement::single) return stream_id{0};
  if (placement_ == placement::per_thread) return stream_id::current();
  detail::recording_session& on = *detail::inside_record::session;
  for (detail::buffer_core* core : used) {
    const detail::recorded_place last = on.of(*core).last_write;
    if (last.index == 0 || on.ops_of[last.part] != static_cast<std::uint64_t>(last.index)) continue;
    return on.analysis.id_of(last.part);
  }
  for (std::uint32_t tried = 0; tried < width_; ++tried) {
    const stream_id next{on.rotation++ % width_};
    if (may_place(next)) return next;
  }
  return stream_id{0};
}

template <runtime_backend B>
template <class Body, class... Args>
submission basic_runtime<B>::record_op(const stream_id* where, std::string_view text, Body&& body,
                                       const Args&... args) {
  (check_recorded(args), ...);
  stream_id id;
  if (where != nullptr) {
    id = *where;
  } else {
    std::vector<detail::buffer_core*> used;
    (add_core(used, args), ...);
    id = place_recorded(used);
  }
  const detail::lane_id lane = engine_->lane_of(id);
  detail::held_pack<decltype(hold_recorded(lane, args))...> held{{hold_recorded(lane, args)...}};
  const auto bound = std::apply(
      [&](const auto&... each) { return std::array<binding, sizeof...(Args)>{bind(args, each)...}; },
      held.each);
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
    const auto& tracked = detail::inside_record::session->of(*item.handle.get());
    if (item.kind != access::write && !tracked.is_written(item.range))
      detail::throw_never_written(*item.handle.get(), item.range);
    used.push_back(item.handle.get());
  }
  const stream_id id = where != nullptr ? *where : place_recorded(used);
  const detail::lane_id lane = engine_->lane_of(id);
  std::vector<binding> bound;
  detail::held_list held = hold_list(lane, list, bound);
  const detail::recorded_place at =
      record_frame(id, lane, text, std::forward<Body>(body), std::move(held), bound, where != nullptr);
  for (const auto& item : list.items_) note_recorded_use(*item.handle.get(), item.range, item.kind, at);
  return {};
}

template <runtime_backend B>
template <class Body, class Pack>
detail::recorded_place basic_runtime<B>::record_frame(stream_id id, detail::lane_id lane,
                                                      std::string_view text, Body&& body, Pack&& held,
                                                      std::span<const binding> bound, bool is_named) {
  using made_frame = detail::recorded_frame_of<B, std::decay_t<Body>, std::remove_cvref_t<Pack>>;
  detail::recording_session& on = *detail::inside_record::session;
  if constexpr (requires {
                  B::checks_bodies;
                  held.template expect_usable<Body>(engine_->backend());
                }) {
    held.template expect_usable<Body>(engine_->backend());
  }
  for (const binding& b : bound) engine_->own(b);
  auto frame = std::make_unique<made_frame>(
      typename made_frame::frame{this, detail::label_ref::of(text), detail::op_rank(lane, 0),
                                 std::forward<Pack>(held), std::forward<Body>(body)});
  auto& waits = on.made->waits;
  const auto first_wait = static_cast<std::uint32_t>(waits.size());
  const detail::recorded_place at = on.analysis.add(lane, id, bound, waits);
  if (at.part == on.ops_of.size()) on.ops_of.push_back(0);
  on.ops_of[at.part] = static_cast<std::uint64_t>(at.index);
  on.made->sequence.push_back({at,
                               {first_wait, static_cast<std::uint32_t>(waits.size()) - first_wait},
                               {},
                               is_named,
                               std::move(frame)});
  return at;
}

template <runtime_backend B>
void basic_runtime<B>::note_recorded_use(detail::buffer_core& core, byte_range range, access kind,
                                         detail::recorded_place at) {
  if (kind == access::read) return;
  auto& tracked = detail::inside_record::session->of(core);
  tracked.last_write = at;
  if (tracked.written == nullptr) return;
  tracked.written->note_written(range);
  detail::inside_record::session->made->written.emplace_back(&core, range);
}

// ---- The ops are run again.

template <runtime_backend B>
void basic_runtime<B>::give_again(const std::shared_ptr<detail::recorded_ops>& ops, std::uint64_t times) {
  const detail::replay_plan& plan = ops->plan;
  for (const auto& part : plan.parts) {
    if constexpr (requires { engine_->backend().admit(engine_->stream_of(part.lane)); }) {
      engine_->backend().admit(engine_->stream_of(part.lane));
    }
  }
  const std::uint64_t order = order_before(*ops);
  const auto stream_of = [&](std::size_t part) ->
      typename B::stream& { return engine_->stream_of(plan.parts[part].lane); };
  if constexpr (requires(std::span<const std::uint64_t> before) {
                  engine_->backend().launch_replay(ops, times, order, before, stream_of);
                }) {
    engine_->replay(plan, times, [&](std::span<const std::uint64_t> before) {
      if (is_traced()) [[unlikely]]
        trace_replay(*ops, times, before);
      engine_->backend().launch_replay(ops, times, order, before, stream_of);
    });
  } else {
    one_by_one launch(*this, ops, order);
    engine_->replay(plan, times, [&](std::span<const std::uint64_t> before) { launch(times, before); });
  }
  note_replayed(*ops, order + times * ops->sequence.size());
}

// The order that the ops come after.
template <runtime_backend B>
std::uint64_t basic_runtime<B>::order_before(const detail::recorded_ops& ops) const noexcept {
  std::uint64_t order = detail::last_order;
  for (const auto& each : ops.buffers) look_at_order_of(*each.get(), order);
  return order;
}

// `order`: of the last op.
template <runtime_backend B>
void basic_runtime<B>::note_replayed(const detail::recorded_ops& ops, std::uint64_t order) {
  detail::last_order = order;
  for (const auto& each : ops.buffers)
    each->last_order.store(order, std::memory_order_relaxed);  // as in note_access()
  for (const auto& [core, range] : ops.written) core->note_written(range);
}

/// Hands over one op after the other. When a call fails, that op and those after it are given up: their data
/// carries the error.
template <runtime_backend B>
class basic_runtime<B>::one_by_one {
 public:
  one_by_one(basic_runtime& of, const std::shared_ptr<detail::recorded_ops>& all, std::uint64_t after)
      : self_(of), ops_(all), order_(after) {
    if constexpr (!point_backend<B>) {
      marks_.resize(ops_->waits.empty() ? 0 : ops_->sequence.size());
      awaited_.reserve(ops_->plan.parts.size());  // one for each other part at most
    }
  }
  ~one_by_one() {
    for (detail::mark<B>* m : marks_) {
      if (m != nullptr) m->release();
    }
  }
  one_by_one(const one_by_one&) = delete;
  one_by_one& operator=(const one_by_one&) = delete;

  void operator()(std::uint64_t times, std::span<const std::uint64_t> before) noexcept {
    if (self_.is_traced()) [[unlikely]] {
      try {
        self_.trace_replay(*ops_, times, before);
      } catch (...) {
        fail();
      }
    }
    each_replayed(*ops_, times, before,
                  [&](const auto& each, std::uint64_t cursor, bool is_first, auto cursor_of) {
                    hand_over(each, cursor, is_first, cursor_of);
                  });
  }

 private:
  using described = detail::recorded_ops::described;

  template <class CursorOf>
  void hand_over(const described& op, std::uint64_t cursor, bool is_first, CursorOf cursor_of) noexcept {
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
    if (!marks_.empty() && !failure_ && ops_->is_awaited(op.at)) mark(op.at, lane, cursor);
  }

  // What is given up carries the error from now on: where bodies run later, those before it come first.
  void fail() noexcept {
    failure_ = std::current_exception();
    if constexpr (!detail::enqueueing_backend<B>) {
      try {
        self_.engine_->wait_all();
      } catch (const std::exception& e) {
        self_.log_->write(log_area::errors, log_level::basic, e.what());
      }
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
      for (const auto& w : waits) awaited_.push_back(marks_[ops_->place_of(w.on)]);
      engine.wait_replayed(lane, awaited_);
    }
  }

  void launch(typename B::stream& stream, std::uint64_t cursor, detail::recorded_frame& frame,
              detail::op_rank rank) {
    if constexpr (detail::enqueueing_backend<B>) {
      self_.engine_->backend().launch(stream, cursor,
                                      detail::replayed_call{&self_, &frame, frame.label(), rank});
    } else {
      self_.engine_->backend().launch(stream, cursor, detail::replayed_op{ops_, &frame, rank, {&frame}});
    }
  }

  void mark(const detail::recorded_place& at, detail::lane_id lane, std::uint64_t cursor) noexcept {
    detail::mark<B>*& kept = marks_[ops_->place_of(at)];
    if (kept != nullptr) std::exchange(kept, nullptr)->release();
    try {
      kept = self_.engine_->mark_replayed(lane, cursor);
    } catch (...) {
      fail();
    }
  }

  basic_runtime& self_;
  const std::shared_ptr<detail::recorded_ops>& ops_;
  std::uint64_t order_;
  std::vector<detail::mark<B>*> marks_;          // of ops that others wait for, by their places
  std::vector<const detail::mark<B>*> awaited_;  // by one op
  std::exception_ptr failure_;
};

// Calls `visit(op, its cursor, whether it is of the first sequence, the cursor of a place)`.
template <runtime_backend B>
template <class Visit>
void basic_runtime<B>::each_replayed(const detail::recorded_ops& ops, std::uint64_t times,
                                     std::span<const std::uint64_t> before, Visit visit) {
  for (std::uint64_t i = 0; i < times; ++i) {
    const auto cursor_of = [&](const detail::recorded_place& at) {
      return before[at.part] + i * ops.plan.parts[at.part].ops + static_cast<std::uint64_t>(at.index);
    };
    for (const auto& each : ops.sequence) visit(each, cursor_of(each.at), i == 0, cursor_of);
  }
}

template <runtime_backend B>
void basic_runtime<B>::trace_replay(const detail::recorded_ops& ops, std::uint64_t times,
                                    std::span<const std::uint64_t> before) {
  const std::int64_t now = detail::trace_now();
  each_replayed(
      ops, times, before, [&](const auto& each, std::uint64_t cursor, bool is_first, auto cursor_of) {
        const auto& part = ops.plan.parts[each.at.part];
        std::vector<binding> bound;
        for (const detail::touched& t : each.frame->touches())
          bound.push_back({t.state, t.kind, byte_range{t.begin, t.end - t.begin}, false, t.tag});
        std::vector<stream_wait> waits;
        if (is_first && each.at.index == 1) {
          // Of all ops of the part; told as this one's, and with its binding if it has the resource.
          waits = engine_->waits_of(part.lane).waits;
          for (stream_wait& w : waits) {
            const auto found = std::find_if(bound.begin(), bound.end(),
                                            [&](const binding& b) { return b.state->id == w.resource; });
            w.binding = static_cast<std::size_t>(found - bound.begin());
          }
        }
        for (const auto& w : ops.waits_of(each, is_first)) {
          const std::uint64_t on = cursor_of(w.on);
          waits.push_back({ops.plan.parts[w.on.part].id, on, on, w.binding, w.resource, w.why});
        }
        detail::trace_op(
            {trace_number(), part.lane, part.id, cursor, each.frame->label().name(), now, each.is_named},
            bound, waits, &lane_in, engine_.get());
      });
}

}  // namespace braid
