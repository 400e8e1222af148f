// OpenMP tasks with depend clauses. Built twice from this one file: by g++ for libgomp, by clang++ for
// libomp.
//
// One thread creates the tasks inside `single`, and runs some while it waits; the others are at the end of
// the region, where OpenMP lets them run tasks. All settings are the defaults, the spinning of idle threads
// too.

#include <dlfcn.h>
#include <omp.h>

#include <span>
#include <string>

#include "rival.hpp"

namespace braid::bench {
namespace {

cells b;
cell* const at = b.data();  // a depend clause knows no std::array

struct omp_ops {
  static void nothing() {
#pragma omp task
    nothing_body();
  }
  static void touch(std::size_t k) {
#pragma omp task depend(inout : at[k])
    touch_body(b[k].count);
  }
  static void gather() {
#pragma omp task depend(in : at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]) depend(inout : at[8])
    gather_body(b);
  }
  static void scatter(std::size_t k) {
#pragma omp task depend(in : at[8]) depend(inout : at[k])
    scatter_body(b[8].count, b[k].count);
  }
  static void wait() {
#pragma omp taskwait
  }
};

/// The library that the calls of this module really reach.
const char* loaded_library() {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(&omp_get_max_threads), &info) != 0 ? info.dli_fname : "unknown";
}

const char* version() {
  static const std::string text =
      "OpenMP " + std::to_string(_OPENMP) + ", compiler " + __VERSION__ + ", " + loaded_library();
  return text.c_str();
}

unsigned team = 2;

const char* wake(unsigned threads) {
  static const std::string reason = std::string("its calls reach ") + loaded_library();
  if (reason.find(BRAID_OPENMP_LIBRARY) == std::string::npos) return reason.c_str();
  team = threads;
  unsigned started = 0;
#pragma omp parallel num_threads(team) reduction(+ : started)
  ++started;
  return started == team ? nullptr : "it does not start as many threads as were asked for";
}

task_run run(pattern p, std::uint64_t tasks) {
  task_run out;
#pragma omp parallel num_threads(team)
#pragma omp single
  {
    omp_ops ops;
    out = timed_run(b, [&] { submit_pattern(p, tasks, ops); });
  }
  return out;
}

void submit_task(const grid& g, unsigned t, unsigned x) {
  // A depend clause knows no class.
  [[maybe_unused]] grid_cell* const last = &g.cell(t + g.stored_rows() - 1, 0);
  [[maybe_unused]] grid_cell* const own = &g.cell(t, x);
  const std::span<const unsigned> reads = g.row(t).reads[x];
  [[maybe_unused]] const unsigned* const y = reads.data();
  const grid* const of = &g;
  switch (reads.size()) {
    case 0:
#pragma omp task depend(out : own[0]) firstprivate(of, t, x)
      of->run(t, x);
      break;
    case 1:
#pragma omp task depend(in : last[y[0]]) depend(out : own[0]) firstprivate(of, t, x)
      of->run(t, x);
      break;
    case 2:
#pragma omp task depend(in : last[y[0]], last[y[1]]) depend(out : own[0]) firstprivate(of, t, x)
      of->run(t, x);
      break;
    case 3:
#pragma omp task depend(in : last[y[0]], last[y[1]], last[y[2]]) depend(out : own[0]) firstprivate(of, t, x)
      of->run(t, x);
      break;
    default: {
      const int count = static_cast<int>(reads.size());
#pragma omp task depend(iterator(i = 0 : count), in : last[y[i]]) depend(out : own[0]) firstprivate(of, t, x)
      of->run(t, x);
    }
  }
}

grid_run run_grid(const grid& g) {
  grid_run out;
#pragma omp parallel num_threads(team)
#pragma omp single
  out.ns = timed_ns([&] {
    for (unsigned t = 0; t < g.steps(); ++t)
      for (unsigned x = g.row(t).first; x < g.row(t).end(); ++x) submit_task(g, t, x);
    g.note_submitted(g.tasks());
#pragma omp taskwait
  });
  return out;
}

// Ends the threads of the team: those of libomp would spin for another 200 ms.
void rest() {
  omp_pause_resource_all(omp_pause_hard);
}

constexpr rival_entry entry{rival_abi, version, wake, run, run_grid, rest};

}  // namespace
}  // namespace braid::bench

const braid::bench::rival_entry* braid_rival() {
  return &braid::bench::entry;
}
