#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>
#include <thread>

#include "braid/trace.hpp"
#include "cuda/support.hpp"
#include "trace/model.hpp"

// What CUDA has beyond the suite of all backends: events, graphs, traces, memory.

namespace braid::conformance {
namespace {

TEST(cuda_backend, steady_work_makes_no_events) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(16, zeroed, "x");
  auto y = rt->make_buffer<int>(16, zeroed, "y");
  const auto round = [&] {
    for (std::uint64_t i = 0; i < 64; ++i) {
      cuda_fixture::add(*rt, x, y, stream_id{i % 4});
      cuda_fixture::add(*rt, y, x, stream_id{(i + 1) % 4});
    }
    rt->synchronize();
  };
  round();
  round();
  const std::uint64_t made = rt->backend().events_made();
  EXPECT_GT(made, 0U);
  for (int i = 0; i < 20; ++i) round();
  EXPECT_EQ(rt->backend().events_made(), made);
}

TEST(cuda_backend, steady_replays_make_no_events) {
  const auto rt = make();
  std::vector<buffer<int>> cells;
  for (int i = 0; i < 5; ++i) cells.push_back(rt->make_buffer<int>(16, zeroed, "cell"));
  const recording round = rt->record(
      [&] {
        for (std::uint64_t i = 1; i < cells.size(); ++i) {
          cuda_fixture::add(*rt, cells[i], cells[0], stream_id{i});
          cuda_fixture::add(*rt, cells[0], cells[i], stream_id{0});
        }
      },
      {.graph = false});
  const auto run = [&] {
    round.replay(3);
    cuda_fixture::increment(*rt, cells[1], stream_id{2});
    rt->synchronize();
  };
  for (int i = 0; i < 10; ++i) run();  // as many as a stream keeps for who comes later
  const std::uint64_t made = rt->backend().events_made();
  EXPECT_GT(made, 0U);
  for (int i = 0; i < 20; ++i) run();
  EXPECT_EQ(rt->backend().events_made(), made);
}

TEST(cuda_backend, an_op_of_a_routine_that_throws_poisons_what_it_writes_until_the_next_round) {
  const auto rt = make({.deterministic = false});
  auto x = rt->make_buffer<int>(16, zeroed, "x");
  auto y = rt->make_buffer<int>(16, zeroed, "y");
  int ran = 0;
  // A routine does not begin where something is over early; then it is looked for again.
  for (int i = 0; i < 400; ++i) {
    rt->submit(stream_id{0}, "first", braid::write(x), [&](native, std::span<int>) {
      if (i == 300) throw std::runtime_error("broken");
    });
    rt->submit(stream_id{1}, "second", read(x), braid::write(y),
               [&](native, std::span<const int>, std::span<int>) { ++ran; });
    if (i != 300) continue;
    expect_failure("first", "broken", [&] { rt->wait(x); });
    expect_failure("first", "broken", [&] { (void)rt->read(y).get(); });
  }
  rt->wait(y);
  EXPECT_EQ(ran, 399);
  EXPECT_EQ(rt->stats().failed, 1U);
  EXPECT_GT(rt->stats().streams.followed, 0U);
}

TEST(cuda_backend, a_routine_of_a_runtime_that_is_gone_is_not_anothers_at_its_place) {
  for (int turn = 0; turn < 10; ++turn) {
    const auto rt = make({.deterministic = false});
    auto x = rt->make_buffer<int>(16, zeroed, "x");
    int ran = 0;
    for (int i = 0; i < 100; ++i)
      rt->submit(stream_id{0}, "again", read_write(x), [&](native, std::span<int>) { ++ran; });
    rt->wait(x);
    EXPECT_EQ(ran, 100);
  }
}

TEST(cuda_backend, a_buffer_of_a_routine_may_go_inside_a_body) {
  const auto rt = make({.deterministic = false});
  auto x = rt->make_buffer<int>(16, zeroed, "x");
  auto gone = rt->make_buffer<int>(16, zeroed, "gone");
  for (int i = 0; i < 400; ++i) {  // as above
    rt->submit(stream_id{0}, "first", read_write(gone), read_write(x), [](native, auto...) {});
    rt->submit(stream_id{1}, "second", read_write(x), [&](native, std::span<int>) {
      if (i == 399) gone = {};
    });
  }
  EXPECT_GT(rt->stats().streams.followed, 0U);
  auto next = rt->make_buffer<int>(16, "next");
  rt->fill(next, 3);
  EXPECT_EQ(rt->read(next).get(), std::vector<int>(16, 3));
  rt->wait(x);
}

// Such memory goes back to the pool while a routine would go on with it: what the pool then makes of it has
// to know of all ops.
TEST(cuda_backend, memory_of_one_op_that_repeats_is_cut_for_others_behind_that_op) {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  constexpr std::uint64_t ints = mib / sizeof(int);
  const auto rt = make({.deterministic = false, .memory_limit = 5 * mib});  // 1 for x, and one segment
  auto x = rt->make_buffer<int>(16, zeroed, "x");
  rt->synchronize();
  const pinned_ints flag({0});
  constexpr int last = 50;
  for (int i = 0; i <= last; ++i) {
    rt->submit(stream_id{1}, "use", read_write(x), scratch<int>(4 * ints),
               [&](native on, std::span<int>, std::span<int> all) {
                 if (i == last) test::hold(on, reinterpret_cast<const std::uint32_t*>(flag.data()));
                 test::fill(on, all.data(), all.size(), 7);
               });
    if (i == last - 1) rt->wait(x);
  }
  auto lower = rt->make_buffer<int>(3 * ints / 2, "lower");
  auto upper = rt->make_buffer<int>(3 * ints / 2, "upper");
  cuda_fixture::fill(*rt, lower, 1, stream_id{2});
  cuda_fixture::fill(*rt, upper, 2, stream_id{3});
  const std::uint64_t held = rt->engine().cursor(stream_id{1});
  EXPECT_EQ(rt->engine().last_synced(stream_id{2}, stream_id{1}), held);
  EXPECT_EQ(rt->engine().last_synced(stream_id{3}, stream_id{1}), held);
  std::atomic_ref<int>(flag[0]).store(1);
  EXPECT_EQ(rt->read(lower).get(), constant(lower.size(), 1));
  EXPECT_EQ(rt->read(upper).get(), constant(upper.size(), 2));
}

TEST(cuda_backend, a_trace_has_the_times_of_the_device_in_the_order_of_its_streams) {
  const auto rt = make({.deterministic = true});
  const std::string file = ::testing::TempDir() + "braid_cuda_trace_" + std::to_string(::getpid()) + ".json";
  auto x = rt->make_buffer<int>(16, zeroed, "x");
  auto y = rt->make_buffer<int>(16, zeroed, "y");
  rt->synchronize();
  {
    tracing trace(file);
    for (int i = 0; i < 20; ++i) {
      rt->submit(stream_id{1}, "spin", read_write(x), [](native on, std::span<int>) { test::spin(on, 50); });
      rt->submit(stream_id{2}, "follow", read(x), read_write(y),
                 [](native on, std::span<const int>, std::span<int> to) {
                   test::increment(on, to.data(), to.size());
                 });
    }
    rt->submit(stream_id{2}, "nothing", read(x), [](native, std::span<const int>) {});
    rt->synchronize();
    EXPECT_EQ(trace.stop().incomplete, 0U);
  }
  const trace::trace t = trace::read_file(file);
  std::filesystem::remove(file);
  // Beside NVIDIA's own tools there is no CUPTI.
  EXPECT_NE(t.timing.find(is_imitated() ? "events with timing" : "CUPTI"), std::string::npos) << t.timing;
  ASSERT_EQ(t.ops.size(), 41U);
  for (const std::string& each : trace::violations(t)) ADD_FAILURE() << each;
  for (const trace::op& o : t.ops) {
    EXPECT_EQ(o.worker, 0U);
    if (o.label == "spin") {
      EXPECT_GE(o.end - o.start, 49'000);
    }
    if (o.label == "nothing" && t.timing.starts_with("CUPTI")) {
      EXPECT_EQ(o.end, o.start);
    }
    if (o.label == "follow") {
      ASSERT_EQ(o.waits.size(), 1U);
      EXPECT_EQ(t.ops[o.waits[0].on].label, "spin");
    }
  }
}

TEST(cuda_backend, a_trace_shows_a_graph_as_one_op_with_its_time_and_waits) {
  const auto rt = make({.deterministic = true});
  const std::string file = ::testing::TempDir() + "braid_cuda_graph_" + std::to_string(::getpid()) + ".json";
  auto x = rt->make_buffer<int>(16, zeroed, "x");
  auto y = rt->make_buffer<int>(16, zeroed, "y");
  const auto spin = [](native on, auto...) { test::spin(on, 50); };
  const recording both = rt->record([&] {
    rt->submit("first", read_write(x), spin);
    rt->submit("second", read(x), read_write(y), spin);
  });
  ASSERT_TRUE(both.is_graph());
  rt->synchronize();
  {
    tracing trace(file);
    rt->submit(stream_id{5}, "before", read_write(x), spin);
    both.replay(2);
    rt->submit(stream_id{6}, "after", read(y), spin);
    rt->synchronize();
    EXPECT_EQ(trace.stop().incomplete, 0U);
  }
  const trace::trace t = trace::read_file(file);
  std::filesystem::remove(file);
  for (const std::string& each : trace::violations(t)) ADD_FAILURE() << each;
  ASSERT_EQ(t.ops.size(), 3U);
  const trace::op& graph = t.ops[1];
  EXPECT_EQ(graph.label, "replay of 2 ops: first, second");
  EXPECT_GE(graph.end - graph.start, 4 * 49'000);
  EXPECT_EQ(graph.uses.size(), 2U);
  const auto waits_for = [&](const trace::op& who, trace::op_index on) {
    return std::count_if(who.waits.begin(), who.waits.end(), [&](const auto& w) { return w.on == on; });
  };
  EXPECT_EQ(waits_for(graph, 0), 1);
  EXPECT_EQ(waits_for(t.ops[2], 1), 1);
}

TEST(cuda_backend, work_in_one_stream_records_nothing) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(16, "x");
  // Labels of its own, of which nothing was learned.
  rt->submit(stream_id{1}, "first of one", write(x),
             [](native on, std::span<int> to) { test::fill(on, to.data(), to.size(), 0); });
  for (int i = 0; i < 100; ++i) {
    rt->submit(stream_id{1}, "next of one", read_write(x),
               [](native on, std::span<int> to) { test::increment(on, to.data(), to.size()); });
  }
  EXPECT_EQ(rt->stats().streams.marks, 0U);
  EXPECT_EQ(rt->backend().events_made(), 0U);
  EXPECT_EQ(rt->read(x).get(), constant(16, 100));
}

template <class T>
void expect_fill(cuda::runtime& rt, std::size_t n, const T& value) {
  auto x = rt.make_buffer<T>(n, "x");
  rt.fill(x, value);
  EXPECT_EQ(rt.read(x).get(), std::vector<T>(n, value)) << n << " of " << sizeof(T) << " bytes";
}

TEST(cuda_backend, values_of_any_width_fill_any_length) {
  const auto rt = make();
  for (const std::size_t n : {1UL, 2UL, 100UL, 4096UL, 4097UL, 20'000UL}) {
    expect_fill<char>(*rt, n, 'x');
    expect_fill<std::int16_t>(*rt, n, 0x1234);
    expect_fill<float>(*rt, n, 1.5F);
    expect_fill<double>(*rt, n, 0.1);
    expect_fill<std::complex<double>>(*rt, n, {0.1, 0.2});
    expect_fill<std::array<char, 3>>(*rt, n, {'a', 'b', 'c'});
    expect_fill<std::array<std::int16_t, 3>>(*rt, n, {1, 2, 3});
  }
}

TEST(cuda_backend, memory_comes_from_the_source_that_is_given) {
  const auto rt = make({.memory = cuda::async_source()});
  auto x = rt->make_buffer<int>(1 << 20, zeroed, "x");
  cuda_fixture::increment(*rt, x);
  EXPECT_EQ(rt->read(x.slice(5, 2)).get(), constant(2, 1));
  x = {};
  rt->synchronize();
  EXPECT_GT(rt->trim(), 0U);
}

// By what the stream of a body was made with: its flags, and its priority.
std::pair<unsigned, int> flags_and_priority(native on) {
  unsigned flags = 9;
  int priority = 9;
  EXPECT_EQ(driver_function<int(native, unsigned*)>("cuStreamGetFlags")(on, &flags), 0);
  EXPECT_EQ(driver_function<int(native, int*)>("cuStreamGetPriority")(on, &priority), 0);
  return {flags, priority};
}

TEST(cuda_backend, streams_do_not_block_and_have_the_priorities_that_are_asked_for) {
  const auto rt = make({.streams = 4, .priorities = {-100, -1, 100}});  // brought into the device's range
  int lowest = 0;
  int highest = 0;
  auto x = rt->make_buffer<int>(8, zeroed, "x");
  rt->submit(stream_id{0}, "look", [&](native) {
    EXPECT_EQ(driver_function<int(int*, int*)>("cuCtxGetStreamPriorityRange")(&lowest, &highest), 0);
  });
  ASSERT_LT(highest, -1);
  constexpr unsigned non_blocking = 1;
  const int wanted[] = {highest, -1, lowest, highest};
  const auto use_each = [&] {
    for (std::uint64_t i = 0; i < 4; ++i) {
      rt->submit(stream_id{i}, "use", read_write(x), [&, i](native on, std::span<int> all) {
        EXPECT_EQ(flags_and_priority(on), std::pair(non_blocking, wanted[i])) << "stream " << i;
        test::increment(on, all.data(), all.size());
      });
    }
  };
  use_each();
  const recording graph = rt->record(use_each);
  EXPECT_TRUE(graph.is_graph());
  graph.replay();
  const native aside = rt->engine().stream_of(rt->engine().lane_of(stream_id::special(0))).native();
  EXPECT_EQ(flags_and_priority(aside), std::pair(non_blocking, lowest));
  EXPECT_EQ(rt->read(x).get(), constant(8, 8));
}

TEST(cuda_backend, events_have_no_timing) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it counts them";
  auto* const timed = driver_function<int()>("fake_cuda_timing_events");
  const int before = timed();
  const auto rt = make();
  auto x = rt->make_buffer<int>(16, zeroed, "x");
  auto y = rt->make_buffer<int>(16, zeroed, "y");
  const auto use_both = [&] {
    cuda_fixture::add(*rt, x, y, stream_id{1});
    cuda_fixture::add(*rt, y, x, stream_id{2});
  };
  use_both();
  rt->record(use_both).replay();
  rt->record(use_both, {.graph = false}).replay();
  const cuda::event written = rt->last_write(x);
  rt->retire(std::make_unique<int>(1), stream_id{1});
  rt->wait(y);
  rt->synchronize();
  EXPECT_GT(rt->backend().events_made(), 0U);
  EXPECT_EQ(timed(), before);
}

// Of the imitated driver: events, streams, allocations, and how often the first device is retained.
std::array<int, 4> things_of_the_driver() {
  return {driver_function<int()>("fake_cuda_living_events")(),
          driver_function<int()>("fake_cuda_living_streams")(),
          driver_function<int()>("fake_cuda_living_memory")(),
          driver_function<int(int)>("fake_cuda_retained")(0)};
}

TEST(cuda_backend, a_runtime_that_goes_leaves_nothing_of_the_driver_behind) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it counts what there is";
  const std::string file = ::testing::TempDir() + "braid_cuda_left_" + std::to_string(::getpid()) + ".json";
  const auto before = things_of_the_driver();
  std::optional<cuda::event> kept;
  {
    const auto rt = make({.memory = cuda::async_source()});
    auto x = rt->make_buffer<int>(16, zeroed, "x");
    auto y = rt->make_buffer<int>(16, zeroed, "y");
    const auto use_both = [&] {
      cuda_fixture::add(*rt, x, y, stream_id{1});
      cuda_fixture::add(*rt, y, x, stream_id{2});
    };
    {
      const tracing trace(file);
      use_both();
      rt->record(use_both).replay();
    }
    kept = rt->last_write(x);
  }
  std::filesystem::remove(file);
  EXPECT_NE(things_of_the_driver(), before) << "an event may outlive its runtime";
  kept.reset();
  EXPECT_EQ(things_of_the_driver(), before);
}

TEST(cuda_backend, memory_of_the_driver_that_is_not_there_yet_is_waited_for) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it fails when it is told to";
  auto* const fail = driver_function<bool(const char*, int, int)>("fake_cuda_fail");
  const auto source = cuda::async_source();
  constexpr int out_of_memory = 2;
  fail("cuStreamSynchronize", 0, out_of_memory);
  EXPECT_EQ(source->allocate(4096), nullptr);
  EXPECT_NE(source->last_error().find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos);
  EXPECT_TRUE(fail(nullptr, 0, 0));
}

