#include "braid/detail/history.hpp"
#include "braid/detail/stamp_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace braid::detail {
namespace {

constexpr std::uint64_t size = 100;

class history_test : public testing::Test {
 protected:
  history_test() {
    for (std::uint32_t i = 0; i < 8; ++i) pools_.push_back(&arena_->add_pool(static_cast<lane_id>(i), true));
  }
  // The history gives its stamps back before the arena goes.
  void TearDown() override { past_ = history(0); }

  using points = std::map<std::uint32_t, std::uint64_t>;  // lane, newest cursor

  points needs(access kind, byte_range range = {0, size}, std::uint32_t tag = 0) {
    points all;
    past_.needs(kind, tag, range, false, [&](const point& p, hazard why) {
      all[index_of(p.lane)] = std::max(all[index_of(p.lane)], p.cursor);
      why_ = why;
    });
    return all;
  }
  void apply(access kind, std::uint32_t lane, std::uint64_t cursor, byte_range range = {0, size},
             std::uint32_t tag = 0) {
    past_.apply(kind, tag, range, range.size == size, cursor, pools_[lane]->name(),
                static_cast<lane_id>(lane));
  }

  arena_handle arena_;
  std::vector<stamp_pool*> pools_;
  history past_{size};
  hazard why_{};
};

TEST_F(history_test, nothing_needs_nothing_before_the_first_access) {
  for (const access kind : {access::read, access::write, access::read_write, access::accumulate}) {
    EXPECT_TRUE(needs(kind).empty());
  }
}

TEST_F(history_test, a_read_waits_for_the_last_write_and_not_for_readers) {
  apply(access::write, 1, 5);
  apply(access::read, 2, 3);
  EXPECT_EQ(needs(access::read), (points{{1, 5}}));
  EXPECT_EQ(why_, hazard::read_after_write);
}

TEST_F(history_test, a_write_waits_for_every_reader_since_the_last_write) {
  apply(access::write, 1, 5);
  apply(access::read, 2, 3);
  apply(access::read, 3, 4);
  apply(access::read, 2, 7);
  EXPECT_EQ(needs(access::write), (points{{2, 7}, {3, 4}}));
  EXPECT_EQ(why_, hazard::write_after_read);
}

TEST_F(history_test, a_write_without_readers_waits_for_the_last_write) {
  apply(access::write, 1, 5);
  EXPECT_EQ(needs(access::write), (points{{1, 5}}));
  EXPECT_EQ(why_, hazard::write_after_write);
  EXPECT_EQ(needs(access::read_write), (points{{1, 5}}));
  EXPECT_EQ(why_, hazard::read_after_write);
}

TEST_F(history_test, a_write_ends_what_was_before) {
  apply(access::write, 1, 5);
  apply(access::read, 2, 3);
  apply(access::write, 3, 1);
  EXPECT_EQ(needs(access::write), (points{{3, 1}}));
}

TEST_F(history_test, disjoint_ranges_are_independent) {
  apply(access::write, 1, 1, {0, 50});
  EXPECT_TRUE(needs(access::write, {50, 50}).empty());
  apply(access::write, 2, 1, {50, 50});
  EXPECT_EQ(needs(access::read, {0, 50}), (points{{1, 1}}));
  EXPECT_EQ(needs(access::read, {50, 50}), (points{{2, 1}}));
  EXPECT_EQ(needs(access::read, {49, 2}), (points{{1, 1}, {2, 1}}));
}

TEST_F(history_test, an_empty_range_needs_nothing_and_leaves_nothing) {
  apply(access::write, 1, 1);
  EXPECT_TRUE(needs(access::write, {10, 0}).empty());
  apply(access::write, 2, 1, {10, 0});
  EXPECT_EQ(needs(access::read), (points{{1, 1}}));
  EXPECT_EQ(past_.segments(), 1U);
}

TEST_F(history_test, a_partial_read_leaves_the_other_bytes_free) {
  apply(access::write, 1, 1);
  apply(access::read, 2, 1, {10, 10});
  EXPECT_EQ(needs(access::write, {0, 10}), (points{{1, 1}}));
  EXPECT_EQ(needs(access::write, {15, 1}), (points{{2, 1}}));
}

TEST_F(history_test, a_whole_write_joins_the_segments_again) {
  for (std::uint64_t i = 0; i < 10; ++i) apply(access::write, 1, i + 1, {i * 10, 10});
  EXPECT_EQ(past_.segments(), 10U);
  apply(access::write, 2, 1);
  EXPECT_EQ(past_.segments(), 1U);
  EXPECT_EQ(needs(access::read), (points{{2, 1}}));
}

TEST_F(history_test, accumulates_of_one_tag_do_not_wait_for_each_other) {
  apply(access::write, 1, 1);
  EXPECT_EQ(needs(access::accumulate), (points{{1, 1}}));
  apply(access::accumulate, 2, 1);
  EXPECT_EQ(needs(access::accumulate), (points{{1, 1}}));
  apply(access::accumulate, 3, 1);
  EXPECT_EQ(needs(access::read), (points{{2, 1}, {3, 1}}));
  EXPECT_EQ(needs(access::write), (points{{2, 1}, {3, 1}}));
}

TEST_F(history_test, members_of_a_group_wait_for_the_readers_before_it) {
  apply(access::write, 1, 1);
  apply(access::read, 4, 2);
  apply(access::accumulate, 2, 1);
  EXPECT_EQ(needs(access::accumulate), (points{{4, 2}}));
  EXPECT_EQ(why_, hazard::write_after_read);
}

TEST_F(history_test, another_tag_waits_for_the_group) {
  apply(access::accumulate, 1, 1, {0, size}, 0);
  apply(access::accumulate, 2, 1, {0, size}, 0);
  EXPECT_EQ(needs(access::accumulate, {0, size}, 1), (points{{1, 1}, {2, 1}}));
  EXPECT_EQ(why_, hazard::write_after_write);
}

TEST_F(history_test, a_read_closes_the_group) {
  apply(access::accumulate, 1, 1);
  apply(access::read, 2, 1);
  EXPECT_EQ(needs(access::accumulate), (points{{2, 1}}));
  apply(access::accumulate, 3, 1);
  EXPECT_EQ(needs(access::accumulate), (points{{2, 1}}));
  EXPECT_EQ(needs(access::read), (points{{3, 1}}));
}

TEST_F(history_test, a_next_owner_waits_for_reuse) {
  apply(access::write, 1, 1);
  apply(access::read, 2, 1);
  past_.hand_on();
  EXPECT_EQ(needs(access::write), (points{{2, 1}}));
  EXPECT_EQ(why_, hazard::reuse);
  apply(access::write, 3, 1);
  needs(access::write);
  EXPECT_EQ(why_, hazard::write_after_write);
}

TEST_F(history_test, accumulates_of_two_owners_are_ordered) {
  apply(access::accumulate, 1, 1);
  past_.hand_on();
  EXPECT_EQ(needs(access::accumulate), (points{{1, 1}}));
  EXPECT_EQ(why_, hazard::reuse);
}

TEST_F(history_test, too_many_segments_coarsen_and_keep_every_order) {
  past_ = history(10'000);
  bool coarsened = false;
  for (std::uint64_t i = 0; i < 600; ++i) {
    const auto lane = static_cast<std::uint32_t>(i % 8);
    coarsened = past_.apply(i % 2 == 0 ? access::write : access::read, 0, {i * 10, 10}, false, i + 1,
                            pools_[lane]->name(), static_cast<lane_id>(lane)) ||
                coarsened;
    EXPECT_LE(past_.segments(), history::max_segments);
  }
  EXPECT_TRUE(coarsened);
  for (std::uint64_t i = 0; i < 600; ++i) {
    const points p = needs(access::write, {i * 10, 10});
    const auto found = p.find(static_cast<std::uint32_t>(i % 8));
    ASSERT_NE(found, p.end());
    EXPECT_GE(found->second, i + 1);
  }
}

TEST_F(history_test, an_access_that_waited_for_nothing_joins_the_others) {
  apply(access::write, 1, 1);
  apply(access::read, 2, 1);
  past_.add(access::write, 0, size, 1, pools_[3]->name(), static_cast<lane_id>(3));
  EXPECT_EQ(needs(access::write), (points{{1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(needs(access::read), (points{{1, 1}, {3, 1}}));
}

}  // namespace
}  // namespace braid::detail
