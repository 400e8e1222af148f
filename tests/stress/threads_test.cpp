// Many threads at once; meant to run under ThreadSanitizer as well.

#include <atomic>
#include <barrier>
#include <thread>

#include "support.hpp"

namespace braid {
namespace {

template <class Work>
void on_threads(unsigned count, Work&& work) {
  std::barrier start(count);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      work(t);
    });
  }
  for (std::thread& t : threads) t.join();
}

template <class Backend>
struct stress : testing::Test {
  static Backend backend_of(const sim::device& d) {
    if constexpr (point_backend<Backend>) {
      return d.point_backend();
    } else if constexpr (std::is_same_v<Backend, sim::unasked_backend>) {
      return d.unasked_backend();
    } else {
      return d.backend();
    }
  }
};
using backends = testing::Types<sim::backend, sim::unasked_backend, sim::point_mode_backend>;
TYPED_TEST_SUITE(stress, backends);

TYPED_TEST(stress, threads_that_read_write_retire_wait_and_look_stay_in_order) {
  sim::device device({.seed = 1, .progress = 3});
  std::atomic<std::uint64_t> destroyed{0};
  {
    auto o = test::options(6);
    o.deterministic = false;
    multi_stream<TypeParam> engine{this->backend_of(device), o};
    std::vector<resource> all;
    for (int i = 0; i < 5; ++i) all.push_back(resource::memory(64, "r"));
    on_threads(4, [&](unsigned thread) {
      std::uint64_t random = thread + 1;
      for (int i = 0; i < 400; ++i) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        const auto a = static_cast<std::uint32_t>(random >> 40) % 5;
        const auto b = (a + 1 + static_cast<std::uint32_t>(random >> 50) % 4) % 5;
        const auto kind = static_cast<access>(random >> 36 & 3);
        const stream_id id{random >> 30 & 7};
        {
          auto op = engine.resolve(id, {read(all[a]), binding(all[b], kind)});
          device.launch(
              op.current(),
              {.label = "op", .touches = {{a, 0, {0, 64}, access::read, 0}, {b, 0, {0, 64}, kind, 0}}});
          if (i % 7 == 0) op.retire(std::shared_ptr<void>(nullptr, [&](void*) { ++destroyed; }));
        }
        if (i % 50 == 0) engine.wait(id);
        if (i % 60 == 0) engine.wait(all[a]);
        if (i % 20 == 0) (void)engine.analyse(id, {write(all[a])});
        if (i % 30 == 0) (void)engine.stats();
        if (i % 25 == 0) (void)engine.last_synced(id, stream_id{0});
      }
    });
    device.run_all();
    const sim::report found = sim::check(device.log(), {.drop_each_wait = false, .trust_completion = true});
    EXPECT_TRUE(found.violations.empty());
    EXPECT_EQ(engine.stats().ops, 1600U);
  }
  EXPECT_EQ(destroyed, 4U * 58U);
  EXPECT_EQ(device.events_alive(), 0U);
}

/// Its stream calls block until they are let through.
struct gated_backend : test::telling_backend {
  struct gate {
    std::atomic<bool> open{true};
    std::atomic<int> inside{0};
  };
  std::shared_ptr<gate> at_wait = std::make_shared<gate>();
  void wait_event(stream&, const event&) {
    ++at_wait->inside;
    detail::backoff pause;
    while (!at_wait->open) pause.pause();
    --at_wait->inside;
  }
};

TEST(threads, a_reader_goes_on_while_another_is_inside_the_backend) {
  gated_backend backend;
  multi_stream<gated_backend> engine{backend, test::options()};
  const resource weights = resource::memory(64, "weights");
  const resource other = resource::memory(64, "other");
  test::give(engine, {0}, {write(weights), write(other)});
  test::give(engine, {1}, {read(weights)});
  backend.at_wait->open = false;
  std::thread held([&] { test::give(engine, {2}, {read(weights), read(other)}); });
  detail::backoff pause;
  while (backend.at_wait->inside == 0) pause.pause();
  // Stream 2 is inside wait_event. A reader of the same weights on stream 1 does not wait for it.
  test::give(engine, {1}, {read(weights)});
  EXPECT_EQ(engine.cursor({1}), 2U);
  EXPECT_EQ(engine.cursor({2}), 0U);
  backend.at_wait->open = true;
  held.join();
}

