#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <random>

#include "conformance/suite.hpp"

// Random programs on the runtime, from several threads, against a model that runs them one op after another.
// BRAID_SOAK_SECONDS says for how long (5 unless told), BRAID_SOAK_SEED where to begin.

namespace braid::conformance {

inline std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// One element of a buffer as it has to be.
struct cell {
  int value = 0;
  bool poisoned = false;
};

/// What one thread does, with buffers of its own and two that all threads share.
template <class F>
class walker {
 public:
  using runtime = typename F::runtime;

  struct shared_state {
    buffer<int> counter;  // incremented in turn
    buffer<int> sums;     // accumulated at the same time
    std::atomic<int> increments{0}, accumulates{0}, retired{0}, to_retire{0};
  };

  walker(runtime& rt, shared_state& shared, std::uint64_t seed) : rt_(rt), shared_(shared), random_(seed) {
    for (std::size_t i = 0; i < buffers; ++i) renew(i);
  }

  /// Some of the steps come in rounds that are repeated: the same ops on the same buffers.
  void go(unsigned steps) {
    while (steps > 0) {
      is_plain_ = below(2) == 0;
      const unsigned length = std::min(steps, 1 + static_cast<unsigned>(below(6)));
      const std::array<unsigned, 4> choices{1, 3, 3 + static_cast<unsigned>(below(20)),
                                            is_plain_ ? 200U : 1U};
      const unsigned wanted = choices[below(choices.size())];
      const unsigned times = std::min(steps / length, wanted);
      const std::mt19937_64 begin = random_;
      for (unsigned i = 0; i < times; ++i) {
        random_ = begin;
        for (unsigned j = 0; j < length; ++j) step();
      }
      steps -= times * length;
    }
    while (!pending_.empty()) check_oldest();
    while (!followers_.empty()) check_oldest_follower();
    for (std::size_t i = 0; i < buffers; ++i) check_now(i);
  }

 private:
  static constexpr std::size_t buffers = 5;
  struct own {
    buffer<int> data;
    std::vector<cell> model;
  };
  struct part {
    std::size_t first, count;
  };
  struct follower {
    future<void> done;
    bool gets_error;
  };
  struct expectation {
    future<std::vector<int>> result;
    std::vector<cell> model;
  };

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  where anywhere() { return below(3) == 0 ? where(stream_id{below(32)}) : where(); }

