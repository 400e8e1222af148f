// Where ops go when no stream is named, and streams by name.

#include "suite.hpp"

namespace braid::conformance {
namespace {

template <class F>
struct placing : suite<F> {
  using suite<F>::suite;
};

BACKEND_TEST(placing, all_fixtures, single_puts_everything_on_one_stream_and_nothing_waits) {
  auto& rt = this->start({.placement = placement::single});
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  auto y = rt.template make_buffer<int>(8, zeroed, "y");
  for (int i = 0; i < 30; ++i) {
    TypeParam::increment(rt, x);
    TypeParam::add(rt, y, x);
  }
  EXPECT_EQ(rt.read(y).get(), constant(8, 30 * 31 / 2));
  EXPECT_EQ(rt.stats().streams.streams, 1U);
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 0U);
}

BACKEND_TEST(placing, all_fixtures, per_thread_gives_each_thread_its_own_stream) {
  auto& rt = this->start({.streams = 1024, .placement = placement::per_thread});
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  on_threads(3, [&](unsigned) {
    for (int i = 0; i < 20; ++i) TypeParam::increment(rt, x);
    EXPECT_EQ(rt.engine().cursor(stream_id::current()), 20U);
  });
  EXPECT_EQ(rt.read(x).get(), constant(8, 60));
  EXPECT_EQ(rt.stats().streams.streams, 4U);  // and this thread's
}

BACKEND_TEST(placing, all_fixtures, automatic_keeps_a_chain_on_one_stream) {
  auto& rt = this->start({.deterministic = true});
  auto x = rt.template make_buffer<int>(8, "x");
  TypeParam::fill(rt, x, 0);
  for (int i = 0; i < 50; ++i) TypeParam::increment(rt, x);
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 0U);
  EXPECT_EQ(rt.stats().streams.streams, 1U);
  EXPECT_EQ(rt.read(x).get(), constant(8, 50));
}

BACKEND_TEST(placing, all_fixtures, automatic_spreads_independent_work_over_streams) {
  auto& rt = this->start({.deterministic = true});
  std::vector<buffer<int>> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(rt.template make_buffer<int>(8));
    TypeParam::fill(rt, all.back(), i);
  }
  EXPECT_GT(rt.stats().streams.streams, 1U);
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 0U);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(rt.read(all[static_cast<std::size_t>(i)]).get(), constant(8, i));
}

BACKEND_TEST(placing, all_fixtures, a_named_stream_gets_the_op) {
  auto& rt = this->start({.streams = 4});
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  const std::uint64_t before = rt.engine().cursor(stream_id{3});
  TypeParam::increment(rt, x, stream_id{3});
  EXPECT_EQ(rt.engine().cursor(stream_id{3}), before + 1);
  TypeParam::increment(rt, x, stream_id{7});  // another name of the same slot
  EXPECT_EQ(rt.engine().cursor(stream_id{3}), before + 2);
  TypeParam::increment(rt, x, stream_id{~std::uint64_t{0} >> 1});
  TypeParam::increment(rt, x, stream_id::special(0));
  EXPECT_EQ(rt.engine().cursor(stream_id::special(0)), 1U);
  EXPECT_EQ(rt.read(x).get(), constant(8, 4));
}

BACKEND_TEST(placing, all_fixtures, a_runtime_with_one_stream_works) {
  auto& rt = this->start({.streams = 1});
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  for (std::uint64_t i = 0; i < 20; ++i) TypeParam::increment(rt, x, stream_id{i});
  for (std::uint64_t i = 0; i < 20; ++i) TypeParam::increment(rt, x);
  EXPECT_EQ(rt.read(x).get(), constant(8, 40));
}

