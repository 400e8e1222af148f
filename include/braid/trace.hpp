#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

// A record of what the runtimes of this process do: each op with its times, each wait with its reason, each
// block of memory. Written as Chrome trace events: chrome://tracing and Perfetto open the file, and `braid
// explain`, `timeline`, `replay` and `graph` read it.
//
//   BRAID_TRACE=out.json ./my_program          all of it; written when the program ends
//
//   {
//     braid::tracing trace("out.json");        or a part of it
//     ...
//     rt.synchronize();
//   }                                          written here
//
// Each thread records into a buffer of its own, which nobody else writes: recording takes no lock and never
// waits. A full buffer drops its oldest records; how many is in the file. While nothing is traced, an op
// costs one branch when it is submitted and one when it runs.

namespace braid {

struct trace_options {
  /// For each thread that submits or runs ops; taken from the system as it fills. 0: that of the settings.
  std::uint64_t buffer_bytes = 0;
};

struct trace_summary {
  std::uint64_t ops = 0;
  std::uint64_t waits = 0;
  std::uint64_t blocks = 0;      ///< taken or given back
  std::uint64_t dropped = 0;     ///< records that were lost to a full buffer
  std::uint64_t incomplete = 0;  ///< ops that are left out: they were not over, or part of them was dropped
};

/// Records from its construction until stop(). One at a time in a process: a second one throws usage_error.
class tracing {
 public:
  /// Throws usage_error(bad_settings) if the file cannot be written.
  explicit tracing(std::filesystem::path to, trace_options options = {});
  /// stop(), if that was not called; what it throws is logged.
  ~tracing();
  tracing(const tracing&) = delete;
  tracing& operator=(const tracing&) = delete;

  /// Writes the file. Ops that are not over are left out: synchronise first. Throws std::system_error.
  trace_summary stop();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace braid