TEST(cuda_backend, an_object_is_attached_to_a_stream_until_it_goes) {
  static int alive = 0;
  static constexpr char key = 0;
  const auto made = [](native) -> void* {
    ++alive;
    return &alive;
  };
  const auto destroyed = [](void*) { --alive; };
  auto rt = make();
  void* first = nullptr;
  void* second = nullptr;
  rt->submit(stream_id{0}, "a",
             [&](native on) { first = cuda::detail::attachment(on, &key, made, destroyed); });
  rt->submit(stream_id{0}, "b",
             [&](native on) { second = cuda::detail::attachment(on, &key, made, destroyed); });
  EXPECT_EQ(first, second);
  EXPECT_EQ(alive, 1);
  rt.reset();
  EXPECT_EQ(alive, 0);
  expect_misuse(misuse::unused_stream, "body is given",
                [&] { (void)cuda::detail::attachment(nullptr, &key, made, destroyed); });
}

TEST(cuda_backend, what_a_device_can_reach_is_written_and_read_without_a_stage) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(1000, "x");
  const std::uint64_t staged = rt->stats().staging.peak_live;
  rt->write_from(x, pinned_ints(counting(1000)));
  pinned_ints to(constant(1000, 0));
  auto done = rt->read(x, std::span<int>(to));
  cuda_fixture::fill(*rt, x, 7, stream_id{3});  // after the read
  done.get();
  EXPECT_TRUE(std::ranges::equal(to, counting(1000)));
  EXPECT_EQ(rt->stats().staging.peak_live, staged);
  EXPECT_EQ(rt->read(x).get(), constant(1000, 7));
  cuda_fixture::fail(*rt, "culprit", x);
  auto failed = rt->read(x, std::span<int>(to));
  EXPECT_THROW(failed.get(), op_error);
}

