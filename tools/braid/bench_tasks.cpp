#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "progress.hpp"
#include "tasks/harness.hpp"
#include "tasks/load.hpp"

namespace braid::tool {

namespace {

struct tasks_command {
  bench::tasks_options bench;
  bool quick = false;
  bool json = false;
};

std::string ratio(const nlohmann::json& value) {
  return value.is_null() ? "-" : fmt::format("{:.2f}", value.get<double>());
}

void print_table(const nlohmann::json& out) {
  const auto& m = out["machine"];
  fmt::print("{}, {} MHz, nproc {}, others used {:.2f} cores; {} tasks, {} repetitions\n\n",
             m["cpu"].get<std::string>(), m["mhz"].get<std::string>(), m["nproc"].get<unsigned>(),
             out["foreign_load"].get<double>(), out["tasks"].get<std::uint64_t>(),
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
  for (const auto& [name, text] : out["versions"].items())
    fmt::print("{}: {}\n", name, text.get<std::string>());
  for (const auto& u : out["unavailable"])
    fmt::print("{} is unavailable: {}\n", u["runtime"].get<std::string>(), u["reason"].get<std::string>());
}

int run_tasks(const tasks_command& options) {
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
  if (options.json)
    fmt::print("{}\n", out.dump(2));
  else
    print_table(out);
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
      ->check(CLI::IsMember(bench::pattern_names()));
  tasks->add_option("--runtime", options->bench.runtimes, "Only these runtimes")
      ->check(CLI::IsMember(bench::task_runtime_names(bench::task_runtime_use::small_tasks)));
  tasks->add_flag("--quick", options->quick,
                  "10,000 tasks and 5 repetitions, where the options say nothing else");
  tasks->add_flag("--json", options->json, "Print JSON");
  tasks->callback([options, count, repetitions, &status] {
    if (options->quick && count->empty()) options->bench.tasks = 10'000;
    if (options->quick && repetitions->empty()) options->bench.repetitions = 5;
    if (options->quick) options->bench.step_limit = std::chrono::seconds(60);
    status = run_tasks(*options);
  });
}

}  // namespace braid::tool
