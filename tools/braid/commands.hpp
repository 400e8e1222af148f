#pragma once

#include <CLI/CLI.hpp>

namespace braid::tool {

/// Each adds its subcommand to the command and sets `status` to its exit status when it runs.
void add_run(CLI::App& app, int& status);
void add_explain(CLI::App& app, int& status);
void add_timeline(CLI::App& app, int& status);
void add_replay(CLI::App& app, int& status);
void add_graph(CLI::App& app, int& status);
void add_verify(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
void add_config(CLI::App& app, int& status);
void add_info(CLI::App& app, int& status);

/// Each adds a subcommand of `bench`.
void add_bench_metg(CLI::App& bench, int& status);
void add_bench_memory(CLI::App& bench, int& status);
void add_bench_trace(CLI::App& bench, int& status);
void add_bench_tasks(CLI::App& bench, int& status);
void add_bench_cuda(CLI::App& bench, int& status);
void add_bench_opencl(CLI::App& bench, int& status);

}  // namespace braid::tool
