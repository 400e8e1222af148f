#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "bench_output.hpp"
#include "commands.hpp"
#include "progress.hpp"
#include "tasks/harness.hpp"
#include "tasks/load.hpp"

namespace braid::tool {

namespace {

struct tasks_command {
  bench::tasks_options bench;
  rivals_option rivals{bench::task_runtime_names(bench::task_runtime_use::small_tasks)};
  output_options output{"tasks"};
};

std::string ratio(const nlohmann::json& value) {
  return value.is_null() ? "-" : fmt::format("{:.2f}", value.get<double>());
}

void print_tasks(const nlohmann::json& out) {
  print_machine(out);
  fmt::print("{} tasks, {} repetitions\n\n", out["tasks"].get<std::uint64_t>(),
             out["repetitions"].get<unsigned>());
  std::vector<std::string> runtimes;
  for (const auto& r : out["results"]) {
    const auto name = r["runtime"].get<std::string>();
    if (std::ranges::find(runtimes, name) == runtimes.end()) runtimes.push_back(name);
  }
  fmt::print("{:<10}", "ns a task");
  for (const std::string& name : runtimes) fmt::print(" {:>21}", name);
  fmt::print("   braid to best rival   to task_group\n");
  for (const auto& ratios : out["ratios"]) {
    const auto pattern = ratios["pattern"].get<std::string>();
    fmt::print("{:<10}", pattern);
    for (const std::string& name : runtimes) {
      const auto found = std::ranges::find_if(
          out["results"], [&](const auto& r) { return r["pattern"] == pattern && r["runtime"] == name; });
      const auto& r = *found;
      fmt::print(" {:>21}", fmt::format("{:.1f} ({:.0f}..{:.0f})", r["ns"].get<double>(),
                                        r["ns_min"].get<double>(), r["ns_max"].get<double>()));
    }
    const auto best = ratios["best_rival"].is_null() ? "" : ratios["best_rival"].get<std::string>();
    fmt::print("   {:>8} {:<12} {:>13}\n", ratio(ratios["braid_to_best"]), best,
               ratio(ratios["braid_to_bound"]));
  }
  fmt::print("\n");
  print_runtimes(out);
}

/// The patterns side by side, a line for each runtime.
std::vector<bench::line_chart> tasks_charts(const nlohmann::json& out) {
  bench::line_chart chart{.name = "tasks",
                          .title = "What a small task costs, two threads",
                          .x_label = "",
                          .y_label = "ns a task",
                          .y_is_log = true};
  for (const auto& ratio : out["ratios"]) chart.x_categories.push_back(ratio["pattern"].get<std::string>());
  for (const auto& r : out["results"]) {
    const auto name = r["runtime"].get<std::string>();
    auto found = std::ranges::find(chart.series, name, &bench::chart_series::name);
    if (found == chart.series.end()) found = chart.series.insert(found, {name, {}});
    const auto at = std::ranges::find(chart.x_categories, r["pattern"].get<std::string>());
    found->points.emplace_back(static_cast<double>(at - chart.x_categories.begin()), r["ns"].get<double>());
  }
  return {std::move(chart)};
}

int run_tasks(tasks_command& options) {
  options.bench.runtimes = options.rivals.with("braid");
  options.output.expect_writable();
  nlohmann::json out;
  try {
    std::unique_ptr<progress_bar> bar;
    out = bench::run_tasks_bench(options.bench, [&](std::uint64_t done, std::uint64_t of) {
      if (!bar) bar = std::make_unique<progress_bar>("bench tasks", of);
      bar->show(done);
    });
  } catch (const bench::wrong_total& e) {
    fmt::print(stderr, "braid bench tasks: {}\n", e.what());
    return 1;
  }
  options.output.write(out, "results", tasks_charts(out));
  if (!options.output.json) print_tasks(out);
  return out["results"].empty() ? 1 : 0;
}

}  // namespace

void add_bench_tasks(CLI::App& bench, int& status) {
  auto options = std::make_shared<tasks_command>();
  CLI::App* tasks =
      bench.add_subcommand("tasks", "What a small task costs on the CPU, on braid and on its rivals");
  CLI::Option* count =
      tasks->add_option("--tasks", options->bench.tasks, "Tasks in each run")->capture_default_str();
  count->check(CLI::Range(std::uint64_t{100}, std::uint64_t{100'000'000}));
  CLI::Option* repetitions =
      tasks->add_option("--repetitions", options->bench.repetitions,
                        "Interleaved, after one that is dropped; medians are reported");
  repetitions->capture_default_str()->check(CLI::Range(1, 1000));
  tasks->add_option("--pattern", options->bench.patterns, "Only these patterns")
      ->check(CLI::IsMember(bench::pattern_names()))
      ->delimiter(',');
  options->rivals.add_to(*tasks);
  options->output.add_to(*tasks, "10,000 tasks and 5 repetitions, where the options say nothing else");
  tasks->callback([options, count, repetitions, &status] {
    const bool is_quick = options->output.quick;
    if (is_quick && count->empty()) options->bench.tasks = 10'000;
    if (is_quick && repetitions->empty()) options->bench.repetitions = 5;
    if (is_quick) options->bench.step_limit = std::chrono::seconds(60);
    status = run_tasks(*options);
  });
}

}  // namespace braid::tool
