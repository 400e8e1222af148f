// Results on the host: futures, what follows them, and coroutines.

#include <thread>
#include <type_traits>

#include "suite.hpp"

namespace braid::conformance {
namespace {

template <class F>
struct futures : suite<F> {
  using suite<F>::suite;
  using runtime = typename F::runtime;
  /// task::get() runs no ops: the device goes on here.
  template <class T>
  T result(task<T> t) {
    this->until([&] { return t.is_ready(); });
    return t.get();
  }
};

BACKEND_TEST(futures, all_fixtures, get_gives_the_value_once) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  TypeParam::fill(rt, x, 3);
  auto f = rt.read(x);
  EXPECT_TRUE(f.valid());
  EXPECT_EQ(f.get(), constant(4, 3));
  EXPECT_FALSE(f.valid());
  expect_misuse(misuse::null_resource, "future", [&] { (void)f.get(); });
  expect_misuse(misuse::null_resource, "future", [&] { f.wait(); });
  expect_misuse(misuse::null_resource, "future", [&] { (void)f.is_ready(); });
  expect_misuse(misuse::null_resource, "future", [&] { (void)f.wait_for(std::chrono::seconds(0)); });
  expect_misuse(misuse::null_resource, "future", [&] { (void)f.then([](std::vector<int>) {}); });
}

BACKEND_TEST(futures, all_fixtures, an_empty_one_throws_when_it_is_used) {
  future<int> none;
  EXPECT_FALSE(none.valid());
  expect_misuse(misuse::null_resource, "empty", [&] { (void)none.get(); });
  future<void> nothing;
  expect_misuse(misuse::null_resource, "empty", [&] { nothing.wait(); });
  expect_misuse(misuse::null_resource, "empty", [&] { (void)nothing.then([] {}); });
}

BACKEND_TEST(futures, all_fixtures, wait_leaves_the_value) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  TypeParam::fill(rt, x, 3);
  auto f = rt.read(x);
  f.wait();
  EXPECT_TRUE(f.is_ready());
  f.wait();
  EXPECT_EQ(f.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(f.get(), constant(4, 3));
}

BACKEND_TEST(futures, all_fixtures, wait_for_gives_up_while_the_op_is_held_and_sees_it_ready_later) {
  this->world.stand_still();
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  TypeParam::fill(rt, x, 3);
  gate held = this->world.hold(rt, read_write(x));
  auto f = rt.read(x);
  EXPECT_FALSE(f.is_ready());
  EXPECT_EQ(f.wait_for(std::chrono::milliseconds(2)), std::future_status::timeout);
  EXPECT_EQ(f.wait_until(std::chrono::system_clock::now()), std::future_status::timeout);
  held.open();
  rt.synchronize();
  EXPECT_EQ(f.wait_for(std::chrono::hours(1)), std::future_status::ready);
  EXPECT_EQ(f.get(), constant(4, 3));
}

BACKEND_TEST(futures, all_fixtures, wait_for_returns_when_the_result_comes) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  TypeParam::fill(rt, x, 3);
  auto f = rt.read(x);
  const std::future_status found = f.wait_for(std::chrono::seconds(30));
  EXPECT_EQ(found, std::future_status::ready);
  EXPECT_EQ(f.get(), constant(4, 3));
}

BACKEND_TEST(futures, all_fixtures, wait_for_takes_the_longest_of_times) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  const auto waits = [&](auto time) {
    TypeParam::fill(rt, x, 3);
    const std::future_status found = rt.read(x).wait_for(time);
    EXPECT_EQ(found, std::future_status::ready);
  };
  waits(std::chrono::hours::max());
  waits(std::chrono::nanoseconds::max());
  waits(std::chrono::duration<double>(1e300));
}

BACKEND_TEST(futures, all_fixtures, then_gets_the_value_and_gives_a_future_of_what_it_returns) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  TypeParam::fill(rt, x, 3);
  auto f = rt.read(x);
  future<int> sum = f.then([](std::vector<int> v) { return v[0] + v[3]; });
  EXPECT_FALSE(f.valid());
  EXPECT_EQ(sum.get(), 6);
  auto text = rt.read(x).then([](const std::vector<int>& v) { return v.size(); }).then([](std::size_t n) {
    return std::to_string(n);
  });
  static_assert(std::is_same_v<decltype(text), future<std::string>>);
  EXPECT_EQ(text.get(), "4");
}

BACKEND_TEST(futures, all_fixtures, then_of_void) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  TypeParam::fill(rt, x, 3);
  std::vector<int> to(4);
  int calls = 0;
  future<void> f = rt.read(x, std::span<int>(to)).then([&] { calls += to[0]; });
  f.get();
  EXPECT_EQ(calls, 3);
  f = rt.read(x).then([&](std::vector<int> v) { calls += v[1]; });
  f.wait();
  f.get();
  EXPECT_EQ(calls, 6);
}

BACKEND_TEST(futures, all_fixtures, then_moves_values_that_can_only_be_moved) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  auto f = rt.read(x)
               .then([kept = std::make_unique<int>(5)](std::vector<int>) mutable { return std::move(kept); })
               .then([](std::unique_ptr<int> p) { return *p; });
  EXPECT_EQ(f.get(), 5);
}

BACKEND_TEST(futures, all_fixtures, an_error_passes_by_what_then_was_given) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  TypeParam::fail(rt, "culprit", x);
  std::atomic<int> calls{0};
  auto f = rt.read(x)
               .then([&](std::vector<int>) {
                 ++calls;
                 return 1;
               })
               .then([&](int) { ++calls; });
  expect_failure("culprit", "broken", [&] { f.get(); });
  EXPECT_EQ(calls, 0);
}

