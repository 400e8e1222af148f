// Many threads, few lanes: blocks change hands between threads and lanes all the time.

#include "braid/detail/pool.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <random>
#include <thread>

#include "../unit/pool_rig.hpp"

namespace braid::test {
namespace {

using detail::block;
using detail::lane_id;
using detail::point;

/// A box that threads put blocks into and take others' blocks out of.
class exchange_box {
 public:
  block* swap(block* b, std::size_t at) {
    const std::scoped_lock lock(mutex_);
    return std::exchange(blocks_[at % blocks_.size()], b);
  }
  std::vector<block*> empty() { return std::exchange(blocks_, {}); }

 private:
  std::mutex mutex_;
  std::vector<block*> blocks_ = std::vector<block*>(64);
};

void run(std::uint64_t limit, bool deterministic) {
  constexpr unsigned threads = 8;
  constexpr unsigned lanes = 3;
  constexpr int rounds = 4000;
  pool_rig rig({.limit = limit, .deterministic = deterministic, .lane_cache_bytes = std::uint64_t{2} << 20},
               lanes);
  exchange_box box;
  const auto work = [&](unsigned number) {
    std::mt19937_64 random(number);
    for (int i = 0; i < rounds; ++i) {
      const auto lane = static_cast<unsigned>(random() % lanes);
      const std::uint64_t bytes = random() % (std::uint64_t{1} << random() % 20);
      block* b = nullptr;
      try {
        b = random() % 8 != 0 ? rig.pool->take(static_cast<lane_id>(lane), bytes,
                                               [&](const point& p) { return p.cursor % 3 == 0; })
                              : rig.take_idle(lane, bytes);
      } catch (const out_of_memory&) {
      }
      if (b != nullptr) {
        // Nobody else has it: a race here is the pool's fault.
        b->data[0] = b->data[b->capacity - 1] = std::byte{1};
        rig.write(b, lane);
        if (random() % 4 == 0) rig.read(b, static_cast<unsigned>(random() % lanes));
      }
      if (block* other = box.swap(b, random())) rig.give(other);
      if (i % 64 == 0) rig.completed[lane] = rig.cursors[lane].load();
      if (i % 512 == 0) (void)rig.usage();
      if (i % 700 == 0) rig.pool->trim(random() % (std::uint64_t{4} << 20));
      if (i % 16 == 0) {
        static std::byte foreign[64];
        block* adopted = rig.pool->adopt(foreign, sizeof foreign);
        rig.write(adopted, lane);
        rig.give(adopted);
      }
    }
  };
  {
    std::vector<std::jthread> all;
    for (unsigned i = 0; i < threads; ++i) all.emplace_back(work, i);
  }
  for (block* b : box.empty()) {
    if (b != nullptr) rig.give(b);
  }
  rig.complete_all();
  rig.pool->trim();
  EXPECT_EQ(rig.usage().reserved, 0U);
  EXPECT_EQ(rig.usage().live, 0U);
  EXPECT_EQ(rig.source->out, 0U);
}

TEST(pool_stress, threads_take_and_give_each_others_blocks) {
  run(0, false);
}
TEST(pool_stress, threads_take_and_give_each_others_blocks_at_a_limit) {
  run(std::uint64_t{4} << 20, false);
}
TEST(pool_stress, threads_take_and_give_each_others_blocks_in_deterministic_mode) {
  run(0, true);
}

}  // namespace
}  // namespace braid::test
