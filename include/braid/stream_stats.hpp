#pragma once

#include <array>
#include <cstdint>

#include "braid/hazard.hpp"

namespace braid {

/// What an engine did so far. Each number only grows; numbers read while other threads submit belong to
/// slightly different moments.
struct stream_stats {
  std::uint64_t streams = 0;  ///< streams created
  std::uint64_t ops = 0;
  std::uint64_t followed = 0;  ///< of these, given without analysis: their thread repeated what it did before
  std::array<std::uint64_t, hazard_count> waits{};  ///< inserted, by hazard

  // Needs that cost no wait, by cause.
  std::uint64_t elided_same_stream = 0;  ///< the stream itself did that work
  std::uint64_t elided_known = 0;        ///< waited for before, directly or through others
  std::uint64_t elided_implied = 0;      ///< another wait of the same op brings it along
  std::uint64_t elided_complete = 0;     ///< known to be complete

  std::uint64_t marks = 0;             ///< events recorded
  std::uint64_t marks_early = 0;       ///< of these, before anybody asked
  std::uint64_t marks_reused = 0;      ///< waits that an older mark served
  std::uint64_t excess_orderings = 0;  ///< ops that waits reached beyond the needed ones
  std::uint64_t waits_forgotten = 0;   ///< waits that a clock of more than 64 slots may have known before
  std::uint64_t histories_coarsened = 0;
  std::uint64_t retired = 0;    ///< objects handed to retire()
  std::uint64_t reclaimed = 0;  ///< of these, destroyed
  std::uint64_t errors = 0;     ///< failures met where nobody could be told: they are in the log

  [[nodiscard]] std::uint64_t waits_inserted() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t n : waits) sum += n;
    return sum;
  }
  [[nodiscard]] std::uint64_t waits_for(hazard why) const noexcept {
    return waits[static_cast<unsigned>(why)];
  }
};

}  // namespace braid