BACKEND_TEST(placing, all_fixtures, ten_thousand_streams_on_a_few_workers) {
  constexpr unsigned streams = TypeParam::many(10'000);
  auto& rt = this->start({.streams = 10'000});
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  auto sums = rt.template make_buffer<int>(4, zeroed, "sums");
  for (unsigned s = 0; s < streams; ++s) {
    TypeParam::increment(rt, x, stream_id{s});
    if (s % 10 == 0) TypeParam::accumulate_into(rt, sums, 1, 0, stream_id{s});
  }
  EXPECT_EQ(rt.read(x).get(), constant(4, static_cast<int>(streams)));
  EXPECT_EQ(rt.read(sums).get(), constant(4, static_cast<int>((streams + 9) / 10)));
  EXPECT_GE(rt.stats().streams.streams, streams);
}

BACKEND_TEST(placing, all_fixtures, ten_thousand_streams_that_wait_for_one) {
  this->world.stand_still();
  constexpr unsigned streams = TypeParam::many(10'000);
  auto& rt = this->start({.streams = 10'000});
  auto go = rt.template make_buffer<int>(4, "go");
  auto sums = rt.template make_buffer<int>(4, zeroed, "sums");
  rt.wait(sums);
  TypeParam::fill(rt, go, 1);
  {
    gate held = this->world.hold(rt, read_write(go));
    for (unsigned s = 0; s < streams; ++s) {
      auto each = rt.template make_buffer<int>(4);
      TypeParam::assign(rt, each, go, stream_id{s});
      TypeParam::accumulate_into(rt, sums, 1, 0, stream_id{s});
    }
  }
  EXPECT_EQ(rt.read(sums).get(), constant(4, static_cast<int>(streams)));
}

BACKEND_TEST(placing, all_fixtures, stats_count_ops_and_streams) {
  auto& rt = this->start({.streams = 4});
  EXPECT_EQ(rt.stats().streams.ops, 0U);
  EXPECT_EQ(rt.stats().streams.streams, 0U);
  auto x = rt.template make_buffer<int>(8, "x");
  TypeParam::fill(rt, x, 1, stream_id{0});
  TypeParam::increment(rt, x, stream_id{1});
  TypeParam::increment(rt, x, stream_id{2});
  const runtime_stats now = rt.stats();
  EXPECT_EQ(now.streams.ops, 3U);
  EXPECT_EQ(now.streams.streams, 3U);
  EXPECT_EQ(now.failed + now.skipped + now.cancelled, 0U);
  EXPECT_EQ(now.memory.live, 8 * sizeof(int));
  EXPECT_EQ(now.memory.live_blocks, 1U);
  rt.synchronize();
}

BACKEND_TEST(placing, all_fixtures, waiting_for_a_stream_that_was_never_used_returns) {
  auto& rt = this->start();
  rt.wait(stream_id{5});
  rt.synchronize();
  auto x = rt.template make_buffer<int>(8, "x");
  rt.wait(x);
  const submission s = TypeParam::fill(rt, x, 1, stream_id{5});
  rt.wait(stream_id{5});
  EXPECT_TRUE(s.is_over());
}

BACKEND_TEST(placing, all_fixtures, a_submission_is_over_some_time_after_nobody_did_anything_more) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  const submission s = TypeParam::fill(rt, x, 1);
  this->until([&] { return s.is_over(); });
  EXPECT_TRUE(s.is_over());
}

// ---- Labels.

template <class F>
struct labels : suite<F> {
  using suite<F>::suite;
};

BACKEND_TEST(labels, host_fixtures, may_be_literals_strings_and_temporaries) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(1, "x");
  const auto broken = [](std::span<int>) -> void { throw std::runtime_error("no"); };
  rt.submit("literal", write(x), broken);
  expect_failure("literal", "no", [&] { rt.wait(x); });
  {
    std::string text = "a string that is longer than what fits into a std::string itself";
    rt.submit(text, write(x), broken);
    text.assign(text.size(), '#');
  }
  expect_failure("a string that is longer than what fits into a std::string itself", "no",
                 [&] { rt.wait(x); });
  rt.submit("temporary " + std::to_string(1), write(x), broken);
  expect_failure("temporary 1", "no", [&] { rt.wait(x); });
  rt.submit(std::string_view("a part of a literal").substr(0, 6), write(x), broken);
  expect_failure("a part", "no", [&] { rt.wait(x); });
  rt.submit("", write(x), broken);
  expect_failure("", "no", [&] { rt.wait(x); });
  const std::string endless(100'000, 'l');
  rt.submit(endless, write(x), broken);
  expect_failure(endless, "no", [&] { rt.wait(x); });
}

BACKEND_TEST(labels, host_fixtures, one_place_in_memory_may_hold_one_label_after_another) {
  auto& rt = this->start();
  std::string place = "00";
  std::vector<buffer<int>> all;
  for (int i = 0; i < 50; ++i) {
    place[0] = static_cast<char>('0' + i / 10);
    place[1] = static_cast<char>('0' + i % 10);
    all.push_back(rt.template make_buffer<int>(1));
    rt.submit(place, write(all.back()), [](std::span<int>) -> void { throw std::runtime_error("no"); });
  }
  for (int i = 0; i < 50; ++i) {
    place[0] = static_cast<char>('0' + i / 10);
    place[1] = static_cast<char>('0' + i % 10);
    expect_failure(place, "no", [&] { rt.wait(all[static_cast<std::size_t>(i)]); });
  }
}

BACKEND_TEST(labels, host_fixtures, ten_thousand_different_ones_are_told_apart_and_only_some_are_kept) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(1, "x");
  for (int i = 0; i < 10'000; ++i) rt.submit("label " + std::to_string(i), [] {});
  rt.synchronize();
  EXPECT_EQ(detail::label_ref::of("one more").lasting(), nullptr);
  rt.submit("one more", write(x), [](std::span<int>) -> void { throw std::runtime_error("no"); });
  expect_failure("one more", "no", [&] { rt.wait(x); });
  rt.submit("label 9999", write(x), [](std::span<int>) -> void { throw std::runtime_error("no"); });
  expect_failure("label 9999", "no", [&] { rt.wait(x); });
  rt.submit("label 1", write(x), [](std::span<int>) -> void { throw std::runtime_error("no"); });
  expect_failure("label 1", "no", [&] { rt.wait(x); });
}

}  // namespace
}  // namespace braid::conformance
