#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "braid/settings.hpp"
#include "commands.hpp"

extern char** environ;  // NOLINT: POSIX

namespace braid::tool {

namespace {

/// Of the script, the tests and .ci/gpu: no settings of the library, and no slips.
constexpr std::array<std::string_view, 9> of_others = {
    "BRAID_BUILD_DIR",    "BRAID_CUDA_ARCHITECTURES", "BRAID_HEADERS",
    "BRAID_LIMIT",        "BRAID_REPETITIONS",        "BRAID_SOAK_SEED",
    "BRAID_SOAK_SECONDS", "BRAID_TEST_ASYNC_MEMORY",  "BRAID_TRACES_TO"};

/// Variables that begin with BRAID_ and set nothing: most likely a slip.
std::vector<std::string> unknown_variables(const std::vector<settings::row>& rows) {
  std::vector<std::string> unknown;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string name(*each, std::strcspn(*each, "="));
    if (name.rfind("BRAID_", 0) != 0) continue;
    const bool known =
        std::any_of(rows.begin(), rows.end(), [&](const auto& r) { return r.variable == name; }) ||
        std::ranges::find(of_others, name) != of_others.end();
    if (!known) unknown.push_back(name);
  }
  return unknown;
}

int run_config(bool json) {
  const settings& s = settings::process();
  const auto rows = s.rows();
  const auto unknown = unknown_variables(rows);
  if (json) {
    nlohmann::json out;
    out["file"] = s.file ? nlohmann::json(s.file->string()) : nlohmann::json(nullptr);
    for (const settings::row& r : rows) {
      out["settings"].push_back(
          {{"key", r.key}, {"value", r.value}, {"source", r.source}, {"variable", r.variable}});
    }
    out["unknown_variables"] = unknown;
    fmt::print("{}\n", out.dump(2));
  } else {
    fmt::print("{}\n\n", s.file ? "read " + s.file->string() : "no braid.toml here or above");
    for (const settings::row& r : rows) {
      fmt::print("{:<24} {:<10} {:<28} {}\n", r.key, r.value, r.source, r.help);
    }
    fmt::print("\nEach key has a variable that overrides the file: streams.max is BRAID_STREAMS_MAX.\n");
    for (const std::string& name : unknown) fmt::print(stderr, "braid: {} is set but unknown\n", name);
  }
  return 0;
}

}  // namespace

void add_config(CLI::App& app, int& status) {
  auto json = std::make_shared<bool>(false);
  CLI::App* sub = app.add_subcommand("config", "Print the settings in force and where each came from");
  sub->add_flag("--json", *json, "Print JSON");
  sub->callback([json, &status] { status = run_config(*json); });
}

}  // namespace braid::tool
