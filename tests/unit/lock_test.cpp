#include "braid/detail/lock.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace braid::detail {
namespace {

TEST(spin_lock, admits_one_at_a_time) {
  spin_lock lock;
  std::uint64_t count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        lock.lock();
        ++count;
        lock.unlock();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(count, 80'000U);
}

TEST(spin_lock, try_lock_declines_while_it_is_held) {
  spin_lock lock;
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(spin_lock, who_only_tries_takes_it_from_no_routine) {
  spin_lock lock;
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) {
      if (lock.try_lock()) lock.unlock();
    }
  });
  unsigned lost = 0;
  for (int i = 0; i < 200'000; ++i) {
    while (!lock.try_lock()) relax();
    if (!lock.keep_for_routine()) ++lost;
    relax();
    if (lock.keep_for_routine()) ++lost;  // it was not the routine's any more
    lock.unlock();
    for (int pause = i % 16; pause > 0; --pause) relax();  // the other sees it open
  }
  done = true;
  other.join();
  EXPECT_EQ(lost, 0U);
}

TEST(spin_lock, a_sleeper_gets_it_when_a_long_holder_gives_it_back) {
  spin_lock lock;
  std::atomic<bool> waiting{false};
  bool got = false;
  lock.lock();
  std::thread other([&] {
    waiting = true;
    lock.lock();
    got = true;
    lock.unlock();
  });
  backoff pause;
  while (!waiting) pause.pause();
  for (int i = 0; i < 400; ++i) pause.pause();  // long enough for the other to sleep
  lock.unlock();
  other.join();
  EXPECT_TRUE(got);
}

}  // namespace
}  // namespace braid::detail
