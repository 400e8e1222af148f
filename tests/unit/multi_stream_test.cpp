#include "braid/multi_stream.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "support.hpp"

namespace braid {
namespace {

using test::give;
using test::options;
using test::telling_backend;
using test::waits_of;

static_assert(event_stream_backend<telling_backend>);
static_assert(!std::is_copy_constructible_v<resolved_streams<telling_backend>>);
static_assert(std::is_nothrow_move_constructible_v<resolved_streams<telling_backend>>);

struct hazard_case {
  access first, second;
  std::optional<hazard> why;  // none: no wait
};

class every_pair_of_accesses : public testing::TestWithParam<hazard_case> {};

TEST_P(every_pair_of_accesses, on_two_streams_waits_for_its_hazard_and_on_one_stream_for_nothing) {
  const hazard_case& c = GetParam();
  for (const std::uint64_t second_stream : {1U, 2U}) {
    multi_stream<telling_backend> engine{telling_backend{}, options()};
    const resource x = resource::memory(64, "x");
    give(engine, {1}, {binding(x, c.first)});
    auto op = engine.resolve(stream_id{second_stream}, {binding(x, c.second)});
    if (second_stream == 1 || !c.why) {
      EXPECT_TRUE(op.waits().waits.empty());
    } else {
      ASSERT_EQ(op.waits().waits.size(), 1U);
      EXPECT_EQ(op.waits().waits[0].why, *c.why);
      EXPECT_EQ(op.waits().waits[0].cursor, 1U);
    }
  }
}

constexpr auto raw = hazard::read_after_write;
constexpr auto war = hazard::write_after_read;
constexpr auto waw = hazard::write_after_write;

INSTANTIATE_TEST_SUITE_P(hazards, every_pair_of_accesses,
                         testing::Values(hazard_case{access::read, access::read, std::nullopt},
                                         hazard_case{access::read, access::write, war},
                                         hazard_case{access::read, access::read_write, war},
                                         hazard_case{access::read, access::accumulate, war},
                                         hazard_case{access::write, access::read, raw},
                                         hazard_case{access::write, access::write, waw},
                                         hazard_case{access::write, access::read_write, raw},
                                         hazard_case{access::write, access::accumulate, raw},
                                         hazard_case{access::read_write, access::read, raw},
                                         hazard_case{access::read_write, access::write, waw},
                                         hazard_case{access::read_write, access::read_write, raw},
                                         hazard_case{access::read_write, access::accumulate, raw},
                                         hazard_case{access::accumulate, access::read, raw},
                                         hazard_case{access::accumulate, access::write, waw},
                                         hazard_case{access::accumulate, access::read_write, waw},
                                         hazard_case{access::accumulate, access::accumulate, std::nullopt}));

TEST(multi_stream, a_stream_that_waited_far_enough_does_not_wait_again) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  give(engine, {1}, {write(x)});
  give(engine, {1}, {write(y)});
  EXPECT_EQ(waits_of(engine, {2}, {read(y)}), 1U);
  EXPECT_EQ(waits_of(engine, {2}, {read(x)}), 0U);
  EXPECT_EQ(waits_of(engine, {2}, {read(y)}), 0U);
  EXPECT_EQ(engine.stats().elided_known, 2U);
}

TEST(multi_stream, disjoint_ranges_of_one_resource_stay_independent) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  const resource x = resource::memory(100, "x");
  give(engine, {1}, {write(x, {0, 50})});
  EXPECT_EQ(waits_of(engine, {2}, {write(x, {50, 50})}), 0U);
  EXPECT_EQ(waits_of(engine, {3}, {read(x, {0, 50})}), 1U);
  EXPECT_EQ(waits_of(engine, {4}, {read(x, {49, 2})}), 2U);
}

// Few are sorted by hand, many by the library, and both on the short way once there is room.
TEST(multi_stream, any_number_of_bindings_in_any_order_waits_for_each_origin_once) {
  for (const std::size_t count : {2U, 8U, 9U, 32U, 33U, 500U}) {
    sim::device device;
    multi_stream<sim::backend> engine{device.backend(), test::options()};
    std::vector<resource> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(resource::token("r"));
    std::sort(all.begin(), all.end(),
              [](const resource& a, const resource& b) { return read(a).state > read(b).state; });
    std::vector<binding> reads;
    for (const resource& r : all) reads.push_back(read(r));
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < count; ++i) test::give(engine, {1 + i % 2}, {write(all[i])});
      auto op = engine.resolve({3}, reads);
      EXPECT_EQ(op.waits().waits.size(), 2U) << count;
      EXPECT_EQ(op.waits().shared.size(), count);
    }
  }
}

