#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace braid {

/// Names a stream. Any value is valid: the pool maps it to one of its slots, so that several ids may
/// share a stream. Ordering is decided on slots; ids are for people, in errors, logs and traces.
struct stream_id {
  std::uint64_t value = 0;

  /// The calling thread's own stream: another value for each thread, the same for its whole life.
  static stream_id current() noexcept;

  /// The slot number `index` that sits beside the regular ones and that no plain id maps to.
  static constexpr stream_id special(unsigned index) noexcept { return {special_bit | index}; }

  /// Whether special() makes it: every other value, however large, is a plain id.
  [[nodiscard]] constexpr bool is_special() const noexcept { return value >> 32 == special_bit >> 32; }
  /// The place among the special slots. Only for special ids.
  [[nodiscard]] constexpr std::uint64_t special_index() const noexcept { return value & ~special_bit; }

  friend constexpr auto operator<=>(const stream_id&, const stream_id&) = default;
  friend constexpr bool operator==(const stream_id&, const stream_id&) = default;  // nvcc does not make it

 private:
  static constexpr std::uint64_t special_bit = std::uint64_t{1} << 63;
};

/// "3", or "special 0".
std::string to_string(stream_id id);

}  // namespace braid
