// Each class of fault that the origin has, as a test that would catch it here.

#include <atomic>
#include <thread>

#include "support.hpp"

namespace braid {
namespace {

using test::give;
using test::options;
using test::telling_backend;
using test::waits_of;

TEST(origin_faults, a_write_waits_for_a_read_on_another_stream) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  const resource x = resource::token("x");
  give(engine, {1}, {write(x)});
  give(engine, {2}, {read(x)});
  auto op = engine.resolve(stream_id{1}, {write(x)});
  ASSERT_EQ(op.waits().waits.size(), 1U);
  EXPECT_EQ(op.waits().waits[0].why, hazard::write_after_read);
}

TEST(origin_faults, a_write_waits_for_a_write_on_another_stream) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  const resource x = resource::token("x");
  give(engine, {1}, {write(x)});
  auto op = engine.resolve(stream_id{2}, {write(x)});
  ASSERT_EQ(op.waits().waits.size(), 1U);
  EXPECT_EQ(op.waits().waits[0].why, hazard::write_after_write);
}

TEST(origin_faults, a_stream_that_is_not_the_creator_is_waited_for_when_it_wrote_last) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  const resource x = resource::token("x");
  give(engine, {1}, {write(x)});
  give(engine, {2}, {read_write(x)});
  auto op = engine.resolve(stream_id{3}, {read(x)});
  ASSERT_EQ(op.waits().waits.size(), 1U);
  EXPECT_EQ(op.waits().waits[0].origin, stream_id{2});
}

TEST(origin_faults, two_ids_in_one_slot_do_not_wait_on_each_other) {
  multi_stream<telling_backend> engine{telling_backend{}, options(4)};
  const resource x = resource::token("x");
  give(engine, {1}, {write(x)});
  EXPECT_EQ(waits_of(engine, {5}, {read(x)}), 0U);
  EXPECT_EQ(engine.cursor({1}), 2U);
  EXPECT_EQ(engine.stats().streams, 1U);
}

TEST(origin_faults, a_wait_is_reported_by_the_id_that_submitted_and_not_by_the_slot) {
  multi_stream<telling_backend> engine{telling_backend{}, options(4)};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  give(engine, {1}, {write(x)});
  give(engine, {9}, {write(y)});  // slot 1 as well
  const alignment a = engine.analyse({2}, {read(x)});
  ASSERT_EQ(a.shared.size(), 1U);
  EXPECT_EQ(a.shared[0].origin, stream_id{1});
  EXPECT_EQ(engine.analyse({2}, {read(y)}).shared[0].origin, stream_id{9});
}

TEST(origin_faults, knowledge_is_transitive) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  give(engine, {1}, {write(x)});
  give(engine, {2}, {read(x), write(y)});
  give(engine, {3}, {read(y)});
  EXPECT_EQ(engine.last_synced({3}, {1}), 1U);
  EXPECT_EQ(waits_of(engine, {3}, {read(x)}), 0U);
}

TEST(origin_faults, the_submitter_does_not_block_when_many_releases_are_pending) {
  telling_backend backend;
  backend.told->completes = false;
  std::atomic<int> destroyed{0};  // the engine destroys the last ones
  multi_stream<telling_backend> engine{backend, options()};
  const resource x = resource::token("x");
  give(engine, {1}, {write(x)});
  for (int i = 0; i < 1000; ++i) {
    engine.retire(std::shared_ptr<void>(nullptr, [&](void*) { ++destroyed; }), {1});
  }
  EXPECT_EQ(destroyed, 0);  // the loop ended although nothing completes
  EXPECT_EQ(engine.stats().retired, 1000U);
  backend.told->completes = true;
}

TEST(origin_faults, no_event_is_made_for_each_flush_in_steady_state) {
  sim::device device;
  multi_stream<sim::backend> engine{device.backend(), options()};
  const resource x = resource::token("x");
  const auto round = [&] {
    for (const std::uint64_t s : {1U, 2U}) {
      auto op = engine.resolve(stream_id{s}, {read_write(x)});
      device.launch(op.current(), {.label = "op", .touches = {}});
    }
  };
  for (int i = 0; i < 50; ++i) round();
  const std::size_t after_50 = device.events_made();
  for (int i = 0; i < 500; ++i) round();
  EXPECT_EQ(device.events_made(), after_50);
}

TEST(origin_faults, waits_come_in_the_order_of_the_streams_first_use) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    multi_stream<telling_backend> engine{telling_backend{}, options(8)};
    std::vector<resource> all;
    for (const std::uint64_t s : {5U, 2U, 7U, 1U}) {
      all.push_back(resource::token("r"));
      give(engine, {s}, {write(all.back())});
    }
    auto op = engine.resolve(stream_id{0}, {read(all[3]), read(all[1]), read(all[0]), read(all[2])});
    std::vector<std::uint64_t> origins;
    for (const stream_wait& w : op.waits().waits) origins.push_back(w.origin.value);
    EXPECT_EQ(origins, (std::vector<std::uint64_t>{5, 2, 7, 1}));
  }
}

TEST(origin_faults, a_stream_is_not_made_by_being_mentioned) {
  telling_backend backend;
  multi_stream<telling_backend> engine{backend, options()};
  EXPECT_EQ(engine.cursor({3}), 0U);
  EXPECT_EQ(engine.last_synced({3}, {4}), 0U);
  engine.wait(stream_id{3});
  engine.retire(1, {3});
  EXPECT_EQ(backend.told->streams, 0U);
}

TEST(origin_faults, pools_of_1_255_256_and_257_streams_work) {
  for (const std::uint32_t size : {1U, 255U, 256U, 257U}) {
    multi_stream<telling_backend> engine{telling_backend{}, options(size)};
    const resource x = resource::token("x");
    give(engine, {0}, {write(x)});
    give(engine, {254}, {read_write(x)});
    give(engine, {255}, {read_write(x)});
    give(engine, {256}, {read_write(x)});
    give(engine, stream_id::special(0), {read_write(x)});
    EXPECT_EQ(engine.cursor(stream_id::special(0)), 1U);
  }
}

}  // namespace
}  // namespace braid
