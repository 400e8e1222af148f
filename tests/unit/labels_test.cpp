#include "braid/detail/labels.hpp"

#include <gtest/gtest.h>

#include <string>

namespace braid::detail {
namespace {

// A program may make its labels in one buffer: the text counts, not where it stands.
TEST(labels, follow_the_text_in_a_buffer_that_is_used_again) {
  for (std::size_t length = 0; length <= 40; ++length) {
    std::string text(length, 'a');
    const label_ref first = label_ref::of(text);
    EXPECT_EQ(first.name(), text);
    EXPECT_EQ(label_ref::of(text).get(), first.get()) << length;
    for (std::size_t i = 0; i < length; ++i) {
      text[i] = 'b';
      const label_ref changed = label_ref::of(text);
      EXPECT_EQ(changed.name(), text) << length << ", character " << i;
      EXPECT_NE(changed.get(), first.get()) << length << ", character " << i;
      text[i] = 'a';
      EXPECT_EQ(label_ref::of(text).get(), first.get()) << length << ", character " << i;
    }
    if (length > 0) {
      const std::string_view shorter(text.data(), length - 1);
      EXPECT_EQ(label_ref::of(shorter).name(), shorter);
    }
  }
}

TEST(labels, may_have_any_byte_in_them) {
  std::string text("a\0b", 3);
  EXPECT_EQ(label_ref::of(text).name(), text);
  text[2] = 'c';
  EXPECT_EQ(label_ref::of(text).name(), text);
  EXPECT_EQ(label_ref::of("a").name(), "a");
}

}  // namespace
}  // namespace braid::detail
