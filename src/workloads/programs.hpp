#pragma once

#include <string>

#include "workloads/workload.hpp"

// The workloads on each backend.

namespace braid::workloads {

result cholesky_on_cpu(const options& with, const hooks& call);
result stencil_on_cpu(const options& with, const hooks& call);
result pipeline_on_cpu(const options& with, const hooks& call);
result inference_on_cpu(const options& with, const hooks& call);
result taskgraph_on_cpu(const options& with, const hooks& call);

/// Why this workload cannot run on a GPU here; empty if it can.
std::string why_not_cuda(const std::string& workload);
/// Where it can.
result run_on_cuda(const std::string& workload, const options& with, const hooks& call);

/// Likewise, on the device of this choice.
std::string why_not_opencl(const std::string& workload, const std::string& device);
result run_on_opencl(const std::string& workload, const options& with, const hooks& call);
/// Whether the device that OpenCL would take is a GPU.
bool has_opencl_gpu();

}  // namespace braid::workloads
