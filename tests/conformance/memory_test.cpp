// Memory: reused in the order of streams, freed while in use, limited, given back, and accounted for.

#include "suite.hpp"

namespace braid::conformance {
namespace {

template <class F>
struct memory : suite<F> {
  using suite<F>::suite;
};

BACKEND_TEST(memory, all_fixtures, is_taken_when_a_buffer_is_first_written) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(1000, "x");
  EXPECT_EQ(rt.stats().memory.live, 0U);
  TypeParam::fill(rt, x.slice(0, 1), 1);
  EXPECT_EQ(rt.stats().memory.live, 1000 * sizeof(int));
  x = {};
  EXPECT_EQ(rt.stats().memory.live, 0U);
}

BACKEND_TEST(memory, all_fixtures, a_block_is_used_again_on_its_stream_without_a_wait) {
  auto& rt = this->start({.deterministic = true});
  for (int i = 0; i < 50; ++i) {
    auto x = rt.template make_buffer<int>(5000, "x");
    TypeParam::fill(rt, x, i, stream_id{2});
    TypeParam::increment(rt, x, stream_id{2});
  }
  const runtime_stats now = rt.stats();
  EXPECT_EQ(now.streams.waits_inserted(), 0U);
  EXPECT_EQ(now.memory.taken_by(reuse_step::ordered), 49U);
  EXPECT_EQ(now.memory.taken_by(reuse_step::fresh), 1U);
  EXPECT_EQ(now.memory.peak_live, 5000 * sizeof(int));
}

BACKEND_TEST(memory, all_fixtures,
             a_block_on_its_way_to_another_stream_is_written_after_its_last_access_there) {
  this->world.stand_still();
  constexpr std::uint64_t size = (std::uint64_t{3} << 20) / sizeof(int);
  // There is room for two.
  auto& rt = this->start({.deterministic = true, .memory_limit = std::uint64_t{8} << 20});
  auto y = rt.template make_buffer<int>(size, "y");
  {
    auto x = rt.template make_buffer<int>(size, "x");
    gate held = this->world.hold(rt, write(x));
    TypeParam::fill(rt, x, 7, stream_id{1});
    TypeParam::assign(rt, y, x, stream_id{2});
    x = {};
    auto next = rt.template make_buffer<int>(size, "next");
    TypeParam::fill(rt, next, 8, stream_id{3});
    held.open();
    EXPECT_EQ(rt.read(next.slice(size - 3, 3)).get(), constant(3, 8));
  }
  EXPECT_EQ(rt.read(y.slice(size - 3, 3)).get(), constant(3, 7));
  EXPECT_EQ(rt.stats().memory.taken_by(reuse_step::waited), 1U);
  EXPECT_EQ(rt.stats().streams.waits_for(hazard::reuse), 1U);
}

BACKEND_TEST(memory, all_fixtures, buffers_may_be_freed_while_work_on_them_is_in_flight) {
  auto& rt = this->start();
  auto sum = rt.template make_buffer<int>(100, zeroed, "sum");
  constexpr unsigned count = TypeParam::many(600) / 2;
  for (unsigned i = 0; i < count; ++i) {
    auto x = rt.template make_buffer<int>(100, "x");
    TypeParam::fill(rt, x, 1, stream_id{i % 8});
    TypeParam::add(rt, sum, x, stream_id{(i + 1) % 8});
  }
  EXPECT_EQ(rt.read(sum).get(), constant(100, static_cast<int>(count)));
  sum = {};
  EXPECT_EQ(rt.stats().memory.live, 0U);
  EXPECT_EQ(rt.stats().memory.live_blocks, 0U);
}

BACKEND_TEST(memory, all_fixtures, a_limit_ends_in_an_error_with_the_usage_and_the_runtime_goes_on) {
  auto& rt = this->start({.memory_limit = std::uint64_t{8} << 20});
  constexpr std::uint64_t mib = (std::uint64_t{1} << 20) / sizeof(int);
  auto x = rt.template make_buffer<int>(5 * mib, "x");
  auto y = rt.template make_buffer<int>(5 * mib, "y");
  TypeParam::fill(rt, x, 1);
  try {
    TypeParam::fill(rt, y, 2);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const out_of_memory& e) {
    EXPECT_EQ(e.asked(), 5 * mib * sizeof(int));
    EXPECT_EQ(e.usage().live, 5 * mib * sizeof(int));
    EXPECT_EQ(e.usage().limit, std::uint64_t{8} << 20);
    EXPECT_TRUE(contains(e.what(), to_string(e.usage()))) << e.what();
    EXPECT_TRUE(contains(e.what(), "live 5242880")) << e.what();
  }
  TypeParam::increment(rt, x);
  EXPECT_EQ(rt.read(x.slice(0, 5)).get(), constant(5, 2));
  x = {};
  TypeParam::fill(rt, y, 3);
  EXPECT_EQ(rt.read(y.slice(0, 5)).get(), constant(5, 3));
  EXPECT_LE(rt.stats().memory.peak_reserved, std::uint64_t{8} << 20);
}

BACKEND_TEST(memory, all_fixtures, a_limit_lets_a_program_go_on_that_frees_what_it_does_not_need) {
  auto& rt = this->start({.memory_limit = std::uint64_t{8} << 20});
  constexpr std::uint64_t mib = (std::uint64_t{1} << 20) / sizeof(int);
  auto sum = rt.template make_buffer<int>(16, zeroed, "sum");
  for (unsigned i = 0; i < 40; ++i) {
    auto x = rt.template make_buffer<int>((1 + i % 5) * mib, "x");
    TypeParam::fill(rt, x.slice(0, 16), 1, stream_id{i % 8});
    TypeParam::add(rt, sum, x.slice(0, 16), stream_id{(i + 3) % 8});
  }
  EXPECT_EQ(rt.read(sum).get(), constant(16, 40));
}

BACKEND_TEST(memory, all_fixtures, a_write_of_more_than_the_limit_is_out_of_memory) {
  auto& rt = this->start({.memory_limit = std::uint64_t{4} << 20});
  constexpr std::uint64_t mib = (std::uint64_t{1} << 20) / sizeof(int);
  auto x = rt.template make_buffer<int>(8 * mib, "x");
  EXPECT_THROW(rt.write(x, constant(8 * mib, 1)), out_of_memory);
  EXPECT_THROW(rt.write_from(x, constant(8 * mib, 1)), out_of_memory);
  EXPECT_THROW((void)rt.template make_buffer<int>(8 * mib, zeroed), out_of_memory);
  EXPECT_EQ(rt.stats().memory.live, 0U);
  EXPECT_EQ(rt.stats().staging.live, 0U);
}

// A result that is on its way, or has just come, may stand in memory that the next one needs.
BACKEND_TEST(memory, all_fixtures, a_limit_lets_reads_follow_each_other_as_fast_as_they_can) {
  auto& rt = this->start({.memory_limit = std::uint64_t{4} << 20});
  constexpr std::uint64_t mib = (std::uint64_t{1} << 20) / sizeof(int);
  auto x = rt.template make_buffer<int>(3 * mib, "x");
  TypeParam::fill(rt, x, 7);
  for (unsigned i = 0; i < TypeParam::many(300); ++i) {
    const auto result = rt.read(x);
    this->until([&] { return result.is_ready(); });
  }
  std::vector<future<std::vector<int>>> results;
  for (unsigned i = 0; i < 20; ++i) results.push_back(rt.read(x));
  for (auto& each : results) EXPECT_EQ(each.get(), constant(3 * mib, 7));
  // On the thread that empties stages where nobody waits.
  std::vector<future<std::vector<int>>> further;
  for (unsigned i = 0; i < 5; ++i) {
    further.push_back(rt.read(x).then([&](const std::vector<int>&) { return rt.read(x).get(); }));
  }
  for (auto& each : further) EXPECT_EQ(each.get(), constant(3 * mib, 7));
  EXPECT_EQ(rt.stats().staging.live_blocks, 0U);
}

// A limit that is no multiple of what the pool takes at a time, which threads reach together.
BACKEND_TEST(memory, all_fixtures, a_limit_lets_threads_read_at_the_same_time) {
  auto& rt = this->start({.memory_limit = 66'000});
  auto x = rt.template make_buffer<int>(16, "x");
  TypeParam::fill(rt, x, 7);
  on_threads(4, [&](unsigned) {
    for (unsigned turn = 0; turn < TypeParam::many(400) / 100; ++turn) {
      std::vector<future<std::vector<int>>> results;
      for (unsigned i = 0; i < 400; ++i) results.push_back(rt.read(x));
      for (auto& each : results) ASSERT_EQ(each.get(), constant(16, 7));
    }
  });
}

BACKEND_TEST(memory, all_fixtures, trim_gives_back_what_nobody_can_touch) {
  auto& rt = this->start();
  {
    auto x = rt.template make_buffer<int>(1'000'000, "x");
    auto y = rt.template make_buffer<int>(10, "y");
    rt.write(x, constant(1'000'000, 1));
    TypeParam::fill(rt, y, 1);
    rt.synchronize();
    (void)rt.trim();
    EXPECT_EQ(rt.read(x.slice(999'999, 1)).get(), constant(1, 1));  // live memory stays
    EXPECT_GE(rt.stats().memory.reserved, 4'000'000U);
  }
  rt.synchronize();
  EXPECT_GE(rt.stats().memory.reserved, 4'000'000U);
  EXPECT_GT(rt.trim(), 4'000'000U);
  EXPECT_EQ(rt.stats().memory.reserved, 0U);
  EXPECT_EQ(rt.stats().staging.reserved, 0U);
  EXPECT_EQ(rt.trim(), 0U);
  auto z = rt.template make_buffer<int>(1'000'000, "z");
  TypeParam::fill(rt, z, 2);
  EXPECT_EQ(rt.read(z.slice(0, 3)).get(), constant(3, 2));
}

BACKEND_TEST(memory, all_fixtures, trim_leaves_memory_that_work_in_flight_uses) {
  this->world.stand_still();
  auto& rt = this->start();
  auto y = rt.template make_buffer<int>(1'000'000, "y");
  {
    auto x = rt.template make_buffer<int>(1'000'000, "x");
    gate held = this->world.hold(rt, write(x));
    TypeParam::fill(rt, x, 4, stream_id{1});
    TypeParam::assign(rt, y, x, stream_id{2});
    x = {};
    EXPECT_EQ(rt.trim(), 0U);
    held.open();
    EXPECT_EQ(rt.read(y.slice(999'999, 1)).get(), constant(1, 4));
  }
}

BACKEND_TEST(memory, all_fixtures, usage_adds_up) {
  auto& rt = this->start();
  const auto expect_sum = [&] {
    const memory_usage u = rt.stats().memory;
    EXPECT_EQ(u.reserved, u.live + u.padding + u.free);
    EXPECT_LE(u.pending, u.free);
    EXPECT_LE(u.live, u.peak_live);
    EXPECT_LE(u.reserved, u.peak_reserved);
    std::uint64_t live = 0;
    for (const auto& s : u.streams) live += s.live;
    EXPECT_EQ(live, u.live);
  };
  expect_sum();
  std::vector<buffer<int>> all;
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < 60; ++i) {
    all.push_back(rt.template make_buffer<int>(1 + i * i * 7));
    bytes += all.back().size_bytes();
    TypeParam::fill(rt, all.back(), 1, stream_id{i % 8});
    if (i % 3 == 2) {
      bytes -= all[i / 2].size_bytes();
      all[i / 2] = {};
    }
    expect_sum();
    EXPECT_EQ(rt.stats().memory.live, bytes);
  }
  all.clear();
  expect_sum();
  rt.synchronize();
  expect_sum();
  const memory_usage u = rt.stats().memory;
  EXPECT_EQ(u.live, 0U);
  EXPECT_EQ(u.live_blocks, 0U);
  EXPECT_EQ(u.padding, 0U);
  EXPECT_EQ(u.pending, 0U);
  EXPECT_EQ(u.taken[0] + u.taken[1] + u.taken[2] + u.taken[3], 60U);
}

BACKEND_TEST(memory, all_fixtures, staging_is_used_again) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(10'000, "x");
  for (int i = 0; i < 50; ++i) {
    rt.write(x, constant(10'000, i));
    rt.wait(x);
    EXPECT_EQ(rt.stats().staging.live, 0U);
  }
  EXPECT_LE(rt.stats().staging.peak_live, 10'000 * sizeof(int));
  EXPECT_EQ(rt.read(x).get(), constant(10'000, 49));
}

BACKEND_TEST(memory, all_fixtures, the_order_of_reuse_is_a_setting_that_has_to_name_each_step) {
  try {
    auto rt = this->another({.reuse = reuse_order{reuse_step::fresh, reuse_step::fresh, reuse_step::ordered,
                                                  reuse_step::complete}});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const usage_error& e) {
    EXPECT_EQ(static_cast<int>(e.kind()), static_cast<int>(misuse::bad_settings));
  }
  auto& rt = this->start({.reuse = reuse_order{reuse_step::fresh, reuse_step::ordered, reuse_step::complete,
                                               reuse_step::waited}});
  for (int i = 0; i < 4; ++i) {
    auto x = rt.template make_buffer<int>(5000, "x");
    TypeParam::fill(rt, x, i, stream_id{2});
  }
  EXPECT_EQ(rt.stats().memory.taken_by(reuse_step::fresh), 4U);
}

BACKEND_TEST(memory, all_fixtures, a_handle_may_die_on_any_thread) {
  auto& rt = this->start();
  constexpr unsigned each = TypeParam::many(2000) / 8;
  std::mutex mutex;
  std::vector<buffer<int>> passed_on;
  on_threads(4, [&](unsigned thread) {
    for (unsigned i = 0; i < each; ++i) {
      auto x = rt.template make_buffer<int>(32 + 100 * (i % 4), "x");
      TypeParam::fill(rt, x, 1, stream_id{thread});
      const std::scoped_lock lock(mutex);
      if (i % 3 == 0) {
        passed_on.push_back(std::move(x));
      } else if (i % 3 == 1 && !passed_on.empty()) {
        passed_on.pop_back();
      }
    }
  });
  passed_on.clear();
  EXPECT_EQ(rt.stats().memory.live_blocks, 0U);
  rt.synchronize();
}

// ---- Bodies that run on the host.

template <class F>
struct host_memory : suite<F> {
  using suite<F>::suite;
};

BACKEND_TEST(host_memory, host_fixtures, scratch_goes_back_when_an_op_cannot_be_given) {
  auto& rt = this->start({.memory_limit = std::uint64_t{8} << 20});
  const auto none = [](std::span<int>, std::span<int>) {};
  EXPECT_THROW(rt.submit("too much", scratch<int>(100), scratch<int>(8 << 20), none), out_of_memory);
  EXPECT_THROW(rt.submit("too much", scratch<int>(8 << 20), scratch<int>(100), none), out_of_memory);
  auto x = rt.template make_buffer<int>(4, "x");
  TypeParam::fill(rt, x, 1);
  expect_misuse(misuse::conflicting_bindings, "x", [&] {
    rt.submit("twice", scratch<int>(100), read(x), write(x),
              [](std::span<int>, std::span<const int>, std::span<int>) {});
  });
  EXPECT_EQ(rt.stats().memory.live, 4 * sizeof(int));
  EXPECT_EQ(rt.stats().memory.live_blocks, 1U);
}

BACKEND_TEST(host_memory, host_fixtures, scratch_of_a_stream_is_the_same_memory_again_and_again) {
  auto& rt = this->start({.deterministic = true});
  for (int i = 0; i < 40; ++i) rt.submit(stream_id{1}, "scratch", scratch<int>(5000), [](std::span<int>) {});
  EXPECT_EQ(rt.stats().memory.taken_by(reuse_step::ordered), 39U);
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 0U);
  EXPECT_EQ(rt.stats().memory.live, 0U);
  rt.synchronize();
}

}  // namespace
}  // namespace braid::conformance
