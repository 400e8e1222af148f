#pragma once

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "braid/access.hpp"
#include "braid/hazard.hpp"
#include "braid/memory.hpp"
#include "braid/stream_id.hpp"

// A trace that was read back: what `braid explain`, `timeline`, `replay` and `graph` work on.

namespace braid::trace {

/// ns since the trace began. What was under way then may have begun before.
using time_ns = std::int64_t;

using op_index = std::uint32_t;
inline constexpr op_index no_op = std::numeric_limits<op_index>::max();

/// What an op reads or writes.
struct use {
  std::uint64_t resource = 0;  ///< its id; unique in its runtime
  std::string name;
  access kind = access::read;
  byte_range range;
  std::uint32_t tag = 0;
};

/// A wait that the op's stream was told to make.
struct wait {
  op_index on = no_op;       ///< the op that is needed; no_op: not in the trace, or not braid's
  stream_id origin;          ///< its stream
  std::uint64_t cursor = 0;  ///< its place there
  std::uint64_t reached =
      0;  ///< the op that the wait reaches: later than the needed one where a mark came late
  op_index reached_op = no_op;
  hazard why{};
  std::string resource;  ///< the name of what both use
};

enum class outcome : std::uint8_t { done, failed, skipped };

struct op {
  std::uint32_t runtime = 0;
  std::uint32_t stream = 0;  ///< index in trace::streams
  stream_id id;              ///< that the op was given to; several ids may share a stream
  std::uint64_t cursor = 0;  ///< its place on the stream, from 1
  std::string label;
  time_ns submit = 0;
  time_ns start = 0;
  time_ns end = 0;
  std::uint32_t submitter = 0;  ///< thread
  std::uint32_t worker = 0;     ///< thread that ran it; 0 where a device did
  std::uint64_t bytes = 0;      ///< that it touches
  outcome became = outcome::done;
  bool is_named = false;  ///< the program named the stream; else the placement chose it
  std::vector<use> uses;
  std::vector<wait> waits;
};

struct stream {
  std::uint32_t runtime = 0;
  std::uint32_t lane = 0;
  std::string name;           ///< "3", "special 0"
  std::vector<op_index> ops;  ///< in the order in which they run
};

struct runtime {
  std::uint32_t number = 0;
  std::string backend;        ///< "cpu", "cuda", "sim"
  std::uint32_t workers = 0;  ///< threads that run ops; 0: a device, which runs streams at the same time
  std::uint32_t streams = 0;  ///< at most
  std::uint32_t width = 0;    ///< streams that the placement spreads ops over
  std::string placement;
  std::uint64_t live = 0;  ///< bytes in use when the trace began
};

/// Memory that was taken for an owner, or given back.
struct block_event {
  time_ns at = 0;
  std::uint32_t runtime = 0;
  bool is_taken = false;
  std::uint64_t block = 0;  ///< the resource's id
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t thread = 0;  ///< that did it
  reuse_step step{};         ///< under which preference; of what is taken
  std::string stream;
};

/// A thread of the program that stood still until ops were over.
struct host_wait {
  std::uint32_t thread = 0;
  time_ns begin = 0;
  time_ns end = 0;
  op_index on = no_op;    ///< the op; no_op: everything, or something that is not an op
  time_ns cpu_begin = 0;  ///< what the thread had used of a core by then
  time_ns cpu_end = 0;
};

struct trace {
  std::vector<runtime> runtimes;
  std::vector<stream> streams;
  std::vector<op> ops;              ///< in the order of their submission
  std::vector<block_event> blocks;  ///< in the order of time
  std::vector<host_wait> host_waits;
  std::uint64_t dropped = 0;     ///< records that the buffer had no room for
  std::uint64_t incomplete = 0;  ///< ops left out because part of what was recorded of them was dropped
  std::string timing;            ///< what the times of ops were taken with
  time_ns begin = 0;             ///< the first submit
  time_ns end = 0;               ///< when the last op was over

  [[nodiscard]] time_ns makespan() const noexcept { return end - begin; }
};

/// A file that is not a trace, or a broken one.
class trace_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads what braid wrote. Throws trace_error, with the file's name, the line or the event and the field.
trace read(std::istream& in, const std::string& name);
trace read_file(const std::string& path);

/// What is wrong with the times: ops that start before what they waited for is over, or before the op in
/// front of them is. One sentence each; empty if all is in order.
std::vector<std::string> violations(const trace& t);

}  // namespace braid::trace
