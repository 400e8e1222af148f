#include <fmt/format.h>

#include <functional>
#include <memory>
#include <stdexcept>

#include "commands.hpp"
#include "progress.hpp"

#include "cuda/cuda.hpp"

#if !BRAID_HAS_CUDA_BENCH
// The command is the same in every build; where it cannot run it says why.
nlohmann::json braid::bench::run_cuda_bench(const cuda_options&,
                                            const std::function<void(std::uint64_t, std::uint64_t)>&) {
  throw std::runtime_error(
      "this build has no kernels: CUDA's headers or nvcc were not found when it was built");
}
#endif

namespace braid::tool {

namespace {

std::string column(const nlohmann::json& results, const std::string& name, const char* runtime) {
  for (const auto& r : results) {
    if (r["case"] == name && r["runtime"] == runtime) {
      return fmt::format("{:.0f} ({:.0f} to {:.0f})", r["ns"].get<double>(), r["ns_min"].get<double>(),
                         r["ns_max"].get<double>());
    }
  }
  return "";
}

int run(const bench::cuda_options& options, bool as_json) {
  nlohmann::json out;
  try {
    std::unique_ptr<progress_bar> bar;
    out = bench::run_cuda_bench(options, [&](std::uint64_t done, std::uint64_t of) {
      if (!bar) bar = std::make_unique<progress_bar>("bench cuda", of);
      bar->show(done);
    });
  } catch (const std::exception& e) {
    fmt::print(stderr, "braid bench cuda: {}\n", e.what());
    return 1;
  }
  if (as_json) {
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  fmt::print(
      "{}; CUDA {}; median of {} (least to most), ns an op\n\n{:<30} {:>22} {:>22} {:>22} {:>7} {:>8}\n",
      out["device"]["name"].get<std::string>(), out["device"]["driver_cuda"].get<int>(), options.repetitions,
      "", "braid", "by hand", "origin", "ratio", "at most");
  for (const auto& r : out["ratios"]) {
    const auto name = r["case"].get<std::string>();
    fmt::print("{:<30} {:>22} {:>22} {:>22} {:>7} {:>8}\n", name, column(out["results"], name, "braid"),
               column(out["results"], name, "by_hand"), column(out["results"], name, "origin"),
               r.contains("ratio") ? fmt::format("{:.3f}", r["ratio"].get<double>()) : "",
               !r.contains("at_most")      ? ""
               : r["is_ratio"].get<bool>() ? fmt::format("{:.2f}", r["at_most"].get<double>())
                                           : fmt::format("{:.0f} ns", r["at_most"].get<double>()));
  }
  return 0;
}

}  // namespace

void add_bench_cuda(CLI::App& bench, int& status) {
  struct held {
    bench::cuda_options options;
    bool json = false;
  };
  auto with = std::make_shared<held>();
  CLI::App* sub = bench.add_subcommand(
      "cuda",
      "What braid costs on a GPU, beside the same programs written by hand and beside its origin's scheme");
  sub->add_option("--repetitions", with->options.repetitions, "Interleaved; medians are reported")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  sub->add_option("--filter", with->options.filter, "Only cases whose name contains this");
  sub->add_flag("--quick", with->options.quick, "A tenth of the ops");
  sub->add_flag("--json", with->json, "Print JSON");
  sub->footer("Exit status: 0, or 1 where there is no GPU.");
  sub->callback([with, &status] { status = run(with->options, with->json); });
}

}  // namespace braid::tool
