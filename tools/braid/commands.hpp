#pragma once

#include <CLI/CLI.hpp>

namespace braid::tool {

/// Each adds its subcommand to the command and sets `status` to its exit status when it runs.
void add_verify(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
void add_config(CLI::App& app, int& status);

}  // namespace braid::tool
