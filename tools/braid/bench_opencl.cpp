#include <fmt/format.h>

#include <functional>
#include <memory>
#include <stdexcept>

#include "commands.hpp"
#include "opencl.hpp"
#include "progress.hpp"

#if !BRAID_HAS_OPENCL
// The command is the same in every build; where it cannot run it says why.
nlohmann::json braid::bench::run_opencl_bench(const opencl_options&,
                                              const std::function<void(std::uint64_t, std::uint64_t)>&) {
  throw std::runtime_error(
      "this build has no OpenCL backend: OpenCL's headers were not found when it was built");
}
#endif

namespace braid::tool {

namespace {

int run(const bench::opencl_options& options, bool as_json) {
  nlohmann::json out;
  try {
    std::unique_ptr<progress_bar> bar;
    out = bench::run_opencl_bench(options, [&](std::uint64_t done, std::uint64_t of) {
      if (!bar) bar = std::make_unique<progress_bar>("bench opencl", of);
      bar->show(done);
    });
  } catch (const std::exception& e) {
    fmt::print(stderr, "braid bench opencl: {}\n", e.what());
    return 1;
  }
  if (as_json) {
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  fmt::print(
      "{}, {}; median of {} (least to most), ns an op; markers and barriers an op; ratio with its "
      "quartiles\n\n",
      out["device"]["name"].get<std::string>(), out["device"]["version"].get<std::string>(),
      options.repetitions);
  fmt::print("{:<24} {:<8} {:>24} {:>8} {:>8} {:>24} {:>8}\n", "", "", "ns", "markers", "barriers", "ratio",
             "at most");
  for (const auto& r : out["results"]) {
    std::string ratio;
    std::string most;
    for (const auto& each : out["ratios"]) {
      if (each["case"] != r["case"] || r["runtime"] != "braid") continue;
      ratio =
          fmt::format("{:.3f} ({:.3f} to {:.3f})", each["ratio"].get<double>(),
                      each["ratio_lower_quartile"].get<double>(), each["ratio_upper_quartile"].get<double>());
      if (each.contains("at_most")) most = fmt::format("{:.2f}", each["at_most"].get<double>());
    }
    fmt::print("{:<24} {:<8} {:>24} {:>8.2f} {:>8.2f} {:>24} {:>8}\n", r["case"].get<std::string>(),
               r["runtime"].get<std::string>(),
               fmt::format("{:.0f} ({:.0f} to {:.0f})", r["ns"].get<double>(), r["ns_min"].get<double>(),
                           r["ns_max"].get<double>()),
               r["markers"].get<double>(), r["barriers"].get<double>(), ratio, most);
  }
  return 0;
}

}  // namespace

void add_bench_opencl(CLI::App& bench, int& status) {
  struct held {
    bench::opencl_options options;
    bool json = false;
  };
  auto with = std::make_shared<held>();
  CLI::App* sub = bench.add_subcommand(
      "opencl",
      "What braid costs on OpenCL, beside the same programs written by hand with queues and events");
  sub->add_option("--device", with->options.device, "A number or a part of a name, see `braid info`");
  sub->add_option("--repetitions", with->options.repetitions,
                  "Interleaved; medians are reported, and the median of the ratios of each")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  sub->add_option("--filter", with->options.filter, "Only cases whose name contains this");
  sub->add_flag("--quick", with->options.quick, "A tenth of the ops");
  sub->add_flag("--json", with->json, "Print JSON");
  sub->footer("Exit status: 0, or 1 where there is no device or a result is wrong.");
  sub->callback([with, &status] { status = run(with->options, with->json); });
}

}  // namespace braid::tool
