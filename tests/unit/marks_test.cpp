// When events are recorded, and which of them is waited for.

#include <functional>
#include <thread>

#include "braid/detail/recorder.hpp"
#include "support.hpp"

namespace braid {
namespace {

using test::give;
using test::telling_backend;

multi_stream_options with(mark_policy policy, bool deterministic = true) {
  auto o = test::options();
  o.marks = policy;
  o.deterministic = deterministic;
  return o;
}

TEST(marks, one_mark_serves_all_who_need_it) {
  multi_stream<telling_backend> engine{telling_backend{}, with(mark_policy::lazy)};
  const resource x = resource::token("x");
  give(engine, {1}, {write(x)});
  for (const std::uint64_t s : {2U, 3U, 4U}) give(engine, {s}, {read(x)});
  EXPECT_EQ(engine.stats().marks, 1U);
  EXPECT_EQ(engine.stats().marks_reused, 2U);
}

TEST(marks, an_old_mark_that_covers_the_need_is_used_instead_of_a_new_event_at_the_tail) {
  multi_stream<telling_backend> engine{telling_backend{}, with(mark_policy::lazy)};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  give(engine, {1}, {write(x)});
  give(engine, {2}, {read(x)});   // a mark at op 1
  give(engine, {1}, {write(y)});  // the tail moves on
  auto op = engine.resolve(stream_id{3}, {read(x)});
  ASSERT_EQ(op.waits().waits.size(), 1U);
  EXPECT_EQ(op.waits().waits[0].reached, 1U);
  EXPECT_EQ(engine.stats().excess_orderings, 0U);
}

TEST(marks, a_lazy_mark_reaches_the_tail_and_the_excess_is_counted) {
  multi_stream<telling_backend> engine{telling_backend{}, with(mark_policy::lazy)};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  give(engine, {1}, {write(x)});
  give(engine, {1}, {write(y)});
  auto op = engine.resolve(stream_id{2}, {read(x)});
  EXPECT_EQ(op.waits().waits[0].cursor, 1U);
  EXPECT_EQ(op.waits().waits[0].reached, 2U);
  EXPECT_EQ(engine.stats().excess_orderings, 1U);
}

TEST(marks, eager_marks_follow_every_write) {
  multi_stream<telling_backend> engine{telling_backend{}, with(mark_policy::eager)};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  give(engine, {1}, {write(x)});
  give(engine, {1}, {write(y)});
  auto op = engine.resolve(stream_id{2}, {read(x)});
  EXPECT_EQ(op.waits().waits[0].reached, 1U);
  EXPECT_EQ(engine.stats().marks_early, 1U);
}

TEST(marks, a_mark_is_recorded_early_where_the_resource_was_used_from_another_stream_before) {
  multi_stream<telling_backend> engine{telling_backend{}, with(mark_policy::learned)};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  give(engine, {1}, {write(x)});
  give(engine, {2}, {read(x)});
  give(engine, {1}, {write(x)});
  give(engine, {1}, {write(y)});  // before this one, a mark
  auto op = engine.resolve(stream_id{2}, {read(x)});
  ASSERT_EQ(op.waits().waits.size(), 1U);
  EXPECT_EQ(op.waits().waits[0].reached, op.waits().waits[0].cursor);
}

TEST(marks, a_label_teaches_when_each_op_writes_new_memory) {
  multi_stream<telling_backend> engine{telling_backend{}, with(mark_policy::learned)};
  op_label produce("produce");
  const resource other = resource::token("other");
  for (int i = 0; i < 3; ++i) {
    const resource fresh = resource::token("fresh");
    { auto op = engine.resolve(stream_id{1}, produce, {write(fresh)}); }
    give(engine, {1}, {write(other)});
    auto op = engine.resolve(stream_id{2}, {read(fresh)});
    ASSERT_EQ(op.waits().waits.size(), 1U);
    const stream_wait& w = op.waits().waits[0];
    if (i > 0) {
      EXPECT_EQ(w.reached, w.cursor);
    }
  }
  EXPECT_TRUE(produce.is_likely_shared());
}

TEST(marks, what_nobody_else_uses_any_more_stops_costing_events) {
  multi_stream<telling_backend> engine{telling_backend{}, with(mark_policy::learned)};
  const resource x = resource::token("x");
  give(engine, {1}, {write(x)});
  give(engine, {2}, {read(x)});
  for (int i = 0; i < 10; ++i) give(engine, {1}, {write(x)});
  const std::uint64_t settled = engine.stats().marks;
  for (int i = 0; i < 100; ++i) give(engine, {1}, {write(x)});
  EXPECT_EQ(engine.stats().marks, settled);
}

TEST(marks, what_was_over_before_another_stream_used_it_is_not_marked_the_next_time) {
  multi_stream<telling_backend> engine{telling_backend{}, with(mark_policy::learned, false)};
  op_label produce("produce");
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  for (int i = 0; i < 5; ++i) {
    {
      auto op = engine.resolve(stream_id{1}, produce, {write(x)});
    }
    give(engine, {1}, {write(y)});  // before this one a mark would be recorded
    engine.wait(stream_id{1});
    EXPECT_EQ(test::waits_of(engine, {2}, {read(x)}), 0U);
    engine.wait(stream_id{2});
  }
  EXPECT_EQ(engine.stats().marks_early, 0U);
  EXPECT_FALSE(produce.is_likely_shared());
}

struct unasked_telling_backend : telling_backend {
  static constexpr bool asks_as_dearly_as_it_waits = true;
};

TEST(marks, those_of_a_join_are_recorded_before_the_first_wait_where_events_are_not_asked) {
  unasked_telling_backend backend;
  multi_stream<unasked_telling_backend> engine{backend, with(mark_policy::lazy)};
  std::vector<resource> all;
  for (std::uint64_t s = 0; s < 4; ++s) {
    all.push_back(resource::token("r"));
    give(engine, {s}, {write(all.back())});
  }
  backend.told->calls.clear();
  give(engine, {0}, {read(all[1]), read(all[2]), read(all[3])});
  EXPECT_EQ(backend.told->calls,
            (std::vector<std::string>{"flush 1", "flush 2", "flush 3", "wait 0", "wait 0", "wait 0"}));
  EXPECT_EQ(engine.stats().marks, 3U);
  EXPECT_EQ(engine.stats().marks_reused, 0U);
}

TEST(marks, a_need_that_a_join_implies_is_not_recorded_for_where_events_are_not_asked) {
  unasked_telling_backend backend;
  multi_stream<unasked_telling_backend> engine{backend, with(mark_policy::lazy)};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  give(engine, {1}, {write(x)});
  give(engine, {2}, {read(x), write(y)});  // knows of 1
  give(engine, {1}, {write(resource::token("other"))});
  give(engine, {3}, {});
  backend.told->calls.clear();
  give(engine, {3}, {read(x), read(y)});
  EXPECT_EQ(backend.told->calls, (std::vector<std::string>{"flush 1", "wait 2"}));
  EXPECT_EQ(engine.stats().elided_implied, 1U);
}

TEST(marks, a_stream_is_marked_before_it_waits_for_another) {
  multi_stream<telling_backend> engine{telling_backend{}, with(mark_policy::learned)};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  give(engine, {1}, {write(x)});
  give(engine, {2}, {write(y)});
  give(engine, {1}, {read(y)});                       // marks op 1 of stream 1, then waits
  auto op = engine.resolve(stream_id{3}, {read(x)});  // does not wait for stream 2
  EXPECT_EQ(op.waits().waits[0].reached, 1U);
  EXPECT_EQ(engine.last_synced({3}, {2}), 0U);
}

TEST(marks, what_is_known_to_be_complete_costs_no_wait) {
  telling_backend backend;
  multi_stream<telling_backend> engine{backend, with(mark_policy::lazy, false)};
  const resource x = resource::token("x");
  give(engine, {1}, {write(x)});
  engine.wait(stream_id{1});
  EXPECT_EQ(test::waits_of(engine, {2}, {read(x)}), 0U);
  EXPECT_EQ(engine.stats().elided_complete, 1U);
}

TEST(marks, a_deterministic_engine_never_asks_for_completion) {
  telling_backend backend;
  multi_stream<telling_backend> engine{backend, with(mark_policy::learned, true)};
  const resource x = resource::token("x");
  for (int i = 0; i < 20; ++i) {
    give(engine, {1}, {read_write(x)});
    give(engine, {2}, {read_write(x)});
  }
  engine.wait(stream_id{1});
  EXPECT_EQ(test::waits_of(engine, {3}, {read(x)}), 1U);
  EXPECT_EQ(backend.told->queries, 0U);
}

TEST(marks, waits_beyond_64_slots_that_a_clock_may_have_forgotten_are_counted) {
  auto o = test::options(200);
  multi_stream<telling_backend> engine{telling_backend{}, o};
  std::vector<resource> all;
  for (std::uint64_t s = 0; s < 130; ++s) {
    all.push_back(resource::token("r"));
    give(engine, {s}, {write(all.back())});
  }
  const resource mine = resource::token("mine");
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t s = 1; s < 130; ++s) give(engine, {0}, {read(all[s])});
  }
  EXPECT_GT(engine.stats().waits_forgotten, 0U);
}

