#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

// Sizes of small blocks: 64, 128, 192, then multiples of 256 up to 2 KiB, then eight to each power of two, so
// that a block of 2 KiB or more is at most an eighth too large. Each is a multiple of its alignment.

namespace braid::detail {

constexpr std::uint64_t granule = 4096;  // of large blocks and of segments
constexpr std::uint64_t largest_small = std::uint64_t{64} << 10;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) noexcept {
  return (bytes + to - 1) / to * to;
}

/// Of `bytes` up to largest_small.
constexpr unsigned class_of(std::uint64_t bytes) noexcept {
  if (bytes <= 192) return bytes <= 64 ? 0 : static_cast<unsigned>((bytes - 1) / 64);
  if (bytes <= 2048) return static_cast<unsigned>(3 + (bytes - 1) / 256);
  const auto octave = static_cast<unsigned>(std::bit_width(bytes - 1)) - 1;  // 11 from 2049 on
  return 11 + (octave - 11) * 8 + static_cast<unsigned>((bytes - 1) >> (octave - 3) & 7);
}

constexpr std::uint64_t class_size(unsigned size_class) noexcept {
  if (size_class < 3) return (size_class + 1) * std::uint64_t{64};
  if (size_class < 11) return (size_class - 2) * std::uint64_t{256};
  const unsigned octave = 11 + (size_class - 11) / 8;
  return (std::uint64_t{1} << octave) + ((size_class - 11) % 8 + 1) * (std::uint64_t{1} << (octave - 3));
}

constexpr unsigned class_count = class_of(largest_small) + 1;
static_assert(class_size(class_count - 1) == largest_small);
static_assert(class_of(193) == 3 && class_size(3) == 256 && class_of(2048) == 10 && class_of(2049) == 11);

/// How many blocks a page has.
constexpr std::uint32_t blocks_of_page(unsigned size_class) noexcept {
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(8, largest_small / class_size(size_class)));
}

}  // namespace braid::detail
