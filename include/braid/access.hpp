#pragma once

#include <cstdint>
#include <limits>

namespace braid {

/// What an operation does to the bytes it names.
enum class access : std::uint8_t {
  read,
  write,  ///< the old content does not matter
  read_write,
  accumulate,  ///< commutes with accumulates of the same tag and may run at the same time as they
};

const char* to_string(access kind) noexcept;

/// Bytes [offset, offset + size) of a resource.
struct byte_range {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;

  [[nodiscard]] constexpr std::uint64_t end() const noexcept { return offset + size; }
  /// Whether they have a byte in common: an empty range has none with any.
  [[nodiscard]] constexpr bool overlaps(const byte_range& other) const noexcept {
    return size != 0 && other.size != 0 && offset < other.end() && other.offset < end();
  }
  friend constexpr bool operator==(const byte_range&, const byte_range&) = default;
};

}  // namespace braid
