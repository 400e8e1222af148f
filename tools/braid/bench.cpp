#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>

#include "bench_output.hpp"
#include "commands.hpp"
#include "engine.hpp"
#include "progress.hpp"

namespace braid::tool {

namespace {

struct bench_options {
  bench::engine_options engine;
  rivals_option rivals{{"braid"}};  // nothing else has such an engine: the option is there as elsewhere
  output_options output{"engine"};
};

/// What an op costs the host as the streams grow in number.
std::vector<bench::line_chart> engine_charts(const nlohmann::json& out) {
  bench::line_chart chart{.name = "engine_streams",
                          .title = "Each op reads what the stream before its own wrote",
                          .x_label = "streams",
                          .y_label = "ns an op",
                          .x_is_log = true,
                          .series = {{"braid", {}}}};
  constexpr std::string_view prefix = "ring/streams/";
  if (!out.contains("benchmarks")) return {};
  for (const auto& b : out["benchmarks"]) {
    const auto name = b["name"].get<std::string>();
    if (name.starts_with(prefix))
      chart.series[0].points.emplace_back(std::stod(name.substr(prefix.size())), b["ns"].get<double>());
  }
  return {std::move(chart)};
}

int run_engine(bench_options& options) {
  options.engine.quick = options.output.quick;
  options.output.expect_writable();
  nlohmann::json out;
  {
    std::unique_ptr<progress_bar> bar;
    out = bench::run_engine_bench(options.engine, [&](std::uint64_t done, std::uint64_t of) {
      if (!bar) bar = std::make_unique<progress_bar>("bench engine", of);
      bar->show(done);
    });
  }
  options.output.write(out, "benchmarks", engine_charts(out));
  if (options.output.json) return 0;
  const auto& m = out["machine"];
  fmt::print("{}, {} MHz, nproc {}; g++ {}\n\n{:<40} {:>9} {:>9} {:>9} {:>12} {:>6}\n",
             m["cpu"].get<std::string>(), m["mhz"].get<std::string>(), m["nproc"].get<unsigned>(),
             m["compiler"].get<std::string>(), "", "ns", "min", "max", "instructions", "new");
  for (const auto& b : out["benchmarks"]) {
    const auto shown = [&](const char* key, int digits) {
      return b[key].is_null() ? std::string("-") : fmt::format("{:.{}f}", b[key].get<double>(), digits);
    };
    fmt::print("{:<40} {:>9} {:>9} {:>9} {:>12} {:>6}\n", b["name"].get<std::string>(), shown("ns", 1),
               shown("ns_min", 1), shown("ns_max", 1), shown("instructions", 0), shown("allocations", 2));
  }
  if (out.contains("two_threads")) {
    const auto& t = out["two_threads"];
    fmt::print(
        "\ntwo threads, disjoint resources: one engine {:.1f} ns, two engines {:.1f} ns an op and thread; "
        "throughput ratio {:.2f}\ntwo threads, one read-only resource: {:.1f} ns an op and thread\n",
        t["one_engine_ns"].get<double>(), t["two_engines_ns"].get<double>(), t["ratio"].get<double>(),
        t["shared_read_ns"].get<double>());
  }
  if (out.contains("memory")) {
    const auto& mem = out["memory"];
    fmt::print(
        "resident memory: {:.1f} MiB after 10^4 ops, {:.1f} MiB after {:.0e}; {:.1f} MiB with 10,000 streams "
        "that exchange data at random and complete nothing\n",
        mem["after_1e4_mib"].get<double>(), mem["after_many_mib"].get<double>(), mem["many"].get<double>(),
        mem["streams_10000_mib"].get<double>());
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, int& status) {
  CLI::App* bench = app.add_subcommand("bench", "Measure");
  bench->require_subcommand(1);
  auto options = std::make_shared<bench_options>();
  CLI::App* engine =
      bench->add_subcommand("engine", "What the engine itself costs, on a backend that does nothing");
  engine->add_option("--repetitions", options->engine.repetitions, "Interleaved; medians are reported")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  engine->add_option("--filter", options->engine.filter, "Only rows whose name contains this");
  options->rivals.add_to(*engine);
  options->output.add_to(*engine, "Leave out 10^7 ops and 10^6 resources");
  engine->callback([options, &status] { status = run_engine(*options); });
  add_bench_metg(*bench, status);
  add_bench_memory(*bench, status);
  add_bench_tasks(*bench, status);
  add_bench_trace(*bench, status);
  add_bench_cuda(*bench, status);
  add_bench_opencl(*bench, status);
}

}  // namespace braid::tool