// The oldest mark that is left reaches further than the need, and brings along more than those know who know
// the need: who is removed for the one may not lose it to the other.
TEST(marks, a_need_that_a_far_reaching_mark_brings_along_is_not_lost_when_that_mark_is_not_waited_for) {
  sim::device device;
  multi_stream<sim::unasked_backend> engine{device.unasked_backend(), with(mark_policy::eager)};
  std::vector<resource> all;
  for (int i = 0; i < 5; ++i) all.push_back(resource::memory(8, "r"));
  const auto op = [&](std::uint64_t stream, const std::vector<std::pair<std::uint32_t, access>>& uses) {
    std::vector<binding> bindings;
    sim::op work{.label = "op", .touches = {}};
    for (const auto& [r, kind] : uses) {
      bindings.emplace_back(all[r], kind);
      work.touches.push_back({r, 0, {0, 8}, kind, 0});
    }
    auto guard = engine.resolve(stream_id{stream}, bindings);
    device.launch(guard.current(), std::move(work));
  };
  op(0, {{0, access::write}});
  op(1, {{1, access::read}, {2, access::read}});
  op(1, {{0, access::read}});                               // knows op 1 of stream 0 from here on
  op(2, {{1, access::write}});                              // knows op 1 of stream 1, and no more
  for (int i = 0; i < 9; ++i) op(1, {{3, access::write}});  // the mark behind op 1 is gone
  op(3, {{0, access::read}, {1, access::read}, {2, access::write}});
  device.run_all();
  const auto found = sim::check(device.log());
  EXPECT_TRUE(found.violations.empty());
  EXPECT_EQ(found.waits, found.minimal_waits);
}

