#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "braid/detail/foreign_lanes.hpp"
#include "braid/detail/stamp_pool.hpp"

namespace braid::detail {
namespace {

constexpr lane_id lane(std::uint32_t n) {
  return static_cast<lane_id>(n);
}

TEST(clock, knows_the_newest_cursor_that_it_learned) {
  clock c;
  EXPECT_EQ(c.known(lane(3)), 0U);
  c.learn(lane(3), 5);
  c.learn(lane(3), 2);
  EXPECT_EQ(c.known(lane(3)), 5U);
  EXPECT_TRUE(c.covers(lane(3), 5));
  EXPECT_FALSE(c.covers(lane(3), 6));
  EXPECT_FALSE(c.covers(lane(0), 1));
}

TEST(clock, is_exact_for_64_lanes) {
  clock c;
  for (std::uint32_t i = 0; i < 64; ++i) c.learn(lane(i), i + 1);
  for (std::uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(c.known(lane(i)), i + 1);
    EXPECT_FALSE(c.may_have_forgotten(lane(i)));
  }
}

TEST(clock, forgets_the_older_of_two_lanes_beyond_64_and_says_so) {
  clock c;
  c.learn(lane(1), 7);
  c.learn(lane(65), 9);
  EXPECT_EQ(c.known(lane(65)), 9U);
  EXPECT_EQ(c.known(lane(1)), 0U);
  EXPECT_TRUE(c.may_have_forgotten(lane(1)));
  EXPECT_FALSE(c.may_have_forgotten(lane(65)));
}

TEST(stamp, is_a_copy_of_the_clock_that_later_learning_does_not_change) {
  arena_handle arena;
  stamp_pool& pool = arena->add_pool(lane(0), true);
  clock c;
  c.learn(lane(5), 3);
  c.learn(lane(63), 8);
  stamp* s = pool.make(c);
  c.learn(lane(5), 4);
  EXPECT_TRUE(s->covers(lane(5), 3));
  EXPECT_FALSE(s->covers(lane(5), 4));
  EXPECT_TRUE(s->covers(lane(63), 8));
  EXPECT_EQ(s->entries().size(), 2U);
  s->release();
}

TEST(stamp, teaches_all_but_what_it_says_about_the_learner) {
  arena_handle arena;
  stamp_pool& pool = arena->add_pool(lane(0), false);
  clock teacher;
  teacher.learn(lane(1), 3);
  teacher.learn(lane(2), 4);
  stamp* s = pool.make(teacher);
  clock learner;
  learner.learn(*s, lane(1));
  EXPECT_EQ(learner.known(lane(1)), 0U);
  EXPECT_EQ(learner.known(lane(2)), 4U);
  s->release();
}

// Lane 0 teaches lane 1, which teaches back.
TEST(stamp, tells_nothing_new_to_those_who_know_where_it_comes_from) {
  arena_handle arena;
  stamp_pool& pool = arena->add_pool(lane(1), false);
  clock of_one;
  of_one.learn(lane(0), 4);
  of_one.learn(lane(2), 7);                                              // which lane 0 knew
  const stamp* since_five = pool.make_current(of_one, {4, lane(0)}, 5);  // and op 5 knew the rest
  clock known;
  EXPECT_FALSE(since_five->tells_nothing_new(known, lane(0))) << "lane 0 does not know op 5 of lane 1";
  known.learn(lane(1), 4);
  EXPECT_FALSE(since_five->tells_nothing_new(known, lane(0)));
  known.learn(lane(1), 5);
  EXPECT_TRUE(since_five->tells_nothing_new(known, lane(0)));
  EXPECT_FALSE(since_five->tells_nothing_new(known, lane(3))) << "lane 3 does not know op 4 of lane 0";
  known.learn(lane(0), 4);
  EXPECT_TRUE(since_five->tells_nothing_new(known, lane(3)));
}

TEST(stamp, of_more_than_one_source_may_always_tell_something_new) {
  arena_handle arena;
  stamp_pool& pool = arena->add_pool(lane(1), false);
  clock of_one;
  of_one.learn(lane(0), 4);
  clock known;
  known.learn(lane(0), 9);
  known.learn(lane(1), 9);
  EXPECT_FALSE(pool.make_current(of_one)->tells_nothing_new(known, lane(3)));
}

TEST(stamp, released_stamps_are_used_again) {
  arena_handle arena;
  stamp_pool& pool = arena->add_pool(lane(0), true);
  const clock c;
  stamp* first = pool.make(c);
  first->release();
  EXPECT_EQ(pool.make(c), first);
}

TEST(stamp, is_used_again_when_its_slot_has_left_it_and_nobody_holds_it) {
  arena_handle arena;
  stamp_pool& pool = arena->add_pool(lane(0), true);
  const clock c;
  stamp* first = pool.make_current(c);
  first->retain_under_lock();
  first->retain_under_list_lock();
  first->retain();
  EXPECT_NE(pool.make_current(c), first);
  first->leave();
  for (int holders = 3; holders > 0; --holders) {
    EXPECT_NE(pool.make(c), first) << holders;
    std::thread([&] { first->release(); }).join();
  }
  EXPECT_EQ(pool.make(c), first);
}

TEST(stamp, may_be_released_in_another_way_than_it_was_retained) {
  arena_handle arena;
  stamp_pool& pool = arena->add_pool(lane(0), true);
  const clock c;
  for (int round = 0; round < 3; ++round) {
    stamp* s = pool.make_current(c);
    for (int i = 0; i < 5; ++i) {
      s->retain();
      s->release_under_lock();
      s->retain_under_lock();
      s->release();  // never the last while it is the slot's
    }
    s->retain();
    s->release_under_lock();
    EXPECT_NE(pool.make_current(c), s);
    s->leave();
    stamp* again = pool.make(c);
    EXPECT_EQ(again, s);
    again->release();
  }
}

TEST(stamp, that_only_marks_hold_is_used_again_when_the_last_of_them_lets_go) {
  arena_handle arena;
  stamp_pool& pool = arena->add_pool(lane(0), true);
  const clock c;
  for (const bool slot_leaves_first : {true, false}) {
    stamp* s = pool.make_current(c);
    s->retain_for_mark();
    s->retain_for_mark();
    if (slot_leaves_first) s->leave_to_marks();
    s->release_by_maker();
    stamp* other = pool.make(c);
    EXPECT_NE(other, s);
    s->release_by_maker();
    if (!slot_leaves_first) {
      stamp* third = pool.make(c);
      EXPECT_NE(third, s);
      third->release();
      s->leave_to_marks();
    }
    other->release();
    stamp* again = pool.make(c);
    EXPECT_EQ(again, s);
    again->release();
  }
}

TEST(stamp, of_marks_and_others_is_used_again_when_all_of_them_have_let_go) {
  arena_handle arena;
  stamp_pool& pool = arena->add_pool(lane(0), true);
  const clock c;
  for (const bool marks_let_go_first : {true, false}) {
    stamp* s = pool.make_current(c);
    s->retain_for_mark();
    s->retain_under_list_lock();  // of a mark, or not
    s->retain();
    stamp* next = pool.make_current(c);
    EXPECT_NE(next, s);
    s->leave_to_marks();
    const auto let_marks_go = [&] {
      s->release_by_maker();
      s->release_by_maker();
    };
    if (marks_let_go_first) let_marks_go();
    stamp* other = pool.make(c);
    EXPECT_NE(other, s);
    std::thread([&] { s->release(); }).join();
    if (!marks_let_go_first) {
      stamp* third = pool.make(c);
      EXPECT_NE(third, s);
      third->release();
      let_marks_go();
    }
    stamp* again = pool.make(c);
    EXPECT_EQ(again, s);
    again->release();
    other->release();
    next->leave_to_marks();
  }
}

TEST(clock, of_a_slot_keeps_nothing_that_others_tell_of_it) {
  arena_handle arena;
  clock told;
  told.learn(lane(3), 7);
  told.learn(lane(4), 2);
  stamp* s = arena->add_pool(lane(4), true).make(told);
  clock own(lane(3));
  own.learn(*s, lane(3));
  EXPECT_EQ(own.known(lane(4)), 2U);
  stamp* copy = arena->add_pool(lane(3), true).make(own);
  EXPECT_FALSE(copy->covers(lane(3), 1));
  EXPECT_EQ(copy->entries().size(), 1U);
  // Another lane may have the place.
  own.learn(lane(3 + clock::places), 5);
  EXPECT_EQ(own.known(lane(3 + clock::places)), 5U);
  copy->release();
  s->release();
}

TEST(stamp, comes_back_from_any_thread) {
  arena_handle arena;
  stamp_pool& pool = arena->add_pool(lane(0), true);
  const clock c;
  for (int round = 0; round < 100; ++round) {
    stamp* s = pool.make(c);
    s->retain();
    std::thread other([&] { s->release(); });
    s->release();
    other.join();
  }
}

// Also after more accesses than there are lanes.
TEST(foreign_lanes, have_a_lane_of_their_own_that_is_no_slots_and_that_nobody_knows) {
  constexpr std::uint64_t all = (std::uint64_t{1} << 31) - 1;
  foreign_lanes lanes(all - 2);
  std::vector<clock_entry> taken;
  const auto is_in_use = [&](lane_id lane) { return lane == first_foreign_lane; };  // for long
  for (int i = 0; i < 5; ++i) taken.push_back(lanes.take(is_in_use));
  for (const clock_entry& each : taken) {
    EXPECT_TRUE(is_foreign(each.lane));
    EXPECT_NE(each.lane, first_foreign_lane);
    EXPECT_NE(index_of(each.lane), ~std::uint32_t{0});  // which is nobody's
  }
  foreign_lanes before(1);
  const clock_entry old = before.take([](lane_id) { return false; });
  const clock_entry same = taken[2];
  ASSERT_EQ(same.lane, old.lane);
  clock known;
  known.learn(old.lane, old.cursor);
  EXPECT_FALSE(known.covers(same.lane, same.cursor));
}

TEST(clock, keeps_foreign_lanes_apart_from_slots) {
  clock c;
  const lane_id foreign{index_of(first_foreign_lane) + 5};
  c.learn(lane(5), 2);
  c.learn(foreign, 1);
  EXPECT_EQ(c.known(lane(5)), 2U);
  EXPECT_TRUE(c.covers(foreign, 1));
  arena_handle arena;
  stamp* s = arena->add_pool(lane(0), true).make(c);
  EXPECT_TRUE(s->covers(foreign, 1));
  EXPECT_TRUE(s->covers(lane(5), 2));
  s->release();
}

}  // namespace
}  // namespace braid::detail
