#include <fmt/format.h>

#include <memory>

#include "commands.hpp"
#include "engine.hpp"
#include "progress.hpp"

namespace braid::tool {

namespace {

struct bench_options {
  bench::engine_options engine;
  bool json = false;
};

int run_engine(const bench_options& options) {
  nlohmann::json out;
  {
    std::unique_ptr<progress_bar> bar;
    out = bench::run_engine_bench(options.engine, [&](std::uint64_t done, std::uint64_t of) {
      if (!bar) bar = std::make_unique<progress_bar>("bench engine", of);
      bar->show(done);
    });
  }
  if (options.json) {
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  const auto& m = out["machine"];
  fmt::print("{}, {} MHz, nproc {}; g++ {}\n\n{:<40} {:>9} {:>9} {:>9} {:>12} {:>6}\n",
             m["cpu"].get<std::string>(), m["mhz"].get<std::string>(), m["nproc"].get<unsigned>(),
             m["compiler"].get<std::string>(), "", "ns", "min", "max", "instructions", "new");
  for (const auto& b : out["benchmarks"]) {
    const std::string counted =
        b["instructions"].is_null() ? "-" : fmt::format("{:.0f}", b["instructions"].get<double>());
    fmt::print("{:<40} {:>9.1f} {:>9.1f} {:>9.1f} {:>12} {:>6.2f}\n", b["name"].get<std::string>(),
               b["ns"].get<double>(), b["ns_min"].get<double>(), b["ns_max"].get<double>(), counted,
               b["allocations"].get<double>());
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
  engine->add_flag("--quick", options->engine.quick, "Leave out 10^7 ops and 10^6 resources");
  engine->add_flag("--json", options->json, "Print JSON");
  engine->callback([options, &status] { status = run_engine(*options); });
  add_bench_metg(*bench, status);
  add_bench_memory(*bench, status);
  add_bench_tasks(*bench, status);
  add_bench_trace(*bench, status);
  add_bench_cuda(*bench, status);
}

}  // namespace braid::tool
