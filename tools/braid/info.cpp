#include <fmt/format.h>
#include <hwloc.h>
#include <spdlog/version.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backends/cpu/cgroup.hpp"
#include "backends/drivers.hpp"
#include "braid/detail/cores.hpp"
#include "commands.hpp"
#include "machine.hpp"

// Set by the build: BRAID_HAS_CPU, BRAID_HAS_CUDA, BRAID_HAS_OPENCL (0 or 1), BRAID_CUDA_HEADERS (their
// version, or empty).

#if BRAID_HAS_CUDA
#include "braid/cuda.hpp"
#endif
#if BRAID_HAS_OPENCL
#include "braid/opencl.hpp"
#endif

namespace braid::tool {

namespace {

using nlohmann::json;

json text_or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

std::string compiler() {
#ifdef __clang__
  return "clang++ " + fmt::format("{}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return "g++ " __VERSION__;
#endif
}

json libraries() {
  return {{"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
          {"hwloc", HWLOC_VERSION},
          {"cuda_headers", text_or_null(BRAID_CUDA_HEADERS)}};
}

/// Of /proc/meminfo, which counts in KiB; 0 if it is not there.
std::uint64_t meminfo_bytes(const std::string& key) {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string name;
    std::uint64_t kib = 0;
    if (fields >> name >> kib && name == key + ":") return kib * 1024;
  }
  return 0;
}

json machine() {
  const detail::cores cores = detail::cores_of_process();
  const std::uint64_t total = meminfo_bytes("MemTotal");
  const auto limit = detail::cgroup_memory_limit();
  const bool limits = limit.has_value() && limit->bytes < total;
  return {{"cpu", bench::machine()["cpu"]},
          {"cores", cores.usable},
          {"cpus", cores.cpus},
          {"cores_limited_by", cores.limited_by},
          {"memory_bytes", total},
          {"memory_available_bytes", meminfo_bytes("MemAvailable")},
          {"memory_limit_bytes", limits ? json(limit->bytes) : json(nullptr)},
          {"memory_limited_by", limits ? limit->file.string() : ""}};
}

json devices(const std::vector<std::string>& names) {
  json all = json::array();
  for (const std::string& name : names) all.push_back({{"name", name}});
  return all;
}

json cpu_backend(const json& machine) {
  constexpr bool built = BRAID_HAS_CPU != 0;
  json device = {{"name", machine["cpu"]}, {"cores", machine["cores"]}};
  return {{"name", "cpu"},
          {"built", built},
          {"available", built},
          {"reason", built ? "" : "this build has no CPU backend"},
          {"devices", json::array({std::move(device)})}};
}

json sim_backend() {
  return {{"name", "sim"},
          {"built", true},
          {"available", true},
          {"reason", ""},
          {"devices", devices({"a simulated device in virtual time"})}};
}

/// This build has none; what the driver finds is told all the same.
[[maybe_unused]] json missing_backend(const char* name, const char* why, const detail::driver& driver) {
  return {{"name", name},  {"built", false},        {"available", false},
          {"reason", why}, {"driver", driver.text}, {"devices", devices(driver.devices)}};
}

#if BRAID_HAS_CUDA
json cuda_backend() {
  json all = json::array();
  std::string reason;
  try {
    for (const cuda::device_info& d : cuda::devices()) {
      all.push_back({{"name", d.name},
                     {"number", d.ordinal},
                     {"multiprocessors", d.multiprocessors},
                     {"memory_bytes", d.memory}});
    }
    if (all.empty()) reason = "the driver knows no device";
  } catch (const std::exception& e) {
    reason = e.what();
  }
  return {{"name", "cuda"},
          {"built", true},
          {"available", !all.empty()},
          {"reason", reason},
          {"driver", detail::probe_cuda().text},
          {"devices", std::move(all)}};
}
#else
json cuda_backend() {
  return missing_backend("cuda", "cuda.h was not found when braid was built", detail::probe_cuda());
}
#endif

#if BRAID_HAS_OPENCL
json opencl_backend() {
  json all = json::array();
  std::string reason;
  try {
    for (const opencl::device_info& d : opencl::devices()) {
      all.push_back({{"name", d.name},
                     {"number", d.ordinal},
                     {"platform", d.platform},
                     {"version", d.version},
                     {"driver", d.driver},
                     {"kind", d.kind},
                     {"compute_units", d.compute_units},
                     {"memory_bytes", d.memory},
                     {"largest_allocation_bytes", d.largest_allocation},
                     {"slice_alignment_bytes", d.slice_alignment},
                     {"unified_memory", d.has_unified_memory},
                     {"doubles", d.has_doubles},
                     {"profiling", d.has_profiling},
                     {"shared_virtual_memory", d.shared_virtual_memory}});
    }
  } catch (const std::exception& e) {
    reason = e.what();
  }
  return {{"name", "opencl"},
          {"built", true},
          {"available", !all.empty()},
          {"reason", reason},
          {"driver", detail::probe_opencl().text},
          {"devices", std::move(all)}};
}
#else
json opencl_backend() {
  return missing_backend("opencl", "OpenCL's headers were not found when braid was built",
                         detail::probe_opencl());
}
#endif

json info() {
  json out;
  out["version"] = BRAID_VERSION;
  out["compiler"] = compiler();
  out["libraries"] = libraries();
  out["machine"] = machine();
  out["backends"] = {cpu_backend(out["machine"]), sim_backend(), cuda_backend(), opencl_backend()};
  return out;
}

std::string gib(const json& bytes) {
  return fmt::format("{:.1f} GiB", bytes.get<double>() / (1024.0 * 1024.0 * 1024.0));
}

std::string text(const json& value) {
  return value.get<std::string>();
}

/// What a device of OpenCL supports.
void print_opencl_device(const json& d) {
  const auto has = [&](const char* key, const char* what) {
    return fmt::format(", {}{}", d[key].get<bool>() ? "" : "no ", what);
  };
  const auto line = [](const std::string& what) { fmt::print("  {:<8} {:<14}    {}\n", "", "", what); };
  fmt::print("  {:<8} {:<14} {}: {}\n", "", "", d["number"].get<int>(), text(d["name"]));
  line(fmt::format("{} of {}, {}, driver {}", text(d["kind"]), text(d["platform"]), text(d["version"]),
                   text(d["driver"])));
  line(fmt::format("{} compute units, {} of memory in pieces of up to {}, slices at multiples of {} bytes",
                   d["compute_units"].get<unsigned>(), gib(d["memory_bytes"]),
                   gib(d["largest_allocation_bytes"]), d["slice_alignment_bytes"].get<unsigned>()));
  line("shared virtual memory: " + text(d["shared_virtual_memory"]) +
       has("unified_memory", "memory shared with the host") + has("doubles", "double precision") +
       has("profiling", "times of commands"));
}

void print_backend(const json& b) {
  std::string first = text(b["reason"]);
  if (b["available"].get<bool>()) {
    for (const json& d : b["devices"]) first += (first.empty() ? "" : ", ") + text(d["name"]);
  }
  fmt::print("  {:<8} {:<14} {}\n", text(b["name"]),
             b["available"].get<bool>() ? "available"
             : b["built"].get<bool>()   ? "not available"
                                        : "not built",
             first);
  if (b.contains("driver") && text(b["driver"]) != first)
    fmt::print("  {:<8} {:<14} {}\n", "", "", text(b["driver"]));
  for (const json& d : b["devices"]) {
    if (d.contains("platform")) print_opencl_device(d);
    if (d.contains("multiprocessors")) {
      fmt::print("  {:<8} {:<14} {}: {}, {} multiprocessors, {} of memory\n", "", "", d["number"].get<int>(),
                 text(d["name"]), d["multiprocessors"].get<unsigned>(), gib(d["memory_bytes"]));
    }
  }
}

void print_text(const json& out) {
  const json& libraries = out["libraries"];
  fmt::print("braid {}, built with {}\n\nbackends\n", text(out["version"]), text(out["compiler"]));
  for (const json& b : out["backends"]) print_backend(b);

  const json& m = out["machine"];
  const auto cores = m["cores"].get<unsigned>();
  const std::string limited_by = text(m["cores_limited_by"]);
  fmt::print("\nmachine\n  {:<8} {}\n  {:<8} {} usable{}{}\n", "CPU", text(m["cpu"]), "cores", cores,
             limited_by.empty() ? "" : ": ", limited_by);
  fmt::print("  {:<8} {}, {} available\n", "memory", gib(m["memory_bytes"]),
             gib(m["memory_available_bytes"]));
  if (!m["memory_limit_bytes"].is_null()) {
    fmt::print("  {:<8} limited to {} by {}\n", "", gib(m["memory_limit_bytes"]),
               text(m["memory_limited_by"]));
  }
  const json& cuda = libraries["cuda_headers"];
  fmt::print("\nlibraries\n  fmt {}, spdlog {}, hwloc {}; {}\n", text(libraries["fmt"]),
             text(libraries["spdlog"]), text(libraries["hwloc"]),
             cuda.is_null() ? "no CUDA headers were found when it was built" : "CUDA headers " + text(cuda));
}

}  // namespace

void add_info(CLI::App& app, int& status) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* sub = app.add_subcommand(
      "info", "Print what is built in, which devices and drivers are found, and what the machine offers");
  sub->add_flag("--json", *as_json, "Print JSON");
  sub->footer(
      "The drivers of CUDA and OpenCL are opened and asked for their devices, also where this build has no "
      "backend for them. Exit status: 0, whatever is found.");
  sub->callback([as_json, &status] {
    const json out = info();
    if (*as_json) {
      fmt::print("{}\n", out.dump(2));
    } else {
      print_text(out);
    }
    status = 0;
  });
}

}  // namespace braid::tool
