// One process measures all runtimes in turns: for each repetition, for each runtime, for each pattern. Idle
// threads of most runtimes spin for a while, which would disturb the next one. So a runtime is started before
// its turn and ended after it, neither of which is timed, and the next begins only when this process has used
// no processor time for a moment. While a runtime is measured, all its settings are its defaults.

#include "tasks/harness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "machine.hpp"
#include "median.hpp"
#include "tasks/foreign_load.hpp"
#include "tasks/load.hpp"
#include "tasks/quiet.hpp"
#include "tasks/watchdog.hpp"

namespace braid::bench {

namespace {

/// What the buffers must hold: the pattern, counted instead of run.
struct counting_ops {
  task_run expected;
  void nothing() { ++expected.executed; }
  void touch(std::size_t k) { ++expected.totals[k]; }
  void gather() { ++expected.totals[8]; }
  void scatter(std::size_t k) { ++expected.totals[k]; }
  void wait() {}
};

void check(const named_pattern& p, const std::string& runtime, std::uint64_t tasks, const task_run& got) {
  counting_ops ops;
  submit_pattern(p.value, tasks, ops);
  for (std::size_t k = 0; k < buffer_count; ++k)
    if (got.totals[k] != ops.expected.totals[k])
      throw wrong_total(fmt::format("wrong total: after {} on {}, b{} holds {} instead of {}", p.name,
                                    runtime, k, got.totals[k], ops.expected.totals[k]));
  if (got.executed != ops.expected.executed)
    throw wrong_total(fmt::format("wrong total: {} on {} ran {} tasks instead of {}", p.name, runtime,
                                  got.executed, ops.expected.executed));
}

bool wanted(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

/// (pattern, runtime) to ns a task.
using samples = std::map<std::pair<std::string_view, std::string>, std::vector<double>>;

/// braid against the best rival that orders tasks for the program, and against the bound of those that do
/// not.
nlohmann::json ratios(std::string_view p, const samples& taken, const std::vector<task_runtime>& runtimes) {
  std::optional<double> own;
  std::optional<std::pair<double, std::string>> best;
  std::optional<double> bound;
  for (const task_runtime& r : runtimes) {
    const auto found = taken.find({p, r.name});
    if (found == taken.end()) continue;
    const double ns = median(found->second);
    if (r.name == "braid")
      own = ns;
    else if (r.lower_bound)
      bound = ns;
    else if (!best || ns < best->first)
      best = {ns, r.name};
  }
  nlohmann::json out = {
      {"pattern", p}, {"best_rival", nullptr}, {"braid_to_best", nullptr}, {"braid_to_bound", nullptr}};
  if (best) out["best_rival"] = best->second;
  if (own && best) out["braid_to_best"] = *own / best->first;
  if (own && bound) out["braid_to_bound"] = *own / *bound;
  return out;
}

}  // namespace

std::vector<std::string> pattern_names() {
  std::vector<std::string> names;
  names.reserve(patterns.size());
  for (const named_pattern& p : patterns) names.emplace_back(p.name);
  return names;
}

nlohmann::json run_tasks_bench(const tasks_options& options,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  std::vector<named_pattern> chosen(patterns.begin(), patterns.end());
  std::erase_if(chosen, [&](const named_pattern& p) { return !wanted(options.patterns, p.name); });
  std::vector<task_runtime> runtimes = load_task_runtimes(task_runtime_use::small_tasks, options.runtimes);

  const foreign_load others;
  watchdog dog("bench tasks", options.step_limit);
  samples taken;
  const std::uint64_t steps = (options.repetitions + 1ULL) * runtimes.size() * chosen.size();
  std::uint64_t done = 0;
  for (unsigned repetition = 0; repetition <= options.repetitions; ++repetition) {
    for (task_runtime& r : runtimes) {
      if (r.entry != nullptr) {
        dog.begin("the start of " + r.name);
        if (const char* reason = r.entry->wake(2)) {
          r.reason = reason;
          r.entry = nullptr;
        }
      }
      for (const named_pattern& p : chosen) {
        progress(++done, steps);
        if (r.entry == nullptr) continue;
        dog.begin(fmt::format("{} on {}", p.name, r.name));
        r.entry->run(p.value, options.tasks / 10);  // the threads are new: let them find their pace
        const task_run got = r.entry->run(p.value, options.tasks);
        check(p, r.name, options.tasks, got);
        const auto count = static_cast<double>(whole_rounds(p.value, options.tasks));
        // The first repetition meets cold caches and pages: dropped, for everyone.
        if (repetition > 0) taken[{p.name, r.name}].push_back(got.ns / count);
      }
      if (r.entry == nullptr) continue;
      dog.begin("the end of " + r.name);
      r.entry->rest();
      wait_until_quiet(r.name);
    }
  }

  nlohmann::json out = {{"results", nlohmann::json::array()},
                        {"ratios", nlohmann::json::array()},
                        {"unavailable", nlohmann::json::array()},
                        {"versions", nlohmann::json::object()},
                        {"machine", machine()},
                        {"tasks", options.tasks},
                        {"repetitions", options.repetitions},
                        {"foreign_load", others.cores()}};
  for (const named_pattern& p : chosen) {
    for (const task_runtime& r : runtimes) {
      const auto found = taken.find({p.name, r.name});
      if (found == taken.end()) continue;
      const auto [min, max] = std::ranges::minmax(found->second);
      out["results"].push_back({{"pattern", p.name},
                                {"runtime", r.name},
                                {"ns", median(found->second)},
                                {"ns_min", min},
                                {"ns_max", max}});
    }
    out["ratios"].push_back(ratios(p.name, taken, runtimes));
  }
  for (const task_runtime& r : runtimes) {
    if (r.entry != nullptr)
      out["versions"][r.name] = r.entry->version();
    else
      out["unavailable"].push_back({{"runtime", r.name}, {"reason", r.reason}});
  }
  return out;
}

}  // namespace braid::bench
