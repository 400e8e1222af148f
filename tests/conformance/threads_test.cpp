// Any thread may call anything.

#include <random>

#include "suite.hpp"

namespace braid::conformance {
namespace {

template <class F>
struct threads : suite<F> {
  using suite<F>::suite;
};

BACKEND_TEST(threads, all_fixtures, eight_threads_submit_to_shared_and_own_buffers) {
  auto& rt = this->start();
  constexpr unsigned each = TypeParam::many(80'000) / 8;
  auto shared = rt.template make_buffer<int>(8, zeroed, "shared");
  auto sums = rt.template make_buffer<int>(8, zeroed, "sums");
  std::vector<buffer<int>> own(8);
  on_threads(8, [&](unsigned thread) {
    own[thread] = rt.template make_buffer<int>(8, zeroed, "own");
    for (unsigned i = 0; i < each; ++i) {
      switch (i % 5) {
        case 0: TypeParam::increment(rt, shared); break;
        case 1: TypeParam::accumulate_into(rt, sums, 1, 0, stream_id{thread}); break;
        default: TypeParam::increment(rt, own[thread]); break;
      }
    }
  });
  const auto every_fifth = [&](unsigned from) { return (each + 4 - from) / 5; };
  EXPECT_EQ(rt.read(shared).get(), constant(8, static_cast<int>(8 * every_fifth(0))));
  EXPECT_EQ(rt.read(sums).get(), constant(8, static_cast<int>(8 * every_fifth(1))));
  for (const auto& each_own : own) {
    EXPECT_EQ(rt.read(each_own).get(), constant(8, static_cast<int>(each - every_fifth(0) - every_fifth(1))));
  }
  EXPECT_EQ(rt.stats().streams.ops, 8 * each + 10 + 10);
}

BACKEND_TEST(threads, all_fixtures, each_placement_works_from_several_threads) {
  for (const placement how : {placement::automatic, placement::per_thread, placement::single}) {
    auto rt = this->another({.placement = how});
    auto x = rt->template make_buffer<int>(8, zeroed, "x");
    constexpr unsigned each = TypeParam::many(2000) / 16;
    on_threads(4, [&](unsigned) {
      auto mine = rt->template make_buffer<int>(8, zeroed, "mine");
      for (unsigned i = 0; i < each; ++i) {
        TypeParam::increment(*rt, mine);
        TypeParam::increment(*rt, x);
      }
      EXPECT_EQ(rt->read(mine).get(), constant(8, static_cast<int>(each)));
    });
    EXPECT_EQ(rt->read(x).get(), constant(8, static_cast<int>(4 * each)));
  }
}

BACKEND_TEST(threads, all_fixtures, submitters_of_ops_with_the_same_buffers_in_different_orders_do_not_hang) {
  auto& rt = this->start();
  auto a = rt.template make_buffer<int>(8, zeroed, "a");
  auto b = rt.template make_buffer<int>(8, zeroed, "b");
  constexpr unsigned each = TypeParam::many(4000) / 8;
  on_threads(4, [&](unsigned thread) {
    for (unsigned i = 0; i < each; ++i) {
      if (thread % 2 == 0) {
        TypeParam::assign(rt, a, b, stream_id{thread});
      } else {
        TypeParam::assign(rt, b, a, stream_id{thread});
      }
    }
  });
  EXPECT_EQ(rt.read(a).get(), constant(8, 0));
  EXPECT_EQ(rt.read(b).get(), constant(8, 0));
}

BACKEND_TEST(threads, all_fixtures, waits_stats_trims_and_submits_at_the_same_time) {
  auto& rt = this->start();
  auto shared = rt.template make_buffer<int>(64, zeroed, "shared");
  std::atomic<int> expected{0};
  constexpr unsigned each = TypeParam::many(2000) / 16;
  on_threads(6, [&](unsigned thread) {
    std::mt19937 random(thread);
    for (unsigned i = 0; i < each; ++i) {
      switch ((thread + random()) % 8) {
        case 0: rt.synchronize(); break;
        case 1: rt.wait(stream_id{random() % 8}); break;
        case 2: rt.wait(shared); break;
        case 3: (void)rt.stats(); break;
        case 4: (void)rt.trim(); break;
        case 5: {
          auto x = rt.template make_buffer<int>(1 + random() % 5000);
          TypeParam::fill(rt, x, 1);
          break;
        }
        case 6: rt.retire(std::make_unique<int>(1), stream_id{random() % 8}); break;
        default:
          TypeParam::increment(rt, shared, stream_id{random() % 8});
          ++expected;
          break;
      }
    }
  });
  EXPECT_EQ(rt.read(shared).get(), constant(64, expected));
}

BACKEND_TEST(threads, all_fixtures, several_runtimes_at_once_do_not_disturb_each_other) {
  constexpr unsigned each = TypeParam::many(2000) / 8;
  std::vector<std::unique_ptr<typename TypeParam::runtime>> all;
  for (int i = 0; i < 4; ++i) all.push_back(this->another());
  on_threads(4, [&](unsigned thread) {
    auto& rt = *all[thread];
    auto x = rt.template make_buffer<int>(8, zeroed, "x");
    for (unsigned i = 0; i < each; ++i) TypeParam::increment(rt, x);
    EXPECT_EQ(rt.read(x).get(), constant(8, static_cast<int>(each)));
  });
}

}  // namespace
}  // namespace braid::conformance
