#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "braid/runtime.hpp"

// Programs that show what braid does on this machine: each loads its data, runs its measured part, and checks
// the result. The same program runs on every backend; only the kernels differ.
//
//   workloads::result r = workloads::run("cholesky", {.size = 1024}, {});
//   // r.verified, r.seconds, r.after.streams.ops - r.before.streams.ops, ...

namespace braid::workloads {

/// What is not set is chosen by the workload, for the backend.
struct options {
  /// Or "cpu", "cuda", "opencl"; auto: a GPU where there is one that can be used.
  std::string backend = "auto";
  /// On CUDA its number; on OpenCL see opencl::device_for(). Empty: the first, or what the settings say.
  std::string device{};
  std::optional<std::uint32_t> streams{};
  std::optional<std::uint32_t> workers{};  ///< on the CPU
  std::optional<std::uint64_t> size{};     ///< its meaning is the workload's: see description
  /// Lets the runtime choose the streams, also where the workload would name them.
  std::optional<braid::placement> placement{};
  std::uint64_t seed = 1;  ///< of the data
  std::string file{};      ///< of taskgraph
};

/// Called by the thread that called run(). Any of them may be empty.
struct hooks {
  std::function<void()> begin{};  ///< before the first op that is measured; nothing is in flight
  std::function<void()> end{};    ///< after the last op that is measured is over
  std::function<void(double share)> progress{};  ///< from 0 to 1, now and then during the measured part
  /// Gets the result, or a part of it, before it is checked: for tests of the check.
  std::function<void(std::span<std::byte> result)> tamper{};
};

struct result {
  std::string workload;
  std::string backend;        ///< that it ran on: "cpu", "cuda", "opencl"
  std::string device;         ///< "2 workers", "NVIDIA H200"
  std::string problem;        ///< "n = 2048, tiles of 128"
  std::uint32_t streams = 0;  ///< that ops may be spread over
  std::uint32_t workers = 0;  ///< threads that run ops; 0 where a device does
  std::string placement;      ///< "automatic", "per_thread", "single", or what the workload does instead
  double seconds = 0;         ///< of the measured part
  double work = 0;            ///< that was done in it, in `unit`: work / seconds is the throughput
  std::string unit;           ///< "GFLOP", "Mpoint", "frame", "request", "op"
  bool verified = false;      ///< whether the result is right
  std::string check;          ///< how that was found, and what was found
  runtime_stats before{};     ///< just before the measured part
  runtime_stats after{};      ///< just after it
  /// That the submitting threads spent on giving ops, their labels included and waits not; all together.
  double submit_seconds = 0;
};

struct description {
  std::string name;
  std::string what;  ///< one line
  std::string size;  ///< what the size means, with the default
  bool takes_file = false;
};

/// All workloads.
std::vector<description> list();

/// Throws usage_error(bad_settings) for options that cannot be, with what would be right,
/// usage_error(no_device) where the backend has no device, and execution_error if an op fails. A wrong result
/// is no exception: see `verified`.
result run(const std::string& workload, const options& with, const hooks& call);

}  // namespace braid::workloads