/// Records its events again. While it is told to wait it can let others in, or fail.
struct recording_backend {
  struct state {
    std::atomic<std::uint64_t> made{0}, recorded{0};
    std::function<void()> while_waiting = [] {};
    std::atomic<std::uint64_t> recorded_meanwhile{0};  // events that somebody was just told to wait for
  };
  struct stream {};
  struct event {
    std::shared_ptr<std::atomic<std::uint64_t>> number;
  };
  std::shared_ptr<state> told = std::make_shared<state>();
  static constexpr bool asks_as_dearly_as_it_waits = true;

  stream create_stream() { return {}; }
  event flush(stream&) {
    ++told->made;
    return {std::make_shared<std::atomic<std::uint64_t>>(++told->recorded)};
  }
  void flush_again(stream&, event& e) { *e.number = ++told->recorded; }
  void wait_event(stream&, const event& e) {
    const std::uint64_t before = *e.number;
    told->while_waiting();
    if (*e.number != before) ++told->recorded_meanwhile;
  }
  void wait_event_sync(const event&) {}
  bool is_complete(const event&) { return false; }
};

TEST(marks, an_event_is_not_recorded_again_while_streams_are_being_told_to_wait_for_it) {
  for (const std::uint64_t together : {1U, 2U, 6U, 7U, 13U}) {  // a mark has room for six
    const recording_backend backend;
    auto options = with(mark_policy::eager);
    options.max_streams = 32;
    multi_stream<recording_backend> engine{backend, options};
    const resource x = resource::token("x");
    const auto need_more_marks_than_are_kept = [&] {
      for (int i = 0; i < 20; ++i) give(engine, {0}, {write(resource::token("new"))});  // no routine
    };
    give(engine, {0}, {write(x)});
    give(engine, {0}, {write(resource::token("new"))});  // behind a mark of the first op
    // Each stream but the last lets the next one wait for that mark while it is being told to itself.
    std::uint64_t waiting = 0;
    backend.told->while_waiting = [&] {
      if (++waiting < together) std::thread([&] { give(engine, {1 + waiting}, {read(x)}); }).join();
      std::thread(need_more_marks_than_are_kept).join();
    };
    give(engine, {1}, {read(x)});
    EXPECT_EQ(waiting, together);
    EXPECT_EQ(backend.told->recorded_meanwhile, 0U) << together;

    // Now that nobody does, it is.
    const std::uint64_t made = backend.told->made;
    for (int i = 0; i < 50; ++i) need_more_marks_than_are_kept();
    EXPECT_EQ(backend.told->made, made) << together;
    EXPECT_GE(backend.told->recorded, 1000U);
  }
}