TEST(cuda_backend, another_thread_starts_without_a_context) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  std::thread([&] { cuda_fixture::increment(*rt, x); }).join();
  EXPECT_EQ(rt->read(x).get(), constant(64, 1));
}

// A child of fork() has no device: using it says so, destroying it does nothing.
TEST(cuda_backend, a_graph_calls_bodies_when_they_are_recorded) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(16, zeroed, "x");
  auto y = rt->make_buffer<int>(16, zeroed, "y");
  int calls = 0;
  const auto fn = [&] {
    rt->submit(stream_id{1}, "count", read_write(x), [&](native on, std::span<int> all) {
      test::increment(on, all.data(), all.size());
      ++calls;
    });
    rt->submit("sum", read_write(y), read(x), [&](native on, std::span<int> to, std::span<const int> from) {
      test::add(on, to.data(), from.data(), to.size());
      ++calls;
    });
  };
  const recording graph = rt->record(fn);
  EXPECT_TRUE(graph.is_graph());
  EXPECT_EQ(calls, 2);
  const std::uint64_t ops = rt->stats().streams.ops;
  graph.replay(200);
  graph.replay();
  EXPECT_EQ(calls, 2);
  EXPECT_LT(rt->stats().streams.ops, ops + 20);
  EXPECT_EQ(rt->read(x).get(), std::vector<int>(16, 201));
  EXPECT_EQ(rt->read(y).get(), std::vector<int>(16, 201 * 202 / 2));

  const recording one_by_one = rt->record(fn, {.graph = false});
  EXPECT_FALSE(one_by_one.is_graph());
  one_by_one.replay(3);
  EXPECT_EQ(calls, 8);
  EXPECT_EQ(rt->read(x).get(), std::vector<int>(16, 204));
}

