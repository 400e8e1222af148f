// The plain loop on one thread: what the tasks cost with no runtime at all.

#include "rival.hpp"

namespace braid::bench {
namespace {

const char* version() {
  return "one thread";
}

const char* wake(unsigned) {
  return nullptr;
}

grid_run run_grid(const grid& g) {
  return {.ns = timed_ns([&] {
            for (unsigned t = 0; t < g.steps(); ++t)
              for (unsigned x = g.row(t).first; x < g.row(t).end(); ++x) g.run(t, x);
          })};
}

void rest() {}

constexpr rival_entry entry{rival_abi, version, wake, nullptr, run_grid, rest};

}  // namespace

const rival_entry* sequential_entry() {
  return &entry;
}

}  // namespace braid::bench