BACKEND_TEST(futures, all_fixtures, what_then_throws_is_the_error_of_its_future) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  auto f = rt.read(x).then([](std::vector<int>) -> int { throw std::out_of_range("too far"); });
  EXPECT_THROW((void)f.get(), std::out_of_range);
  auto odd = rt.read(x).then([](std::vector<int>) { throw 42; });
  EXPECT_THROW(odd.get(), int);
}

BACKEND_TEST(futures, all_fixtures, then_runs_on_another_thread_outside_of_bodies_and_may_submit) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  auto y = rt.template make_buffer<int>(4, "y");
  const auto here = std::this_thread::get_id();
  auto f = rt.read(x).then([&](std::vector<int> v) {
    EXPECT_NE(std::this_thread::get_id(), here);
    TypeParam::fill(rt, y, v[0] + 1);
    return rt.read(y).get();  // it may also wait for ops
  });
  EXPECT_EQ(f.get(), constant(4, 1));
}

BACKEND_TEST(futures, all_fixtures, then_on_a_result_that_is_there_runs_all_the_same) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  auto f = rt.read(x);
  f.wait();
  const auto here = std::this_thread::get_id();
  EXPECT_TRUE(f.then([&](std::vector<int>) { return std::this_thread::get_id() != here; }).get());
}

BACKEND_TEST(futures, all_fixtures, a_then_whose_future_is_dropped_runs) {
  std::atomic<int> calls{0};
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  for (int i = 0; i < 20; ++i) (void)rt.read(x).then([&](std::vector<int>) { ++calls; });
  rt.synchronize();
  this->until([&] { return calls == 20; });
  this->stop();
}

BACKEND_TEST(futures, all_fixtures, a_future_may_be_dropped_while_its_op_is_in_flight) {
  this->world.stand_still();
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  {
    gate held = this->world.hold(rt, write(x));
    for (int i = 0; i < 10; ++i) (void)rt.read(x);
  }
  EXPECT_EQ(rt.read(x).get().size(), 4U);
}

BACKEND_TEST(futures, all_fixtures, many_threads_wait_for_their_own_results) {
  auto& rt = this->start();
  constexpr unsigned each = TypeParam::many(400) / 8;
  on_threads(4, [&](unsigned thread) {
    auto x = rt.template make_buffer<int>(16, "x");
    for (unsigned i = 0; i < each; ++i) {
      const int value = static_cast<int>(thread * 1000 + i);
      TypeParam::fill(rt, x, value);
      if (i % 2 == 0) {
        EXPECT_EQ(rt.read(x).get(), constant(16, value));
      } else {
        EXPECT_EQ(rt.read(x).then([](std::vector<int> v) { return v[7]; }).get(), value);
      }
    }
  });
}

// ---- Coroutines.

template <class Fixture, class Runtime>
task<int> doubled(Runtime& rt, buffer<int> x) {
  std::vector<int> host = co_await rt.read(x);
  Fixture::fill(rt, x, 2 * host[0]);
  host = co_await rt.read(x);
  co_return host[0];
}

template <class Fixture, class Runtime>
task<int> twice(Runtime& rt, buffer<int> x) {
  const int first = co_await doubled<Fixture>(rt, x);
  const int second = co_await doubled<Fixture>(rt, x);
  co_return first + second;
}

template <class Runtime>
task<void> read_only(Runtime& rt, buffer<int> x, std::atomic<int>& reached) {
  ++reached;
  (void)co_await rt.read(x);
  ++reached;
}

template <class Runtime>
task<std::string> caught(Runtime& rt, buffer<int> x) {
  try {
    (void)co_await rt.read(x);
  } catch (const op_error& e) {
    co_return e.label();
  }
  co_return "nothing";
}

BACKEND_TEST(futures, all_fixtures, a_coroutine_awaits_results_and_submits) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  TypeParam::fill(rt, x, 5);
  EXPECT_EQ(this->result(doubled<TypeParam>(rt, x)), 10);
  EXPECT_EQ(this->result(twice<TypeParam>(rt, x)), 20 + 40);
}

BACKEND_TEST(futures, all_fixtures, a_coroutine_begins_at_once_and_goes_on_when_the_result_is_there) {
  this->world.stand_still();
  std::atomic<int> reached{0};
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  TypeParam::fill(rt, x, 5);
  gate held = this->world.hold(rt, read_write(x));
  auto t = read_only(rt, x, reached);
  EXPECT_EQ(reached, 1);
  EXPECT_FALSE(t.is_ready());
  held.open();
  rt.synchronize();
  this->result(std::move(t));
  EXPECT_EQ(reached, 2);
}

BACKEND_TEST(futures, all_fixtures, an_error_is_thrown_where_a_coroutine_awaits_it) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  TypeParam::fail(rt, "culprit", x);
  EXPECT_EQ(this->result(caught(rt, x)), "culprit");
  expect_failure("culprit", "broken", [&] { (void)this->result(doubled<TypeParam>(rt, x)); });
}

BACKEND_TEST(futures, all_fixtures, a_task_that_is_dropped_runs_to_its_end) {
  std::atomic<int> reached{0};
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  for (int i = 0; i < 10; ++i) (void)read_only(rt, x, reached);
  rt.synchronize();
  this->until([&] { return reached == 20; });
  this->stop();
}

BACKEND_TEST(futures, all_fixtures, a_task_gives_its_result_once) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  auto t = doubled<TypeParam>(rt, x);
  this->until([&] { return t.is_ready(); });
  EXPECT_EQ(t.get(), 0);
  expect_misuse(misuse::null_resource, "task", [&] { (void)t.get(); });
  expect_misuse(misuse::null_resource, "task", [&] { (void)t.is_ready(); });
}

}  // namespace
}  // namespace braid::conformance
