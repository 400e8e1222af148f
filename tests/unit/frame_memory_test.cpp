#include "runtime/frame_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <set>

namespace braid::detail {
namespace {

TEST(frame_memory, lanes_have_pages_of_their_own) {
  constexpr std::size_t page = 4096;
  frame_memory memory;
  std::map<std::uintptr_t, lane_id> owner;
  for (unsigned i = 0; i < 2'000; ++i) {
    const auto lane = static_cast<lane_id>(i % 7);
    const std::size_t size = 1 + (i * 37) % 700;
    auto* at = static_cast<std::byte*>(memory.take(lane, size, 64));
    std::memset(at, static_cast<int>(i), size);
    const auto first = reinterpret_cast<std::uintptr_t>(at);
    EXPECT_EQ(first % 64, 0U);
    for (std::uintptr_t p = first / page; p <= (first + size - 1) / page; ++p)
      EXPECT_EQ(owner.try_emplace(p, lane).first->second, lane);
  }
}

TEST(frame_memory, what_is_taken_does_not_overlap_and_may_be_large) {
  frame_memory memory;
  std::set<std::pair<std::uintptr_t, std::uintptr_t>> taken;
  for (const std::size_t size : {1U, 100U, 4'000U, 100'000U, 8U, 1'000'000U, 64U}) {
    for (const std::size_t alignment : {1U, 8U, 64U, 4'096U}) {
      auto* at = static_cast<std::byte*>(memory.take(lane_id{3}, size, alignment));
      std::memset(at, 1, size);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % alignment, 0U);
      taken.emplace(reinterpret_cast<std::uintptr_t>(at), reinterpret_cast<std::uintptr_t>(at + size));
    }
  }
  std::uintptr_t end = 0;
  for (const auto& [first, last] : taken) {
    EXPECT_GE(first, end);
    end = last;
  }
}

}  // namespace
}  // namespace braid::detail
