// Ops that are recorded once and replayed: the same results, order and errors as if each were submitted.

#include <functional>
#include <random>

#include "suite.hpp"

namespace braid::conformance {
namespace {

template <class F>
struct record : suite<F> {
  using suite<F>::suite;
};

BACKEND_TEST(record, all_fixtures, records_without_running_and_replays_as_if_submitted) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(16, "x");
  auto y = rt.template make_buffer<int>(16, "y");
  TypeParam::fill(rt, x, 1);
  TypeParam::fill(rt, y, 1);
  const recording both = rt.record([&] {
    TypeParam::add(rt, x, y, stream_id{1});
    TypeParam::add(rt, y, x, stream_id{2});
  });
  EXPECT_EQ(both.ops(), 2U);
  EXPECT_EQ(rt.read(x).get(), constant(16, 1));
  for (int i = 0; i < 3; ++i) both.replay();
  EXPECT_EQ(rt.read(x).get(), constant(16, 13));  // 2 3, 5 8, 13 21
  EXPECT_EQ(rt.read(y).get(), constant(16, 21));
  TypeParam::fill(rt, y, 0, stream_id{3});
  both.replay();
  EXPECT_EQ(rt.read(y).get(), constant(16, 13));
}

BACKEND_TEST(record, all_fixtures, several_times_at_once_is_the_same_as_one_after_the_other) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(16, "x");
  auto y = rt.template make_buffer<int>(16, "y");
  TypeParam::fill(rt, x, 1);
  TypeParam::fill(rt, y, 1);
  const recording both = rt.record(
      [&] {
        TypeParam::add(rt, x, y, stream_id{1});
        TypeParam::add(rt, y, x, stream_id{2});
      },
      {.graph = false});  // which would count as one op
  const std::uint64_t before = rt.stats().streams.ops;
  both.replay(3);
  both.replay(0);
  both.replay(2);
  EXPECT_EQ(rt.stats().streams.ops, before + 10);
  EXPECT_EQ(rt.read(x).get(), constant(16, 89));  // 2 3, 5 8, 13 21, 34 55, 89 144
  EXPECT_EQ(rt.read(y).get(), constant(16, 144));
}

BACKEND_TEST(record, all_fixtures, an_op_that_fails_does_so_in_each_of_several_replays) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  auto y = rt.template make_buffer<int>(8, zeroed, "y");
  const recording r = rt.record([&] {
    TypeParam::fail(rt, "culprit", x, stream_id{1});
    TypeParam::increment(rt, y, stream_id{2});
  });
  r.replay(4);
  expect_failure("culprit", "broken", [&] { (void)rt.read(x).get(); });
  EXPECT_EQ(rt.read(y).get(), constant(8, 4));
  EXPECT_EQ(rt.stats().failed, 4U);
}

BACKEND_TEST(record, all_fixtures, an_empty_recording_does_nothing) {
  auto& rt = this->start();
  const recording none;
  none.replay();
  EXPECT_EQ(none.ops(), 0U);
  const recording empty = rt.record([] {});
  empty.replay();
  EXPECT_EQ(empty.ops(), 0U);
  rt.synchronize();
  EXPECT_EQ(rt.stats().streams.ops, 0U);
}

BACKEND_TEST(record, all_fixtures, fill_and_copy_are_recorded) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  auto y = rt.template make_buffer<int>(8, zeroed, "y");
  const recording r = rt.record([&] {
    rt.fill(x, 5);
    rt.copy(y.slice(4, 4), x.slice(0, 4));
  });
  r.replay();
  EXPECT_EQ(rt.read(y).get(), (std::vector<int>{0, 0, 0, 0, 5, 5, 5, 5}));
}

BACKEND_TEST(record, all_fixtures, what_nothing_wrote_is_not_read_and_a_recorded_write_counts) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  auto y = rt.template make_buffer<int>(8, "y");
  expect_misuse(misuse::never_written, "'x'", [&] { (void)rt.record([&] { TypeParam::assign(rt, y, x); }); });
  const recording r = rt.record([&] {
    TypeParam::fill(rt, x.slice(0, 4), 3);
    TypeParam::fill(rt, x.slice(4, 4), 4);
    TypeParam::assign(rt, y, x);
  });
  expect_misuse(misuse::never_written, "'y'", [&] { (void)rt.read(y).get(); });
  r.replay();
  EXPECT_EQ(rt.read(y).get(), (std::vector<int>{3, 3, 3, 3, 4, 4, 4, 4}));
}

