// An op that fails poisons what it would have written; whoever reads that hears of it; the rest goes on.

#include <algorithm>

#include "suite.hpp"

namespace braid::conformance {
namespace {

template <class F>
struct errors : suite<F> {
  using suite<F>::suite;
};

BACKEND_TEST(errors, all_fixtures, a_failed_op_reaches_whoever_reads_its_output_with_its_label) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  const submission s = TypeParam::fail(rt, "culprit", x, {}, "the reason");
  expect_failure("culprit", "the reason", [&] { (void)rt.read(x).get(); });
  expect_failure("culprit", "the reason", [&] { rt.wait(x); });
  expect_failure("culprit", "the reason", [&] { s.wait(); });
  expect_failure("culprit", "the reason", [&] { (void)rt.read(x.slice(2, 1)).get(); });
  std::vector<int> to(8);
  expect_failure("culprit", "the reason", [&] { rt.read(x, std::span<int>(to)).get(); });
  EXPECT_EQ(rt.stats().failed, 1U);
}

BACKEND_TEST(errors, all_fixtures, dependents_are_skipped_and_pass_the_error_on) {
  auto& rt = this->start();
  auto a = rt.template make_buffer<int>(8, "a");
  auto b = rt.template make_buffer<int>(8, "b");
  auto c = rt.template make_buffer<int>(8, "c");
  TypeParam::fail(rt, "culprit", a, stream_id{1});
  const submission second = TypeParam::assign(rt, b, a, stream_id{2});
  TypeParam::assign(rt, c, b, stream_id{3});
  TypeParam::increment(rt, c, stream_id{4});
  expect_failure("culprit", "broken", [&] { (void)rt.read(c).get(); });
  expect_failure("culprit", "broken", [&] { second.wait(); });
  const runtime_stats now = rt.stats();
  EXPECT_EQ(now.failed, 1U);
  EXPECT_EQ(now.skipped, 4U);  // two assigns, one increment, one read
}

BACKEND_TEST(errors, all_fixtures, the_error_that_was_submitted_first_is_passed_on) {
  auto& rt = this->start();
  for (int turn = 0; turn < 10; ++turn) {
    auto a = rt.template make_buffer<int>(8, "a");
    auto b = rt.template make_buffer<int>(8, "b");
    auto sum = rt.template make_buffer<int>(8, "sum");
    const bool swapped = turn % 2 == 1;
    TypeParam::fail(rt, "first", swapped ? b : a, stream_id{1});
    TypeParam::fail(rt, "second", swapped ? a : b, stream_id{2});
    TypeParam::assign(rt, sum, b, stream_id{3});
    TypeParam::add(rt, sum, a, stream_id{3});
    // The sum was poisoned by b's error; an op that reads both takes the one that was submitted first.
    auto both = rt.template make_buffer<int>(8, "both");
    TypeParam::assign(rt, both, a, stream_id{4});
    expect_failure(swapped ? "second" : "first", "broken", [&] { (void)rt.read(both).get(); });
    expect_failure("first", "broken", [&] { (void)rt.read(sum).get(); });
  }
}

BACKEND_TEST(errors, all_fixtures, a_whole_overwrite_heals) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  TypeParam::fail(rt, "culprit", x, stream_id{1});
  auto before = rt.read(x);
  TypeParam::fill(rt, x, 4, stream_id{2});
  auto after = rt.read(x);
  expect_failure("culprit", "broken", [&] { (void)before.get(); });
  EXPECT_EQ(after.get(), constant(8, 4));
  rt.wait(x);
  TypeParam::increment(rt, x, stream_id{3});
  EXPECT_EQ(rt.read(x).get(), constant(8, 5));
}

BACKEND_TEST(errors, all_fixtures, each_way_to_overwrite_heals) {
  auto& rt = this->start();
  auto good = rt.template make_buffer<int>(8, "good");
  TypeParam::fill(rt, good, 3);
  auto x = rt.template make_buffer<int>(8, "x");
  const auto healed_by = [&](auto&& overwrite) {
    TypeParam::fail(rt, "culprit", x);
    overwrite();
    EXPECT_EQ(rt.read(x).get(), constant(8, 3));
  };
  healed_by([&] { rt.fill(x, 3); });
  healed_by([&] { rt.copy(x, good); });
  healed_by([&] { rt.write(x, constant(8, 3)); });
  healed_by([&] { rt.write_from(x, constant(8, 3)); });
  healed_by([&] { TypeParam::assign(rt, x, good); });
}

