#include "trace/replay.hpp"

#include <gtest/gtest.h>

#include <string>

#include "backends/sim/machine.hpp"

namespace {

using namespace braid;
using placing = trace::replay_setting::placing;

// ---- The machine.

TEST(machine, runs_as_many_streams_at_a_time_as_it_has_workers) {
  sim::machine m(3);  // one of them a thread that would wait: two
  for (int i = 0; i < 4; ++i) {
    const auto s = m.add_stream();
    m.launch(s, 10);
    m.commit(s, 1);
  }
  while (m.next_start()) m.step();
  EXPECT_EQ(m.makespan(), 20);
}

TEST(machine, without_workers_runs_every_stream_at_once) {
  sim::machine m(0);
  for (int i = 0; i < 4; ++i) {
    const auto s = m.add_stream();
    m.launch(s, 10);
    m.commit(s, 1);
  }
  while (m.next_start()) m.step();
  EXPECT_EQ(m.makespan(), 10);
}

TEST(machine, starts_an_op_after_what_it_waits_for_and_after_it_was_submitted) {
  sim::machine m(0);
  const auto a = m.add_stream();
  const auto b = m.add_stream();
  m.launch(a, 10);
  m.commit(a, 1);
  m.set_now(3);
  m.wait(b, a, 1);
  m.launch(b, 5);
  m.commit(b, 1);
  while (m.next_start()) m.step();
  EXPECT_EQ(m.end_of(a, 1), 10);
  EXPECT_EQ(m.end_of(b, 1), 15);
  m.set_now(12);
  EXPECT_TRUE(m.is_over(a, 1));
  EXPECT_FALSE(m.is_over(b, 1));
  EXPECT_EQ(m.length_of(b), 1U);
}

TEST(machine, a_worker_stays_with_its_stream_while_that_has_something_to_run) {
  sim::machine m(2);  // one thread
  const auto a = m.add_stream();
  const auto b = m.add_stream();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    m.launch(a, 10);
    m.commit(a, i);
  }
  m.set_now(1);
  m.launch(b, 1);
  m.commit(b, 1);
  while (m.next_start()) m.step();
  EXPECT_EQ(m.end_of(a, 3), 30);
  EXPECT_EQ(m.end_of(b, 1), 31);
}

TEST(machine, a_thread_that_waits_is_a_worker_until_it_is_gone) {
  sim::machine m(2);
  const auto a = m.add_stream();
  const auto b = m.add_stream();
  for (const auto s : {a, b}) {
    m.launch(s, 10);
    m.commit(s, 1);
  }
  const auto helper = m.add_worker();
  m.step();
  m.step();
  EXPECT_EQ(m.makespan(), 10);
  EXPECT_EQ(m.remove_worker(helper), 10);
}

// ---- Replaying.

/// `chains` independent chains of `length` ops of 100 µs each, all submitted at once; chain i on stream i %
/// streams.
trace::trace chains(unsigned count, unsigned length, std::uint32_t workers) {
  trace::trace t;
  t.runtimes.push_back({.number = 1,
                        .backend = "cpu",
                        .workers = workers,
                        .streams = count,
                        .width = count,
                        .placement = "automatic"});
  for (unsigned i = 0; i < count; ++i)
    t.streams.push_back({.runtime = 1, .lane = i, .name = std::to_string(i), .ops = {}});
  for (unsigned k = 0; k < length; ++k) {
    for (unsigned i = 0; i < count; ++i) {
      trace::op o;
      o.runtime = 1;
      o.stream = i;
      o.id = stream_id{i};
      o.cursor = k + 1;
      o.label = "op";
      o.submitter = 1;
      o.worker = 2;
      o.is_named = true;
      o.start = 100'000 * k;
      o.end = o.start + 100'000;
      o.uses.push_back({.resource = i + 1, .name = "x", .kind = access::read_write, .range = {0, 64}});
      t.streams[i].ops.push_back(static_cast<trace::op_index>(t.ops.size()));
      t.ops.push_back(o);
    }
  }
  t.host_waits.push_back({.thread = 1, .begin = 0, .end = 100'000 * length});
  t.end = 100'000 * length;
  return t;
}

TEST(replay, of_independent_chains_takes_the_work_divided_by_what_can_run_at_once) {
  const auto t = chains(8, 10, 4);
  EXPECT_EQ(trace::replay(t, {1, placing::recorded}).makespan, 8'000'000);
  EXPECT_EQ(trace::replay(t, {2, placing::recorded}).makespan, 4'000'000);
  EXPECT_EQ(trace::replay(t, {8, placing::recorded}).makespan, 2'000'000);
  EXPECT_EQ(trace::replay(t, {8, placing::recorded, 2}).makespan, 4'000'000);
  EXPECT_EQ(trace::replay(t, {8, placing::single}).makespan, 8'000'000);
  EXPECT_EQ(trace::replay(t, {8, placing::per_thread}).makespan, 8'000'000);
  EXPECT_EQ(trace::replay(t, {8, placing::automatic}).makespan, 2'000'000);
}

TEST(replay, on_a_device_runs_all_streams_at_once) {
  auto t = chains(8, 10, 0);
  t.runtimes[0].backend = "cuda";
  EXPECT_EQ(trace::replay(t, {8, placing::recorded}).makespan, 1'000'000);
  EXPECT_EQ(trace::replay(t, {4, placing::recorded}).makespan, 2'000'000);
}

TEST(replay, keeps_the_dependencies_between_streams) {
  auto t = chains(2, 10, 4);
  for (auto& o : t.ops) o.uses[0].resource = 1;  // all in one chain
  EXPECT_EQ(trace::replay(t, {2, placing::recorded}).makespan, 2'000'000);
  EXPECT_GT(trace::replay(t, {2, placing::recorded}).waits, 10U);
  EXPECT_EQ(trace::replay(t, {1, placing::recorded}).waits, 0U);
}

TEST(replay, recommends_the_fewest_streams_of_the_fastest_and_nothing_that_gains_nothing) {
  const auto t = chains(8, 10, 4);
  std::vector<trace::prediction> all;
  for (const std::uint32_t n : {1U, 2U, 4U, 8U, 16U}) {
    all.push_back(trace::replay(t, {n, placing::recorded}));
  }
  EXPECT_EQ(trace::recommend(all, all[3]), all.size());
  EXPECT_EQ(all[trace::recommend(all, all[0])].with.streams, 4U);
  EXPECT_EQ(trace::recommend({}, all[0]), 0U);
}

TEST(replay, of_many_ops_and_one_wait_for_all_looks_at_each_op_once) {
  // Fifty thousand ops: to look at all of them at each step would take minutes.
  const auto t = chains(8, 6'250, 4);
  EXPECT_EQ(trace::replay(t, {8, placing::recorded}).makespan, 100'000LL * 6'250 * 8 / 4);
}

TEST(replay, of_a_file_that_says_that_an_op_conflicts_with_itself_is_refused) {
  auto t = chains(1, 2, 1);
  t.ops[1].uses.push_back({.resource = 1, .name = "x", .kind = access::write, .range = {0, 8}});
  EXPECT_THROW((void)trace::replay(t, {1, placing::recorded}), trace::trace_error);
}

}  // namespace
