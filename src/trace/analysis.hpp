#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/model.hpp"

// Where the time of a trace went.

namespace braid::trace {

/// Of one stream, from the trace's first submit to its last end: the four add up to that.
struct account {
  std::uint32_t stream = 0;
  std::uint64_t ops = 0;
  time_ns busy = 0;     ///< running ops
  time_ns waiting = 0;  ///< its next op was submitted, and others that it has to come after were not over
  time_ns starved = 0;  ///< its next op could have run: waiting for a worker (or for the device)
  time_ns idle = 0;     ///< nothing was submitted to it
};
std::vector<account> account_streams(const trace& t);

/// When the op could have started: it was submitted, and all that it has to come after was over.
time_ns ready_at(const trace& t, const op& o);

/// How long the op's stream stood still for one of its waits: from the moment in which the op was submitted
/// and first of its stream until what it waited for was over. 0 if that was over before.
time_ns cost_of(const trace& t, const op& o, const wait& w);

/// "stream 3 waited 1.24 ms for 'syrk 4,2' on stream 0: it reads 'A[4,2]' that it wrote".
std::string sentence(const trace& t, const op& o, const wait& w);

struct costly_wait {
  op_index op = no_op;
  std::uint32_t wait = 0;
  time_ns cost = 0;
};
/// The longest first.
std::vector<costly_wait> longest_waits(const trace& t, std::size_t most);

/// Backwards from the end of the last op: each piece of time with what it was spent on.
struct path_step {
  enum class kind : std::uint8_t {
    op,      ///< running `op`
    worker,  ///< `op` could have run, or been submitted, and was waiting for a worker
    host,    ///< `op` was not submitted yet
  };
  kind what{};
  op_index op = no_op;
  time_ns begin = 0;
  time_ns end = 0;
};
struct critical_path {
  std::vector<path_step> steps;  ///< in the order of time; each begins where the one before it ends
  time_ns ops = 0;
  time_ns worker = 0;
  time_ns host = 0;
};
critical_path find_critical_path(const trace& t);

/// What other settings could gain at best.
struct bounds {
  time_ns work = 0;  ///< all ops, one after the other
  time_ns dependencies =
      0;                ///< the longest chain of ops that have to follow each other, whatever their streams
  time_ns streams = 0;  ///< the same with the order of each stream as it was: as many workers as wanted
  time_ns workers = 0;  ///< `work` divided by the workers; 0 where there are none
  /// No choice of streams and placement can be faster on the same workers.
  [[nodiscard]] time_ns best() const noexcept { return dependencies > workers ? dependencies : workers; }
};
bounds find_bounds(const trace& t);

/// "1.24 ms"
std::string to_text(time_ns t);

}  // namespace braid::trace
