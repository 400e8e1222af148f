#pragma once

#include <cstdint>

#include "braid/detail/stamp.hpp"

namespace braid::detail {

/// Numbers the accesses that braid did not submit. Each has a lane of its own for as long as it is
/// remembered. Lanes are used again, with a higher cursor, so that who knows the access before does not know
/// this one.
class foreign_lanes {
 public:
  explicit foreign_lanes(std::uint64_t first = 0) noexcept : next_(first) {}

  /// The next one whose lane is not in use.
  template <class IsInUse>
  [[nodiscard]] clock_entry take(IsInUse is_in_use) {
    for (;;) {
      const clock_entry entry{next_ / count + 1,
                              static_cast<lane_id>(index_of(first_foreign_lane) + next_ % count)};
      ++next_;
      if (!is_in_use(entry.lane)) return entry;
    }
  }

 private:
  static constexpr std::uint64_t count = (std::uint64_t{1} << 31) - 1;  // the highest number is nobody's
  std::uint64_t next_;
};

}  // namespace braid::detail