TEST(multi_stream, many_origins_are_waited_for_once_each_in_the_order_of_their_first_use) {
  constexpr std::size_t origins = 50;
  auto with = options();
  with.max_streams = origins + 1;
  multi_stream<telling_backend> engine{telling_backend{}, with};
  std::vector<resource> old_ones;
  std::vector<resource> new_ones;
  for (std::size_t i = 0; i < origins; ++i) {
    old_ones.push_back(resource::token("old"));
    new_ones.push_back(resource::token("new"));
    give(engine, {i}, {write(old_ones.back())});
    give(engine, {i}, {write(new_ones.back())});
  }
  std::vector<binding> reads;  // in another order than that of the origins
  for (std::size_t i = 0; i < origins; ++i) reads.push_back(read(new_ones[i * 7 % origins]));
  for (std::size_t i = 0; i < origins; ++i) reads.push_back(read(old_ones[i * 11 % origins]));
  auto op = engine.resolve(stream_id{origins}, reads);
  const alignment& got = op.waits();
  EXPECT_EQ(got.shared.size(), 2 * origins);
  ASSERT_EQ(got.waits.size(), origins);
  for (std::size_t i = 0; i < origins; ++i) {
    EXPECT_EQ(got.waits[i].origin, stream_id{i});
    EXPECT_EQ(got.waits[i].cursor, 2U);
    EXPECT_EQ(got.waits[i].binding * 7 % origins, i);
  }
}

TEST(multi_stream, the_guard_tells_its_op) {
  multi_stream<telling_backend> engine{telling_backend{}, options(4)};
  give(engine, {6}, {});
  auto op = engine.resolve(stream_id{6}, {});
  EXPECT_EQ(op.cursor(), 2U);
  EXPECT_EQ(op.id(), stream_id{6});
  EXPECT_EQ(engine.cursor({6}), 1U);  // not committed yet
  {
    auto moved = std::move(op);
    EXPECT_EQ(moved.cursor(), 2U);
  }
  EXPECT_EQ(engine.cursor({2}), 2U);
}

TEST(multi_stream, a_resource_whose_last_handle_dies_inside_the_guard_lives_until_the_commit) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  for (const access kind : {access::write, access::read}) {
    resource x = resource::memory(64, "x");
    give(engine, {1}, {write(x)});
    auto op = engine.resolve(stream_id{2}, {binding(x, kind)});
    x = resource();
  }
}

TEST(multi_stream, a_next_owner_waits_for_all_that_was_done_to_the_memory) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  resource x = resource::memory(64, "x");
  give(engine, {1}, {write(x)});
  give(engine, {2}, {read(x)});
  resource y = x.hand_on("y");
  x = resource();
  auto op = engine.resolve(stream_id{3}, {write(y)});
  ASSERT_EQ(op.waits().waits.size(), 1U);
  EXPECT_EQ(op.waits().waits[0].why, hazard::reuse);
  EXPECT_EQ(op.waits().waits[0].origin, stream_id{2});
}

TEST(multi_stream, wait_of_a_resource_waits_for_its_accesses_alone) {
  sim::device device;
  multi_stream<sim::backend> engine{device.backend(), options()};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  const auto launch = [&](stream_id id, const binding& b) {
    auto op = engine.resolve(id, {b});
    return device.launch(op.current(), {.label = "op", .touches = {}});
  };
  const std::size_t first = launch({1}, write(x));
  const std::size_t second = launch({2}, read(x));
  engine.wait(x);
  EXPECT_TRUE(device.has_run(first));
  EXPECT_TRUE(device.has_run(second));
  launch({3}, write(y));
  engine.wait_all();
  EXPECT_TRUE(device.has_run(2));
}