TEST(cuda_backend, what_cannot_be_captured_is_replayed_one_by_one) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(16, zeroed, "x");
  int calls = 0;
  const recording waits = rt->record([&] {
    rt->submit("waits", read_write(x), [&](native on, std::span<int> all) {
      test::increment(on, all.data(), all.size());
      ++calls;
      test::synchronize(on);
    });
  });
  EXPECT_FALSE(waits.is_graph());
  waits.replay(2);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(rt->read(x).get(), std::vector<int>(16, 2));
  const recording next = rt->record([&] { cuda_fixture::increment(*rt, x); });
  EXPECT_TRUE(next.is_graph());  // the failed capture has left nothing behind
  next.replay();
  EXPECT_EQ(rt->read(x).get(), std::vector<int>(16, 3));
}

TEST(cuda_backend, what_names_an_adopted_stream_is_no_graph_and_is_replayed_one_by_one) {
  std::string text;
  const auto log = std::make_shared<logger>(
      [&](log_area, log_level, std::string_view line) { text.append(line).append("\n"); });
  log->set_level(log_area::streaming, log_level::basic);
  const auto owner = make();
  const native theirs = owner->engine().stream_of(owner->engine().lane_of(stream_id{0})).native();
  const auto rt = make({.logger = log});
  rt->adopt(stream_id{5}, rt->backend().adopt(theirs));
  auto x = rt->make_buffer<int>(16, zeroed, "x");
  const recording r = rt->record([&] {
    cuda_fixture::increment(*rt, x, stream_id{1});
    cuda_fixture::increment(*rt, x, stream_id{5});
  });
  EXPECT_FALSE(r.is_graph());
  EXPECT_NE(text.find("not as a graph: an op is on a stream that was adopted"), std::string::npos) << text;
  r.replay(3);
  EXPECT_EQ(rt->read(x).get(), std::vector<int>(16, 6));
}

