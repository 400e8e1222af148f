#pragma once

#include <cstdint>
#include <vector>

#include "braid/stream_id.hpp"

namespace braid {

/// What shutdown() found.
struct shutdown_report {
  struct stuck_stream {
    stream_id id;
    std::uint64_t completed = 0;  ///< the last op known to be complete
    std::uint64_t cursor = 0;     ///< the last op given
  };
  std::vector<stuck_stream> stuck;
  std::uint64_t objects_pending = 0;  ///< retired and not destroyed
  [[nodiscard]] bool complete() const noexcept { return stuck.empty() && objects_pending == 0; }
};

}  // namespace braid
