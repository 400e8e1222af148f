// Ops whose accesses conflict run in the order of their submission, and only they.

#include <algorithm>
#include <random>

#include "suite.hpp"

namespace braid::conformance {
namespace {

template <class F>
struct order : suite<F> {
  using suite<F>::suite;
};

// Programs whose waits are counted: completion may remove waits otherwise.
runtime_options counted() {
  return {.deterministic = true};
}

BACKEND_TEST(order, all_fixtures, a_reader_on_another_stream_sees_what_was_written_before) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(64, "x");
  auto y = rt.template make_buffer<int>(64, "y");
  for (int i = 0; i < 50; ++i) {
    TypeParam::fill(rt, x, i, stream_id{1});
    TypeParam::assign(rt, y, x, stream_id{2});
    EXPECT_EQ(rt.read(y).get(), constant(64, i));
  }
}

BACKEND_TEST(order, all_fixtures, a_write_waits_for_every_reader_before_it) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(256, "x");
  std::vector<buffer<int>> copies;
  TypeParam::fill(rt, x, 1, stream_id{0});
  for (std::uint64_t s = 1; s < 7; ++s) {
    copies.push_back(rt.template make_buffer<int>(256, "copy"));
    TypeParam::assign(rt, copies.back(), x, stream_id{s});
  }
  TypeParam::fill(rt, x, 2, stream_id{7});
  for (const auto& each : copies) EXPECT_EQ(rt.read(each).get(), constant(256, 1));
  EXPECT_EQ(rt.read(x).get(), constant(256, 2));
}

BACKEND_TEST(order, all_fixtures, of_two_writes_the_later_one_stays) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(256, "x");
  for (int i = 0; i < 60; ++i) TypeParam::fill(rt, x, i, stream_id{static_cast<std::uint64_t>(i) % 8});
  EXPECT_EQ(rt.read(x).get(), constant(256, 59));
}

BACKEND_TEST(order, all_fixtures, a_chain_over_all_streams_runs_in_the_order_of_its_submission) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(16, "x");
  auto y = rt.template make_buffer<int>(16, "y");
  TypeParam::fill(rt, x, 1, stream_id{3});
  TypeParam::fill(rt, y, 0, stream_id{4});
  int a = 1;
  int b = 0;
  for (int i = 0; i < 20; ++i) {  // two numbers that each depend on the other
    TypeParam::add(rt, y, x, stream_id{static_cast<std::uint64_t>(i) % 8});
    TypeParam::add(rt, x, y, stream_id{static_cast<std::uint64_t>(i * 3 + 1) % 8});
    b += a;
    a += b;
  }
  EXPECT_EQ(rt.read(x).get(), constant(16, a));
  EXPECT_EQ(rt.read(y).get(), constant(16, b));
}

BACKEND_TEST(order, all_fixtures, an_op_stays_behind_what_it_depends_on_while_that_is_held) {
  this->world.stand_still();
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  auto y = rt.template make_buffer<int>(8, "y");
  TypeParam::fill(rt, x, 1);
  gate held = this->world.hold(rt, read_write(x));
  const submission reader = TypeParam::assign(rt, y, x, stream_id{5});
  const submission writer = TypeParam::fill(rt, x, 2, stream_id{6});
  EXPECT_FALSE(reader.is_over());
  EXPECT_FALSE(writer.is_over());
  held.open();
  EXPECT_EQ(rt.read(y).get(), constant(8, 1));
  EXPECT_EQ(rt.read(x).get(), constant(8, 2));
}

BACKEND_TEST(order, all_fixtures, work_on_other_buffers_goes_on_while_an_op_is_held) {
  this->world.stand_still();
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  auto y = rt.template make_buffer<int>(8, "y");
  gate held = this->world.hold(rt, write(x));
  TypeParam::fill(rt, y, 0, stream_id{5});
  for (int i = 0; i < 20; ++i) TypeParam::increment(rt, y, stream_id{static_cast<std::uint64_t>(5 + i % 3)});
  EXPECT_EQ(rt.read(y).get(), constant(8, 20));
  held.open();
}

BACKEND_TEST(order, all_fixtures, holds_for_ops_from_several_threads) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  constexpr unsigned each = TypeParam::many(1000) / 4;
  on_threads(4, [&](unsigned thread) {
    for (unsigned i = 0; i < each; ++i) TypeParam::increment(rt, x, stream_id{thread});
  });
  EXPECT_EQ(rt.read(x).get(), constant(8, static_cast<int>(4 * each)));
}

