#include <thread>

#include "braid/stream_pool.hpp"

#include "support.hpp"

namespace braid {
namespace {

struct plain_slot {
  detail::lane_id lane;
};

auto make(detail::lane_id lane) {
  return std::make_unique<plain_slot>(plain_slot{lane});
}

TEST(stream_pool, an_id_maps_to_its_value_modulo_the_regular_slots) {
  const stream_pool<plain_slot> pool(4, 2);
  EXPECT_EQ(pool.index({3}), 3U);
  EXPECT_EQ(pool.index({4}), 0U);
  EXPECT_EQ(pool.index({~std::uint64_t{0} >> 1}), (~std::uint64_t{0} >> 1) % 4);
}

TEST(stream_pool, any_id_that_special_does_not_make_maps_to_a_regular_slot) {
  const stream_pool<plain_slot> pool(5, 2);
  constexpr std::uint64_t half = std::uint64_t{1} << 63;
  EXPECT_EQ(stream_id{half}, stream_id::special(0));
  EXPECT_EQ(stream_id{half + 0xffff'ffff}, stream_id::special(0xffff'ffff));
  for (const std::uint64_t value : {half + 0x1'0000'0000, half + half / 2, ~std::uint64_t{0}, half - 1}) {
    EXPECT_FALSE(stream_id{value}.is_special());
    EXPECT_EQ(pool.index({value}), value % 5);
    EXPECT_EQ(to_string(stream_id{value}), std::to_string(value));
  }
}

TEST(stream_pool, special_slots_sit_beside_the_regular_ones) {
  const stream_pool<plain_slot> pool(4, 2);
  EXPECT_EQ(pool.index(stream_id::special(0)), 4U);
  EXPECT_EQ(pool.index(stream_id::special(1)), 5U);
  try {
    (void)pool.index(stream_id::special(2));
    FAIL();
  } catch (const usage_error& e) {
    EXPECT_EQ(e.kind(), misuse::unknown_special);
  }
}

TEST(stream_pool, slots_are_made_on_first_use_and_numbered_in_that_order) {
  stream_pool<plain_slot> pool(10, 0);
  EXPECT_EQ(pool.find({7}), nullptr);
  plain_slot& seven = pool.get({7}, make);
  plain_slot& three = pool.get({3}, make);
  EXPECT_EQ(&pool.get({17}, make), &seven);
  EXPECT_EQ(index_of(seven.lane), 0U);
  EXPECT_EQ(index_of(three.lane), 1U);
  EXPECT_EQ(pool.used(), 2U);
  EXPECT_EQ(&pool.lane(three.lane), &three);
}

TEST(stream_pool, a_slot_whose_making_fails_is_made_at_the_next_try) {
  stream_pool<plain_slot> pool(4, 0);
  const auto fails = [](detail::lane_id) -> std::unique_ptr<plain_slot> { throw std::runtime_error("no"); };
  EXPECT_THROW(pool.get({1}, fails), std::runtime_error);
  EXPECT_EQ(pool.find({1}), nullptr);
  EXPECT_EQ(index_of(pool.get({1}, make).lane), 0U);
}

TEST(stream_id, a_thread_keeps_its_own_id_and_threads_differ) {
  const stream_id mine = stream_id::current();
  EXPECT_EQ(stream_id::current(), mine);
  stream_id other;
  std::thread([&] { other = stream_id::current(); }).join();
  EXPECT_NE(other, mine);
}

TEST(stream_id, special_ids_are_named_as_such) {
  EXPECT_TRUE(stream_id::special(2).is_special());
  EXPECT_FALSE(stream_id{2}.is_special());
  EXPECT_EQ(to_string(stream_id::special(2)), "special 2");
  EXPECT_EQ(to_string(stream_id{2}), "2");
}

}  // namespace
}  // namespace braid
