// Pinned threads, ordered by hand: the best that a person writes who knows the pattern. The columns are
// divided in blocks, and each thread runs its block row by row. A counter in each cell, on the line of the
// data itself, tells up to which step it is written; a task spins on the cells of others that it comes after.

#include <algorithm>
#include <atomic>
#include <optional>

#include "braid/detail/lock.hpp"
#include "rival.hpp"
#include "tasks/core_threads.hpp"

namespace braid::bench {
namespace {

std::optional<core_threads> threads;

const char* version() {
  return "std::thread";
}

const char* wake(unsigned count) {
  threads.emplace(count);
  return nullptr;
}

/// How many steps are over that write this cell, and those before them.
std::atomic_ref<std::uint64_t> steps_over(const grid& g, unsigned t, unsigned x) {
  return std::atomic_ref<std::uint64_t>(g.cell(t, x).rest[0]);
}

void run_block(const grid& g, unsigned first, unsigned end) {
  for (unsigned t = 0; t < g.steps(); ++t) {
    const grid_row& row = g.row(t);
    const unsigned last = std::min(end, row.end());
    for (unsigned x = std::max(first, row.first); x < last; ++x) {
      for (const unsigned y : row.after[x]) {
        if (y >= first && y < end) continue;
        // acquire: pairs with the release below, of the thread that runs y
        while (steps_over(g, t - 1, y).load(std::memory_order_acquire) < t) detail::relax();
      }
      g.run(t, x);
      steps_over(g, t, x).store(t + 1, std::memory_order_release);
    }
  }
}

grid_run run_grid(const grid& g) {
  const unsigned count = threads->count();
  return {.ns = threads->run(
              [&](unsigned i) { run_block(g, i * g.width() / count, (i + 1) * g.width() / count); })};
}

void rest() {
  threads.reset();
}

constexpr rival_entry entry{rival_abi, version, wake, nullptr, run_grid, rest};

}  // namespace

const rival_entry* threads_entry() {
  return &entry;
}

}  // namespace braid::bench