BACKEND_TEST(record, all_fixtures, nothing_may_wait_inside_and_what_throws_leaves_nothing_behind) {
  auto& rt = this->start();
  auto other = this->another();
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  auto theirs = other->template make_buffer<int>(8, zeroed, "theirs");
  const auto inside = [&](auto&& what) {
    expect_misuse(misuse::while_recording, "inside record()", [&] { (void)rt.record(what); });
  };
  inside([&] { rt.synchronize(); });
  inside([&] { rt.wait(x); });
  inside([&] { (void)rt.read(x); });
  inside([&] { rt.write(x, counting(8)); });
  inside([&] { (void)rt.record([] {}); });
  inside([&] { TypeParam::increment(*other, theirs); });
  inside([&] { rt.copy(x, theirs); });
  EXPECT_THROW((void)rt.record([&] {
    TypeParam::increment(rt, x);
    throw std::runtime_error("given up");
  }),
               std::runtime_error);
  const recording r = rt.record([&] { TypeParam::increment(rt, x); });
  inside([&] { r.replay(); });
  r.replay();
  EXPECT_EQ(rt.read(x).get(), constant(8, 1));
  EXPECT_EQ(other->read(theirs).get(), constant(8, 0));
}

BACKEND_TEST(record, all_fixtures, a_recording_keeps_its_buffers_and_outlives_its_runtime_without_harm) {
  auto& rt = this->start();
  auto sum = rt.template make_buffer<int>(8, zeroed, "sum");
  recording r;
  {
    auto kept = rt.template make_buffer<int>(8, "kept");
    TypeParam::fill(rt, kept, 2);
    r = rt.record([&] {
      TypeParam::increment(rt, kept);
      TypeParam::add(rt, sum, kept);
    });
  }
  for (int i = 0; i < 4; ++i) {
    auto passing = rt.template make_buffer<int>(8, "passing");  // would get the memory if it were free
    TypeParam::fill(rt, passing, 100);
    r.replay();
  }
  EXPECT_EQ(rt.read(sum).get(), constant(8, 3 + 4 + 5 + 6));
  sum = {};
  this->stop();
  expect_misuse(misuse::after_shutdown, "replay()", [&] { r.replay(); });
}

BACKEND_TEST(record, all_fixtures, may_be_destroyed_while_it_runs) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  for (int i = 0; i < 20; ++i) {
    const recording r = rt.record([&] {
      TypeParam::increment(rt, x, stream_id{1});
      TypeParam::increment(rt, x, stream_id{2});
    });
    r.replay();
    r.replay();
  }
  EXPECT_EQ(rt.read(x).get(), constant(8, 80));
}

BACKEND_TEST(record, all_fixtures, an_op_that_fails_poisons_in_each_replay_and_an_overwrite_heals) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  auto y = rt.template make_buffer<int>(8, "y");
  const recording broken = rt.record([&] {
    TypeParam::fail(rt, "culprit", x, stream_id{1}, "the reason");
    TypeParam::assign(rt, y, x, stream_id{2});
  });
  const recording whole = rt.record([&] {
    TypeParam::fill(rt, x, 7, stream_id{2});
    TypeParam::assign(rt, y, x, stream_id{1});
  });
  for (int i = 0; i < 3; ++i) {
    broken.replay();
    expect_failure("culprit", "the reason", [&] { (void)rt.read(y).get(); });
    whole.replay();
    EXPECT_EQ(rt.read(y).get(), constant(8, 7));
  }
  EXPECT_EQ(rt.stats().failed, 3U);
}

BACKEND_TEST(record, all_fixtures, the_error_that_was_submitted_first_is_passed_on_across_replays) {
  auto& rt = this->start();
  auto a = rt.template make_buffer<int>(8, "a");
  auto b = rt.template make_buffer<int>(8, zeroed, "b");
  const recording second = rt.record([&] { TypeParam::fail(rt, "second", b, stream_id{2}); });
  TypeParam::fail(rt, "first", a, stream_id{1});
  second.replay();
  TypeParam::add(rt, b, a, stream_id{3});
  expect_failure("first", "broken", [&] { (void)rt.read(b).get(); });  // recorded later, submitted earlier
  expect_failure("first", "broken", [&] { (void)rt.read(a).get(); });
  auto sum = rt.template make_buffer<int>(8, "sum");
  TypeParam::fill(rt, a, 1, stream_id{1});
  TypeParam::fail(rt, "third", a, stream_id{1});
  second.replay();
  TypeParam::assign(rt, sum, a, stream_id{3});
  TypeParam::add(rt, sum, b, stream_id{3});
  expect_failure("third", "broken", [&] { (void)rt.read(sum).get(); });
}

