#include "workloads/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "workloads/measured.hpp"
#include "workloads/programs.hpp"

namespace braid::workloads {

namespace {

struct entry {
  description what;
  result (*on_cpu)(const options&, const hooks&);
};

const std::array<entry, 5>& entries() {
  static const std::array<entry, 5> all{{
      {{"cholesky", "factorises a positive definite matrix in tiles, A = L L^T",
        "the side of the matrix; 4096 on the CPU (2048 without OpenBLAS), 16384 on CUDA, 1024 on OpenCL",
        false},
       cholesky_on_cpu},
      {{"stencil", "heat on a plate in blocks that exchange their edges",
        "the side of the plate; 2048 on the CPU, 4096 on CUDA, 1024 on OpenCL", false},
       stencil_on_cpu},
      {{"pipeline", "frames through five stages, eight frames in flight",
        "how many frames; 1000 on the CPU, 4000 on CUDA, 500 on OpenCL", false},
       pipeline_on_cpu},
      {{"inference", "eight threads answer requests with the same weights",
        "how many requests; 4000 on the CPU, 8000 on CUDA, 1000 on OpenCL", false},
       inference_on_cpu},
      {{"taskgraph", "a graph of ops from a file, see docs/guide/taskgraph.md",
        "how often the graph is run; what the file says, or 1", true},
       taskgraph_on_cpu},
  }};
  return all;
}

const entry& entry_of(const std::string& name) {
  const auto found = std::ranges::find(entries(), name, [](const entry& e) { return e.what.name; });
  if (found != entries().end()) return *found;
  std::string names;
  for (const entry& e : entries()) names += (names.empty() ? "" : ", ") + e.what.name;
  throw_bad_option(fmt::format("there is no workload '{}'; there are {}", name, names));
}

/// The backend to run on. Throws if the one that was asked for cannot.
std::string backend_for(const std::string& workload, const options& with) {
  if (with.backend == "cpu") return "cpu";
  if (with.backend == "cuda") {
    if (const std::string reason = why_not_cuda(workload); !reason.empty()) {
      throw usage_error(misuse::no_device, reason);
    }
    return "cuda";
  }
  if (with.backend == "opencl") {
    if (const std::string reason = why_not_opencl(workload, with.device); !reason.empty()) {
      throw usage_error(misuse::no_device, reason);
    }
    return "opencl";
  }
  if (with.backend != "auto") {
    throw_bad_option(
        fmt::format("there is no backend '{}'; there are auto, cpu, cuda, opencl", with.backend));
  }
  // Who sets the number of workers means the CPU.
  if (with.workers) return "cpu";
  if (why_not_cuda(workload).empty()) return "cuda";
  return has_opencl_gpu() && why_not_opencl(workload, with.device).empty() ? "opencl" : "cpu";
}

}  // namespace

std::vector<description> list() {
  std::vector<description> all;
  for (const entry& e : entries()) all.push_back(e.what);
  return all;
}

result run(const std::string& workload, const options& with, const hooks& call) {
  const entry& chosen = entry_of(workload);
  if (chosen.what.takes_file && with.file.empty()) {
    throw_bad_option(fmt::format("{0} needs a file: {0} FILE.json", workload));
  }
  if (!chosen.what.takes_file && !with.file.empty()) {
    throw_bad_option(fmt::format("{} takes no file, but got '{}'", workload, with.file));
  }
  const std::string backend = backend_for(workload, with);
  if (backend != "cpu" && with.workers) {
    throw_bad_option("--workers is for the CPU: leave it out, or add --backend cpu");
  }
  if (backend == "cpu" && !with.device.empty()) {
    throw_bad_option("--device is for CUDA and OpenCL: leave it out, or add --backend cuda or opencl");
  }
  if (with.workers == 0U) throw_bad_option("--workers 0: has to be at least 1");
  result of = backend == "cuda"     ? run_on_cuda(workload, with, call)
              : backend == "opencl" ? run_on_opencl(workload, with, call)
                                    : chosen.on_cpu(with, call);
  of.workload = workload;
  of.backend = backend;
  if (of.device.empty()) of.device = fmt::format("{} {}", of.workers, of.workers == 1 ? "worker" : "workers");
  return of;
}

#if !BRAID_HAS_KERNELS

std::string why_not_cuda(const std::string&) {
  return "this build has no kernels for CUDA: CUDA's headers or nvcc were not found when it was built";
}

result run_on_cuda(const std::string& workload, const options&, const hooks&) {
  throw usage_error(misuse::no_device, why_not_cuda(workload));
}

#endif

#if !BRAID_HAS_OPENCL

std::string why_not_opencl(const std::string&, const std::string&) {
  return "this build has no OpenCL backend: OpenCL's headers were not found when it was built";
}

bool has_opencl_gpu() {
  return false;
}

result run_on_opencl(const std::string& workload, const options&, const hooks&) {
  throw usage_error(misuse::no_device, why_not_opencl(workload, ""));
}

#endif

}  // namespace braid::workloads