TEST(multi_stream, wait_all_throws_the_first_error_after_all_is_done) {
  sim::device device;
  multi_stream<sim::backend> engine{device.backend(), options()};
  for (const std::uint64_t s : {1U, 2U, 3U}) {
    auto op = engine.resolve(stream_id{s}, {});
    device.launch(op.current(),
                  {.label = "op " + std::to_string(s), .touches = {}, .body = {}, .fails = s < 3});
  }
  try {
    engine.wait_all();
    FAIL();
  } catch (const execution_error& e) {
    EXPECT_STREQ(e.what(), "'op 1' failed");
  }
  EXPECT_TRUE(device.has_run(2));
}

// Somebody who does not wait for it may be told first: the thread that destroys what was retired, or an op
// that asks whether it has to wait.
template <class Backend>
void wait_is_told(Backend backend, sim::device& device) {
  auto undetermined = options();
  undetermined.deterministic = false;
  multi_stream<Backend> engine{std::move(backend), undetermined};
  const resource x = resource::memory(64, "x");
  const auto fail_on = [&](std::uint64_t stream, const std::string& label) {
    auto op = engine.resolve(stream_id{stream}, {write(x)});
    device.launch(op.current(), {.label = label, .touches = {}, .body = {}, .fails = true});
  };
  const auto told = [&](auto wait) -> std::string {
    try {
      wait();
    } catch (const execution_error& e) {
      return e.what();
    }
    return "nothing";
  };
  fail_on(1, "first");
  std::atomic<bool> is_gone{false};
  engine.retire(std::shared_ptr<void>(nullptr, [&](void*) { is_gone = true; }), {1});
  device.run_all();
  while (!is_gone) std::this_thread::yield();
  EXPECT_EQ(told([&] { engine.wait(stream_id{1}); }), "'first' failed");
  EXPECT_EQ(told([&] { engine.wait(stream_id{1}); }), "nothing");
  fail_on(2, "second");
  device.run_all();
  give(engine, {3}, {read(x)});
  EXPECT_EQ(told([&] { engine.wait(x); }), "'second' failed");
}

TEST(multi_stream, a_wait_is_told_of_a_failure_that_something_else_met_first) {
  sim::device events;
  wait_is_told(events.backend(), events);
  sim::device points;
  wait_is_told(points.point_backend(), points);
}

// What is retired behind the op asks for its event as well, before or after the one who waits.
TEST(multi_stream, a_failure_that_a_wait_has_told_is_not_told_again) {
  for (int turn = 0; turn < 200; ++turn) {
    sim::device device;
    auto undetermined = options();
    undetermined.deterministic = false;
    multi_stream<sim::backend> engine{device.backend(), undetermined};
    std::atomic<bool> is_gone{false};
    {
      auto op = engine.resolve(stream_id{1}, {});
      device.launch(op.current(), {.label = "bad", .touches = {}, .body = {}, .fails = true});
      op.retire(std::shared_ptr<void>(nullptr, [&](void*) { is_gone = true; }));
    }
    EXPECT_THROW(engine.wait(stream_id{1}), execution_error);
    while (!is_gone) std::this_thread::yield();
    give(engine, {1}, {});
    engine.wait(stream_id{1});
  }
}

TEST(multi_stream, guards_of_two_engines_may_end_in_any_order) {
  multi_stream<telling_backend> one{telling_backend{}, options()};
  multi_stream<telling_backend> other{telling_backend{}, options()};
  for (const bool is_first_first : {true, false}) {
    std::optional first(one.resolve(stream_id{1}, {}));
    std::optional second(other.resolve(stream_id{1}, {}));
    (is_first_first ? first : second).reset();
    (is_first_first ? second : first).reset();
    give(one, {1}, {});
    give(other, {1}, {});
  }
}

TEST(multi_stream, a_noted_access_is_waited_for_once_by_each_stream) {
  telling_backend backend;
  multi_stream<telling_backend> engine{backend, options()};
  const resource x = resource::memory(64, "x");
  engine.note(write(x), telling_backend::event{99});
  EXPECT_EQ(waits_of(engine, {1}, {read(x)}), 1U);
  EXPECT_EQ(waits_of(engine, {1}, {read(x)}), 0U);
  EXPECT_EQ(waits_of(engine, {2}, {read(x)}), 1U);
  // The writer comes after both readers, who came after the note.
  EXPECT_EQ(waits_of(engine, {3}, {write(x)}), 2U);
  EXPECT_EQ(waits_of(engine, {3}, {write(x)}), 0U);
}

