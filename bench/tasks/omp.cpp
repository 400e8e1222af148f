// OpenMP tasks with depend clauses. Built twice from this one file: by g++ for libgomp, by clang++ for
// libomp.
//
// Two threads: one creates the tasks inside `single`, and runs some while it waits; the other is at the end
// of the region, where OpenMP lets it run tasks. All settings are the defaults, the spinning of idle threads
// too.

#include <dlfcn.h>
#include <omp.h>

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

const char* wake() {
  static const std::string reason = std::string("its calls reach ") + loaded_library();
  if (reason.find(BRAID_OPENMP_LIBRARY) == std::string::npos) return reason.c_str();
  unsigned threads = 0;
#pragma omp parallel num_threads(2) reduction(+ : threads)
  ++threads;
  return threads == 2 ? nullptr : "it does not start two threads";
}

task_run run(pattern p, std::uint64_t tasks) {
  task_run out;
#pragma omp parallel num_threads(2)
#pragma omp single
  {
    omp_ops ops;
    out = timed_run(b, [&] { submit_pattern(p, tasks, ops); });
  }
  return out;
}

// Ends the threads of the team: those of libomp would spin for another 200 ms.
void rest() {
  omp_pause_resource_all(omp_pause_hard);
}

constexpr rival_entry entry{rival_abi, version, wake, run, rest};

}  // namespace
}  // namespace braid::bench

const braid::bench::rival_entry* braid_rival() {
  return &braid::bench::entry;
}
