#include "braid/detail/callback.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

namespace braid::detail {
namespace {

TEST(callback, calls_what_it_was_made_of) {
  int sum = 0;
  const callback<void(int)> add = [&](int x) { sum += x; };
  add(2);
  const std::function<std::string(int)> text = [](int x) { return std::to_string(x); };
  const callback<std::string(int)> same = text;
  EXPECT_EQ(sum, 2);
  EXPECT_EQ(same(7), "7");
}

TEST(callback, an_empty_one_says_so) {
  callback<void()> none;
  EXPECT_FALSE(none);
  none = [] {};
  EXPECT_TRUE(none);
  none = nullptr;
  EXPECT_FALSE(none);
}

TEST(callback, copies_share_what_is_called_and_the_last_one_destroys_it) {
  auto kept = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = kept;
  callback<int()> count = [kept = std::move(kept)] { return ++*kept; };
  callback<int()> copy = count;
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(copy(), 2);
  count = nullptr;
  EXPECT_FALSE(watched.expired());
  copy = nullptr;
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace braid::detail
