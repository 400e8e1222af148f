#pragma once

#include <cstddef>
#include <vector>

#include "braid/detail/stamp.hpp"

namespace braid::detail {

/// Where the ops of a recording stand, until it is gone. Those of a lane have pages of their own: a body may
/// change what it captured, and a core that runs one op after the other fetches ahead, up to the end of the
/// page, what would be another core's.
class frame_memory {
 public:
  frame_memory() = default;
  ~frame_memory();
  frame_memory(const frame_memory&) = delete;
  frame_memory& operator=(const frame_memory&) = delete;

  /// Throws std::bad_alloc.
  [[nodiscard]] void* take(lane_id lane, std::size_t size, std::size_t alignment);

 private:
  static constexpr std::size_t page = 4096;
  struct room {
    std::byte* at = nullptr;
    std::byte* end = nullptr;
    std::size_t next = page;  // bytes
  };
  std::vector<room> by_lane_;
  std::vector<std::byte*> all_;
};

}  // namespace braid::detail
