#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

// Limits that cgroups set, version 2 and version 1, also both at once. A limit holds for all cgroups below,
// so the smallest from the process's own cgroup up to the mounted root counts. What is absent or does not
// parse limits nothing. `root` stands before every path, for tests with made-up trees.

namespace braid::detail {

/// CPU time: `quota` in every `period`, both in microseconds.
struct cpu_quota {
  std::uint64_t quota = 0;
  std::uint64_t period = 1;
  std::filesystem::path file;  ///< that says so

  [[nodiscard]] double cpus() const noexcept {
    return static_cast<double>(quota) / static_cast<double>(period);
  }
  /// Whole CPUs that this is worth, rounded up; at least 1.
  [[nodiscard]] std::uint64_t rounded_up() const noexcept {
    return quota == 0 ? 1 : (quota - 1) / period + 1;
  }
};

struct memory_limit {
  std::uint64_t bytes = 0;
  std::filesystem::path file;  ///< that says so
};

std::optional<cpu_quota> cgroup_cpu_quota(const std::filesystem::path& root = "/");
std::optional<memory_limit> cgroup_memory_limit(const std::filesystem::path& root = "/");

}  // namespace braid::detail
