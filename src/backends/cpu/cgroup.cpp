#include "cgroup.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

namespace braid::detail {

namespace {

namespace fs = std::filesystem;

/// `path` names a place from "/" on; under another root for tests.
fs::path under(const fs::path& root, const fs::path& path) {
  return root / path.relative_path();
}

bool contains(const std::string& comma_separated, std::string_view word) {
  std::istringstream in(comma_separated);
  for (std::string each; std::getline(in, each, ',');) {
    if (each == word) return true;
  }
  return false;
}

/// A hierarchy of cgroups: where it is mounted, and which of its cgroups is the root there.
struct mount {
  fs::path point;
  fs::path top = "/";
};

/// The hierarchy of `controller`, or with none the one of version 2.
std::optional<mount> find_mount(const fs::path& root, std::string_view controller) {
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    // id parent device top point options [tag...] - type source options
    std::istringstream fields(line);
    std::string skip;
    std::string top;
    std::string point;
    fields >> skip >> skip >> skip >> top >> point;
    while (fields >> skip && skip != "-") continue;
    std::string type;
    std::string options;
    fields >> type >> skip >> options;
    const bool is_it =
        controller.empty() ? type == "cgroup2" : type == "cgroup" && contains(options, controller);
    if (is_it) return mount{point, top};
  }
  return std::nullopt;
}

/// The cgroup of this process in that hierarchy.
std::optional<fs::path> find_cgroup(const fs::path& root, std::string_view controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    // number:controllers:path; version 2 has the number 0 and no controllers
    const std::size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_it =
        controller.empty() ? controllers.empty() && line[0] == '0' : contains(controllers, controller);
    if (is_it) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// The folders of the process's cgroup and of all above it, inner ones first.
std::vector<fs::path> folders(const fs::path& root, std::string_view controller) {
  const auto at = find_mount(root, controller);
  const auto cgroup = find_cgroup(root, controller);
  if (!at.has_value() || !cgroup.has_value()) return {};
  // In a container the mount may show a part of the hierarchy only. A cgroup outside of it leaves what is
  // seen.
  fs::path inner = cgroup->lexically_relative(at->top);
  if (inner.empty() || inner == "." || *inner.begin() == "..") inner.clear();
  std::vector<fs::path> all;
  for (; !inner.empty(); inner = inner.parent_path()) all.push_back(at->point / inner);
  all.push_back(at->point);
  return all;
}

std::optional<std::uint64_t> number(const std::string& text) {
  std::uint64_t value = 0;
  std::istringstream in(text);
  // A minus sign would be taken for a huge number.
  if (text.empty() || text[0] < '0' || text[0] > '9' || !(in >> value)) return std::nullopt;
  return value;
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

void take_smaller(std::optional<cpu_quota>& smallest, const std::string& quota, const std::string& period,
                  const fs::path& file) {
  const auto q = number(quota);
  const auto p = number(period);
  if (!q.has_value() || !p.has_value() || *p == 0) return;
  const cpu_quota found{*q, *p, file};
  if (!smallest.has_value() || found.cpus() < smallest->cpus()) smallest = found;
}

void take_smaller(std::optional<memory_limit>& smallest, const fs::path& root, const fs::path& file) {
  // Version 1 says "no limit" by the largest number of whole pages.
  constexpr std::uint64_t none = std::uint64_t{1} << 62;
  const auto bytes = number(first_line(under(root, file)));
  if (!bytes.has_value() || *bytes >= none) return;
  if (!smallest.has_value() || *bytes < smallest->bytes) smallest = memory_limit{*bytes, file};
}

}  // namespace

std::optional<cpu_quota> cgroup_cpu_quota(const fs::path& root) {
  std::optional<cpu_quota> smallest;
  for (const fs::path& folder : folders(root, "")) {
    std::istringstream in(first_line(under(root, folder / "cpu.max")));  // "max 100000" is no limit
    std::string quota;
    std::string period;
    in >> quota >> period;
    take_smaller(smallest, quota, period, folder / "cpu.max");
  }
  for (const fs::path& folder : folders(root, "cpu")) {
    const fs::path file = folder / "cpu.cfs_quota_us";  // -1 is no limit
    take_smaller(smallest, first_line(under(root, file)),
                 first_line(under(root, folder / "cpu.cfs_period_us")), file);
  }
  return smallest;
}

std::optional<memory_limit> cgroup_memory_limit(const fs::path& root) {
  std::optional<memory_limit> smallest;
  for (const fs::path& folder : folders(root, "")) take_smaller(smallest, root, folder / "memory.max");
  for (const fs::path& folder : folders(root, "memory")) {
    take_smaller(smallest, root, folder / "memory.limit_in_bytes");
  }
  return smallest;
}

}  // namespace braid::detail