BACKEND_TEST(errors, all_fixtures, an_overwrite_of_a_part_heals_that_part) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  TypeParam::fail(rt, "culprit", x);
  TypeParam::fill(rt, x.slice(2, 4), 4, stream_id{2});
  EXPECT_EQ(rt.read(x.slice(2, 4)).get(), constant(4, 4));
  EXPECT_EQ(rt.read(x.slice(3, 1)).get(), constant(1, 4));
  expect_failure("culprit", "broken", [&] { (void)rt.read(x.slice(0, 3)).get(); });
  expect_failure("culprit", "broken", [&] { (void)rt.read(x.slice(5, 3)).get(); });
  expect_failure("culprit", "broken", [&] { rt.wait(x); });
  TypeParam::increment(rt, x.slice(2, 4), stream_id{3});
  EXPECT_EQ(rt.read(x.slice(2, 4)).get(), constant(4, 5));
  TypeParam::fill(rt, x.slice(0, 2), 1);
  TypeParam::fill(rt, x.slice(6, 2), 1);
  EXPECT_EQ(rt.read(x).get(), (std::vector<int>{1, 1, 5, 5, 5, 5, 1, 1}));
  rt.wait(x);
}

// Both may go through the same memory of the host.
BACKEND_TEST(errors, all_fixtures, a_read_that_fails_leaves_its_error_to_no_later_write) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  auto y = rt.template make_buffer<int>(8, "y");
  TypeParam::fail(rt, "culprit", x);
  for (int i = 0; i < 10; ++i) {
    expect_failure("culprit", "broken", [&] { (void)rt.read(x).get(); });
    rt.write(y, constant(8, i));
    EXPECT_EQ(rt.read(y).get(), constant(8, i));
  }
}

BACKEND_TEST(errors, all_fixtures, a_failed_op_on_a_part_poisons_that_part) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  TypeParam::fill(rt, x, 1);
  TypeParam::fail(rt, "culprit", x.slice(4, 4));
  EXPECT_EQ(rt.read(x.slice(0, 4)).get(), constant(4, 1));
  expect_failure("culprit", "broken", [&] { (void)rt.read(x.slice(7, 1)).get(); });
  expect_failure("culprit", "broken", [&] { (void)rt.read(x).get(); });
}

BACKEND_TEST(errors, all_fixtures, an_empty_part_of_poisoned_data_carries_no_error) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  auto y = rt.template make_buffer<int>(8, zeroed, "y");
  TypeParam::fail(rt, "fails", x);
  EXPECT_TRUE(rt.read(x.slice(4, 0)).get().empty());
  rt.copy(y.slice(4, 0), x.slice(4, 0)).wait();
  rt.fill(x.slice(4, 0), 1).wait();
  EXPECT_EQ(rt.read(y).get(), constant(8, 0));
  EXPECT_EQ(rt.stats().skipped, 0U);
  expect_failure("fails", "broken", [&] { rt.wait(x); });
}

BACKEND_TEST(errors, all_fixtures, a_read_write_of_poisoned_data_does_not_run_and_does_not_heal) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  TypeParam::fail(rt, "culprit", x);
  TypeParam::increment(rt, x, stream_id{3});
  TypeParam::accumulate_into(rt, x, 1, 0, stream_id{4});
  expect_failure("culprit", "broken", [&] { rt.wait(x); });
  EXPECT_EQ(rt.stats().skipped, 2U);
}

BACKEND_TEST(errors, all_fixtures, unrelated_work_goes_on) {
  auto& rt = this->start();
  auto bad = rt.template make_buffer<int>(8, "bad");
  auto good = rt.template make_buffer<int>(8, zeroed, "good");
  for (int i = 0; i < 30; ++i) {
    TypeParam::fail(rt, "culprit", bad, stream_id{static_cast<std::uint64_t>(i) % 8});
    TypeParam::increment(rt, good, stream_id{static_cast<std::uint64_t>(i + 3) % 8});
  }
  EXPECT_EQ(rt.read(good).get(), constant(8, 30));
  rt.synchronize();  // does not throw: each error belongs to its data
  rt.wait(stream_id{3});
  EXPECT_EQ(rt.stats().failed, 30U);
}

