#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "braid/log.hpp"
#include "braid/policies.hpp"

// What is in force for an engine that is not told otherwise: defaults, then braid.toml (searched upwards
// from the working directory), then environment variables BRAID_..., then the options in code.

namespace braid {

/// A value and where it came from: "default", "FILE:LINE", "BRAID_...".
template <class T>
struct setting {
  T value;
  std::string source = "default";
};

struct settings {
  setting<std::uint32_t> max_streams{64};
  setting<std::uint32_t> special_streams{1};
  setting<mark_policy> marks{mark_policy::learned};
  setting<bool> deterministic{false};
  setting<placement> placed{placement::automatic};
  setting<std::uint32_t> workers{0};  ///< 0: the cores of this process
  setting<bool> pin_workers{false};
  setting<bool> nvtx{false};               ///< on CUDA: ranges for NVIDIA's profilers
  setting<bool> graphs{true};              ///< on CUDA: recordings become graphs: see record_options
  setting<std::string> opencl_device{""};  ///< see opencl::device_for(); empty: the first GPU, else the first
  setting<bool> opencl_svm{false};         ///< on OpenCL: shared virtual memory where the device has it
  setting<std::uint64_t> memory_limit{0};  ///< of each pool; 0: no limit
  setting<std::uint64_t> ops_in_flight{0};                       ///< 0: no limit
  setting<std::uint64_t> bytes_in_flight{0};                     ///< 0: no limit
  setting<std::string> trace_to{""};                             ///< a file; empty: nothing is traced
  setting<std::uint64_t> trace_buffer{std::uint64_t{64} << 20};  ///< bytes, for each thread
  setting<bool> trace_cupti{true};  ///< on CUDA: times by CUPTI where it is found
  setting<std::string> log_to{"stderr"};
  setting<log_level> log_streaming{log_level::disabled};
  setting<log_level> log_memory{log_level::disabled};
  setting<log_level> log_errors{log_level::basic};

  std::optional<std::filesystem::path> file;  ///< the braid.toml that was read

  using environment = std::function<const char*(const char* name)>;

  /// Reads braid.toml at or above `from`, then `env`. Throws usage_error(bad_settings) with file, line and
  /// column, or the variable's name, and the nearest valid key or values.
  static settings load(const std::filesystem::path& from, const environment& env);
  /// Those of this process, read on first use.
  static const settings& process();

  struct row {
    std::string key, value, source, variable, help;
  };
  /// Each key with what is in force, for people.
  [[nodiscard]] std::vector<row> rows() const;
};

}  // namespace braid
