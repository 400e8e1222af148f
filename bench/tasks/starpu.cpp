// StarPU with its own data handles: it orders tasks by the access modes of what they are given, as braid
// does.
//
// The submitting thread sleeps while it waits and runs no tasks; all others are CPU workers. Scheduler and
// all other settings are the defaults.

#include <starpu.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "rival.hpp"

namespace braid::bench {
namespace {

cells b;
std::array<starpu_data_handle_t, buffer_count> handles;

std::uint64_t& counter(void* const* buffers, std::size_t k) {
  return *reinterpret_cast<std::uint64_t*>(STARPU_VECTOR_GET_PTR(buffers[k]));
}

void run_nothing(void**, void*) {
  nothing_body();
}
void run_touch(void** x, void*) {
  touch_body(counter(x, 0));
}
void run_scatter(void** x, void*) {
  scatter_body(counter(x, 0), counter(x, 1));
}
void run_gather(void** x, void*) {
  gather_body({counter(x, 0), counter(x, 1), counter(x, 2), counter(x, 3), counter(x, 4), counter(x, 5),
               counter(x, 6), counter(x, 7)},
              counter(x, 8));
}

using modes = std::array<starpu_data_access_mode, buffer_count>;
modes gather_modes{STARPU_R, STARPU_R, STARPU_R, STARPU_R, STARPU_R, STARPU_R, STARPU_R, STARPU_R, STARPU_RW};

starpu_codelet codelet(const char* name, starpu_cpu_func_t body) {
  starpu_codelet c;
  starpu_codelet_init(&c);
  c.name = name;
  c.cpu_funcs[0] = body;
  return c;
}

struct starpu_ops {
  starpu_codelet nothing_codelet = codelet("nothing", run_nothing);
  starpu_codelet touch_codelet = codelet("touch", run_touch);
  starpu_codelet gather_codelet = codelet("gather", run_gather);
  starpu_codelet scatter_codelet = codelet("scatter", run_scatter);

  starpu_ops() {
    touch_codelet.nbuffers = 1;
    touch_codelet.modes[0] = STARPU_RW;
    gather_codelet.nbuffers = buffer_count;  // more than fit into the codelet itself
    gather_codelet.dyn_modes = gather_modes.data();
    scatter_codelet.nbuffers = 2;
    scatter_codelet.modes[0] = STARPU_R;
    scatter_codelet.modes[1] = STARPU_RW;
  }
  void nothing() { check(starpu_task_insert(&nothing_codelet, 0)); }
  void touch(std::size_t k) { check(starpu_task_insert(&touch_codelet, STARPU_RW, handles[k], 0)); }
  void gather() {
    check(starpu_task_insert(&gather_codelet, STARPU_R, handles[0], STARPU_R, handles[1], STARPU_R,
                             handles[2], STARPU_R, handles[3], STARPU_R, handles[4], STARPU_R, handles[5],
                             STARPU_R, handles[6], STARPU_R, handles[7], STARPU_RW, handles[8], 0));
  }
  void scatter(std::size_t k) {
    check(starpu_task_insert(&scatter_codelet, STARPU_R, handles[8], STARPU_RW, handles[k], 0));
  }
  void wait() { check(starpu_task_wait_for_all()); }

 private:
  static void check(int error) {
    if (error != 0) std::abort();
  }
};

const char* version() {
  static const std::string text = [] {
    int major = 0;
    int minor = 0;
    int release = 0;
    starpu_get_version(&major, &minor, &release);
    return "StarPU " + std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
  }();
  return text.c_str();
}

/// StarPU writes down what it learns of the machine; not into the home of whoever measures.
const std::filesystem::path& notes() {
  static const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("braid_starpu_" + std::to_string(getpid()));
  return folder;
}

const char* wake(unsigned threads) {
  setenv("STARPU_HOME", notes().c_str(), 1);
  setenv("STARPU_SILENT", "1", 0);  // no remarks about the machine on standard error
  starpu_conf conf;
  starpu_conf_init(&conf);
  conf.ncpus = static_cast<int>(std::max(1U, threads - 1));
  conf.ncuda = 0;
  conf.nopencl = 0;
  if (starpu_init(&conf) != 0) return "starpu_init found no CPU worker";
  return nullptr;
}

task_run run(pattern p, std::uint64_t tasks) {
  // The buffers are StarPU's while tasks run, and the program's before and after.
  for (std::size_t k = 0; k < buffer_count; ++k)
    starpu_vector_data_register(&handles[k], STARPU_MAIN_RAM, reinterpret_cast<std::uintptr_t>(&b[k]), 8,
                                sizeof(std::uint64_t));
  starpu_ops ops;
  task_run out = timed_run(b, [&] { submit_pattern(p, tasks, ops); });
  for (starpu_data_handle_t handle : handles) starpu_data_unregister(handle);
  return out;
}

// ---- Grids.

struct grid_task {
  const grid* of;
  unsigned t;
  unsigned x;
};

void run_grid_task(void**, void* argument) {
  const auto& task = *static_cast<const grid_task*>(argument);
  task.of->run(task.t, task.x);
}

grid_run run_grid(const grid& g) {
  const std::size_t cells = std::size_t{g.stored_rows()} * g.width();
  std::vector<starpu_data_handle_t> of_cell(cells);
  for (std::size_t i = 0; i < cells; ++i)
    starpu_variable_data_register(&of_cell[i], STARPU_MAIN_RAM,
                                  reinterpret_cast<std::uintptr_t>(&g.cell(0, 0) + i), sizeof(grid_cell));
  const auto handle = [&](unsigned t, unsigned x) {
    return of_cell[std::size_t{t % g.stored_rows()} * g.width() + x];
  };
  starpu_codelet task_codelet = codelet("task", run_grid_task);
  task_codelet.nbuffers = STARPU_VARIABLE_NBUFFERS;
  std::vector<grid_task> tasks;
  tasks.reserve(g.tasks());  // tasks point into it
  std::vector<starpu_data_descr> bound;
  grid_run out;
  out.ns = timed_ns([&] {
    for (unsigned t = 0; t < g.steps(); ++t) {
      const grid_row& row = g.row(t);
      for (unsigned x = row.first; x < row.end(); ++x) {
        bound.clear();
        for (const unsigned y : row.reads[x]) bound.push_back({handle(t - 1, y), STARPU_R});
        bound.push_back({handle(t, x), STARPU_W});
        tasks.push_back({&g, t, x});
        if (starpu_task_insert(&task_codelet, STARPU_DATA_MODE_ARRAY, bound.data(),
                               static_cast<int>(bound.size()), STARPU_CL_ARGS_NFREE, &tasks.back(),
                               sizeof(grid_task), 0) != 0)
          std::abort();
      }
    }
    g.note_submitted(g.tasks());
    starpu_task_wait_for_all();
  });
  for (starpu_data_handle_t each : of_cell) starpu_data_unregister(each);
  return out;
}

// Joins the workers.
void rest() {
  starpu_shutdown();
  std::error_code ignored;
  std::filesystem::remove_all(notes(), ignored);
}

constexpr rival_entry entry{rival_abi, version, wake, run, run_grid, rest};

}  // namespace
}  // namespace braid::bench

const braid::bench::rival_entry* braid_rival() {
  return &braid::bench::entry;
}
