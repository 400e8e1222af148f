#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "bodies.hpp"
#include "pattern.hpp"

/// One runtime behind one small table of functions. Every rival is a module of its own, loaded at run time:
/// the command starts where its libraries are absent, and two OpenMP runtimes in one process never meet.
namespace braid::bench {

/// Of one run: the time, and what the buffers hold after it.
struct task_run {
  double ns = 0;  ///< from the first submit to the end of the last wait
  std::array<std::uint64_t, buffer_count> totals{};
  std::uint64_t executed = 0;  ///< tasks without buffers
};

/// All functions are called from one and the same thread, and none throws.
struct rival_entry {
  unsigned abi;
  /// What was built and what was loaded, for the report.
  const char* (*version)();
  /// Starts the runtime: at most two threads run, the submitting one included. Null, or why it cannot.
  const char* (*wake)();
  /// Runs whole_rounds(p, tasks) tasks on buffers that hold zero.
  task_run (*run)(pattern p, std::uint64_t tasks);
  /// Ends the runtime, or sends its threads to sleep: the next one is measured on a quiet machine.
  void (*rest)();
};
inline constexpr unsigned rival_abi = 1;

/// braid itself, linked and not loaded. Null where braid was built without its CPU backend.
const rival_entry* braid_entry();

/// Calls `all`, which submits everything and waits for it, with buffers in `b`, and takes the time.
template <class All>
task_run timed_run(cells& b, const All& all) {
  b = {};
  take_executed();
  const auto start = std::chrono::steady_clock::now();
  all();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  task_run out{.ns = took.count(), .totals = {}, .executed = take_executed()};
  for (std::size_t k = 0; k < buffer_count; ++k) out.totals[k] = b[k].count;
  return out;
}

}  // namespace braid::bench

/// What each module exports.
extern "C" [[gnu::visibility("default")]] const braid::bench::rival_entry* braid_rival();