TEST(marks, a_mark_has_room_for_six_ops_that_are_being_told_to_wait_and_forgets_those_that_were) {
  detail::mark<telling_backend> m;
  std::atomic<std::uint64_t> committed[6]{};
  for (auto& c : committed) EXPECT_TRUE(m.hold_until(c, 1));
  EXPECT_FALSE(m.hold_until(committed[0], 1));
  for (const std::size_t over : {0U, 2U, 3U, 5U}) committed[over] = 1;
  EXPECT_TRUE(m.hold_until(committed[0], 2));
  committed[1] = 1;
  EXPECT_FALSE(m.is_let_go());
  committed[4] = 1;
  EXPECT_FALSE(m.is_let_go());  // the one of now
  m.let_go(committed[0]);
  EXPECT_TRUE(m.is_let_go());
}

TEST(marks, of_a_stream_whose_waits_fail_leave_no_trace) {
  const recording_backend backend;
  multi_stream<recording_backend> engine{backend, with(mark_policy::eager)};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  const auto fail_one = [&](std::initializer_list<binding> uses) {
    give(engine, {1}, {write(x)});
    give(engine, {2}, {write(y)});
    backend.told->while_waiting = [] { throw execution_error("no"); };
    EXPECT_THROW(give(engine, {3}, uses), execution_error);
    backend.told->while_waiting = [] {};
  };
  const auto fail_some = [&] {
    for (int i = 0; i < 50; ++i) {
      fail_one({read(x)});
      fail_one({read(x), read(y)});
    }
  };
  fail_some();
  const std::uint64_t made = backend.told->made;
  for (int round = 0; round < 10; ++round) fail_some();
  EXPECT_EQ(backend.told->made, made);
  EXPECT_LE(made, 40U);
}

// Where one part of a sequence cannot wait, the others were told to already.
TEST(marks, of_a_replay_whose_waits_fail_leave_no_trace) {
  const recording_backend backend;
  multi_stream<recording_backend> engine{backend, with(mark_policy::eager)};
  const resource x = resource::token("x"), y = resource::token("y");
  const resource p = resource::token("p"), q = resource::token("q");
  for (std::uint64_t s = 0; s < 4; ++s) give(engine, {s}, {});
  const binding first[] = {read(x), write(p)};
  const binding second[] = {read(y), write(q)};
  for (const binding& b : {first[0], first[1], second[0], second[1]}) engine.own(b);
  detail::recorder recorder(8);
  std::vector<detail::recorder::wait> waits;
  recorder.add(engine.lane_of({0}), {0}, first, waits);
  recorder.add(engine.lane_of({1}), {1}, second, waits);
  std::vector<std::uint32_t> numbers, firsts;
  const detail::replay_plan plan = recorder.finish(numbers, waits, firsts);
  int waited = 0;
  const auto fail_some = [&] {
    for (int i = 0; i < 50; ++i) {
      give(engine, {2}, {write(x)});
      give(engine, {3}, {write(y)});
      waited = 0;
      backend.told->while_waiting = [&] {
        if (++waited == 2) throw execution_error("no");
      };
      EXPECT_THROW(engine.replay(plan, 1, [](auto) noexcept { ADD_FAILURE(); }), execution_error);
      EXPECT_EQ(waited, 2);
      backend.told->while_waiting = [] {};
    }
  };
  fail_some();
  const std::uint64_t made = backend.told->made;
  for (int round = 0; round < 10; ++round) fail_some();
  EXPECT_EQ(backend.told->made, made);
  EXPECT_LE(made, 40U);
}

}  // namespace
}  // namespace braid