BACKEND_TEST(order, all_fixtures, a_stream_that_has_waited_does_not_wait_again) {
  auto& rt = this->start(counted());
  auto x = rt.template make_buffer<int>(8, "x");
  auto y = rt.template make_buffer<int>(8, "y");
  auto z = rt.template make_buffer<int>(8, "z");
  TypeParam::fill(rt, x, 1, stream_id{1});
  TypeParam::fill(rt, y, 1, stream_id{1});
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 0U);
  TypeParam::assign(rt, z, y, stream_id{2});
  EXPECT_EQ(rt.stats().streams.waits_for(hazard::read_after_write), 1U);
  TypeParam::add(rt, z, x, stream_id{2});
  TypeParam::add(rt, z, y, stream_id{2});
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 1U);
  TypeParam::fill(rt, y, 2, stream_id{1});
  EXPECT_EQ(rt.stats().streams.waits_for(hazard::write_after_read), 1U);
  TypeParam::fill(rt, x, 2, stream_id{1});  // the same readers: known by now
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 2U);
  TypeParam::fill(rt, z, 3, stream_id{3});
  EXPECT_EQ(rt.stats().streams.waits_for(hazard::write_after_write), 1U);
}

BACKEND_TEST(order, all_fixtures, readers_do_not_wait_for_each_other) {
  auto& rt = this->start(counted());
  auto x = rt.template make_buffer<int>(8, "x");
  std::vector<buffer<int>> to;
  TypeParam::fill(rt, x, 4, stream_id{0});
  for (std::uint64_t s = 0; s < 8; ++s) {
    to.push_back(rt.template make_buffer<int>(8));
    TypeParam::assign(rt, to.back(), x, stream_id{s});
  }
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 7U);  // each for the fill, none for another reader
  for (const auto& each : to) EXPECT_EQ(rt.read(each).get(), constant(8, 4));
}

BACKEND_TEST(order, all_fixtures, slices_that_do_not_overlap_are_independent) {
  auto& rt = this->start(counted());
  auto x = rt.template make_buffer<int>(64, "x");
  for (std::uint64_t s = 0; s < 8; ++s)
    TypeParam::fill(rt, x.slice(8 * s, 8), static_cast<int>(s), stream_id{s});
  for (std::uint64_t s = 0; s < 8; ++s) TypeParam::increment(rt, x.slice(8 * s, 8), stream_id{s});
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 0U);
  std::vector<int> expected;
  for (int s = 0; s < 8; ++s) expected.insert(expected.end(), 8, s + 1);
  EXPECT_EQ(rt.read(x).get(), expected);
}

BACKEND_TEST(order, all_fixtures, a_slice_can_be_used_while_another_is_held) {
  this->world.stand_still();
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(16, "x");
  gate held = this->world.hold(rt, write(x.slice(0, 8)));
  TypeParam::fill(rt, x.slice(8, 8), 3, stream_id{5});
  EXPECT_EQ(rt.read(x.slice(8, 8)).get(), constant(8, 3));
  held.open();
}

BACKEND_TEST(order, all_fixtures, overlapping_slices_are_ordered_byte_by_byte) {
  auto& rt = this->start();
  constexpr std::size_t size = 48;
  auto x = rt.template make_buffer<int>(size, zeroed, "x");
  std::vector<int> model(size, 0);
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    const auto first = random() % size;
    const auto count = 1 + random() % (size - first);
    const stream_id s{random() % 8};
    const auto part = x.slice(first, count);
    if (random() % 2 == 0) {
      TypeParam::fill(rt, part, i, s);
      std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(first), count, i);
    } else {
      TypeParam::increment(rt, part, s);
      for (std::size_t j = first; j < first + count; ++j) ++model[j];
    }
  }
  EXPECT_EQ(rt.read(x).get(), model);
}

BACKEND_TEST(order, all_fixtures, a_slice_of_a_slice_counts_from_its_own_beginning) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(20, zeroed, "x");
  TypeParam::fill(rt, x.slice(5, 10).slice(2, 3), 9);
  std::vector<int> expected(20, 0);
  expected[7] = expected[8] = expected[9] = 9;
  EXPECT_EQ(rt.read(x).get(), expected);
}

BACKEND_TEST(order, all_fixtures, more_parts_than_a_history_keeps_are_still_ordered) {
  auto& rt = this->start({.deterministic = true});
  constexpr std::uint64_t parts = TypeParam::many(700);
  auto x = rt.template make_buffer<int>(parts, zeroed, "x");
  for (std::uint64_t i = 0; i < parts; ++i) {
    TypeParam::fill(rt, x.slice(i, 1), static_cast<int>(i), stream_id{i % 8});
  }
  EXPECT_GT(rt.stats().streams.histories_coarsened, 0U);
  EXPECT_EQ(rt.read(x).get(), counting(parts));
}