BACKEND_TEST(record, host_fixtures, scratch_and_tokens_and_lists_of_bindings_are_recorded) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  resource order = resource::token("order");
  std::vector<int> seen;
  bindings list;
  list.add(read_write(x));
  const recording r = rt.record([&] {
    rt.submit(stream_id{1}, "one", read_write(order), scratch<int>(4), [&](std::span<int> s) {
      s[0] = static_cast<int>(seen.size());
      seen.push_back(s[0]);
    });
    rt.submit(stream_id{2}, "two", read_write(order), [&] { seen.push_back(-1); });
    rt.submit("list", list, [](std::span<const view> all) { ++all[0].as<int>()[3]; });
  });
  order = {};  // the recording keeps it
  r.replay();
  r.replay();
  rt.synchronize();
  EXPECT_EQ(seen, (std::vector<int>{0, -1, 2, -1}));
  EXPECT_EQ(rt.read(x).get()[3], 2);
}

BACKEND_TEST(record, host_fixtures, a_body_may_keep_state_from_replay_to_replay) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(1, zeroed, "x");
  if constexpr (point_backend<std::remove_cvref_t<decltype(rt.backend())>>) {
    const recording r = rt.record([&] {
      rt.submit("step", read_write(x), [step = 0](std::span<int> v) mutable { v[0] = v[0] * 10 + ++step; });
    });
    for (int i = 0; i < 3; ++i) r.replay();
    EXPECT_EQ(rt.read(x).get()[0], 123);
  }
}

BACKEND_TEST(record, all_fixtures, counts_ops_and_respects_a_limit_on_work_in_flight) {
  auto& rt = this->start({.ops_in_flight = 2, .bytes_in_flight = 256});
  auto x = rt.template make_buffer<int>(32, "x");
  TypeParam::fill(rt, x, 0);
  const recording r = rt.record([&] {
    for (unsigned i = 0; i < 3; ++i) TypeParam::increment(rt, x, stream_id{i});
  });
  const std::uint64_t before = rt.stats().streams.ops;
  for (int i = 0; i < 10; ++i) r.replay();
  EXPECT_EQ(rt.stats().streams.ops, before + 30);
  EXPECT_EQ(rt.read(x).get(), constant(32, 30));
}

BACKEND_TEST(record, all_fixtures, a_replay_after_shutdown_throws) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  const recording r = rt.record([&] { TypeParam::increment(rt, x); });
  expect_misuse(misuse::bad_size, "several calls", [&] { r.replay(~std::uint64_t{0}); });
  r.replay();
  rt.synchronize();
  while (!rt.shutdown(std::chrono::seconds(10)).complete()) this->world.step();
  expect_misuse(misuse::after_shutdown, "", [&] { r.replay(); });
}

/// Random ops on a few buffers, and what they do to numbers.
template <class F>
struct random_ops {
  using runtime = typename F::runtime;
  static constexpr int buffers = 4, parts = 3, part_size = 4;

