#pragma once

#include <cstdint>

namespace braid::detail {

/// An op of a recorded sequence: its part, and its place there, from 1; where sequences follow each other,
/// from 0 down one of the sequence before.
struct recorded_place {
  std::uint32_t part = 0;
  std::int64_t index = 0;
};

}  // namespace braid::detail
