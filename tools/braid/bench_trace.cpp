#include <fmt/format.h>

#include <memory>

#include "commands.hpp"
#include "progress.hpp"
#include "trace.hpp"

namespace braid::tool {

void add_bench_trace(CLI::App& bench, int& status) {
  struct asked {
    braid::bench::trace_options bench;
    bool quick = false;
    bool json = false;
  };
  auto with = std::make_shared<asked>();
  CLI::App* sub = bench.add_subcommand("trace", "What tracing costs: ops of 1, 10 and 100 µs on the CPU");
  sub->add_option("--repetitions", with->bench.repetitions, "Of each, plain and traced in turns")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  sub->add_flag("--quick", with->quick, "Fewer ops: a few seconds");
  sub->add_flag("--json", with->json, "Print JSON");
  sub->callback([with, &status] {
    if (with->quick) with->bench.ops /= 10;
    nlohmann::json out;
    {
      progress_bar bar("tracing", std::uint64_t{3} * (with->bench.repetitions + 1));
      with->bench.progress = [&](std::uint64_t done, std::uint64_t) { bar.show(done); };
      out = braid::bench::run_trace_bench(with->bench);
    }
    if (with->json) {
      fmt::print("{}\n", out.dump(2));
    } else {
      fmt::print("{:>8} {:>8} {:>12} {:>12} {:>24} {:>26}\n", "op", "ops", "plain", "traced",
                 "ratio (least..most)", "submit, plain and traced");
      for (const auto& r : out["results"]) {
        fmt::print("{:>5.0f} µs {:>8} {:>10.4f} s {:>10.4f} s {:>24} {:>26}\n", r["op_us"].get<double>(),
                   r["ops"].get<std::uint64_t>(), r["plain_s"].get<double>(), r["traced_s"].get<double>(),
                   fmt::format("{:.3f} ({:.3f}..{:.3f})", r["ratio"].get<double>(),
                               r["ratio_min"].get<double>(), r["ratio_max"].get<double>()),
                   fmt::format("{:.0f} and {:.0f} ns", r["plain_submit_ns"].get<double>(),
                               r["traced_submit_ns"].get<double>()));
      }
    }
    status = 0;
  });
}

}  // namespace braid::tool
