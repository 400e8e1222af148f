#include "workloads/pipeline.hpp"

#include "braid/cpu.hpp"
#include "workloads/programs.hpp"

namespace braid::workloads {

namespace {

struct cpu_pipeline {
  using runtime = cpu::runtime;
  static constexpr std::uint64_t frames = 1000;
  static constexpr auto decode = stages::decode;
  static constexpr auto filter = stages::filter;
  static constexpr auto blend = stages::blend;
  static constexpr auto encode = stages::encode;
  static constexpr auto digest = [](stages::const_bytes coded, std::span<std::uint64_t> to) {
    to[0] = stages::digest(coded);
  };
};

}  // namespace

result pipeline_on_cpu(const options& with, const hooks& call) {
  return pipeline<cpu_pipeline>(with, call).run();
}

}  // namespace braid::workloads
