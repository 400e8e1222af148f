#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include "bench_output.hpp"
#include "commands.hpp"
#include "progress.hpp"
#include "tasks/harness.hpp"
#include "tasks/load.hpp"
#include "tasks/metg.hpp"

namespace braid::tool {

namespace {

struct metg_command {
  bench::metg_options bench;
  std::vector<std::string> patterns;
  std::vector<std::string> measures;
  std::string kernel = "compute";
  std::string inject;
  rivals_option rivals{bench::task_runtime_names(bench::task_runtime_use::grids)};
  output_options output{"metg"};
};

std::string number(const nlohmann::json& value, const char* format) {
  return value.is_null() ? "-" : fmt::format(fmt::runtime(format), value.get<double>());
}

void print_results(const nlohmann::json& out) {
  fmt::print("{:<20} {:<15} {:>9} {:>19} {:>10} {:>12} {:>11}\n", "pattern", "runtime", "METG, us", "",
             "ns a task", "", "bytes a task");
  for (const auto& r : out["results"]) {
    const auto between = [&](const std::string& name, const char* format) {
      if (r[name].is_null()) return std::string();
      return fmt::format("({} to {})", number(r[name + "_min"], format), number(r[name + "_max"], format));
    };
    fmt::print("{:<20} {:<15} {:>9} {:>19} {:>10} {:>12} {:>11}\n", r["pattern"].get<std::string>(),
               r["runtime"].get<std::string>(), number(r["metg_us"], "{:.3g}"), between("metg_us", "{:.3g}"),
               number(r["ns_per_task"], "{:.0f}"), between("ns_per_task", "{:.0f}"),
               number(r["bytes_per_task"], "{:.0f}"));
  }
}

void print_scaling(const nlohmann::json& out) {
  fmt::print("\n{:<12} {:<20} {:>8} {:>8} {:>9} {:>9} {:>9} {:>11}\n", "tasks of", "runtime", "width",
             "workers", "ms", "of braid", "speed-up", "efficiency");
  for (const auto& s : out["scaling"])
    fmt::print("{:<12} {:<20} {:>8} {:>8} {:>9.2f} {:>9} {:>9.2f} {:>11.2f}\n",
               fmt::format("{} us", s["task_us"].get<double>()), s["runtime"].get<std::string>(),
               s["width"].get<unsigned>(), s["workers"].get<unsigned>(), 1e3 * s["seconds"].get<double>(),
               number(s["of_braid"], "{:.2f}"), s["speedup"].get<double>(), s["efficiency"].get<double>());
}

void print_metg(const nlohmann::json& out) {
  print_machine(out);
  fmt::print(
      "a cache line takes {} ns to another core and back\n{} steps, {}, {} kernels, {} repetitions\n\n",
      number(out["line_round_trip_ns"], "{:.0f}"), out["steps"].get<unsigned>(),
      out["outputs"].get<std::string>(), out["kernel"].get<std::string>(),
      out["repetitions"].get<unsigned>());
  print_results(out);
  if (!out["scaling"].empty()) print_scaling(out);
  fmt::print("\n");
  for (const auto& r : out["ratios"])
    fmt::print("{}: braid to threads {}, to task_group {}, to the best that tracks {} ({})\n",
               r["pattern"].get<std::string>(), number(r["braid_to_threads"], "{:.2f}"),
               number(r["braid_to_task_group"], "{:.2f}"), number(r["braid_to_best"], "{:.2f}"),
               r["best_tracking"].is_null() ? "-" : r["best_tracking"].get<std::string>());
  print_runtimes(out);
}

std::vector<bench::line_chart> metg_charts(const nlohmann::json& out) {
  std::vector<bench::line_chart> charts;
  for (const auto& ratio : out["ratios"]) {
    if (out["results"].empty()) break;
    const auto pattern = ratio["pattern"].get<std::string>();
    bench::line_chart chart{
        .name = "metg_" + pattern,
        .title = fmt::format("{}, width {}, {} workers", pattern, out["results"][0]["width"].get<unsigned>(),
                             out["results"][0]["workers"].get<unsigned>()),
        .x_label = "time of a task, µs (cores × time / tasks)",
        .y_label = "efficiency: of the peak rate of the kernels alone",
        .x_is_log = true,
        .y_is_log = false,
        .y_mark = 0.5};
    for (const auto& r : out["results"]) {
      if (r["pattern"] != pattern) continue;
      bench::chart_series line{.name = r["runtime"].get<std::string>(), .points = {}};
      for (const auto& p : r["curve"])
        line.points.emplace_back(p["task_us"].get<double>(), p["efficiency"].get<double>());
      std::ranges::sort(line.points);
      if (!line.points.empty()) chart.series.push_back(std::move(line));
    }
    charts.push_back(std::move(chart));
  }
  std::map<double, bench::line_chart> scaling;
  for (const auto& s : out["scaling"]) {
    const double us = s["task_us"].get<double>();
    auto& chart = scaling[us];
    chart.name = fmt::format("scaling_{}us", us);
    chart.title = fmt::format("{}, width {}, tasks of {} µs", s["pattern"].get<std::string>(),
                              s["width"].get<unsigned>(), us);
    chart.x_label = "workers";
    chart.y_label = "speed-up";
    chart.x_is_log = chart.y_is_log = true;
    const auto name = s["runtime"].get<std::string>();
    if (chart.series.empty() || chart.series.back().name != name) chart.series.push_back({name, {}});
    chart.series.back().points.emplace_back(s["workers"].get<double>(), s["speedup"].get<double>());
  }
  for (auto& [us, chart] : scaling) charts.push_back(std::move(chart));
  return charts;
}

/// As `braid verify --inject` does: 1 where every fault was found.
int print_injected(const nlohmann::json& out, bool as_json) {
  std::size_t injected = 0;
  std::size_t caught = 0;
  for (const auto& r : out["results"]) {
    injected += r["injected"].get<bool>() ? 1U : 0U;
    caught += r["caught"].get<bool>() ? 1U : 0U;
  }
  if (as_json) {
    fmt::print("{}\n", out.dump(2));
  } else {
    for (const auto& r : out["results"])
      fmt::print("{} on {}: {}\n", r["pattern"].get<std::string>(), r["runtime"].get<std::string>(),
                 r["what"].get<std::string>());
    print_runtimes(out);
    fmt::print("fault 'missing': injected in {} runs, caught in {}\n", injected, caught);
  }
  return injected > 0 && caught == injected ? 1 : 0;
}

int run_metg(metg_command& options) {
  options.bench.runtimes = options.rivals.with("braid");
  nlohmann::json out;
  try {
    std::unique_ptr<progress_bar> bar;
    const auto progress = [&](std::uint64_t done, std::uint64_t of) {
      if (!bar) bar = std::make_unique<progress_bar>("bench metg", of);
      bar->show(done);
    };
    if (options.inject == "missing") {
      out = bench::inject_missing_dependency(options.bench, progress);
      bar.reset();
      return print_injected(out, options.output.json);
    }
    options.output.expect_writable();
    out = bench::run_metg_bench(options.bench, progress);
  } catch (const bench::wrong_total& e) {
    fmt::print(stderr, "braid bench metg: {}\n", e.what());
    return 1;
  }
  options.output.write(out, "results", metg_charts(out));
  if (!options.output.json) print_metg(out);
  return out["results"].empty() && out["scaling"].empty() ? 1 : 0;
}

}  // namespace

void add_bench_metg(CLI::App& bench, int& status) {
  auto options = std::make_shared<metg_command>();
  bench::metg_options& with = options->bench;
  CLI::App* metg = bench.add_subcommand(
      "metg", "How short tasks may be on braid and on its rivals, for patterns of dependencies");
  auto names = bench::grid_pattern_names();
  names.emplace_back("all");
  metg->add_option("--pattern", options->patterns,
                   "Only these patterns, or all; else stencil_1d, nearest and spread")
      ->check(CLI::IsMember(names))
      ->delimiter(',');
  metg->add_option("--width", with.width, "Columns of the grid")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  metg->add_option("--steps", with.steps, "Rows of the grid")
      ->capture_default_str()
      ->check(CLI::Range(3, 1'000'000));
  metg->add_option("--radix", with.radix, "Dependencies of a task in nearest, spread and random_nearest")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  metg->add_option("--period", with.period, "Steps after which the dependencies of spread repeat")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  metg->add_flag("--one-per-row", with.one_per_row,
                 "Outputs of their own for each row, instead of two rows in turn");
  metg->add_option("--kernel", options->kernel, "What the tasks do")
      ->capture_default_str()
      ->check(CLI::IsMember(bench::grid_kernel_names()));
  metg->add_option("--workers", with.workers, "Threads, and cores that they run on; 0: all of this process")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096));
  CLI::Option* repetitions = metg->add_option("--repetitions", with.repetitions,
                                              "Interleaved, after one that is dropped; medians are reported")
                                 ->capture_default_str()
                                 ->check(CLI::Range(1, 1000));
  CLI::Option* measures =
      metg->add_option("--measure", options->measures,
                       "Only these: metg; empty (ns a task); memory (bytes a task in flight); scaling")
          ->check(CLI::IsMember({"metg", "empty", "memory", "scaling"}))
          ->delimiter(',');
  metg->add_option("--task-us", with.scaling_us, "Lengths of the tasks for scaling")
      ->capture_default_str()
      ->delimiter(',')
      ->check(CLI::Range(0.1, 1e6));
  metg->add_option("--inject", options->inject,
                   "missing: leave one dependency out, to see that it is noticed; the status is then 1")
      ->check(CLI::IsMember({"missing"}));
  options->rivals.add_to(*metg);
  options->output.add_to(*metg, "3 short repetitions without scaling, where the options say nothing else");
  metg->callback([options, &with, repetitions, measures, &status] {
    if (options->output.quick) {
      if (repetitions->empty()) with.repetitions = 3;
      if (measures->empty()) options->measures = {"metg", "empty", "memory"};
      with.turns_s = 0.2;
      with.longest_run_s = 0.6;
      with.step_limit = std::chrono::seconds(60);
    }
    const auto measure = [&](const char* name) {
      return options->measures.empty() ||
             std::ranges::find(options->measures, name) != options->measures.end();
    };
    with.metg = measure("metg");
    with.empty = measure("empty");
    with.memory = measure("memory");
    with.scaling = measure("scaling");
    with.kernel = options->kernel == "memory" ? bench::grid_kernel::memory : bench::grid_kernel::compute;
    if (std::ranges::find(options->patterns, "all") != options->patterns.end())
      with.patterns = bench::grid_pattern_names();
    else if (!options->patterns.empty())
      with.patterns = options->patterns;
    status = run_metg(*options);
  });
}

}  // namespace braid::tool
