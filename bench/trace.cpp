#include "trace.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "braid/cpu.hpp"
#include "machine.hpp"
#include "median.hpp"
#include "trace/recorder.hpp"

namespace braid::bench {

namespace {

using clock = std::chrono::steady_clock;

struct sample {
  double seconds;         ///< of all
  double submit_seconds;  ///< until the last op was submitted
};

sample run(cpu::runtime& rt, std::vector<buffer<int>>& chains, std::uint64_t ops,
           std::chrono::nanoseconds length) {
  const auto begin = clock::now();
  for (std::uint64_t i = 0; i < ops; ++i) {
    const std::uint64_t chain = i % chains.size();
    rt.submit(stream_id{chain}, "op", read_write(chains[chain]), [length](std::span<int>) {
      const auto until = clock::now() + length;
      while (clock::now() < until) {
      }
    });
  }
  const auto submitted = clock::now();
  rt.synchronize();
  return {std::chrono::duration<double>(clock::now() - begin).count(),
          std::chrono::duration<double>(submitted - begin).count()};
}

}  // namespace

nlohmann::json run_trace_bench(const trace_options& with) {
  using namespace std::chrono_literals;
  constexpr std::chrono::nanoseconds lengths[] = {1us, 10us, 100us};
  nlohmann::json out;
  out["machine"] = machine();
  out["repetitions"] = with.repetitions;
  std::uint64_t done = 0;
  for (const std::chrono::nanoseconds length : lengths) {
    // About as long for each length.
    const std::uint64_t ops =
        std::max<std::uint64_t>(800, with.ops * 10'000 / static_cast<std::uint64_t>(length.count()));
    cpu::runtime rt;
    std::vector<buffer<int>> chains;
    for (int i = 0; i < 8; ++i) chains.push_back(rt.make_buffer<int>(16, zeroed, "chain"));
    std::vector<double> plain, traced, ratio, plain_submit, traced_submit;
    for (unsigned i = 0; i <= with.repetitions; ++i) {  // the first warms up
      const sample p = run(rt, chains, ops, length);
      trace::start_recording();
      const sample t = run(rt, chains, ops, length);
      const trace::recording recorded = trace::stop_recording();
      if (with.progress) with.progress(++done, std::size(lengths) * (with.repetitions + 1));
      if (i == 0) continue;
      plain.push_back(p.seconds);
      traced.push_back(t.seconds);
      ratio.push_back(t.seconds / p.seconds);
      plain_submit.push_back(p.submit_seconds * 1e9 / static_cast<double>(ops));
      traced_submit.push_back(t.submit_seconds * 1e9 / static_cast<double>(ops));
    }
    const auto [least, most] = std::ranges::minmax(ratio);
    out["results"].push_back({{"op_us", static_cast<double>(length.count()) / 1000.0},
                              {"ops", ops},
                              {"plain_s", median(plain)},
                              {"traced_s", median(traced)},
                              {"ratio", median(traced) / median(plain)},
                              {"ratio_min", least},
                              {"ratio_max", most},
                              {"plain_submit_ns", median(plain_submit)},
                              {"traced_submit_ns", median(traced_submit)}});
  }
  return out;
}

}  // namespace braid::bench
