#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/model.hpp"

// What if: the ops of a trace, with the time that each took, through the real runtime and engine on a device
// in virtual time, with other settings.

namespace braid::trace {

struct replay_setting {
  /// Where ops go: where they went (on as many streams as there are now), or as the runtime's placements
  /// choose.
  enum class placing : std::uint8_t { recorded, automatic, per_thread, single };
  std::uint32_t streams = 1;
  placing placed = placing::recorded;
  std::uint32_t workers = 0;  ///< 0: those of the trace
};
const char* to_string(replay_setting::placing p) noexcept;

struct prediction {
  replay_setting with;
  time_ns makespan = 0;
  std::uint64_t waits = 0;
  std::uint32_t streams_used = 0;
};

/// The number of the runtime that has most of the ops: the one that is replayed.
std::uint32_t main_runtime(const trace& t);

/// Throws trace_error if the trace cannot be replayed: its histories contradict each other.
prediction replay(const trace& t, const replay_setting& with);

/// Which of the predictions to take: of those that are within half a percent of the fastest, the one with the
/// fewest streams, which waits least. None (the number of predictions) if that gains less than 2 % over
/// `own`.
std::size_t recommend(const std::vector<prediction>& all, const prediction& own);

/// Whether the program named the stream of at least one op.
bool names_streams(const trace& t);

/// What the trace was recorded with.
replay_setting own_setting(const trace& t);

}  // namespace braid::trace
