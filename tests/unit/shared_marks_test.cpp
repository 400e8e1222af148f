#include "braid/detail/shared_marks.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace braid::detail {
namespace {

using ops_of = std::vector<shared_marks::op>;
constexpr auto none = shared_marks::none;

TEST(shared_marks, who_is_not_awaited_records_none) {
  const ops_of ops{{.part = 0}, {.part = 1}};
  const shared_marks made(ops, 2);
  EXPECT_EQ(made.of_op, (std::vector<std::uint32_t>{none, none}));
  EXPECT_TRUE(made.parts.empty());
}

TEST(shared_marks, ops_of_a_part_share_one_when_all_who_wait_for_the_first_have_been_told) {
  const ops_of ops{{.part = 0, .is_awaited = true, .until = 1},
                   {.part = 1},
                   {.part = 0, .is_awaited = true, .until = 4},
                   {.part = 0, .is_awaited = true, .until = 4},  // the one before is still needed
                   {.part = 1},
                   {.part = 0, .is_awaited = true, .until = 6},
                   {.part = 1}};
  const shared_marks made(ops, 2);
  EXPECT_EQ(made.of_op, (std::vector<std::uint32_t>{0, none, 0, 1, none, 0, none}));
  EXPECT_EQ(made.parts, (std::vector<std::uint32_t>{0, 0}));
  EXPECT_EQ(made.last, (std::vector<std::uint32_t>{5, 3}));
}

TEST(shared_marks, who_waits_last_may_record_the_mark_that_it_waited_for_on_its_own_part_only) {
  const ops_of ops{{.part = 0, .is_awaited = true, .until = 1},
                   {.part = 1, .is_awaited = true, .until = 2},
                   {.part = 0, .is_awaited = true, .until = 3},
                   {.part = 1}};
  const shared_marks made(ops, 2);
  EXPECT_EQ(made.of_op, (std::vector<std::uint32_t>{0, 1, 0, none}));
  EXPECT_EQ(made.parts, (std::vector<std::uint32_t>{0, 1}));
}

TEST(shared_marks, what_serves_those_after_the_sequence_is_recorded_by_one_op_alone) {
  const ops_of ops{{.part = 0, .is_awaited = true, .keeps = true, .until = 1},
                   {.part = 1},
                   {.part = 0, .is_awaited = true, .until = 3},
                   {.part = 1},
                   {.part = 0, .is_awaited = true, .keeps = true, .until = 5},
                   {.part = 1}};
  const shared_marks made(ops, 2);
  EXPECT_EQ(made.of_op, (std::vector<std::uint32_t>{0, none, 1, none, 2, none}));
}

}  // namespace
}  // namespace braid::detail
