#include <fmt/format.h>

#include <memory>

#include "bench_output.hpp"
#include "commands.hpp"
#include "memory.hpp"
#include "progress.hpp"

namespace braid::tool {

namespace {

struct memory_bench_options {
  bench::memory_options memory;
  rivals_option rivals{{"braid", "malloc", "mimalloc"}};
  output_options output{"memory"};
};

/// What a pair of take and give costs, by the size of the block.
std::vector<bench::line_chart> memory_charts(const nlohmann::json& out) {
  bench::line_chart chart{.name = "memory",
                          .title = "A block taken and given back",
                          .x_label = "bytes",
                          .y_label = "ns a pair",
                          .x_is_log = true,
                          .series = {{"braid", {}}}};
  for (const auto& b : out["benchmarks"])
    if (b.contains("bytes"))
      chart.series[0].points.emplace_back(b["bytes"].get<double>(), b["ns"].get<double>());
  return {std::move(chart)};
}

int run_memory(memory_bench_options& options) {
  options.memory.quick = options.output.quick;
  options.memory.with_malloc = options.rivals.wants("malloc");
  options.memory.with_mimalloc = options.rivals.wants("mimalloc");
  options.output.expect_writable();
  nlohmann::json out;
  {
    std::unique_ptr<progress_bar> bar;
    out = bench::run_memory_bench(options.memory, [&](std::uint64_t done, std::uint64_t of) {
      if (!bar) bar = std::make_unique<progress_bar>("bench memory", of);
      bar->show(done);
    });
  }
  options.output.write(out, "benchmarks", memory_charts(out));
  if (options.output.json) return 0;
  const auto& m = out["machine"];
  fmt::print("{}, {} MHz, nproc {}; g++ {}\n\n{:<28} {:>9} {:>9} {:>13}\n", m["cpu"].get<std::string>(),
             m["mhz"].get<std::string>(), m["nproc"].get<unsigned>(), m["compiler"].get<std::string>(), "",
             "ns", "new", "reserved/live");
  for (const auto& b : out["benchmarks"]) {
    const auto text = [&](const char* key, const char* format) {
      return b.contains(key) ? fmt::format(fmt::runtime(format), b[key].get<double>()) : std::string("-");
    };
    fmt::print("{:<28} {:>9.1f} {:>9} {:>13}\n", b["name"].get<std::string>(), b["ns"].get<double>(),
               text("allocations", "{:.2f}"), text("reserved_ratio", "{:.3f}"));
  }
  print_runtimes(out);
  return 0;
}

}  // namespace

void add_bench_memory(CLI::App& bench, int& status) {
  auto options = std::make_shared<memory_bench_options>();
  CLI::App* memory = bench.add_subcommand(
      "memory", "What taking and giving back a block costs, against malloc and mimalloc");
  memory->add_option("--repetitions", options->memory.repetitions, "Interleaved; medians are reported")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  options->rivals.add_to(*memory);
  options->output.add_to(*memory, "A tenth of the allocations, three repetitions");
  memory->callback([options, &status] { status = run_memory(*options); });
}

}  // namespace braid::tool
