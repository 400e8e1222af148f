#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "braid/detail/stamp.hpp"

namespace braid::detail {

/// Bounds the work that is submitted and not known to be complete. The oldest op has to be over before one
/// beyond the limit is let in; a single op larger than the limit is let in alone. Exists only where a limit
/// is set, so that engines without one pay nothing.
class in_flight {
 public:
  in_flight(std::uint64_t max_ops, std::uint64_t max_bytes) noexcept
      : max_ops_(max_ops), max_bytes_(max_bytes) {}

  struct op {
    lane_id lane;
    std::uint64_t cursor;
    std::uint64_t bytes;
  };

  /// The op that has to be over before `bytes` more may enter, or none: then they have entered.
  std::optional<op> blocking(std::uint64_t bytes);
  /// That op is over.
  void done(const op& over);
  /// The op that was let in has been given this place; or another one, which is counted with it.
  void add(const op& entered, bool was_let_in = true);
  /// The op that was let in was not given.
  void abandon(std::uint64_t bytes);

 private:
  std::mutex mutex_;
  const std::uint64_t max_ops_;
  const std::uint64_t max_bytes_;
  std::uint64_t ops_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<op> queue_;
  std::size_t first_ = 0;  // of the queue: what stands before is over
};

}  // namespace braid::detail