TEST(cuda_backend, a_graph_keeps_the_order_of_streams_that_the_program_named) {
  const auto rt = make();
  cuda_fixture holds;
  auto x = rt->make_buffer<int>(16, zeroed, "x");
  auto y = rt->make_buffer<int>(16, zeroed, "y");
  auto z = rt->make_buffer<int>(16, zeroed, "z");
  rt->synchronize();
  const recording both = rt->record([&] {
    cuda_fixture::increment(*rt, x, stream_id{1});
    cuda_fixture::increment(*rt, y, stream_id{2});
  });
  ASSERT_TRUE(both.is_graph());
  gate opened = holds.hold(*rt, read_write(x));
  both.replay();
  const submission behind = cuda_fixture::increment(*rt, z, stream_id{2});
  EXPECT_FALSE(behind.is_over());  // what stream 2 was given before is part of the graph
  opened.open();
  rt->wait(stream_id{2});
  EXPECT_EQ(rt->read(y).get(), std::vector<int>(16, 1));
  EXPECT_TRUE(behind.is_over());
}

TEST(cuda_backend, a_graph_is_not_run_on_data_that_carries_an_error) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(16, zeroed, "x");
  auto y = rt->make_buffer<int>(16, zeroed, "y");
  const recording both = rt->record([&] {
    cuda_fixture::increment(*rt, x, stream_id{1});
    cuda_fixture::increment(*rt, y, stream_id{2});
  });
  ASSERT_TRUE(both.is_graph());
  cuda_fixture::fail(*rt, "culprit", x);
  both.replay(2);
  EXPECT_EQ(rt->read(y).get(), std::vector<int>(16, 2));
  EXPECT_THROW((void)rt->read(x).get(), op_error);
  cuda_fixture::fill(*rt, x, 5);
  both.replay(2);
  EXPECT_EQ(rt->read(x).get(), std::vector<int>(16, 7));
  EXPECT_EQ(rt->read(y).get(), std::vector<int>(16, 4));
}

