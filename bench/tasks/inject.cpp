// The check of the checks: a dependency is left out, and somebody has to notice.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tasks/load.hpp"
#include "tasks/metg.hpp"
#include "tasks/watchdog.hpp"

namespace braid::bench {

namespace {

/// Dependencies of two rows in the middle; first those that cross the middle of the grid, where columns are
/// divided among threads.
std::vector<grid_edge> edges_to_drop(const grid& g) {
  std::vector<grid_edge> out;
  for (unsigned t = g.steps() / 2; t < g.steps() / 2 + 2; ++t)
    for (unsigned x = g.row(t).first; x < g.row(t).end(); ++x)
      for (const unsigned y : g.row(t).inputs[x]) out.push_back({t, x, y});
  const unsigned middle = g.width() / 2;
  std::ranges::stable_partition(out,
                                [&](const grid_edge& e) { return (e.column < middle) != (e.on < middle); });
  return out;
}

/// Drops one dependency after the other until a task does run before its input is there.
nlohmann::json inject_in(const rival_entry& runtime, grid_options o) {
  constexpr std::size_t most_tries = 40;
  std::vector<grid_edge> edges = edges_to_drop(grid(o));
  edges.resize(std::min(edges.size(), most_tries));
  for (const grid_edge& edge : edges) {
    o.dropped = edge;
    const grid broken(o);
    const grid_run got = runtime.run_grid(broken);
    const std::string wrong = describe(got.check ? *got.check : broken.check(), broken);
    if (wrong.empty() && !broken.is_overtaken()) continue;
    return {{"injected", true},
            {"caught", !wrong.empty()},
            {"what", fmt::format("without the dependency of ({}, {}) on ({}, {}), {}", edge.step, edge.column,
                                 edge.step - 1, edge.on, wrong.empty() ? "nothing was noticed" : wrong)}};
  }
  return {{"injected", false}, {"caught", false}, {"what", "ordered anyway, by how the work is divided"}};
}

}  // namespace

// Whether a task overtakes another without a dependency is up to the runtime: it may order the two anyway, by
// having put both on one thread. So some dependencies are left out in turn.
nlohmann::json inject_missing_dependency(const metg_options& options,
                                         const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  nlohmann::json out = {{"results", nlohmann::json::array()}, {"unavailable", nlohmann::json::array()}};
  watchdog dog("bench metg", options.step_limit);
  std::vector<task_runtime> runtimes = load_task_runtimes(task_runtime_use::grids, options.runtimes);
  std::erase_if(runtimes, [](const task_runtime& r) { return r.name == "sequential"; });
  const unsigned workers = std::max(2U, options.workers);
  std::uint64_t done = 0;
  for (task_runtime& r : runtimes) {
    dog.begin("the start of " + r.name);
    if (r.entry != nullptr)
      if (const char* reason = r.entry->wake(workers + (r.idle_submitter ? 1 : 0))) {
        r.reason = reason;
        r.entry = nullptr;
      }
    for (const std::string& name : options.patterns) {
      progress(++done, runtimes.size() * options.patterns.size());
      if (r.entry == nullptr || pattern_of(name) == grid_pattern::trivial) continue;
      dog.begin(fmt::format("{} on {}", name, r.name));
      nlohmann::json result =
          inject_in(*r.entry, {.pattern = pattern_of(name),
                               .width = options.width,
                               .steps = 8,
                               .radix = options.radix,
                               .period = options.period,
                               .one_per_row = true,  // else what is overwritten orders most of them as well
                               .kernel = grid_kernel::empty});
      result["pattern"] = name;
      result["runtime"] = r.name;
      out["results"].push_back(std::move(result));
    }
    if (r.entry != nullptr)
      r.entry->rest();
    else
      out["unavailable"].push_back({{"runtime", r.name}, {"reason", r.reason}});
  }
  return out;
}

}  // namespace braid::bench
