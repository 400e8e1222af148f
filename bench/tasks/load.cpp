#include "load.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

namespace braid::bench {

namespace {

struct known_runtime {
  std::string_view name;
  std::string_view needs;  ///< to be built
  bool lower_bound = false;
  bool idle_submitter = false;
  const rival_entry* (*linked)() = nullptr;  ///< null: a module
  bool only_grids = false;
};
constexpr std::array known{
    known_runtime{.name = "braid", .needs = "the CPU backend", .linked = braid_entry},
    known_runtime{
        .name = "braid_submit", .needs = "the CPU backend", .linked = braid_submit_entry, .only_grids = true},
    known_runtime{
        .name = "threads", .needs = "", .lower_bound = true, .linked = threads_entry, .only_grids = true},
    known_runtime{.name = "mpi", .needs = "", .lower_bound = true, .linked = mpi_entry, .only_grids = true},
    known_runtime{.name = "omp_gomp", .needs = "g++ with libgomp"},
    known_runtime{.name = "omp_libomp", .needs = "clang++-16 and libomp-16-dev"},
    known_runtime{.name = "tbb_flow", .needs = "libtbb-dev"},
    known_runtime{.name = "tbb_task_group", .needs = "libtbb-dev", .lower_bound = true},
    known_runtime{.name = "starpu", .needs = "libstarpu-dev", .idle_submitter = true},
    known_runtime{.name = "sequential",
                  .needs = "",
                  .lower_bound = true,
                  .linked = sequential_entry,
                  .only_grids = true}};

std::string not_built(const known_runtime& k) {
  return "not built: it needs " + std::string(k.needs) +
         (k.linked != nullptr ? "" : ", and BRAID_BUILD_RIVALS without a sanitizer");
}

bool is_for(const known_runtime& k, task_runtime_use use) {
  return use == task_runtime_use::grids || !k.only_grids;
}

std::string last_dl_error() {
  const char* text = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps it per thread
  return text != nullptr ? text : "unknown error";
}

task_runtime load(const known_runtime& k) {
  task_runtime out;
  out.name = k.name;
  out.lower_bound = k.lower_bound;
  out.idle_submitter = k.idle_submitter;
  if (k.linked != nullptr) {
    out.entry = k.linked();
    if (out.entry == nullptr) out.reason = not_built(k);
    return out;
  }
  const std::filesystem::path module =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / ("braid_rival_" + out.name + ".so");
  if (!std::filesystem::exists(module)) {
    out.reason = not_built(k);
    return out;
  }
  // Local: libgomp and libomp define the same names, and the program itself links neither, so each module
  // sees only its own; the modules check it. RTLD_DEEPBIND would not add to that, and hides from a module
  // what the program has taken over from libc: libomp finds a null `environ` and crashes.
  void* handle = dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = handle != nullptr ? dlsym(handle, "braid_rival") : nullptr;
  if (symbol == nullptr) {
    out.reason = last_dl_error();
    return out;
  }
  const rival_entry* entry = reinterpret_cast<decltype(&braid_rival)>(symbol)();
  if (entry->abi != rival_abi)
    out.reason = module.string() + " is of another build";
  else
    out.entry = entry;
  return out;
}

}  // namespace

std::vector<std::string> task_runtime_names(task_runtime_use use) {
  std::vector<std::string> names;
  for (const known_runtime& k : known)
    if (is_for(k, use)) names.emplace_back(k.name);
  return names;
}

std::vector<task_runtime> load_task_runtimes(task_runtime_use use, const std::vector<std::string>& names) {
  std::vector<task_runtime> out;
  for (const known_runtime& k : known)
    if (is_for(k, use) && (names.empty() || std::ranges::find(names, k.name) != names.end()))
      out.push_back(load(k));
  return out;
}

}  // namespace braid::bench