TEST(cuda_backend, steady_replays_make_no_events_and_graphs_reuse_theirs) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(16, zeroed, "x");
  auto y = rt->make_buffer<int>(16, zeroed, "y");
  const auto record = [&](bool is_graph) {
    return rt->record(
        [&] {
          for (std::uint64_t i = 0; i < 8; ++i) {
            cuda_fixture::add(*rt, x, y, stream_id{i % 4});
            cuda_fixture::add(*rt, y, x, stream_id{(i + 1) % 4});
          }
        },
        {.graph = is_graph});
  };
  for (const bool is_graph : {false, true}) {
    const recording kept = record(is_graph);
    EXPECT_EQ(kept.is_graph(), is_graph);
    const auto round = [&] {
      for (int i = 0; i < 20; ++i) kept.replay(2);
      rt->synchronize();
    };
    round();
    round();
    const std::uint64_t made = rt->backend().events_made();
    for (int i = 0; i < 10; ++i) round();
    EXPECT_EQ(rt->backend().events_made(), made);
  }
  // One that is gone gives its streams, with their events, to the next.
  const std::uint64_t made = rt->backend().events_made();
  for (int i = 0; i < 20; ++i) {
    record(true).replay();
    rt->synchronize();
    while (rt->stats().streams.reclaimed < rt->stats().streams.retired) std::this_thread::yield();
  }
  EXPECT_LT(rt->backend().events_made(), made + 100);  // each takes some 15
}