TEST(multi_stream, a_noted_read_holds_up_writers_only) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  const resource x = resource::memory(64, "x");
  give(engine, {1}, {write(x)});
  engine.note(read(x, {0, 8}), telling_backend::event{99});
  EXPECT_EQ(waits_of(engine, {1}, {read(x)}), 0U);
  EXPECT_EQ(waits_of(engine, {1}, {write(x, {8, 8})}), 0U);
  EXPECT_EQ(waits_of(engine, {1}, {write(x)}), 1U);
}

TEST(multi_stream, a_limit_on_ops_makes_the_submitter_wait) {
  sim::device device;
  auto o = options();
  o.ops_in_flight = 4;
  multi_stream<sim::backend> engine{device.backend(), o};
  std::size_t most = 0;
  for (int i = 0; i < 40; ++i) {
    auto op = engine.resolve(stream_id{static_cast<std::uint64_t>(i % 3)}, {});
    device.launch(op.current(), {.label = "op", .touches = {}});
    std::size_t open = 0;
    for (std::size_t k = 0; k < device.launched(); ++k) open += device.has_run(k) ? 0 : 1;
    most = std::max(most, open);
  }
  EXPECT_LE(most, 4U);
  EXPECT_GT(engine.stats().waits_for(hazard::capacity), 0U);
}

TEST(multi_stream, a_limit_on_bytes_counts_what_ops_touch_and_lets_a_large_one_in_alone) {
  sim::device device;
  auto o = options();
  o.bytes_in_flight = 100;
  multi_stream<sim::backend> engine{device.backend(), o};
  const resource x = resource::memory(80, "x");
  const resource large = resource::memory(1000, "large");
  const auto launch = [&](const binding& b) {
    auto op = engine.resolve(stream_id{1}, {b});
    return device.launch(op.current(), {.label = "op", .touches = {}});
  };
  const std::size_t first = launch(read(x, {0, 50}));
  const std::size_t second = launch(read(x, {0, 50}));
  EXPECT_FALSE(device.has_run(first));
  launch(read(x, {0, 50}));
  EXPECT_TRUE(device.has_run(first));
  launch(read(large));
  EXPECT_TRUE(device.has_run(second));
}

TEST(multi_stream, without_locks_it_gives_the_same_waits) {
  const auto run = [](auto threading) {
    sim::device device;
    multi_stream<sim::backend, decltype(threading)> engine{device.backend(), options()};
    std::vector<resource> all;
    for (int i = 0; i < 5; ++i) all.push_back(resource::memory(64, "r"));
    std::string text;
    std::uint64_t random = 1;
    for (int i = 0; i < 500; ++i) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      const auto kind = static_cast<access>(random >> 40 & 3);
      auto op = engine.resolve(stream_id{random >> 33 & 7}, {binding(all[(random >> 50) % 5], kind)});
      for (const stream_wait& w : op.waits().waits) {
        text += std::to_string(w.origin.value) + "@" + std::to_string(w.reached) + " ";
      }
      text += "\n";
    }
    return text;
  };
  EXPECT_EQ(run(thread_safe{}), run(externally_synchronised{}));
}

TEST(multi_stream, waits_in_point_mode_reach_exactly_the_needed_op) {
  sim::device device;
  multi_stream<sim::point_mode_backend> engine{device.point_backend(), options()};
  const resource x = resource::token("x");
  give(engine, {1}, {write(x)});
  for (int i = 0; i < 5; ++i) give(engine, {1}, {});
  auto op = engine.resolve(stream_id{2}, {read(x)});
  EXPECT_EQ(op.waits().waits[0].reached, 1U);
  EXPECT_EQ(engine.stats().marks, 0U);
}

TEST(multi_stream, events_and_streams_are_gone_with_the_engine) {
  sim::device device;
  const resource x = resource::token("x");
  {
    multi_stream<sim::backend> engine{device.backend(), options()};
    for (std::uint64_t i = 0; i < 100; ++i) give(engine, {i % 7}, {read_write(x)});
    EXPECT_GT(device.events_alive(), 0U);
  }
  EXPECT_EQ(device.events_alive(), 0U);
}

}  // namespace
}  // namespace braid