  // Often the same, and now and then what the pool cuts from a large block.
  std::size_t some_size() {
    switch (below(8)) {
      case 0: return 1 + below(3000);
      case 1: return 1 + below(60'000);
      case 2:
      case 3:
      case 4: return 1 + below(60);
      default: return 16;
    }
  }

  void renew(std::size_t i) {
    const std::size_t size = some_size();
    own& o = all_[i];
    o.model.assign(size, cell{});
    switch (below(3)) {
      case 0: o.data = rt_.template make_buffer<int>(size, zeroed, "own"); break;
      case 1:
        o.data = rt_.template make_buffer<int>(size, "own");
        F::fill(rt_, o.data, 0, anywhere());
        break;
      default:
        o.data = rt_.template make_buffer<int>(size, "own");
        rt_.write(o.data, std::vector<int>(size, 0));
        break;
    }
  }

  part some(const own& of) {
    const std::size_t size = of.model.size();
    if (below(3) == 0 || is_plain_) return {0, size};
    const std::size_t first = below(size);
    return {first, 1 + below(size - first)};
  }
  static std::span<cell> cells(own& of, part p) {
    return std::span<cell>(of.model).subspan(p.first, p.count);
  }
  static bool is_poisoned(std::span<const cell> cells_of) {
    return std::any_of(cells_of.begin(), cells_of.end(), [](const cell& c) { return c.poisoned; });
  }
  static void poison(std::span<cell> which) {
    for (cell& c : which) c.poisoned = true;
  }

  void step() {
    const std::size_t i = below(buffers);
    own& a = all_[i];
    own& b = all_[(i + 1 + below(buffers - 1)) % buffers];
    const part p = some(a);
    const auto slice = a.data.slice(p.first, p.count);
    const auto model = cells(a, p);
    const int value = static_cast<int>(below(1000));
    // What a routine may have, for the most part: ops on whole buffers, and some that are not for one.
    constexpr std::array<std::uint64_t, 8> plain{0, 2, 3, 4, 5, 6, 7, 15};
    switch (is_plain_ && below(20) != 0 ? plain[below(plain.size())] : below(21)) {
      case 0:
      case 1:
        F::fill(rt_, slice, value, anywhere());
        std::fill(model.begin(), model.end(), cell{value, false});
        break;
      case 2:
      case 3:
      case 4:
        F::increment(rt_, slice, anywhere());
        if (is_poisoned(model)) poison(model);
        for (cell& c : model) c.value = sum_of(c.value, 1);
        break;
      case 5:
      case 6: {
        const std::size_t count = std::min(p.count, b.model.size());
        const auto to = model.first(count);
        const auto from = cells(b, {0, count});
        F::add(rt_, slice.slice(0, count), b.data.slice(0, count), anywhere());
        if (is_poisoned(to) || is_poisoned(from)) poison(to);
        for (std::size_t j = 0; j < count; ++j) to[j].value = sum_of(to[j].value, from[j].value);
        break;
      }
      case 7: {
        const std::size_t count = std::min(p.count, b.model.size());
        const auto to = model.first(count);
        const auto from = cells(b, {0, count});
        rt_.copy(slice.slice(0, count), b.data.slice(0, count));
        if (is_poisoned(from))
          poison(to);
        else
          std::copy(from.begin(), from.end(), to.begin());
        break;
      }
      case 8: {
        rt_.write(slice, std::vector<int>(p.count, value));
        std::fill(model.begin(), model.end(), cell{value, false});
        break;
      }
      case 9:
        F::fail(rt_, "failing", slice, anywhere());
        poison(model);
        break;
      case 10: cancel(slice, model, value); break;
      case 11: renew(i); break;
      case 12:
      case 13:
        pending_.push_back({rt_.read(slice), std::vector<cell>(model.begin(), model.end())});
        if (pending_.size() > 8) check_oldest();
        break;
      case 14:
        followers_.push_back(
            {rt_.read(slice).then([expected = std::vector<cell>(model.begin(), model.end())](
                                      const std::vector<int>& got) { check(got, expected); }),
             is_poisoned(model)});
        if (followers_.size() > 8) check_oldest_follower();
        break;
      case 15:
        F::increment(rt_, shared_.counter, anywhere());
        ++shared_.increments;
        break;
      case 16:
      case 17:
        F::accumulate_into(rt_, shared_.sums, 1, 0, anywhere());
        ++shared_.accumulates;
        break;
      case 18:
        ++shared_.to_retire;
        rt_.retire(std::shared_ptr<void>(&shared_, [&shared = shared_](void*) { ++shared.retired; }),
                   stream_id{below(32)});
        break;
      case 19: wait_for_something(i); break;
      default:
        F::add_through_scratch(rt_, slice, value, some_size(), anywhere());
        if (is_poisoned(model)) poison(model);
        for (cell& c : model) c.value = sum_of(c.value, value);
        break;
    }
  }

  // Whether the op ran is known when it is over: the data tells, and wait() tells of the last thousand
  // failures.
  void cancel(const buffer_slice<int>& slice, std::span<cell> model, int value) {
    const submission s = F::fill(rt_, slice, value, anywhere());
    (void)s.cancel();
    bool wait_told = false;
    try {
      s.wait();
    } catch (const op_error& e) {
      EXPECT_TRUE(contains(e.what(), "cancelled")) << e.what();
      wait_told = true;
    }
    try {
      (void)rt_.read(slice).get();
      EXPECT_FALSE(wait_told);
      std::fill(model.begin(), model.end(), cell{value, false});
    } catch (const op_error& e) {
      EXPECT_TRUE(contains(e.what(), "cancelled")) << e.what();
      const runtime_stats now = rt_.stats();
      EXPECT_TRUE(wait_told || now.failed + now.skipped + now.cancelled > 1000);
      poison(model);
    }
  }

  void wait_for_something(std::size_t i) {
    switch (below(4)) {
      case 0: rt_.wait(stream_id{below(32)}); break;
      case 1: rt_.synchronize(); break;
      case 2: (void)rt_.stats(); break;
      default:
        try {
          rt_.wait(all_[i].data);
          EXPECT_FALSE(is_poisoned(all_[i].model));
        } catch (const op_error&) {
          EXPECT_TRUE(is_poisoned(all_[i].model));
        }
        break;
    }
  }

  static void check(const std::vector<int>& got, std::span<const cell> expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t j = 0; j < got.size(); ++j) ASSERT_EQ(got[j], expected[j].value) << "at " << j;
  }
  static void check(future<std::vector<int>> result, std::span<const cell> expected) {
    try {
      const std::vector<int> got = result.get();
      EXPECT_FALSE(is_poisoned(expected));
      check(got, expected);
    } catch (const op_error& e) {
      EXPECT_TRUE(is_poisoned(expected)) << e.what();
    }
  }
  void check_oldest() {
    check(std::move(pending_.front().result), pending_.front().model);
    pending_.pop_front();
  }
  void check_oldest_follower() {
    follower oldest = std::move(followers_.front());
    followers_.pop_front();
    try {
      oldest.done.get();
      EXPECT_FALSE(oldest.gets_error);
    } catch (const op_error& e) {
      EXPECT_TRUE(oldest.gets_error) << e.what();
    }
  }
  void check_now(std::size_t i) { check(rt_.read(all_[i].data), all_[i].model); }