BACKEND_TEST(order, all_fixtures, ops_that_accumulate_do_not_wait_for_each_other) {
  auto& rt = this->start(counted());
  auto x = rt.template make_buffer<int>(8, "x");
  auto y = rt.template make_buffer<int>(8, "y");
  TypeParam::fill(rt, x, 100, stream_id{0});
  for (std::uint64_t s = 0; s < 8; ++s) TypeParam::accumulate_into(rt, x, 1, 0, stream_id{s});
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 7U);  // each for the fill
  for (std::uint64_t s = 0; s < 8; ++s) TypeParam::accumulate_into(rt, x, 1, 0, stream_id{s});
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 7U);
  TypeParam::assign(rt, y, x, stream_id{0});
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 14U);  // the reader for the seven other streams
  EXPECT_EQ(rt.read(y).get(), constant(8, 116));
}

BACKEND_TEST(order, all_fixtures, ops_that_accumulate_come_between_the_reader_before_and_the_reader_after) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(32, "x");
  auto before = rt.template make_buffer<int>(32, "before");
  auto between = rt.template make_buffer<int>(32, "between");
  TypeParam::fill(rt, x, 5, stream_id{0});
  TypeParam::assign(rt, before, x, stream_id{1});
  for (std::uint64_t s = 0; s < 8; ++s) TypeParam::accumulate_into(rt, x, 2, 0, stream_id{s});
  TypeParam::assign(rt, between, x, stream_id{2});
  for (std::uint64_t s = 0; s < 8; ++s) TypeParam::accumulate_into(rt, x, 3, 0, stream_id{s});
  EXPECT_EQ(rt.read(before).get(), constant(32, 5));
  EXPECT_EQ(rt.read(between).get(), constant(32, 21));
  EXPECT_EQ(rt.read(x).get(), constant(32, 45));
  TypeParam::fill(rt, x, 0, stream_id{3});
  EXPECT_EQ(rt.read(x).get(), constant(32, 0));
}

BACKEND_TEST(order, all_fixtures, ops_that_accumulate_with_different_tags_are_ordered) {
  auto& rt = this->start(counted());
  auto x = rt.template make_buffer<int>(8, "x");
  TypeParam::fill(rt, x, 0, stream_id{0});
  TypeParam::accumulate_into(rt, x, 1, 1, stream_id{0});
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 0U);
  TypeParam::accumulate_into(rt, x, 1, 2, stream_id{1});
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 1U);
  EXPECT_EQ(rt.read(x).get(), constant(8, 2));
}

BACKEND_TEST(order, all_fixtures, from_one_thread_the_same_program_makes_the_same_waits_twice) {
  const auto run = [&] {
    captured said;
    said.log->set_level(log_area::streaming, log_level::full);
    auto rt = this->another({.deterministic = true, .logger = said.log});
    std::vector<buffer<int>> all;
    for (int i = 0; i < 6; ++i)
      all.push_back(rt->template make_buffer<int>(64, zeroed, "b" + std::to_string(i)));
    std::mt19937 random(5);
    for (int i = 0; i < 150; ++i) {
      const auto a = random() % 6;
      const auto b = (a + 1 + random() % 5) % 6;
      where at;
      if (random() % 3 == 0) at.emplace(stream_id{random() % 8});
      switch (random() % 5) {
        case 0: TypeParam::add(*rt, all[a], all[b], at); break;
        case 1: TypeParam::fill(*rt, all[a].slice(random() % 32, 32), i, at); break;
        case 2: all[a] = rt->template make_buffer<int>(64, zeroed, "b" + std::to_string(a)); break;
        case 3: rt->write(all[a], constant(64, i)); break;
        default: TypeParam::increment(*rt, all[a], at); break;
      }
      if (i % 50 == 49) (void)rt->read(all[a]).get();
    }
    rt->synchronize();
    const stream_stats s = rt->stats().streams;
    return std::pair(s.waits, said.lines());
  };
  const auto first = run();
  const auto second = run();
  EXPECT_EQ(first.first, second.first);
  EXPECT_EQ(first.second, second.second);
  EXPECT_FALSE(first.second.empty());
}

// ---- Bodies that run on the host.

template <class F>
struct host_order : suite<F> {
  using suite<F>::suite;
};

// Each body looks for the other; both can be there only if they run at the same time.
template <class F, class Runtime, class First, class Second>
bool overlap(Runtime& rt, First first, Second second) {
  std::atomic<int> inside{0};
  std::atomic<int> met{0};
  const auto body = [&](const auto&...) {
    ++inside;
    detail::backoff pause;
    for (unsigned i = 0; i < F::looks; ++i) {
      if (inside == 2) {
        ++met;
        break;
      }
      pause.pause();
    }
  };
  rt.submit(stream_id{1}, "first", first, body);
  rt.submit(stream_id{2}, "second", second, body);
  rt.synchronize();  // this thread is one of the two where the runtime has only one other
  return met == 2;
}

BACKEND_TEST(host_order, host_fixtures, ops_that_accumulate_run_at_the_same_time) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  rt.wait(x);
  EXPECT_TRUE(overlap<TypeParam>(rt, accumulate(x), accumulate(x)));
}

