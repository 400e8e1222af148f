#include "braid/detail/pool.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "braid/error.hpp"
#include "pool_rig.hpp"

namespace braid::test {
namespace {

using detail::block;
using detail::pool_options;

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;

using needs_list = std::vector<std::pair<unsigned, hazard>>;

std::vector<std::uint64_t> some_sizes() {
  return {0, 1, 64, 65, 255, 256, 257, 2048, 2049, 4096, 64 * kib, 64 * kib + 1, mib, 5 * mib + 7};
}

TEST(history, segments_that_become_one_keep_the_newest_point_of_each_lane) {
  detail::arena_handle arena;
  detail::stamp* name = arena->add_pool(detail::lane_id{0}, true).name();
  constexpr std::uint64_t segments = 2 * detail::history::max_segments;
  detail::history past(segments);
  std::uint64_t cursor = 0;
  for (std::uint64_t at = segments; at-- > 0;) {  // the lower bytes are written later
    past.apply(access::write, 0, {at, 1}, false, ++cursor, name, detail::lane_id{0});
  }
  for (std::uint64_t at = 0; at < segments; ++at) {
    past.needs(access::read, 0, {at, 1}, false,
               [&](const detail::point& p, hazard) { EXPECT_GE(p.cursor, segments - at) << at; });
  }
}

TEST(pool, a_block_has_room_for_what_was_asked_and_is_aligned) {
  pool_rig rig;
  std::vector<block*> blocks;
  for (std::uint64_t bytes : some_sizes()) {
    block* b = rig.take(0, bytes);
    EXPECT_GE(b->capacity, bytes);
    EXPECT_EQ(b->size, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b->data) % (bytes >= 256 ? 256 : 64), 0U) << bytes;
    EXPECT_EQ(b->refs.load(), 1U);
    std::memset(b->data, 1, bytes);
    blocks.push_back(b);
  }
  for (block* b : blocks) rig.give(b);
}

TEST(pool, from_two_kib_on_a_block_is_at_most_an_eighth_larger_than_asked) {
  pool_rig rig;
  for (std::uint64_t bytes = 2048; bytes < 300 * kib; bytes += 977) {
    block* b = rig.take(0, bytes);
    EXPECT_LE(b->capacity, bytes + bytes / 8 + 1) << bytes;
    rig.give(b);
  }
}

TEST(pool, the_same_lane_gets_its_block_again_at_once_and_nobody_is_asked) {
  for (const std::uint64_t bytes : {std::uint64_t{100}, 2 * mib}) {
    pool_rig rig;
    block* first = rig.use(0, bytes);
    const std::uint64_t id = first->id;
    block* again = rig.pool->take(detail::lane_id{0}, bytes, [](const detail::point&) {
      ADD_FAILURE() << "asked";
      return false;
    });
    EXPECT_EQ(again, first);
    EXPECT_EQ(again->taken_as, reuse_step::ordered);
    EXPECT_NE(again->id, id);
    EXPECT_EQ(rig.completion_asked, 0U);
    EXPECT_EQ(rig.needs(*again), (needs_list{{0, hazard::reuse}}));
    rig.give(again);
  }
}

TEST(pool, a_next_owner_starts_without_the_traits_of_the_one_before) {
  pool_rig rig;
  op_label label("writer");
  block* b = rig.take(0, 100);
  rig.write(b, 0);
  b->note_written(&label);
  b->note_crossed();
  b->note_written(&label);
  EXPECT_FALSE(b->is_quiet());
  rig.give(b);
  block* again = rig.take(0, 90);
  ASSERT_EQ(again, b);
  EXPECT_TRUE(again->is_quiet());
  EXPECT_FALSE(again->handed_on);
  EXPECT_EQ(again->size, 90U);
  rig.give(again);
}

TEST(pool, a_block_goes_to_the_cache_of_the_lane_that_used_it_last) {
  for (const std::uint64_t bytes : {std::uint64_t{100}, mib}) {
    pool_rig rig;
    rig.give(rig.take(1, 300 * kib));  // lane 1 takes memory too
    block* b = rig.take(0, bytes);
    rig.write(b, 0);
    rig.read(b, 1);  // after the write: who waits for the reader waits for both
    rig.give(b);
    block* again = rig.take(1, bytes);
    EXPECT_EQ(again, b);
    EXPECT_EQ(again->taken_as, reuse_step::ordered);
    rig.give(again);
  }
}

TEST(pool, a_block_whose_ops_are_known_to_be_over_stays_with_the_lane_that_took_it) {
  for (const bool deterministic : {false, true}) {
    for (const std::uint64_t bytes : {std::uint64_t{100}, mib}) {
      pool_rig rig({.deterministic = deterministic});
      for (const bool is_known : {false, true}) {
        block* b = rig.take(0, bytes);
        rig.write(b, 0);
        rig.read(b, 1);
        rig.read(b, 2);
        if (is_known) {
          for (unsigned lane = 0; lane < 3; ++lane) rig.known_complete[lane] = rig.cursors[lane].load();
        }
        rig.give(b);
        block* again = rig.take(0, bytes);
        EXPECT_EQ(again == b, is_known && !deterministic);
        if (again == b) {
          EXPECT_EQ(again->taken_as, reuse_step::ordered);
          EXPECT_TRUE(rig.needs(*again).empty());
        }
        rig.give(again);
      }
      EXPECT_EQ(rig.knowledge_asked == 0, deterministic);
      EXPECT_EQ(rig.taken(reuse_step::complete), 0U);
    }
  }
}

TEST(pool, another_lane_takes_a_block_that_comes_before_it_rather_than_new_memory) {
  for (const std::uint64_t bytes : {std::uint64_t{100}, mib}) {
    pool_rig rig;
    block* b = rig.use(0, bytes);
    block* next = rig.take_knowing(1, bytes, 0);
    EXPECT_EQ(next, b);
    EXPECT_EQ(next->taken_as, reuse_step::ordered);
    EXPECT_EQ(rig.needs(*next), (needs_list{{0, hazard::reuse}}));
    rig.give(next);
  }
}

TEST(pool, another_lane_takes_a_complete_block_rather_than_new_memory_and_needs_nothing) {
  for (const std::uint64_t bytes : {std::uint64_t{100}, mib}) {
    pool_rig rig;
    block* b = rig.use(0, bytes);
    rig.complete(0);
    block* next = rig.take(1, bytes);
    EXPECT_EQ(next, b);
    EXPECT_EQ(next->taken_as, reuse_step::complete);
    EXPECT_TRUE(rig.needs(*next).empty());
    rig.give(next);
  }
}

TEST(pool, new_memory_comes_before_a_wait) {
  for (const std::uint64_t bytes : {std::uint64_t{100}, mib}) {
    pool_rig rig;
    block* b = rig.use(0, bytes);
    block* next = rig.take(1, bytes);
    EXPECT_NE(next->data, b->data);
    EXPECT_EQ(next->taken_as, reuse_step::fresh);
    rig.give(next);
    EXPECT_EQ(rig.taken(reuse_step::fresh), 2U);
  }
}

TEST(pool, at_the_limit_a_pending_block_is_taken_and_its_first_op_waits_for_reuse) {
  for (const std::uint64_t bytes : {std::uint64_t{64} * kib, mib}) {
    pool_rig rig({.limit = mib});
    std::vector<block*> all;
    for (std::uint64_t sum = 0; sum + bytes <= mib; sum += bytes) all.push_back(rig.take(0, bytes));
    for (block* b : all) {
      rig.write(b, 0);
      rig.give(b);
    }
    block* next = rig.take(1, bytes);
    EXPECT_EQ(next->taken_as, reuse_step::waited);
    EXPECT_EQ(rig.needs(*next), (needs_list{{0, hazard::reuse}}));
    rig.give(next);
    EXPECT_LE(rig.usage().reserved, mib);
    EXPECT_EQ(rig.taken(reuse_step::waited), 1U);
  }
}

TEST(pool, the_order_of_preference_is_a_setting) {
  pool_rig rig({.order = {reuse_step::waited, reuse_step::ordered, reuse_step::complete, reuse_step::fresh}});
  for (const std::uint64_t bytes : {std::uint64_t{100}, mib}) {
    block* first = rig.take(0, bytes);
    block* second = rig.take(0, bytes);
    for (block* b : {first, second}) {
      rig.write(b, 0);
      rig.read(b, 1);
      rig.read(b, 2);  // of two lanes: not kept by one
      rig.give(b);
    }
    block* next = rig.take(3, bytes);
    EXPECT_TRUE(next == first || next == second);
    EXPECT_EQ(next->taken_as, reuse_step::waited);
    rig.give(next);
  }
}

TEST(pool, an_order_that_leaves_out_a_step_is_refused) {
  EXPECT_THROW(pool_rig rig({.order = {reuse_step::fresh, reuse_step::fresh, reuse_step::ordered,
                                       reuse_step::waited}}),
               usage_error);
}

TEST(pool, in_deterministic_mode_completion_never_decides_which_block_is_taken) {
  for (const bool completes : {false, true}) {
    pool_rig rig({.deterministic = true});
    for (const std::uint64_t bytes : {std::uint64_t{100}, mib}) {
      block* b = rig.use(0, bytes);
      if (completes) rig.complete(0);
      block* next = rig.take(1, bytes);
      EXPECT_NE(next, b);
      EXPECT_EQ(next->taken_as, reuse_step::fresh);
      rig.give(next);
    }
    EXPECT_EQ(rig.completion_asked, 0U);
    EXPECT_EQ(rig.taken(reuse_step::complete), 0U);
  }
}

TEST(pool, giving_back_asks_nobody_whatever_is_in_flight) {
  pool_rig rig;
  std::vector<block*> blocks;
  for (int i = 0; i < 200; ++i) {
    for (std::uint64_t bytes : some_sizes()) blocks.push_back(rig.take(static_cast<unsigned>(i % 4), bytes));
  }
  unsigned lane = 0;
  for (block* b : blocks) {
    rig.write(b, lane % 4);
    rig.read(b, (lane + lane / 4) % 4);
    ++lane;
  }
  const std::uint64_t asked = rig.completion_asked;
  for (block* b : blocks) rig.give(b);
  EXPECT_EQ(rig.completion_asked, asked);
}

TEST(pool, what_a_lane_keeps_to_itself_is_bounded) {
  pool_rig rig({.lane_cache_bytes = 4 * mib});
  std::vector<block*> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(rig.take(0, 300 * kib));
  for (int i = 0; i < 3000; ++i) blocks.push_back(rig.take(0, 4 * kib));
  for (block* b : blocks) {
    rig.write(b, 0);
    rig.give(b);
  }
  const memory_usage usage = rig.usage();
  ASSERT_EQ(usage.streams.size(), 1U);
  EXPECT_LE(usage.streams[0].cached, 4 * mib);
  EXPECT_GT(usage.streams[0].cached, 0U);
  // What went to the shared lists kept its own history, and is still there for the lane.
  for (int i = 0; i < 3000; ++i) {
    block* b = rig.take(0, 4 * kib);
    ASSERT_EQ(b->taken_as, reuse_step::ordered);
    ASSERT_EQ(rig.needs(*b), (needs_list{{0, hazard::reuse}}));
    blocks[static_cast<std::size_t>(i)] = b;
  }
  for (int i = 0; i < 3000; ++i) rig.give(blocks[static_cast<std::size_t>(i)]);
}

TEST(pool, complete_neighbours_become_one_block_again) {
  pool_rig rig({.limit = 8 * mib, .lane_cache_bytes = 0});
  rig.give(rig.take(0, 8 * mib));  // one segment
  std::vector<block*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(rig.take(static_cast<unsigned>(i % 4), mib));
  for (unsigned i = 0; i < 8; ++i) {
    rig.write(blocks[i], i % 4);
    rig.give(blocks[i]);
  }
  rig.complete_all();
  block* whole = rig.take(0, 5 * mib);
  EXPECT_EQ(whole->taken_as, reuse_step::complete);
  EXPECT_TRUE(rig.needs(*whole).empty());
  rig.give(whole);
}

TEST(pool, neighbours_of_one_lane_become_one_block_that_waits_for_the_newest_of_their_ops) {
  pool_rig rig({.limit = 4 * mib, .deterministic = true, .lane_cache_bytes = 0});
  rig.give(rig.take(0, 4 * mib));  // one segment
  std::vector<block*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(rig.take(0, mib));
  for (block* b : blocks) rig.write(b, 0);
  for (const std::size_t i : {2U, 0U, 1U, 3U}) rig.give(blocks[i]);
  block* whole = rig.take(0, 4 * mib);
  EXPECT_EQ(whole->taken_as, reuse_step::ordered);
  std::uint64_t newest = 0;
  whole->past.all([&](const detail::point& p) { newest = p.cursor; });
  EXPECT_EQ(newest, rig.cursors[0]);
  EXPECT_EQ(rig.needs(*whole).size(), 1U);
  rig.give(whole);
}

TEST(pool, pending_neighbours_of_different_lanes_stay_apart_while_anything_else_fits) {
  pool_rig rig({.limit = 4 * mib, .lane_cache_bytes = 0});
  rig.give(rig.take(0, 4 * mib));
  std::vector<block*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(rig.take(0, mib));
  for (unsigned i = 0; i < 4; ++i) {
    rig.write(blocks[i], i);
    rig.give(blocks[i]);
  }
  block* one = rig.take(3, mib);
  EXPECT_EQ(rig.needs(*one).size(), 1U);
  rig.give(one);
  // Nothing else is left: the whole waits for all of them.
  block* whole = rig.take(3, 4 * mib);
  EXPECT_EQ(whole->taken_as, reuse_step::waited);
  EXPECT_EQ(rig.needs(*whole).size(), 4U);
  for (const auto& [lane, why] : rig.needs(*whole)) EXPECT_EQ(why, hazard::reuse) << lane;
  rig.give(whole);
}

TEST(pool, the_rest_of_a_pending_block_is_pending_too) {
  pool_rig rig({.limit = 4 * mib, .lane_cache_bytes = 0});
  block* whole = rig.take(0, 4 * mib);
  rig.write(whole, 0);
  rig.give(whole);
  block* first = rig.take(1, mib);
  block* second = rig.take(2, mib);
  EXPECT_EQ(rig.needs(*first), (needs_list{{0, hazard::reuse}}));
  EXPECT_EQ(rig.needs(*second), (needs_list{{0, hazard::reuse}}));
  rig.give(first);
  rig.give(second);
}

TEST(pool, small_blocks_of_a_page_made_of_pending_memory_are_pending) {
  pool_rig rig({.limit = mib, .lane_cache_bytes = 0});
  block* whole = rig.take(0, mib);
  rig.write(whole, 0);
  rig.give(whole);
  block* small = rig.take(1, 100);
  EXPECT_EQ(small->taken_as, reuse_step::waited);
  EXPECT_EQ(rig.needs(*small), (needs_list{{0, hazard::reuse}}));
  rig.give(small);
}

TEST(pool, a_smaller_owner_in_between_does_not_hide_accesses_from_a_larger_one) {
  pool_rig rig({.order = {reuse_step::ordered, reuse_step::waited, reuse_step::complete, reuse_step::fresh}});
  block* b = rig.take(0, 256);
  rig.write(b, 0, {0, 128});
  rig.write(b, 1, {128, 128});
  rig.give(b);
  block* shorter = rig.take(2, 200);
  ASSERT_EQ(shorter, b);
  rig.write(shorter, 0, {0, 100});
  rig.give(shorter);
  block* longer = rig.take(2, 256);
  ASSERT_EQ(longer, b);
  std::set<unsigned> lanes;
  for (const auto& [lane, why] : rig.needs(*longer)) lanes.insert(lane);
  EXPECT_EQ(lanes, (std::set<unsigned>{0, 1}));
  rig.give(longer);
}

TEST(pool, an_owner_of_the_same_size_waits_for_each_part_by_itself) {
  pool_rig rig({.order = {reuse_step::ordered, reuse_step::waited, reuse_step::complete, reuse_step::fresh}});
  block* b = rig.take(0, 256);
  rig.write(b, 0, {0, 128});
  rig.write(b, 1, {128, 128});
  rig.give(b);
  block* next = rig.take(2, 256);
  ASSERT_EQ(next, b);
  next->past.needs(access::write, 0, {0, 128}, false, [](const detail::point& p, hazard why) {
    EXPECT_EQ(p.lane, detail::lane_id{0});
    EXPECT_EQ(why, hazard::reuse);
  });
  rig.give(next);
}

TEST(pool, without_room_it_throws_and_tells_what_is_in_use) {
  pool_rig rig({.limit = 4 * mib, .lane_name = [](detail::lane_id lane) {
                  return "stream " + std::to_string(detail::index_of(lane));
                }});
  block* live = rig.take(0, 3 * mib);
  rig.use(2, 512 * kib);
  try {
    rig.give(rig.take(1, 2 * mib));
    FAIL();
  } catch (const out_of_memory& e) {
    EXPECT_EQ(e.asked(), 2 * mib);
    EXPECT_EQ(e.usage().live, 3 * mib);
    EXPECT_EQ(e.usage().limit, 4 * mib);
    EXPECT_EQ(e.usage().pending, 512 * kib);
    const std::string text = e.what();
    for (const char* part :
         {"2097152", "live 3145728", "limit 4194304", "pending 524288", "stream 2", "counting"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
  }
  rig.give(live);
  rig.give(rig.take(1, 2 * mib));
  EXPECT_THROW(rig.give(rig.take(0, ~std::uint64_t{0})), out_of_memory);
}

TEST(pool, a_source_without_more_is_as_good_as_a_limit) {
  pool_rig rig;
  rig.use(0, mib);
  rig.source->is_empty = true;
  block* b = rig.take(1, mib);
  EXPECT_EQ(b->taken_as, reuse_step::waited);
  EXPECT_THROW(rig.give(rig.take(1, mib)), out_of_memory);
  rig.give(b);
}

TEST(pool, at_the_limit_complete_segments_of_other_sizes_make_room) {
  pool_rig rig({.limit = 8 * mib});
  std::vector<block*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(rig.take(0, mib));  // eight segments
  for (block* b : blocks) {
    rig.write(b, 0);
    rig.give(b);
  }
  rig.complete(0);
  rig.give(rig.take(1, 8 * mib));
  EXPECT_LE(rig.source->out, 8 * mib);
}

TEST(pool, trim_gives_back_what_is_free_and_complete_and_nothing_else) {
  pool_rig rig;
  block* live = rig.take(0, 3 * mib);
  block* small = rig.take(0, 100);
  rig.use(0, 2 * mib);
  rig.use(1, 5 * mib);
  rig.use(1, 10 * kib);
  rig.complete(0);
  EXPECT_GT(rig.usage().reserved, 10 * mib);
  rig.pool->trim();
  EXPECT_GE(rig.usage().reserved, 8 * mib);  // the live block, and the pending one of lane 1
  EXPECT_EQ(rig.usage().reserved, rig.source->out);
  rig.complete(1);
  rig.give(live);
  rig.give(small);
  const std::uint64_t before = rig.source->out;
  EXPECT_EQ(rig.pool->trim(), before);
  EXPECT_EQ(rig.usage().reserved, 0U);
  EXPECT_EQ(rig.source->out, 0U);
}

TEST(pool, trim_keeps_as_much_as_it_is_told) {
  pool_rig rig;
  std::vector<block*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(rig.take(0, 2 * mib));
  for (block* b : blocks) rig.give(b);
  rig.pool->trim(6 * mib);
  EXPECT_GE(rig.source->out, 6 * mib);
  EXPECT_LT(rig.source->out, 9 * mib);
}

TEST(pool, usage_tells_live_padding_free_and_peaks) {
  pool_rig rig;
  block* a = rig.take(0, 1000);
  block* b = rig.take(1, mib + 1);
  memory_usage usage = rig.usage();
  EXPECT_EQ(usage.live, 1000 + mib + 1);
  EXPECT_EQ(usage.padding, a->capacity - 1000 + b->capacity - mib - 1);
  EXPECT_EQ(usage.live_blocks, 2U);
  EXPECT_EQ(usage.reserved, rig.source->out);
  EXPECT_EQ(usage.free, usage.reserved - usage.live - usage.padding);
  ASSERT_EQ(usage.streams.size(), 2U);
  EXPECT_EQ(usage.streams[0].live, 1000U);
  EXPECT_EQ(usage.streams[1].live, mib + 1);
  rig.write(b, 1);
  const std::uint64_t capacity = b->capacity;
  rig.give(b);
  usage = rig.usage();
  EXPECT_EQ(usage.live, 1000U);
  EXPECT_EQ(usage.peak_live, 1000 + mib + 1);
  EXPECT_EQ(usage.pending, capacity);
  ASSERT_EQ(usage.streams.size(), 2U);
  EXPECT_EQ(usage.streams[1].pending, capacity);
  EXPECT_EQ(usage.streams[1].cached, capacity);
  rig.complete(1);
  EXPECT_EQ(rig.usage().pending, 0U);
  EXPECT_NE(to_string(usage).find("pending"), std::string::npos);
  rig.give(a);
  rig.pool->trim();
  EXPECT_EQ(rig.usage().reserved, 0U);
  EXPECT_GT(rig.usage().peak_reserved, mib);
}

TEST(pool, an_idle_block_is_never_one_that_an_op_may_touch) {
  for (const std::uint64_t bytes : {std::uint64_t{100}, mib}) {
    pool_rig rig;
    block* pending = rig.use(0, bytes);
    block* b = rig.take_idle(0, bytes);
    EXPECT_NE(b, pending);
    EXPECT_TRUE(rig.needs(*b).empty());
    rig.give(b);
    rig.complete(0);
    block* first = rig.take_idle(0, bytes);
    block* second = rig.take_idle(0, bytes);
    EXPECT_TRUE(first == pending || second == pending);
    EXPECT_TRUE(rig.needs(*first).empty());
    EXPECT_TRUE(rig.needs(*second).empty());
    rig.give(first);
    rig.give(second);
  }
}

TEST(pool, where_only_pending_blocks_are_left_there_is_no_idle_one) {
  pool_rig rig({.limit = mib, .deterministic = true});
  rig.use(0, mib);
  EXPECT_EQ(rig.take_idle(0, mib), nullptr);
  EXPECT_EQ(rig.take_idle(1, 100), nullptr);
  rig.complete(0);  // the program waited for it
  block* b = rig.take_idle(0, mib);
  ASSERT_NE(b, nullptr);
  EXPECT_TRUE(rig.needs(*b).empty());
  rig.give(b);
}

TEST(pool, adopted_memory_is_neither_handed_out_nor_freed) {
  pool_rig rig;
  std::vector<std::byte> mine(4 * kib);
  block* b = rig.pool->adopt(mine.data(), mine.size());
  EXPECT_EQ(b->data, mine.data());
  EXPECT_EQ(b->size, mine.size());
  rig.write(b, 0);
  rig.give(b);
  block* other = rig.take(0, 4 * kib);
  EXPECT_NE(other->data, mine.data());
  rig.complete(0);
  rig.give(other);
  rig.pool->trim();
  EXPECT_EQ(rig.source->out, 0U);
}

TEST(pool, blocks_that_still_have_an_owner_at_its_end_go_too_and_are_logged) {
  std::vector<std::string> lines;
  auto log = std::make_shared<logger>([&](log_area area, log_level, std::string_view text) {
    lines.push_back(to_string(area) + std::string(": ") + std::string(text));
  });
  log->set_level(log_area::memory, log_level::basic);
  std::shared_ptr<counting_source> source;
  std::vector<std::byte> mine(64);
  {
    pool_rig rig({.log = log});
    source = rig.source;
    (void)rig.take(0, 3 * mib);
    (void)rig.take(0, 100);
    (void)rig.pool->adopt(mine.data(), mine.size());
    rig.give(rig.take(0, 5 * mib));
  }
  EXPECT_EQ(source->out, 0U);
  ASSERT_FALSE(lines.empty());
  EXPECT_NE(lines.back().find("3 blocks of 3145828 bytes"), std::string::npos) << lines.back();
}

TEST(pool, in_steady_state_it_makes_nothing_new) {
  pool_rig rig;
  std::set<const block*> seen;
  std::vector<block*> held(40);
  const auto work = [&] {
    std::size_t unknown = 0;
    for (std::size_t i = 0; i < held.size(); ++i) {
      held[i] = rig.take(static_cast<unsigned>(i % 4), 50 + i * i * i * 40);
      rig.write(held[i], static_cast<unsigned>(i % 4));
      unknown += seen.insert(held[i]).second ? 1 : 0;
    }
    for (block* b : held) rig.give(b);
    rig.complete_all();
    return unknown;
  };
  for (int i = 0; i < 20; ++i) work();
  const std::uint64_t segments = rig.source->segments;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(work(), 0U);
  EXPECT_EQ(rig.source->segments, segments);
}

}  // namespace
}  // namespace braid::test
