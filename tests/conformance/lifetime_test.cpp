// Limits on the work in flight, retired objects, the end of a runtime, and what is left of its handles.

#include <algorithm>

#include "suite.hpp"

namespace braid::conformance {
namespace {

template <class F>
struct lifetime : suite<F> {
  using suite<F>::suite;
};

/// Tells when it is destroyed.
struct telling {
  explicit telling(std::atomic<int>& count) : to(&count) {}
  telling(telling&& other) noexcept : to(std::exchange(other.to, nullptr)) {}
  telling& operator=(telling&&) = delete;
  ~telling() {
    if (to != nullptr) ++*to;
  }
  std::atomic<int>* to;
};

BACKEND_TEST(lifetime, all_fixtures, a_limit_on_ops_in_flight_makes_the_submitter_wait) {
  auto& rt = this->start({.ops_in_flight = 3});
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  std::vector<submission> all;
  for (unsigned i = 0; i < 60; ++i) {
    all.push_back(TypeParam::increment(rt, x, stream_id{i % 8}));
    EXPECT_TRUE(i < 3 || all[i - 3].is_over());
  }
  EXPECT_EQ(rt.read(x).get(), constant(8, 60));
}

BACKEND_TEST(lifetime, all_fixtures, a_limit_on_bytes_in_flight_makes_the_submitter_wait) {
  auto& rt = this->start({.bytes_in_flight = 100 * sizeof(int)});
  auto x = rt.template make_buffer<int>(40, zeroed, "x");
  auto large = rt.template make_buffer<int>(1000, "large");
  std::vector<submission> all;
  for (unsigned i = 0; i < 60; ++i) {
    all.push_back(TypeParam::increment(rt, x, stream_id{i % 8}));
    EXPECT_TRUE(i < 2 || all[i - 2].is_over());
  }
  TypeParam::fill(rt, large, 1);  // larger than the limit: goes alone
  EXPECT_TRUE(all.back().is_over());
  EXPECT_EQ(rt.read(large).get(), constant(1000, 1));
  EXPECT_EQ(rt.read(x).get(), constant(40, 60));
}

BACKEND_TEST(lifetime, all_fixtures, limits_hold_for_several_threads) {
  auto& rt = this->start({.ops_in_flight = 4, .bytes_in_flight = 4096});
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  constexpr unsigned each = TypeParam::many(800) / 4;
  on_threads(4, [&](unsigned thread) {
    for (unsigned i = 0; i < each; ++i) TypeParam::increment(rt, x, stream_id{thread});
  });
  EXPECT_EQ(rt.read(x).get(), constant(8, static_cast<int>(4 * each)));
}

BACKEND_TEST(lifetime, all_fixtures, a_retired_object_is_destroyed_after_the_work_on_its_stream) {
  this->world.stand_still();
  std::atomic<int> destroyed{0};
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  gate held = this->world.hold(rt, write(x));
  TypeParam::increment(rt, x, stream_id{3});
  rt.retire(telling(destroyed), stream_id{3});
  EXPECT_EQ(destroyed, 0);
  rt.retire(telling(destroyed), stream_id{6});  // never used: at once, whatever else is slow
  this->until([&] { return destroyed == 1 || !TypeParam::runs_by_itself; });
  held.open();
  rt.wait(stream_id{3});
  this->until([&] { return destroyed == 2; });
  EXPECT_EQ(rt.stats().streams.retired, 2U);
  this->stop();
}

BACKEND_TEST(lifetime, all_fixtures, a_retired_objects_destructor_may_submit) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  std::atomic<bool> done{false};
  auto submits = std::shared_ptr<void>(&done, [&](void*) {
    TypeParam::increment(rt, x);
    done = true;
  });
  rt.retire(std::move(submits), stream_id{1});
  this->until([&] { return done.load(); });
  EXPECT_EQ(rt.read(x).get(), constant(8, 1));
}

BACKEND_TEST(lifetime, all_fixtures, shutdown_says_what_is_stuck_and_completes_when_it_is_not) {
  this->world.stand_still();
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  auto z = rt.template make_buffer<int>(8, "z");
  {
    gate held = this->world.hold(rt, write(x));
    TypeParam::fill(rt, x, 1, stream_id{5});
    const shutdown_report report = rt.shutdown(std::chrono::milliseconds(5));
    EXPECT_FALSE(report.complete());
    EXPECT_FALSE(report.stuck.empty());
    EXPECT_TRUE(std::any_of(report.stuck.begin(), report.stuck.end(), [](const auto& s) {
      return s.id == stream_id{5} && s.completed == 0 && s.cursor == 1;
    }));
    TypeParam::fill(rt, z, 2);  // it goes on
    held.open();
  }
  EXPECT_EQ(rt.read(x).get(), constant(8, 1));
  EXPECT_EQ(rt.read(z).get(), constant(8, 2));
  this->until([&] { return rt.shutdown(std::chrono::milliseconds(1000)).complete(); });
  EXPECT_TRUE(rt.shutdown(std::chrono::milliseconds(0)).complete());
}

BACKEND_TEST(lifetime, all_fixtures, after_shutdown_nothing_can_be_submitted) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  TypeParam::fill(rt, x, 1);
  auto result = rt.read(x);
  rt.synchronize();
  ASSERT_TRUE(rt.shutdown(std::chrono::seconds(30)).complete());
  const auto refused = [](auto&& call) { expect_misuse(misuse::after_shutdown, "shut down", call); };
  refused([&] { TypeParam::increment(rt, x); });
  refused([&] { TypeParam::increment(rt, x, stream_id{6}); });
  refused([&] { (void)rt.read(x); });
  refused([&] { rt.write(x, constant(8, 1)); });
  refused([&] { rt.fill(x, 1); });
  refused([&] { rt.retire(1, stream_id{0}); });
  refused([&] { (void)rt.template make_buffer<int>(8, zeroed); });
  EXPECT_EQ(result.get(), constant(8, 1));
  rt.wait(x);
  rt.synchronize();
  EXPECT_EQ(rt.stats().memory.live, 8 * sizeof(int));
  EXPECT_EQ(rt.stats().staging.live, 0U);
  auto other = this->another();
  auto y = other->template make_buffer<int>(8, "y");
  refused([&] { other->copy(y, x); });
  x = {};
  EXPECT_EQ(rt.stats().memory.live, 0U);
}