/// A backend that leaves out one wait.
class dropping_backend : public cuda::backend {
 public:
  explicit dropping_backend(std::shared_ptr<std::atomic<int>> left)
      : backend(runtime_options{}), left_(std::move(left)) {}
  void wait_event(stream& s, const event& e) {
    if (left_->fetch_sub(1) != 0) cuda::backend::wait_event(s, e);
  }

 private:
  std::shared_ptr<std::atomic<int>> left_;
};

// Three streams pass a value on, of which the first is held until the last has ended: it ends only because a
// wait is missing, with the value that was there before. With every wait the value comes when the gate is
// opened.
int value_without_wait(int which) {
  const auto left = std::make_shared<std::atomic<int>>(which);
  const std::shared_ptr<std::uint32_t> gate(new (test::make_pinned(sizeof(std::uint32_t))) std::uint32_t(0),
                                            &test::free_pinned);
  basic_runtime<dropping_backend> rt(dropping_backend(left), complete({.deterministic = true}));
  const auto open = [&] { std::atomic_ref<std::uint32_t>(*gate).store(1); };
  std::vector<buffer<int>> x;
  for (int i = 0; i < 4; ++i) x.push_back(rt.make_buffer<int>(256, "x"));
  for (std::uint64_t i = 0; i < 4; ++i) {
    rt.submit(stream_id{i}, "clear", write(x[i]),
              [](native on, std::span<int> to) { test::fill(on, to.data(), to.size(), 0); });
  }
  rt.synchronize();
  rt.submit(stream_id{0}, "begin", read_write(x[0]), [&](native on, std::span<int> to) {
    test::hold(on, gate.get());
    test::increment(on, to.data(), to.size());
  });
  for (std::uint64_t i = 1; i < 4; ++i) {
    rt.submit(stream_id{i}, "pass on", read(x[i - 1]), write(x[i]),
              [](native on, std::span<const int> from, std::span<int> to) {
                test::assign(on, to.data(), from.data(), from.size());
              });
  }
  auto result = rt.read(x[3]);
  if (which < 0) open();
  EXPECT_EQ(result.wait_for(std::chrono::seconds(60)), std::future_status::ready) << "no wait is missing";
  open();
  return result.get().front();
}

TEST(cuda_backend, a_dropped_wait_is_seen) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a dropped wait is a race, and the sanitizer finds it";
#endif
  EXPECT_EQ(value_without_wait(-1), 1);
  for (int which = 0; which < 3; ++which) EXPECT_EQ(value_without_wait(which), 0) << "wait " << which;
}

}  // namespace
}  // namespace braid::conformance
