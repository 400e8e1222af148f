#include "workloads/taskgraph.hpp"

#include "braid/cpu.hpp"
#include "workloads/programs.hpp"

namespace braid::workloads {

namespace {

struct cpu_taskgraph {
  using runtime = cpu::runtime;
  static void prepare(runtime&, const graph&) {}
  static auto body(const graph& g, const graph::op& op, std::uint64_t seed) {
    return [&g, &op, seed](std::span<const view> views) {
      const clock::time_point begin = clock::now();
      execute(g, op, seed, [&](std::uint64_t i) { return views[i].as<std::uint64_t>().data(); });
      if (op.nanoseconds == 0) return;
      while (clock::now() - begin < std::chrono::nanoseconds(op.nanoseconds)) {
      }
    };
  }
};

}  // namespace

result taskgraph_on_cpu(const options& with, const hooks& call) {
  return taskgraph<cpu_taskgraph>(with, call).run();
}

}  // namespace braid::workloads