  runtime& rt_;
  shared_state& shared_;
  std::mt19937_64 random_;
  std::array<own, buffers> all_;
  std::deque<expectation> pending_;
  std::deque<follower> followers_;
  bool is_plain_ = false;
};

/// One runtime with random options, used by several threads, and nothing left of it. Returns how many ops
/// were given without analysis.
template <class F>
std::uint64_t soak_once(std::uint64_t seed, unsigned threads, unsigned steps) {
  SCOPED_TRACE("BRAID_SOAK_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto pick = [&](auto... choices) {
    const std::array all{choices...};
    return all[random() % all.size()];
  };
  F world;
  runtime_options options;
  options.streams = pick(1U, 2U, 8U, 64U, 100U);
  options.workers = pick(1U, 2U, 3U, 4U, 8U);
  options.placement =
      pick(placement::automatic, placement::automatic, placement::per_thread, placement::single);
  options.deterministic = random() % 4 == 0;
  options.marks = pick(mark_policy::learned, mark_policy::learned, mark_policy::learned, mark_policy::eager,
                       mark_policy::lazy);
  options.ops_in_flight = random() % 5 == 0 ? 5 : 0;
  options.bytes_in_flight = random() % 5 == 0 ? 5000 : 0;
  reuse_order order = default_reuse_order;
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  options.reuse = order;
  auto rt = world.make(options);
  {
    typename walker<F>::shared_state shared;
    shared.counter = rt->template make_buffer<int>(8, zeroed, "counter");
    shared.sums = rt->template make_buffer<int>(8, zeroed, "sums");
    on_threads(threads, [&](unsigned thread) {
      const testing::ScopedTrace trace(__FILE__, __LINE__, "BRAID_SOAK_SEED=" + std::to_string(seed));
      walker<F>(*rt, shared, seed * 64 + thread).go(steps);
    });
    EXPECT_EQ(rt->read(shared.counter).get(), constant(8, shared.increments));
    EXPECT_EQ(rt->read(shared.sums).get(), constant(8, shared.accumulates));
    rt->synchronize();
    detail::backoff pause;
    while (shared.retired < shared.to_retire) {
      world.step();
      pause.pause();
    }
  }
  rt->synchronize();
  EXPECT_EQ(rt->stats().memory.live_blocks, 0U);
  EXPECT_EQ(rt->stats().memory.live, 0U);
  EXPECT_EQ(rt->stats().staging.live_blocks, 0U);
  detail::backoff pause;
  const std::uint64_t retired = rt->stats().streams.retired;
  while (rt->stats().streams.reclaimed < retired) {
    world.step();
    pause.pause();
  }
  EXPECT_EQ(rt->stats().streams.retired, rt->stats().streams.reclaimed);
  EXPECT_EQ(rt->stats().streams.errors, 0U);
  const std::uint64_t followed = rt->stats().streams.followed;
  rt.reset();
  world.finish();
  return followed;
}

template <class F>
void soak(unsigned threads, unsigned steps) {
  const auto seconds = number_from("BRAID_SOAK_SECONDS", 5);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::uint64_t seed = number_from("BRAID_SOAK_SEED", 1);
  std::uint64_t programs = 0;
  std::uint64_t followed = 0;
  do {
    followed += soak_once<F>(seed++, threads, steps);
    ++programs;
  } while (std::chrono::steady_clock::now() < end && !testing::Test::HasFailure());
  std::cout << programs << " programs of " << threads << " threads with " << steps << " steps each, "
            << followed << " ops of routines\n";
}

}  // namespace braid::conformance