BACKEND_TEST(errors, all_fixtures, poison_does_not_follow_the_memory_to_its_next_owner) {
  auto& rt = this->start();
  {
    auto x = rt.template make_buffer<int>(64, "x");
    TypeParam::fail(rt, "culprit", x, stream_id{1});
    expect_failure("culprit", "broken", [&] { rt.wait(x); });
  }
  auto y = rt.template make_buffer<int>(64, "y");
  TypeParam::fill(rt, y.slice(0, 32), 1, stream_id{1});
  EXPECT_EQ(rt.stats().memory.taken_by(reuse_step::ordered), 1U);  // the same memory
  EXPECT_EQ(rt.read(y.slice(0, 32)).get(), constant(32, 1));
  rt.wait(y);  // the other half is nobody's
  TypeParam::fill(rt, y.slice(32, 32), 2, stream_id{1});
  rt.wait(y);
  EXPECT_EQ(rt.read(y.slice(32, 32)).get(), constant(32, 2));
}

BACKEND_TEST(errors, all_fixtures, poison_of_a_dead_buffer_still_reaches_dependents_in_flight) {
  this->world.stand_still();
  auto& rt = this->start();
  auto y = rt.template make_buffer<int>(8, "y");
  {
    auto x = rt.template make_buffer<int>(8, "x");
    gate held = this->world.hold(rt, write(x));
    TypeParam::fail(rt, "culprit", x, stream_id{1});
    TypeParam::assign(rt, y, x, stream_id{2});
    x = {};
    auto next = rt.template make_buffer<int>(8, "next");  // may take the memory: its ops come after
    TypeParam::fill(rt, next, 3, stream_id{2});
    held.open();
    EXPECT_EQ(rt.read(next).get(), constant(8, 3));
  }
  expect_failure("culprit", "broken", [&] { (void)rt.read(y).get(); });
}

BACKEND_TEST(errors, all_fixtures, an_error_that_nobody_asked_about_is_logged_once_when_its_data_dies) {
  captured said;
  auto& rt = this->start({.logger = said.log});
  {
    auto x = rt.template make_buffer<int>(8, "x");
    auto y = rt.template make_buffer<int>(8, "y");
    TypeParam::fail(rt, "culprit", x);
    TypeParam::assign(rt, y, x);
    rt.synchronize();
    EXPECT_FALSE(said.has("culprit"));
  }
  EXPECT_EQ(said.count("culprit"), 1U);
  this->stop();
  EXPECT_EQ(said.count("culprit"), 1U);
}

BACKEND_TEST(errors, all_fixtures, an_error_that_somebody_asked_about_is_not_logged) {
  captured said;
  auto& rt = this->start({.logger = said.log});
  {
    auto x = rt.template make_buffer<int>(8, "x");
    TypeParam::fail(rt, "culprit", x);
    expect_failure("culprit", "broken", [&] { (void)rt.read(x).get(); });
  }
  {
    auto x = rt.template make_buffer<int>(8, "x");
    const submission s = TypeParam::fail(rt, "second", x);
    expect_failure("second", "broken", [&] { s.wait(); });
  }
  this->stop();
  EXPECT_TRUE(said.lines().empty()) << said.lines().front();
}

BACKEND_TEST(errors, all_fixtures, an_error_is_logged_whose_data_died_before_the_op_failed) {
  this->world.stand_still();
  captured said;
  auto& rt = this->start({.logger = said.log});
  {
    auto x = rt.template make_buffer<int>(8, "x");
    gate held = this->world.hold(rt, write(x));
    TypeParam::fail(rt, "culprit", x);
    x = {};
    held.open();
  }
  rt.synchronize();
  this->stop();
  EXPECT_EQ(said.count("culprit"), 1U);
}

BACKEND_TEST(errors, all_fixtures, an_error_is_logged_whose_data_lives_until_the_runtime_ends) {
  captured said;
  auto& rt = this->start({.logger = said.log});
  auto x = rt.template make_buffer<int>(8, "x");
  TypeParam::fail(rt, "culprit", x);
  this->stop();
  EXPECT_EQ(said.count("culprit"), 1U);
}

BACKEND_TEST(errors, all_fixtures, an_error_that_an_overwrite_healed_is_logged) {
  captured said;
  auto& rt = this->start({.logger = said.log});
  auto x = rt.template make_buffer<int>(8, "x");
  TypeParam::fail(rt, "culprit", x);
  TypeParam::fill(rt, x, 1);
  EXPECT_EQ(rt.read(x).get(), constant(8, 1));
  x = {};
  this->stop();
  EXPECT_EQ(said.count("culprit"), 1U);
}

BACKEND_TEST(errors, all_fixtures, poison_crosses_to_another_runtime_with_the_label_of_the_op_that_failed) {
  auto& rt = this->start();
  auto other = this->another();
  auto there = other->template make_buffer<int>(8, "there");
  auto here = rt.template make_buffer<int>(8, "here");
  TypeParam::fail(*other, "culprit", there);
  rt.copy(here, there);
  TypeParam::fill(*other, there, 3);
  expect_failure("culprit", "broken", [&] { (void)rt.read(here).get(); });
  rt.copy(here, there);
  EXPECT_EQ(rt.read(here).get(), constant(8, 3));
}