  random_ops(runtime& to, std::uint64_t seed) : rt(to), random(seed) {
    for (int i = 0; i < buffers; ++i) {
      held.push_back(rt.template make_buffer<int>(parts * part_size, "b" + std::to_string(i)));
      F::fill(rt, held.back(), i);
      model.push_back(constant(parts * part_size, i));
    }
  }
  int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }

  /// What an op does to the numbers; submitted on the way.
  std::function<void()> submit() {
    const int to = below(buffers);
    const int from = (to + 1 + below(buffers - 1)) % buffers;
    const bool is_part = below(2) == 0;
    const int first = is_part ? below(parts) * part_size : 0;
    const int count = is_part ? part_size : parts * part_size;
    const auto slice = [&](int b) {
      return held[static_cast<std::size_t>(b)].slice(static_cast<std::uint64_t>(first),
                                                     static_cast<std::uint64_t>(count));
    };
    const where at = below(3) == 0 ? where{} : where{stream_id{static_cast<std::uint64_t>(below(5))}};
    const auto each = [this, to, from, first, count](auto change) {
      return [this, to, from, first, count, change] {
        for (int i = first; i < first + count; ++i) {
          const auto at_i = static_cast<std::size_t>(i);
          int& x = model[static_cast<std::size_t>(to)][at_i];
          x = change(x, model[static_cast<std::size_t>(from)][at_i]) & 0xffff;
        }
      };
    };
    switch (below(5)) {
      case 0: F::fill(rt, slice(to), 3, at); return each([](int, int) { return 3; });
      case 1: F::increment(rt, slice(to), at); return each([](int x, int) { return x + 1; });
      case 2: F::accumulate_into(rt, slice(to), 2, 1, at); return each([](int x, int) { return x + 2; });
      case 3: F::assign(rt, slice(to), slice(from), at); return each([](int, int y) { return y; });
      default: F::add(rt, slice(to), slice(from), at); return each([](int x, int y) { return x + y; });
    }
  }
  void expect_same() {
    for (int i = 0; i < buffers; ++i) {
      std::vector<int> got = rt.read(held[static_cast<std::size_t>(i)]).get();
      for (int& each : got) each &= 0xffff;
      ASSERT_EQ(got, model[static_cast<std::size_t>(i)]) << "buffer " << i;
    }
  }

  runtime& rt;
  std::mt19937_64 random;
  std::vector<buffer<int>> held;
  std::vector<std::vector<int>> model;
};

BACKEND_TEST(record, all_fixtures, random_programs_of_submits_and_replays_do_what_a_sequential_run_does) {
  for (std::uint64_t seed = 1; seed <= TypeParam::many(12); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto rt = this->another({.streams = seed % 3 == 0 ? 2U : 8U, .deterministic = seed % 4 == 0});
    random_ops<TypeParam> ops(*rt, seed);
    std::vector<recording> recordings;
    std::vector<std::vector<std::function<void()>>> effects;
    for (int i = 0; i < 3; ++i) {
      auto& effect = effects.emplace_back();
      recordings.push_back(rt->record(
          [&] {
            for (int op = 1 + ops.below(10); op > 0; --op) effect.push_back(ops.submit());
          },
          {.graph = i != 1}));
      EXPECT_EQ(recordings.back().ops(), effect.size());
    }
    for (int step = 0; step < 25; ++step) {
      if (ops.below(2) == 0) {
        ops.submit()();
      } else {
        const auto which = static_cast<std::size_t>(ops.below(3));
        const int times = ops.below(5);
        recordings[which].replay(static_cast<std::uint64_t>(times));
        for (int i = 0; i < times; ++i) {
          for (const auto& effect : effects[which]) effect();
        }
      }
      if (ops.below(10) == 0) ops.expect_same();
    }
    ops.expect_same();
  }
}

BACKEND_TEST(record, all_fixtures, threads_may_replay_and_submit_at_the_same_time) {
  auto& rt = this->start();
  auto shared = rt.template make_buffer<int>(8, zeroed, "shared");
  auto weights = rt.template make_buffer<int>(8, "weights");
  TypeParam::fill(rt, weights, 1);
  std::vector<buffer<int>> own;
  std::vector<recording> recordings;
  constexpr unsigned threads = 4;
  for (unsigned t = 0; t < threads; ++t) {
    own.push_back(rt.template make_buffer<int>(8, zeroed, "own"));
    recordings.push_back(rt.record(
        [&] {
          TypeParam::add(rt, own[t], weights, stream_id{t});
          TypeParam::increment(rt, shared, stream_id{t + 1});
          TypeParam::add(rt, own[t], weights, stream_id{t + 2});
        },
        {.graph = t % 2 == 0}));
  }
  const recording of_all = rt.record([&] { TypeParam::add(rt, shared, weights, stream_id{7}); });
  const unsigned turns = TypeParam::many(40);
  on_threads(threads, [&](unsigned t) {
    for (unsigned i = 0; i < turns; ++i) {
      recordings[t].replay();
      if (i % 3 == 0) of_all.replay();
      if (i % 4 == t) TypeParam::increment(rt, shared, stream_id{i % 8});
    }
  });
  int expected = static_cast<int>(threads * turns);
  for (unsigned t = 0; t < threads; ++t) {
    for (unsigned i = 0; i < turns; ++i) expected += (i % 3 == 0 ? 1 : 0) + (i % 4 == t ? 1 : 0);
    EXPECT_EQ(rt.read(own[t]).get(), constant(8, static_cast<int>(2 * turns)));
  }
  EXPECT_EQ(rt.read(shared).get(), constant(8, expected));
}