TEST(threads, readers_of_one_resource_hold_guards_at_the_same_time_and_a_writer_comes_after_both) {
  multi_stream<test::telling_backend> engine{test::telling_backend{}, test::options()};
  const resource x = resource::memory(64, "x");
  test::give(engine, {0}, {write(x)});
  std::atomic<int> readers_in{0};
  std::atomic<int> readers_out{0};
  std::atomic<bool> wrote{false};
  std::thread writer;
  on_threads(2, [&](unsigned thread) {
    auto op = engine.resolve(stream_id{thread + 1}, {read(x)});
    ++readers_in;
    detail::backoff pause;
    while (readers_in < 2) pause.pause();  // both are inside: neither kept the other waiting
    if (thread == 0) {
      writer = std::thread([&] {
        auto w = engine.resolve(stream_id{3}, {write(x)});
        wrote = true;
        EXPECT_EQ(readers_out, 2);
        EXPECT_EQ(w.waits().waits.size(), 2U);
      });
    }
    for (int i = 0; i < 300; ++i) pause.pause();
    EXPECT_FALSE(wrote);
    ++readers_out;
  });
  writer.join();
  EXPECT_TRUE(wrote);
}

TEST(threads, handing_on_while_others_still_submit_throws_there_and_hangs_nobody) {
  sim::device device;
  multi_stream<sim::backend> engine{device.backend(), test::options()};
  std::mutex mutex;
  resource shared = resource::memory(64, "shared");
  const resource fixed = resource::memory(64, "fixed");
  std::atomic<int> refused{0};
  on_threads(4, [&](unsigned thread) {
    for (int i = 0; i < 500; ++i) {
      if (thread == 0) {
        const std::scoped_lock lock(mutex);
        shared = shared.hand_on("shared");
        continue;
      }
      resource mine;
      {
        const std::scoped_lock lock(mutex);
        mine = shared;
      }
      try {
        auto op = engine.resolve(stream_id{thread}, {read(fixed), i % 3 == 0 ? write(mine) : read(mine)});
      } catch (const usage_error& e) {
        EXPECT_EQ(e.kind(), misuse::handed_on);
        ++refused;
      }
    }
  });
  EXPECT_EQ(engine.stats().ops > 0, true);
}

TEST(threads, streams_are_made_once_when_many_threads_ask) {
  sim::device device;
  multi_stream<sim::backend> engine{device.backend(), test::options(16)};
  on_threads(4, [&](unsigned) {
    for (std::uint64_t s = 0; s < 16; ++s) test::give(engine, {s}, {});
  });
  EXPECT_EQ(engine.stats().streams, 16U);
  EXPECT_EQ(engine.stats().ops, 64U);
}

TEST(threads, notes_and_retires_from_many_threads) {
  std::atomic<int> destroyed{0};
  {
    multi_stream<test::telling_backend> engine{gated_backend{}, test::options()};
    const resource x = resource::memory(64, "x");
    on_threads(3, [&](unsigned thread) {
      for (int i = 0; i < 100; ++i) {
        if (i % 10 == 0) engine.note(read(x), test::telling_backend::event{});
        test::give(engine, {thread}, {i % 5 == 0 ? write(x) : read(x)});
        engine.retire(std::shared_ptr<void>(nullptr, [&](void*) { ++destroyed; }), {thread});
      }
    });
  }
  EXPECT_EQ(destroyed, 300);
}

}  // namespace
}  // namespace braid