BACKEND_TEST(lifetime, all_fixtures, adopted_memory_may_be_let_go_after_shutdown) {
  auto mine = TypeParam::memory(constant(8, 1));
  std::atomic<bool> gone{false};
  auto& rt = this->start();
  auto x = rt.adopt(std::span<int>(mine), "mine", std::shared_ptr<void>(&gone, [&](void*) { gone = true; }));
  TypeParam::increment(rt, x);
  rt.synchronize();
  ASSERT_TRUE(rt.shutdown(std::chrono::seconds(30)).complete());
  x = {};
  this->until([&] { return gone.load(); });
  this->stop();
}

BACKEND_TEST(lifetime, all_fixtures, destroying_the_runtime_finishes_what_was_submitted) {
  auto mine = TypeParam::memory(constant(16, 0));
  std::atomic<int> destroyed{0};
  auto& rt = this->start();
  {
    auto x = rt.adopt(std::span<int>(mine), "mine");
    for (unsigned i = 0; i < 200; ++i) TypeParam::increment(rt, x, stream_id{i % 8});
    for (int i = 0; i < 20; ++i) rt.retire(telling(destroyed), stream_id{static_cast<std::uint64_t>(i)});
  }
  this->stop();
  EXPECT_EQ(mine, constant(16, 200));
  EXPECT_EQ(destroyed, 20);
}

