// The CPU backend below the runtime: streams, waits and raw launches.

#include "braid/cpu.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "braid/detail/cores.hpp"
#include "support.hpp"

namespace braid {
namespace {

using cpu_engine = multi_stream<cpu::backend>;

cpu::backend workers(unsigned count) {
  return cpu::backend(runtime_options{.workers = count, .pin_workers = false});
}

template <class F>
void launch(cpu_engine& on, stream_id id, std::initializer_list<binding> bindings, F&& body) {
  auto op = on.resolve(id, bindings);
  op.current().launch(std::forward<F>(body));
}

/// An op that waits until it is let go. It has begun, on a thread of the backend, when the constructor
/// returns.
class held_op {
 public:
  held_op(cpu_engine& on, stream_id id, std::initializer_list<binding> bindings) {
    launch(on, id, bindings, [begun = begun_, open = open_] {
      begun->store(true);
      begun->notify_all();
      open->wait(false);
    });
    begun_->wait(false);
  }
  ~held_op() { let_go(); }
  held_op(const held_op&) = delete;
  held_op& operator=(const held_op&) = delete;
  void let_go() {
    open_->store(true);
    open_->notify_all();
  }

 private:
  std::shared_ptr<std::atomic<bool>> begun_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

class cpu_backend : public testing::TestWithParam<unsigned> {
 protected:
  cpu_engine on{workers(GetParam()), test::options(2048)};
  resource x = resource::memory(64, "x");
};
INSTANTIATE_TEST_SUITE_P(workers, cpu_backend, testing::Values(1U, 2U, 3U, 8U));

TEST_P(cpu_backend, ops_of_a_stream_run_in_the_order_in_which_they_were_given) {
  std::vector<int> seen;
  for (int i = 0; i < 20'000; ++i) launch(on, {1}, {}, [&seen, i] { seen.push_back(i); });
  on.wait(stream_id{1});
  ASSERT_EQ(seen.size(), 20'000U);
  for (int i = 0; i < 20'000; ++i) ASSERT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST_P(cpu_backend, an_op_may_have_no_launch_or_several) {
  std::vector<int> seen;
  test::give(on, {1}, {});
  {
    auto op = on.resolve({1}, {});
    for (int i = 0; i < 5; ++i) op.current().launch([&seen, i] { seen.push_back(i); });
  }
  test::give(on, {1}, {});
  on.wait(stream_id{1});
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(on.cursor({1}), 3U);
}

TEST_P(cpu_backend, a_stream_waits_for_what_its_op_needs_of_another) {
  int value = 0;
  for (int i = 0; i < 2'000; ++i) {
    launch(on, {static_cast<std::uint64_t>(i) % 7}, {read_write(x)},
           [&value, i] { value = value == i ? i + 1 : -1; });
  }
  on.wait_all();
  EXPECT_EQ(value, 2'000);
}

TEST_P(cpu_backend, an_op_that_must_wait_parks_its_stream_and_no_thread) {
  std::atomic<int> ran{0};
  int other = 0;
  {
    const held_op held(on, {0}, {write(x)});
    for (std::uint64_t s = 1; s <= 200; ++s) launch(on, {s}, {read(x)}, [&ran] { ++ran; });
    // With one or two workers the held op has the only thread; this one helps, and is not caught either.
    for (int i = 0; i < 100; ++i) launch(on, {300}, {}, [&other] { ++other; });
    on.wait(stream_id{300});
    EXPECT_EQ(other, 100);
    EXPECT_EQ(ran, 0);
  }
  on.wait_all();
  EXPECT_EQ(ran, 200);
}

TEST_P(cpu_backend, an_op_may_wait_for_a_thousand_streams) {
  std::vector<resource> all;
  std::vector<binding> needed;
  std::atomic<int> ran{0};
  for (std::uint64_t s = 0; s < 1000; ++s) {
    all.push_back(resource::memory(64, "each"));
    launch(on, {s}, {write(all.back())}, [&ran] { ++ran; });
  }
  for (const resource& r : all) needed.push_back(read(r));
  int seen = 0;
  {
    auto op = on.resolve({1500}, needed);
    op.current().launch([&] { seen = ran; });
  }
  on.wait(stream_id{1500});
  EXPECT_EQ(seen, 1000);
}

TEST_P(cpu_backend, a_thousand_streams_may_wait_for_one_op) {
  std::atomic<int> ran{0};
  for (int turn = 0; turn < 20; ++turn) {
    launch(on, {0}, {write(x)}, [&ran] { ran = 0; });
    for (std::uint64_t s = 1; s <= 1000; ++s) launch(on, {s}, {read(x)}, [&ran] { ++ran; });
  }
  on.wait_all();
  EXPECT_EQ(ran, 1000);
}

TEST_P(cpu_backend, what_a_raw_launch_throws_is_reported_once_to_who_waits_for_it) {
  launch(on, {1}, {}, [] { throw std::runtime_error("first reason"); });
  launch(on, {1}, {}, [] { throw std::runtime_error("second reason"); });
  std::atomic<int> ran{0};
  launch(on, {1}, {}, [&ran] { ++ran; });
  try {
    on.wait(stream_id{1});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const execution_error& e) {
    EXPECT_EQ(std::string(e.what()), "first reason");
  }
  EXPECT_EQ(ran, 1);  // the stream went on
  on.wait(stream_id{1});
  launch(on, {1}, {}, [] { throw 42; });
  EXPECT_THROW(on.wait_all(), execution_error);
  on.wait_all();
}

TEST_P(cpu_backend, an_error_is_not_told_to_who_waits_for_an_op_before_it) {
  cpu::backend& raw = on.backend();
  cpu::stream s = raw.create_stream();
  s.launch([] {});
  raw.commit_point(s, 1);
  s.launch([] { throw std::runtime_error("reason"); });
  raw.commit_point(s, 2);
  s.launch([] {});
  raw.commit_point(s, 3);
  raw.wait_point_sync(s, 1);
  EXPECT_TRUE(raw.is_point_complete(s, 1));
  EXPECT_THROW(raw.wait_point_sync(s, 3), execution_error);
  raw.wait_point_sync(s, 3);
  EXPECT_TRUE(raw.is_point_complete(s, 3));
  EXPECT_FALSE(raw.is_point_complete(s, 4));
}

/// Counts how often it is allocated by itself.
template <std::size_t Size>
struct counted_body {
  static inline std::atomic<int> allocations{0};
  static void* operator new(std::size_t size) {
    ++allocations;
    return ::operator new(size);
  }
  static void operator delete(void* at) { ::operator delete(at); }
  static void* operator new(std::size_t, void* at) noexcept { return at; }
  static void operator delete(void*, void*) noexcept {}

  std::atomic<int>* ran;
  std::array<char, Size> content{};
  void operator()() const {
    for (const char each : content) *ran += each;
  }
};

template <std::size_t Size>
int allocations_of(cpu_engine& on) {
  std::atomic<int> ran{0};
  counted_body<Size> body{&ran};
  body.content.fill(1);
  const int before = counted_body<Size>::allocations;
  for (std::uint64_t i = 0; i < 100; ++i) launch(on, {i % 3}, {}, body);
  on.wait_all();
  EXPECT_EQ(ran, 100 * static_cast<int>(Size));
  return counted_body<Size>::allocations - before;
}

TEST_P(cpu_backend, bodies_of_usual_size_are_not_allocated_and_large_ones_work) {
  EXPECT_EQ(allocations_of<1>(on), 0);
  EXPECT_EQ(allocations_of<100>(on), 0);
  EXPECT_EQ(allocations_of<2000>(on), 0);
  EXPECT_EQ(allocations_of<4000>(on), 100);
  EXPECT_EQ(allocations_of<100'000>(on), 100);
}

TEST_P(cpu_backend, an_aligned_body_stays_aligned) {
  struct alignas(256) aligned {
    std::atomic<int>* ran;
    void operator()() const { *ran += reinterpret_cast<std::uintptr_t>(this) % 256 == 0 ? 1 : 1000; }
  };
  std::atomic<int> ran{0};
  for (int i = 0; i < 50; ++i) launch(on, {1}, {}, aligned{&ran});
  on.wait_all();
  EXPECT_EQ(ran, 50);
}

TEST_P(cpu_backend, a_body_is_destroyed_after_it_ran_also_when_it_threw) {
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = held;
  launch(on, {1}, {}, [held] {});
  launch(on, {1}, {}, [held] { throw std::runtime_error("reason"); });
  launch(on, {1}, {}, [held = std::move(held), large = std::array<char, 5000>{}] {
    if (large[0] == 0) throw std::runtime_error("reason");
  });
  EXPECT_THROW(on.wait_all(), execution_error);
  EXPECT_TRUE(alive.expired());
}

TEST_P(cpu_backend, a_body_that_cannot_be_copied_into_the_stream_leaves_the_stream_as_it_was) {
  struct stubborn {
    stubborn() = default;
    stubborn(const stubborn&) { throw std::runtime_error("cannot be copied"); }
    void operator()() const {}
  };
  const stubborn body;
  EXPECT_THROW(launch(on, {1}, {write(x)}, body), std::runtime_error);
  int ran = 0;
  launch(on, {1}, {write(x)}, [&ran] { ++ran; });
  on.wait_all();
  EXPECT_EQ(ran, 1);
}

TEST_P(cpu_backend, many_threads_may_wait_for_one_op) {
  std::vector<std::thread> threads;
  std::atomic<int> ran{0};
  std::atomic<int> seen{0};
  std::atomic<int> waiting{0};
  {
    const held_op held(on, {0}, {write(x)});
    launch(on, {1}, {read_write(x)}, [&ran] { ++ran; });
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        ++waiting;
        if (t % 2 == 0) {
          on.wait(x);
        } else {
          on.wait(stream_id{1});
        }
        seen += ran;
      });
    }
    detail::backoff pause;
    while (waiting != 6) pause.pause();
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(seen, 6);
}

TEST_P(cpu_backend, a_stream_waits_for_an_event_of_another_backend) {
  cpu_engine other{workers(2), test::options()};
  const resource y = resource::memory(64, "y");
  std::atomic<int> value{0};
  for (int i = 0; i < 200; ++i) {
    launch(other, {1}, {write(y)}, [&value, i] { value = i; });
    on.note(write(x), other.backend().flush(other.stream_of(other.lane_of({1}))));
    int seen = -1;
    launch(on, {static_cast<std::uint64_t>(i) % 5}, {read_write(x)}, [&] { seen = value; });
    on.wait(x);
    ASSERT_EQ(seen, i);
  }
}

TEST_P(cpu_backend, a_stream_is_parked_with_another_backend) {
  cpu_engine other{workers(2), test::options()};
  const resource y = resource::memory(64, "y");
  std::atomic<bool> ran{false};
  int unrelated = 0;
  {
    const held_op held(other, {1}, {write(y)});
    on.note(write(x), other.backend().flush(other.stream_of(other.lane_of({1}))));
    launch(on, {2}, {read(x)}, [&ran] { ran = true; });
    launch(on, {3}, {}, [&unrelated] { ++unrelated; });
    on.wait(stream_id{3});
    EXPECT_FALSE(ran);
    EXPECT_EQ(unrelated, 1);
  }
  on.wait(stream_id{2});
  EXPECT_TRUE(ran);
}

TEST_P(cpu_backend, an_event_keeps_its_backend) {
  std::optional<cpu::event> left;
  {
    cpu::backend gone = workers(GetParam());
    cpu::stream s = gone.create_stream();
    s.launch([] {});
    gone.commit_point(s, 1);
    left.emplace(gone.flush(s));
    gone.wait_event_sync(*left);
  }
  EXPECT_TRUE(on.backend().is_complete(*left));
  on.note(write(x), std::move(*left));
  int ran = 0;
  launch(on, {1}, {read(x)}, [&ran] { ++ran; });
  on.wait_all();
  EXPECT_EQ(ran, 1);
}

TEST_P(cpu_backend, a_submitter_far_ahead_of_the_workers_is_held_back_and_loses_nothing) {
  std::uint64_t ran = 0;
  const detail::lane_id lane = on.lane_of({1});
  for (int i = 0; i < 100'000; ++i) {
    on.backend().admit(on.stream_of(lane));
    launch(on, {1}, {}, [&ran] { ++ran; });
  }
  on.wait_all();
  EXPECT_EQ(ran, 100'000U);
}

TEST_P(cpu_backend, the_memory_of_ops_that_wait_is_bounded) {
  constexpr std::uint64_t far = 1'000'000;
  held_op first(on, {1}, {});
  std::atomic<std::uint64_t> given{0};
  std::atomic<bool> is_enough{false};
  std::thread feeder([&] {
    const detail::lane_id lane = on.lane_of({1});
    for (; given < far && !is_enough; ++given) {
      on.backend().admit(on.stream_of(lane));
      launch(on, {1}, {}, [] {});
    }
  });
  for (std::uint64_t last = far; given != last && given < far;) {
    last = given;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  EXPECT_LT(given, far);
  is_enough = true;
  first.let_go();
  feeder.join();
  on.wait_all();
}

TEST(cpu, a_long_replay_does_not_hold_its_submitter_back) {
  cpu::runtime rt({.workers = 2});
  auto x = rt.make_buffer<std::uint64_t>(1, "x");
  std::atomic<bool> is_open{false};
  rt.submit("gate", write(x), [&](std::span<std::uint64_t> own) {
    is_open.wait(false);
    own[0] = 0;
  });
  const recording adds =
      rt.record([&] { rt.submit("add", read_write(x), [](std::span<std::uint64_t> own) { ++own[0]; }); });
  std::atomic<bool> is_given{false};
  std::thread submitter([&] {
    adds.replay(1'000'000);
    rt.submit("add", read_write(x), [](std::span<std::uint64_t> own) { ++own[0]; });
    is_given = true;
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!is_given && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(is_given);
  is_open = true;
  is_open.notify_all();
  submitter.join();
  EXPECT_EQ(rt.read(x).get()[0], 1'000'001U);
}

// What follows from the estimate is decided again while a stream is run: a replay may be all that it ever
// runs.
TEST(cpu, how_long_ops_take_is_known_after_the_first_and_followed_while_a_stream_is_run) {
  using namespace std::chrono_literals;
  constexpr std::uint64_t ops = 2'000;
  constexpr std::uint64_t one_ms = 1'000'000;
  std::atomic<bool> is_open{false};
  const std::vector<unsigned> cpus = detail::cpus_of_this_thread();
  detail::cpu_scheduler on(1, cpus, false);
  detail::cpu_queue& q = on.add_queue();
  q.launch([] {
    const auto end = std::chrono::steady_clock::now() + 5ms;
    while (std::chrono::steady_clock::now() < end) detail::relax();
  });
  q.commit(1);
  on.wait(q, 1);
  EXPECT_GE(on.grain(), one_ms);
  q.launch([&] { is_open.wait(false); });
  q.commit(2);
  for (std::uint64_t i = 3; i < ops; ++i) {
    q.launch([] {});
    q.commit(i);
  }
  is_open = true;
  is_open.notify_all();
  on.wait(q, ops - 1);
  EXPECT_LT(on.grain(), one_ms);
}

// An op of a replay may be told of without an order with who begins to wait for it: as if nobody were woken.
TEST(cpu, who_was_not_woken_looks_again) {
  const std::vector<unsigned> cpus = detail::cpus_of_this_thread();
  for (const bool helps : {true, false}) {
    detail::cpu_scheduler on(1, cpus, false);
    detail::cpu_queue& q = on.add_queue();
    std::thread waiting([&] { helps ? on.wait(q, 1) : detail::cpu_scheduler::wait_idly(q, 1); });
    detail::backoff pause;
    while (q.first_awaited.load() != 1) pause.pause();
    q.done.store(1);
    waiting.join();
  }
  detail::cpu_scheduler on(1, cpus, false);
  detail::cpu_queue& origin = on.add_queue();
  detail::cpu_queue& parked = on.add_queue();
  std::atomic<bool> has_run{false};
  parked.waits.push_back({&origin, 1});
  parked.launch([&] { has_run = true; });
  parked.commit(1);
  detail::backoff pause;
  while (origin.first_awaited.load() != 1) pause.pause();
  origin.done.store(1);
  while (!has_run) pause.pause();
}

TEST_P(cpu_backend, a_stream_that_never_runs_out_leaves_others_their_turn) {
  std::atomic<bool> has_other_run{false};
  std::atomic<std::uint64_t> ran{0};
  bool was_in_time = false;
  std::thread feeder([&] {
    const detail::lane_id lane = on.lane_of({1});
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!was_in_time && std::chrono::steady_clock::now() < end) {
      for (int i = 0; i < 100; ++i) {
        on.backend().admit(on.stream_of(lane));
        launch(on, {1}, {}, [&ran] {
          for (int look = 0; look < 100; ++look) detail::relax();  // longer than a launch takes
          ++ran;
        });
      }
      was_in_time = has_other_run.load();
    }
  });
  while (ran.load() < 2'000) std::this_thread::yield();
  launch(on, {2}, {}, [&has_other_run] { has_other_run = true; });
  feeder.join();
  on.wait_all();
  EXPECT_TRUE(was_in_time);
}

TEST_P(cpu_backend, bodies_of_all_sizes_cross_the_ends_of_chunks) {
  std::uint64_t sum = 0;
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < 3'000; ++i) {
    expected += i;
    switch (i % 4) {
      case 0: launch(on, {1}, {}, [&sum, i] { sum += i; }); break;
      case 1:
        launch(on, {1}, {},
               [&sum, i, pad = std::array<char, 40>{}] { sum += i + static_cast<std::uint64_t>(pad[0]); });
        break;
      case 2:
        launch(on, {1}, {},
               [&sum, i, pad = std::array<char, 700>{}] { sum += i + static_cast<std::uint64_t>(pad[0]); });
        break;
      default:
        launch(on, {1}, {},
               [&sum, i, pad = std::array<char, 1999>{}] { sum += i + static_cast<std::uint64_t>(pad[0]); });
        break;
    }
    if (i % 500 == 0) on.wait_all();
  }
  on.wait_all();
  EXPECT_EQ(sum, expected);
}

// The one worker is inside an op that ends when another op has run: only the thread that waits can run that
// one, and it has most likely gone to sleep when the op comes.
TEST(cpu_backend_options, a_waiting_thread_that_sleeps_is_called_to_help) {
  cpu_engine on{cpu::backend(runtime_options{.workers = 2}), test::options()};
  std::atomic<bool> is_held{false};
  std::atomic<bool> has_helped{false};
  launch(on, {1}, {}, [&] {
    is_held = true;
    detail::backoff pause;
    while (!has_helped) pause.pause();
  });
  std::thread other([&] {
    detail::backoff pause;
    while (!is_held) pause.pause();
    for (int i = 0; i < 400; ++i) pause.pause();
    launch(on, {2}, {}, [&] { has_helped = true; });
  });
  {
    detail::backoff pause;
    while (!is_held) pause.pause();
  }
  on.wait(stream_id{1});
  other.join();
  EXPECT_TRUE(has_helped);
}

// One call for each stream, and nobody waits who could help. All other threads of the process are asleep
// first.
TEST(cpu_backend_options, workers_that_sleep_are_called_one_by_one) {
  cpu_engine on{cpu::backend(runtime_options{.workers = 5, .pin_workers = false}), test::options()};
  const auto are_others_asleep = [] {
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
      if (each.path().filename() == std::to_string(gettid())) continue;
      std::ifstream stat(each.path() / "stat");
      std::string text;
      std::getline(stat, text);
      const auto name_ends = text.rfind(')');
      if (name_ends != std::string::npos && text[name_ends + 2] != 'S') return false;
    }
    return true;
  };
  for (int round = 0; round < 5; ++round) {
    detail::backoff pause;
    while (!are_others_asleep()) pause.pause();
    std::atomic<int> running{0};
    std::atomic<int> ended{0};
    // Each goes on when four run: so four workers were called.
    for (std::uint64_t i = 0; i < 4; ++i) {
      launch(on, {i}, {}, [&] {
        ++running;
        detail::backoff others;
        while (running < 4) others.pause();
        ++ended;
      });
    }
    while (ended < 4) pause.pause();
  }
}

// Likewise for what a `then` returns, which comes from a braid thread and not from an op.
TEST(cpu_backend_options, a_thread_that_waits_for_a_then_is_called_to_help) {
  std::atomic<bool> is_held{false};
  std::atomic<bool> has_helped{false};  // asked by an op that may go on after the result is there
  cpu::runtime rt({.streams = 4, .workers = 2});
  const auto x = rt.make_buffer<int>(1, "x");
  rt.fill(x, 4);
  const std::vector<int> four = rt.read(x).get();
  rt.submit(stream_id{1}, "held", [&] {
    is_held = true;
    detail::backoff pause;
    while (!has_helped) pause.pause();
  });
  future<int> result = rt.read(x).then([&](const std::vector<int>& values) {
    detail::backoff pause;
    while (!is_held) pause.pause();
    for (int i = 0; i < 400; ++i) pause.pause();
    rt.submit(stream_id{2}, "help", [&] { has_helped = true; });
    while (!has_helped) pause.pause();
    return values[0] + four[0];
  });
  EXPECT_EQ(result.get(), 8);
}

TEST(cpu_backend_options, workers_may_be_pinned) {
  cpu_engine on{cpu::backend(runtime_options{.workers = 4, .pin_workers = true}), test::options()};
  std::atomic<int> ran{0};
  for (std::uint64_t i = 0; i < 100; ++i) launch(on, {i % 8}, {}, [&ran] { ++ran; });
  on.wait_all();
  EXPECT_EQ(ran, 100);
}

// The list of ready streams that the thread takes from is that of the stream it waits for: taken from its own
// one, the stream that is ready there would be lost.
TEST(cpu, a_thread_that_waits_for_an_event_of_another_runtime_loses_no_work_of_either) {
  std::atomic<bool> go{false};
  std::atomic<int> held{0};
  std::atomic<int> ran{0};
  cpu::runtime one({.workers = 1});
  cpu::runtime other({.workers = 1});
  for (cpu::runtime* each : {&one, &other}) {
    each->submit(stream_id{1}, "hold", [&] {
      ++held;
      while (!go) std::this_thread::yield();
    });
  }
  while (held != 2) std::this_thread::yield();  // both workers are busy: what follows stays in the lists
  const submission here = one.submit(stream_id{2}, "here", [&] { ++ran; });
  const submission there = other.submit(stream_id{2}, "there", [&] { ++ran; });
  auto& stream = other.engine().stream_of(there.op().lane());
  one.backend().wait_event_sync(other.backend().event_of(stream, there.op().cursor()));
  EXPECT_TRUE(there.is_over());
  go = true;
  here.wait();
  other.synchronize();
  EXPECT_EQ(ran, 2);
}

TEST(cpu_backend_options, a_waiting_thread_counts_as_a_worker) {
  EXPECT_EQ(workers(4).workers(), 4U);
  EXPECT_EQ(workers(4).useful_streams(), 32U);
  EXPECT_GE(workers(0).workers(), 1U);
}

// The memory of what went before is used again, by thread.
TEST(cpu, buffers_of_a_threads_own_variables_may_go_last) {
  cpu::runtime rt;
  for (int i = 0; i < 3; ++i) {
    std::thread([&] {
      thread_local std::optional<buffer<int>> kept;  // goes after what the first buffer of the thread made
      kept = rt.make_buffer<int>(16, zeroed, "kept");
      for (int k = 0; k < 200; ++k) (void)rt.make_buffer<int>(16, zeroed, "gone");
      rt.wait(*kept);
    }).join();
  }
  rt.synchronize();
  EXPECT_EQ(rt.stats().memory.live_blocks, 0U);
}

}  // namespace
}  // namespace braid
