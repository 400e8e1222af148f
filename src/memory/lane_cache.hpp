#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "braid/detail/lock.hpp"
#include "braid/detail/pool.hpp"
#include "size_class.hpp"

namespace braid::detail {

/// What one lane keeps to itself: blocks with points of this lane only, which it can take again without a
/// question and without meeting other lanes. Bounded in bytes and number. Under `lock`, which is a leaf.
struct alignas(64) pool::lane_cache {
  spin_lock lock;
  const lane_id lane;
  std::uint64_t cached = 0;  // bytes
  const std::uint64_t most;
  std::uint64_t next_id = 0;
  std::uint64_t last_id = 0;

  // Of the blocks that were taken for this lane.
  std::uint64_t live = 0;
  std::uint64_t padding = 0;
  std::uint64_t blocks = 0;
  std::uint64_t peak = 0;
  std::uint64_t published = 0;  // of `live`, to the pool's sum
  std::array<std::uint64_t, reuse_step_count> taken{};

  static constexpr unsigned most_large = 16;
  std::uint32_t large_count = 0;
  std::uint32_t victim = 0;
  std::array<std::uint64_t, most_large> sizes{};
  std::array<block*, most_large> large{};
  std::array<block*, class_count> small{};
  std::array<std::uint16_t, class_count> small_count{};

  lane_cache(lane_id of, std::uint64_t bytes) : lane(of), most(bytes) {}

  static constexpr std::uint64_t most_small(unsigned size_class) noexcept {
    return std::clamp<std::uint64_t>((std::uint64_t{1} << 20) / class_size(size_class), 16, 1024);
  }

  [[nodiscard]] std::uint64_t new_id() noexcept {
    if (next_id == last_id) [[unlikely]] {
      constexpr std::uint64_t batch = 1024;
      next_id = reserve_resource_ids(batch);
      last_id = next_id + batch;
    }
    return next_id++;
  }

  /// A block that fits closely, or null.
  [[nodiscard]] block* pop(std::uint64_t bytes) noexcept {
    if (bytes <= largest_small) {
      const unsigned k = class_of(bytes);
      block* b = small[k];
      if (b == nullptr) return nullptr;
      small[k] = b->next;
      --small_count[k];
      cached -= b->capacity;
      return b;
    }
    const std::uint32_t at = closest(bytes);
    return at < large_count ? remove_large(at) : nullptr;
  }
  /// As pop(), of blocks that suit.
  template <class Suits>
  [[nodiscard]] block* pop_if(std::uint64_t bytes, const Suits& suits) {
    if (bytes <= largest_small) {
      block* b = small[class_of(bytes)];
      return b != nullptr && suits(*b) ? pop(bytes) : nullptr;
    }
    const std::uint32_t at = closest(bytes);
    return at < large_count && suits(*large[at]) ? remove_large(at) : nullptr;
  }

  /// Keeps the block. Returns one that has to go for it, or null.
  [[nodiscard]] block* push(block* b) noexcept {
    if (b->is == block::kind::small) {
      const unsigned k = b->size_class;
      if (small_count[k] >= most_small(k) || cached + b->capacity > most) return b;
      b->next = std::exchange(small[k], b);
      ++small_count[k];
      cached += b->capacity;
      return nullptr;
    }
    if (b->capacity > most / 2) return b;
    if (large_count < most_large && cached + b->capacity <= most) {
      sizes[large_count] = b->capacity;
      large[large_count++] = b;
      cached += b->capacity;
      return nullptr;
    }
    if (large_count == 0) return b;
    if (++victim >= large_count) victim = 0;
    if (cached - sizes[victim] + b->capacity > most) return b;
    cached += b->capacity - sizes[victim];
    sizes[victim] = b->capacity;
    return std::exchange(large[victim], b);
  }

  /// Takes out everything, or the large blocks only, and calls `visit` for each.
  template <class Visit>
  void drain(bool small_too, const Visit& visit) {
    while (large_count > 0) visit(remove_large(large_count - 1));
    for (unsigned k = 0; small_too && k < class_count; ++k) {
      while (block* b = small[k]) {
        small[k] = b->next;
        cached -= b->capacity;
        visit(b);
      }
      small_count[k] = 0;
    }
  }
  template <class Visit>
  void each(const Visit& visit) const {
    for (std::uint32_t i = 0; i < large_count; ++i) visit(*large[i]);
    for (const block* list : small) {
      for (; list != nullptr; list = list->next) visit(*list);
    }
  }

  void note_taken(std::uint64_t bytes, std::uint64_t capacity, reuse_step step) noexcept {
    live += bytes;
    padding += capacity - bytes;
    ++blocks;
    peak = std::max(peak, live);
    ++taken[static_cast<unsigned>(step)];
  }
  void note_given(const block& b) noexcept {
    live -= b.size;
    padding -= b.capacity - b.size;
    --blocks;
  }
  /// What the pool's sum has to learn.
  [[nodiscard]] std::int64_t unpublished() noexcept {
    return static_cast<std::int64_t>(live - std::exchange(published, live));
  }

 private:
  [[nodiscard]] std::uint32_t closest(std::uint64_t bytes) const noexcept {
    const std::uint64_t limit = bytes + bytes / 128 + granule;
    std::uint64_t found = limit;
    std::uint32_t at = most_large;
    for (std::uint32_t i = 0; i < large_count; ++i) {
      if (sizes[i] >= bytes && sizes[i] < found) {
        found = sizes[i];
        at = i;
      }
    }
    return at;
  }
  block* remove_large(std::uint32_t at) noexcept {
    block* b = large[at];
    cached -= sizes[at];
    --large_count;
    large[at] = large[large_count];
    sizes[at] = sizes[large_count];
    return b;
  }
};

}  // namespace braid::detail