// A runtime keeps what it records with: one thread has it, the others get their own.
BACKEND_TEST(record, all_fixtures, threads_may_record_at_the_same_time) {
  auto& rt = this->start();
  constexpr unsigned threads = 4;
  std::vector<buffer<int>> own;
  for (unsigned t = 0; t < 2 * threads; ++t) {
    own.push_back(rt.template make_buffer<int>(8, "own"));
    TypeParam::fill(rt, own.back(), 1);
  }
  const unsigned turns = TypeParam::many(20);
  on_threads(threads, [&](unsigned t) {
    for (unsigned i = 0; i < turns; ++i) {
      const recording two = rt.record([&] {
        TypeParam::add(rt, own[t], own[threads + t], stream_id{t});
        TypeParam::increment(rt, own[t], stream_id{t + 1 + i % 3});
      });
      two.replay(2);
    }
  });
  for (unsigned t = 0; t < threads; ++t)
    EXPECT_EQ(rt.read(own[t]).get(), constant(8, 1 + 4 * static_cast<int>(turns)));
}

BACKEND_TEST(record, all_fixtures, a_log_names_what_a_replay_waits_for) {
  std::string text;
  const auto log = std::make_shared<logger>(
      [&](log_area, log_level, std::string_view line) { text.append(line).append("\n"); });
  log->set_level(log_area::streaming, log_level::full);
  auto rt = this->another({.deterministic = true, .logger = log});
  auto x = rt->template make_buffer<int>(8, "an input");
  auto y = rt->template make_buffer<int>(8, zeroed, "y");
  TypeParam::fill(*rt, x, 1, stream_id{1});
  const recording r = rt->record([&] {
    TypeParam::add(*rt, y, x, stream_id{2});
    TypeParam::add(*rt, y, x, stream_id{3});
  });
  r.replay(2);
  EXPECT_EQ(rt->read(y).get(), constant(8, 4));
  EXPECT_NE(text.find("an input"), std::string::npos) << text;
  EXPECT_EQ(text.find("'?'"), std::string::npos) << text;
}

// Ops that have to wait look again at what they read, while they hold what they write.
BACKEND_TEST(record, all_fixtures, replays_and_submits_that_read_and_write_the_same_do_not_block_each_other) {
  auto& rt = this->start();
  std::vector<buffer<int>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(rt.template make_buffer<int>(8, "b"));
    TypeParam::fill(rt, all.back(), 0);
  }
  std::vector<recording> recordings;
  for (std::size_t i = 0; i < 4; ++i) {
    recordings.push_back(rt.record(
        [&] {
          TypeParam::assign(rt, all[i], all[(i + 1) % 4], stream_id{i});
          TypeParam::assign(rt, all[i], all[(i + 2) % 4], stream_id{i + 1});
        },
        {.graph = i % 2 == 0}));
  }
  const unsigned turns = TypeParam::many(300);
  on_threads(4, [&](unsigned t) {
    for (unsigned i = 0; i < turns; ++i) {
      if (t % 2 == 0) {
        recordings[(t + i) % 4].replay();
      } else {
        const std::size_t to = (i + t) % 4;
        TypeParam::assign(rt, all[to], all[(to + 1 + i % 3) % 4], stream_id{(i * 3 + t) % 8});
        if (i % 7 == 0) TypeParam::fill(rt, all[to].slice(0, 4), 1, stream_id{t});
      }
    }
  });
  rt.synchronize();
}

BACKEND_TEST(record, all_fixtures, no_replay_writes_nothing) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, "x");
  const recording r = rt.record([&] { TypeParam::fill(rt, x, 1); });
  r.replay(0);
  EXPECT_THROW((void)rt.read(x), usage_error);
}

BACKEND_TEST(record, host_fixtures, an_op_that_is_refused_while_it_is_recorded_leaves_nothing) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(8, zeroed, "x");
  const recording r = rt.record([&] {
    {
      const resource gone = resource::token("gone");
      EXPECT_THROW(rt.submit("twice", read(gone), write(gone), [] {}), usage_error);
    }
    TypeParam::increment(rt, x);
  });
  r.replay(3);
  EXPECT_EQ(rt.read(x).get(), constant(8, 3));
}

