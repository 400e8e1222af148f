#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "bodies.hpp"
#include "grid.hpp"
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

/// Of one run of a grid.
struct grid_run {
  double ns = 0;                      ///< from the first submit to the end of the last wait
  std::optional<grid_check> check{};  ///< where the tasks ran in other processes than this
};

/// All functions are called from one and the same thread, and none throws.
struct rival_entry {
  unsigned abi;
  /// What was built and what was loaded, for the report.
  const char* (*version)();
  /// Starts the runtime: at most this many threads run, the submitting one included. Null, or why it cannot.
  const char* (*wake)(unsigned threads);
  /// Runs whole_rounds(p, tasks) tasks on buffers that hold zero. Null where only grids are run.
  task_run (*run)(pattern p, std::uint64_t tasks);
  /// Runs all tasks of the grid, in an order that its rows allow.
  grid_run (*run_grid)(const grid& g);
  /// Ends the runtime, or sends its threads to sleep: the next one is measured on a quiet machine.
  void (*rest)();
};
inline constexpr unsigned rival_abi = 2;

/// braid itself, linked and not loaded. Null where braid was built without its CPU backend.
const rival_entry* braid_entry();
/// The same, with each task of a grid submitted: braid_entry() records rows that repeat.
const rival_entry* braid_submit_entry();
/// Likewise linked: the plain loop, threads ordered by hand, and ranks that this process starts.
const rival_entry* sequential_entry();
const rival_entry* threads_entry();
const rival_entry* mpi_entry();

/// Calls `all` and takes the time.
template <class All>
double timed_ns(const All& all) {
  const auto start = std::chrono::steady_clock::now();
  all();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

/// Calls `all`, which submits everything and waits for it, with buffers in `b`, and takes the time.
template <class All>
task_run timed_run(cells& b, const All& all) {
  b = {};
  take_executed();
  const double took = timed_ns(all);
  task_run out{.ns = took, .totals = {}, .executed = take_executed()};
  for (std::size_t k = 0; k < buffer_count; ++k) out.totals[k] = b[k].count;
  return out;
}

}  // namespace braid::bench

/// What each module exports.
extern "C" [[gnu::visibility("default")]] const braid::bench::rival_entry* braid_rival();