BACKEND_TEST(lifetime, all_fixtures, destroying_the_runtime_runs_what_follows_and_what_that_submits) {
  auto mine = TypeParam::memory(constant(16, 0));
  std::atomic<int> followed{0};
  auto& rt = this->start();
  auto x = rt.adopt(std::span<int>(mine), "mine");
  struct chain {
    static void go(typename TypeParam::runtime& on, buffer<int> of, std::atomic<int>& count, int left) {
      (void)on.read(of).then([&on, of, &count, left](std::vector<int>) {
        ++count;
        TypeParam::increment(on, of);
        if (left > 1) go(on, of, count, left - 1);
      });
    }
  };
  chain::go(rt, x, followed, 15);
  x = {};
  this->stop();
  EXPECT_EQ(followed, 15);
  EXPECT_EQ(mine, constant(16, 15));
}

BACKEND_TEST(lifetime, all_fixtures, destroying_the_runtime_finishes_work_that_failed) {
  auto& rt = this->start();
  std::vector<buffer<int>> left;
  for (unsigned i = 0; i < 30; ++i) {
    left.push_back(rt.template make_buffer<int>(8, "x"));
    TypeParam::fail(rt, "culprit", left.back(), stream_id{i % 8});
    TypeParam::increment(rt, left.back());
  }
  this->stop();
}

BACKEND_TEST(lifetime, all_fixtures, handles_that_outlive_the_runtime_are_inert_and_say_so) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  auto untouched = rt.template make_buffer<int>(8, "untouched");
  const submission s = TypeParam::fill(rt, x, 4);
  auto result = rt.read(x);
  auto failing = rt.template make_buffer<int>(8, "failing");
  TypeParam::fail(rt, "culprit", failing);
  auto failed = rt.read(failing);
  this->stop();

  EXPECT_TRUE(s.is_over());
  EXPECT_FALSE(s.cancel());
  expect_misuse(misuse::after_shutdown, "destroyed", [&] { s.wait(); });
  EXPECT_TRUE(result.is_ready());  // all that was submitted is done
  EXPECT_EQ(result.get(), constant(8, 4));
  expect_failure("culprit", "broken", [&] { (void)failed.get(); });
  EXPECT_EQ(x.size(), 8U);
  EXPECT_EQ(x.name(), "x");

  auto next = this->another();
  expect_misuse(misuse::after_shutdown, "'x'", [&] { TypeParam::fill(*next, x, 1); });
  expect_misuse(misuse::after_shutdown, "'untouched'", [&] { TypeParam::fill(*next, untouched, 1); });
  auto y = next->template make_buffer<int>(8, "y");
  expect_misuse(misuse::after_shutdown, "'x'", [&] { next->copy(y, x); });
  expect_misuse(misuse::after_shutdown, "'x'", [&] { next->wait(x); });
  auto of_x = x.slice(2, 2);
  x = {};
  expect_misuse(misuse::after_shutdown, "'x'", [&] { (void)next->read(of_x); });
}

BACKEND_TEST(lifetime, all_fixtures, then_on_a_future_that_outlived_the_runtime_runs_at_once) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  TypeParam::fill(rt, x, 4);
  auto result = rt.read(x);
  this->stop();
  auto after = result.then([](std::vector<int> v) { return v[0]; });
  EXPECT_TRUE(after.is_ready());
  EXPECT_EQ(after.get(), 4);
}

BACKEND_TEST(lifetime, all_fixtures, null_submissions_say_so) {
  const submission none;
  EXPECT_TRUE(none.is_over());
  EXPECT_FALSE(none.cancel());
  expect_misuse(misuse::null_resource, "null", [&] { none.wait(); });
}

BACKEND_TEST(lifetime, all_fixtures, runtimes_may_come_and_go) {
  for (int i = 0; i < 20; ++i) {
    auto rt = this->another();
    auto x = rt->template make_buffer<int>(64, zeroed, "x");
    TypeParam::increment(*rt, x);
    if (i % 2 == 1) continue;
    EXPECT_EQ(rt->read(x).get(), constant(64, 1));
  }
  auto unused = this->another();
}

}  // namespace
}  // namespace braid::conformance