BACKEND_TEST(host_order, host_fixtures, ops_on_different_streams_run_at_the_same_time) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  auto y = rt.template make_buffer<int>(8, "y");
  EXPECT_TRUE(overlap<TypeParam>(rt, write(x), write(y)));
}

BACKEND_TEST(host_order, host_fixtures, a_token_orders_ops_that_have_no_buffer) {
  auto& rt = this->start();
  const resource file = resource::token("file");
  std::vector<int> written;  // what the token stands for
  for (int i = 0; i < 60; ++i) {
    rt.submit(stream_id{static_cast<std::uint64_t>(i) % 8}, "append", write(file),
              [&written, i] { written.push_back(i); });
  }
  rt.synchronize();
  EXPECT_EQ(written, counting(60));
}

BACKEND_TEST(host_order, host_fixtures, a_token_and_buffers_are_bound_together_and_only_buffers_have_views) {
  auto& rt = this->start();
  const resource file = resource::token("file");
  auto x = rt.template make_buffer<int>(4, "x");
  auto y = rt.template make_buffer<int>(4, "y");
  int seen = 0;
  rt.submit(stream_id{1}, "both", write(x), write(file), write(y),
            [&seen](std::span<int> a, std::span<int> b) {
              std::fill(a.begin(), a.end(), 1);
              std::fill(b.begin(), b.end(), 2);
              seen = 1;
            });
  rt.submit(stream_id{2}, "after", read(file), [&seen] { seen = seen == 1 ? 2 : -1; });
  rt.submit(stream_id{3}, "last", read_write(file), [&seen] { seen = seen == 2 ? 3 : -1; });
  rt.synchronize();
  EXPECT_EQ(seen, 3);
  EXPECT_EQ(rt.read(y).get(), constant(4, 2));
}

BACKEND_TEST(host_order, host_fixtures, ranges_of_a_token_are_independent) {
  auto& rt = this->start({.deterministic = true});
  const resource rows = resource::token("rows");
  for (std::uint64_t s = 0; s < 8; ++s) rt.submit(stream_id{s}, "row", write(rows, {s, 1}), [] {});
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 0U);
  rt.submit(stream_id{0}, "all", write(rows), [] {});
  EXPECT_EQ(rt.stats().streams.waits_inserted(), 7U);
}

BACKEND_TEST(host_order, host_fixtures, a_token_may_die_while_ops_on_it_are_in_flight) {
  this->world.stand_still();
  auto& rt = this->start();
  std::atomic<int> ran{0};
  {
    const resource shortlived = resource::token("shortlived");
    gate held = this->world.hold(rt, write(shortlived));
    for (int i = 0; i < 5; ++i) {
      rt.submit(stream_id{static_cast<std::uint64_t>(i)}, "on it", read_write(shortlived), [&ran] { ++ran; });
    }
  }
  rt.synchronize();
  EXPECT_EQ(ran, 5);
}

BACKEND_TEST(host_order, host_fixtures, an_op_without_bindings_runs) {
  auto& rt = this->start();
  std::atomic<int> ran{0};
  for (int i = 0; i < 10; ++i) rt.submit("free", [&ran] { ++ran; });
  rt.submit(stream_id{4}, "free", [&ran] { ++ran; });
  rt.synchronize();
  EXPECT_EQ(ran, 11);
}

BACKEND_TEST(host_order, host_fixtures, a_body_may_be_large_move_only_or_a_function) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(1, "x");
  std::array<int, 1500> large{};
  large.back() = 7;
  rt.submit("large", write(x), [large](std::span<int> v) { v[0] = large.back(); });
  EXPECT_EQ(rt.read(x).get(), constant(1, 7));
  rt.submit("move only", write(x), [held = std::make_unique<int>(8)](std::span<int> v) { v[0] = *held; });
  EXPECT_EQ(rt.read(x).get(), constant(1, 8));
  struct alignas(64) aligned {
    int value = 9;
    void operator()(std::span<int> v) const {
      v[0] = reinterpret_cast<std::uintptr_t>(this) % 64 == 0 ? value : -1;
    }
  };
  rt.submit("aligned", write(x), aligned{});
  EXPECT_EQ(rt.read(x).get(), constant(1, 9));
  void (*function)(std::span<int>) = [](std::span<int> v) { v[0] = 10; };
  rt.submit("function", write(x), function);
  EXPECT_EQ(rt.read(x).get(), constant(1, 10));
  int calls = 0;
  rt.submit("mutable", write(x), [calls](std::span<int> v) mutable { v[0] = 10 + ++calls; });
  EXPECT_EQ(rt.read(x).get(), constant(1, 11));
}

}  // namespace
}  // namespace braid::conformance
