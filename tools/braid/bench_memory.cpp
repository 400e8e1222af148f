#include <fmt/format.h>

#include <memory>

#include "commands.hpp"
#include "memory.hpp"
#include "progress.hpp"

namespace braid::tool {

namespace {

struct memory_bench_options {
  bench::memory_options memory;
  bool json = false;
};

int run_memory(const memory_bench_options& options) {
  nlohmann::json out;
  {
    std::unique_ptr<progress_bar> bar;
    out = bench::run_memory_bench(options.memory, [&](std::uint64_t done, std::uint64_t of) {
      if (!bar) bar = std::make_unique<progress_bar>("bench memory", of);
      bar->show(done);
    });
  }
  if (options.json) {
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
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
  memory->add_flag("--quick", options->memory.quick, "A tenth of the allocations, three repetitions");
  memory->add_flag("--json", options->json, "Print JSON");
  memory->callback([options, &status] { status = run_memory(*options); });
}

}  // namespace braid::tool
