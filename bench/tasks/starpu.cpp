// StarPU with its own data handles: it orders tasks by the access modes of what they are given, as braid
// does.
//
// Two threads: the submitting one, which sleeps while it waits, and one CPU worker. Scheduler and all other
// settings are the defaults.

#include <starpu.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

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

const char* wake() {
  setenv("STARPU_HOME", notes().c_str(), 1);
  setenv("STARPU_SILENT", "1", 0);  // no remarks about the machine on standard error
  starpu_conf conf;
  starpu_conf_init(&conf);
  conf.ncpus = 1;
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

// Joins the worker.
void rest() {
  starpu_shutdown();
  std::error_code ignored;
  std::filesystem::remove_all(notes(), ignored);
}

constexpr rival_entry entry{rival_abi, version, wake, run, rest};

}  // namespace
}  // namespace braid::bench

const braid::bench::rival_entry* braid_rival() {
  return &braid::bench::entry;
}
