#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

// What braid costs on OpenCL, beside the same programs written by hand with queues, markers and barriers.

namespace braid::bench {

struct opencl_options {
  unsigned repetitions = 51;
  std::string device;  ///< see opencl::device_for()
  std::string filter;  ///< only cases whose name contains this
  bool quick = false;
};

/// {"results": [{"case", "runtime", "ns", "ns_min", "ns_max", "markers", "barriers"}, ...], the last two an
/// op,
///  "ratios": [{"case", "what", "ratio", "ratio_lower_quartile", "ratio_upper_quartile", "at_most"}, ...],
///  "device": {...}, "machine": {...}, "repetitions"}
/// Throws usage_error(no_device) where there is none, and std::runtime_error for a wrong result. `progress`
/// is called with (done, of).
nlohmann::json run_opencl_bench(const opencl_options& options,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress);

}  // namespace braid::bench