// Behind an op of the replay that others of it wait for there is an event, also for who comes later.
BACKEND_TEST(record, sim_fixtures, who_comes_after_a_replay_waits_for_the_op_that_it_needs_and_no_further) {
  TypeParam own;
  own.stand_still();  // nothing is over before it is waited for
  const auto kept = own.make({.streams = 4});
  auto& rt = *kept;
  auto x = rt.template make_buffer<int>(4, "x");
  auto y = rt.template make_buffer<int>(4, "y");
  auto z = rt.template make_buffer<int>(4, "z");
  auto late = rt.template make_buffer<int>(4, "late");
  TypeParam::fill(rt, y, 1, stream_id{2});
  TypeParam::fill(rt, late, 0, stream_id{3});
  const recording r = rt.record([&] {
    TypeParam::fill(rt, x, 3, stream_id{1});
    TypeParam::add(rt, y, x, stream_id{2});  // waits for the first
    TypeParam::fill(rt, z, 5, stream_id{1});
  });
  r.replay();
  const auto before = rt.stats().streams;
  TypeParam::add(rt, late, x, stream_id{3});
  const auto after = rt.stats().streams;
  EXPECT_EQ(after.waits_inserted(), before.waits_inserted() + 1);
  EXPECT_EQ(after.excess_orderings, before.excess_orderings);
  // The replay's mark serves, where events are waited for; the other is of what the stream did before it
  // waits.
  EXPECT_EQ(after.marks_reused, before.marks_reused + (before.marks != 0 ? 1 : 0));
  EXPECT_EQ(rt.read(late).get(), constant(4, 3));
  EXPECT_EQ(rt.read(z).get(), constant(4, 5));
}

// A call that fails leaves either nothing given, or ops that carry its error; whatever runs is in order.
BACKEND_TEST(record, sim_fixtures, a_call_that_fails_in_a_replay_harms_no_order) {
  unsigned not_given = 0;
  unsigned poisoned = 0;
  bool has_failed = true;
  for (std::uint64_t n = 0; has_failed; ++n) {
    SCOPED_TRACE("call " + std::to_string(n));
    TypeParam own;
    own.stand_still();
    {
      const auto rt = own.make({.streams = 4, .deterministic = true});
      auto x = rt->template make_buffer<int>(4, "x");
      auto y = rt->template make_buffer<int>(4, "y");
      TypeParam::fill(*rt, x, 1, stream_id{3});
      TypeParam::fill(*rt, y, 1, stream_id{2});
      const recording both = rt->record([&] {
        TypeParam::add(*rt, x, y, stream_id{1});
        TypeParam::add(*rt, y, x, stream_id{2});
      });
      own.device().fail_call(n);
      bool was_given = true;
      try {
        both.replay(2);
      } catch (const sim::call_failed&) {
        was_given = false;
      }
      has_failed = own.device().calls() > n;
      own.device().fail_call(std::nullopt);
      if (rt->stats().streams.errors != 0) continue;  // it was a commit: the device does not know of that op
      try {
        EXPECT_EQ(rt->read(y).get(), constant(4, was_given ? 8 : 1));
      } catch (const op_error&) {
        EXPECT_TRUE(was_given && has_failed);
        ++poisoned;
      }
      not_given += was_given ? 0 : 1;
      TypeParam::fill(*rt, x, 1, stream_id{0});
      TypeParam::fill(*rt, y, 1, stream_id{1});
      both.replay();
      EXPECT_EQ(rt->read(y).get(), constant(4, 3));
    }
    own.finish();
  }
  EXPECT_GE(not_given, 2U);  // what the first ops wait for
  EXPECT_GE(poisoned, 4U);   // launches, and waits between them
}

BACKEND_TEST(record, host_fixtures, a_replay_inside_a_body_throws) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(1, zeroed, "x");
  const recording r = rt.record([&] { TypeParam::increment(rt, x); });
  rt.submit("outer", write(x), [&](std::span<int>) { r.replay(); });
  expect_failure("outer", "replay() inside the body of 'outer'", [&] { rt.wait(x); });
}

}  // namespace
}  // namespace braid::conformance
