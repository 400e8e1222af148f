#include "workloads/inference.hpp"

#include "braid/cpu.hpp"
#include "workloads/programs.hpp"

namespace braid::workloads {

namespace {

struct cpu_inference {
  using runtime = cpu::runtime;
  static constexpr std::uint64_t requests = 4000;
  static constexpr auto layer = apply_layer;
};

}  // namespace

result inference_on_cpu(const options& with, const hooks& call) {
  return inference<cpu_inference>(with, call).run();
}

}  // namespace braid::workloads