BACKEND_TEST(errors, all_fixtures, cancel_keeps_an_op_from_running_that_has_not_begun) {
  this->world.stand_still();
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  auto y = rt.template make_buffer<int>(8, "y");
  TypeParam::fill(rt, x, 1);
  gate held = this->world.hold(rt, read_write(x));
  const submission s = TypeParam::increment(rt, x, stream_id{3});
  TypeParam::assign(rt, y, x, stream_id{4});
  EXPECT_TRUE(s.cancel());
  EXPECT_TRUE(s.cancel());
  held.open();
  expect_failure("increment", "cancelled", [&] { s.wait(); });
  expect_failure("increment", "cancelled", [&] { (void)rt.read(x).get(); });
  expect_failure("increment", "cancelled", [&] { (void)rt.read(y).get(); });
  EXPECT_EQ(rt.stats().cancelled, 1U);
  EXPECT_FALSE(s.cancel());
  TypeParam::fill(rt, x, 2);
  EXPECT_EQ(rt.read(x).get(), constant(8, 2));
  try {
    s.wait();
    FAIL();
  } catch (const op_error& e) {
    EXPECT_EQ(e.cause(), nullptr);
  }
}

BACKEND_TEST(errors, all_fixtures, cancel_of_an_op_that_is_over_says_so) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  const submission s = TypeParam::fill(rt, x, 1);
  s.wait();
  EXPECT_TRUE(s.is_over());
  EXPECT_FALSE(s.cancel());
  EXPECT_EQ(rt.read(x).get(), constant(8, 1));
  EXPECT_EQ(rt.stats().cancelled, 0U);
}

BACKEND_TEST(errors, all_fixtures, cancels_at_any_moment_either_win_or_lose) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  std::vector<submission> all;
  constexpr unsigned count = TypeParam::many(300);
  for (unsigned i = 0; i < count; ++i) {
    all.push_back(TypeParam::fill(rt, x, static_cast<int>(i), stream_id{i % 8}));
    if (i % 3 == 0) (void)all[i / 2].cancel();
    if (i % 7 == 0) (void)all.back().cancel();
  }
  unsigned cancelled = 0;
  for (const submission& s : all) {
    try {
      s.wait();
    } catch (const op_error& e) {
      EXPECT_TRUE(contains(e.what(), "cancelled"));
      ++cancelled;
    }
  }
  EXPECT_EQ(rt.stats().cancelled, cancelled);
  TypeParam::fill(rt, x, -1);
  EXPECT_EQ(rt.read(x).get(), constant(8, -1));
  rt.synchronize();
}

BACKEND_TEST(errors, all_fixtures, many_failures_leave_the_last_thousand_to_ask_about) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  std::vector<submission> all;
  constexpr unsigned count = TypeParam::many(3000);
  for (unsigned i = 0; i < count; ++i) all.push_back(TypeParam::fail(rt, "culprit", x));
  rt.synchronize();
  for (unsigned i = count - std::min(count, 1000U); i < count; ++i) {
    expect_failure("culprit", "broken", [&] { all[i].wait(); });
  }
  EXPECT_EQ(rt.stats().failed, count);
  TypeParam::fill(rt, x, 1);
  EXPECT_EQ(rt.read(x).get(), constant(8, 1));
}

// ---- Bodies that run on the host.

template <class F>
struct host_errors : suite<F> {
  using suite<F>::suite;
};

BACKEND_TEST(host_errors, host_fixtures, what_was_thrown_is_the_cause) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  struct special : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  rt.submit("culprit", write(x), [](std::span<int>) -> void { throw special("of its own kind"); });
  try {
    rt.wait(x);
    FAIL();
  } catch (const op_error& e) {
    EXPECT_THROW(std::rethrow_exception(e.cause()), special);
  }
}

BACKEND_TEST(host_errors, host_fixtures, a_body_may_throw_what_is_no_exception) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  rt.submit("culprit", write(x), [](std::span<int>) -> void { throw 42; });
  expect_failure("culprit", "not a std::exception", [&] { (void)rt.read(x).get(); });
  try {
    rt.wait(x);
    FAIL();
  } catch (const op_error& e) {
    EXPECT_THROW(std::rethrow_exception(e.cause()), int);
  }
}

BACKEND_TEST(host_errors, host_fixtures, a_skipped_body_does_not_run_and_is_destroyed) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  TypeParam::fail(rt, "culprit", x);
  std::atomic<int> ran{0};
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = held;
  rt.submit("skipped", read(x), [&ran, held = std::move(held)](std::span<const int>) { ++ran; });
  rt.synchronize();
  EXPECT_EQ(ran, 0);
  EXPECT_TRUE(alive.expired());
}

BACKEND_TEST(host_errors, host_fixtures, of_two_poisoned_inputs_the_error_submitted_first_is_passed_on) {
  auto& rt = this->start();
  auto a = rt.template make_buffer<int>(8, "a");
  auto b = rt.template make_buffer<int>(8, "b");
  auto c = rt.template make_buffer<int>(8, "c");
  for (int turn = 0; turn < 10; ++turn) {
    TypeParam::fail(rt, "first", a, stream_id{1});
    TypeParam::fail(rt, "second", b, stream_id{2});
    rt.submit(stream_id{3}, "both", read(b), read(a), write(c),
              [](std::span<const int>, std::span<const int>, std::span<int>) {});
    expect_failure("first", "broken", [&] { rt.wait(c); });
    std::swap(a, b);
  }
}

BACKEND_TEST(host_errors, host_fixtures, a_failed_op_on_a_token_poisons_the_token) {
  auto& rt = this->start();
  const resource file = resource::token("file");
  std::atomic<int> ran{0};
  rt.submit(stream_id{1}, "open", write(file), [] { throw std::runtime_error("no such file"); });
  const submission s = rt.submit(stream_id{2}, "append", read_write(file), [&ran] { ++ran; });
  expect_failure("open", "no such file", [&] { s.wait(); });
  EXPECT_EQ(ran, 0);
  rt.submit(stream_id{3}, "open", write(file), [&ran] { ++ran; });
  rt.submit(stream_id{4}, "append", read_write(file), [&ran] { ++ran; }).wait();
  EXPECT_EQ(ran, 2);
}

BACKEND_TEST(host_errors, host_fixtures, an_error_of_an_op_without_outputs_is_logged) {
  captured said;
  auto& rt = this->start({.logger = said.log});
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  rt.submit("no outputs", read(x), [](std::span<const int>) { throw std::runtime_error("broken"); });
  rt.submit("no bindings", [] { throw std::runtime_error("broken"); });
  rt.submit("only scratch", read(x), scratch<int>(100),
            [](std::span<const int>, std::span<int>) { throw std::runtime_error("broken"); });
  rt.synchronize();
  this->stop();
  EXPECT_EQ(said.count("no outputs"), 1U);
  EXPECT_EQ(said.count("no bindings"), 1U);
  EXPECT_EQ(said.count("only scratch"), 1U);
}

// Whether somebody is going to wait for the op is not known when it fails.
BACKEND_TEST(host_errors, host_fixtures, the_log_does_not_say_that_nobody_asked_where_a_wait_tells_later) {
  captured said;
  auto& rt = this->start({.logger = said.log});
  const submission s = rt.submit("no outputs", [] { throw std::runtime_error("broken"); });
  expect_failure("no outputs", "broken", [&] { s.wait(); });
  this->stop();
  EXPECT_EQ(said.count("no data carries it: op 'no outputs' failed: broken"), 1U);
  EXPECT_EQ(said.count("nobody asked"), 0U);
}

BACKEND_TEST(host_errors, host_fixtures, scratch_of_a_failed_op_is_good_memory_for_the_next) {
  auto& rt = this->start();
  rt.submit(stream_id{1}, "culprit", scratch<int>(64),
            [](std::span<int>) { throw std::runtime_error("broken"); });
  rt.wait(stream_id{1});
  auto y = rt.template make_buffer<int>(64, "y");
  TypeParam::fill(rt, y.slice(0, 32), 1, stream_id{1});
  rt.wait(y);
  EXPECT_EQ(rt.read(y.slice(0, 32)).get(), constant(32, 1));
}

BACKEND_TEST(host_errors, host_fixtures, accumulates_that_fail_at_the_same_time_poison_once) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  for (std::uint64_t i = 0; i < 40; ++i) {
    rt.submit(stream_id{i % 8}, "accumulate", accumulate(x), [i](std::span<int>) {
      if (i % 5 == 0) throw std::runtime_error("broken");
    });
  }
  expect_failure("accumulate", "broken", [&] { rt.wait(x); });
  EXPECT_GE(rt.stats().failed, 1U);
  TypeParam::fill(rt, x, 1);
  EXPECT_EQ(rt.read(x).get(), constant(8, 1));
}

}  // namespace
}  // namespace braid::conformance
