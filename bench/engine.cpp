#include "engine.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <numeric>
#include <string_view>

#include "allocations.hpp"
#include "instructions.hpp"
#include "machine.hpp"
#include "median.hpp"

namespace braid::bench {

namespace {

struct row {
  const engine_case* of;
  std::vector<double> ns;
  std::uint64_t allocations = 0;
  std::uint64_t calls = 0;
};

/// Under "two_threads", and as rows: ns an op and thread.
void add_two_threads(nlohmann::json& out, const engine_options& options) {
  struct figure {
    const char* name;
    const char* key;
  };
  constexpr std::array<figure, 3> figures = {{{"two_threads/disjoint", "one_engine_ns"},
                                              {"two_threads/disjoint/separate_engines", "two_engines_ns"},
                                              {"two_threads/shared_read", "shared_read_ns"}}};
  const auto is_wanted = [&](const figure& f) {
    return std::string_view(f.name).find(options.filter) != std::string_view::npos;
  };
  if (std::none_of(figures.begin(), figures.end(), is_wanted)) return;
  out["two_threads"] = measure_two_threads(options);
  for (const figure& f : figures) {
    if (!is_wanted(f)) continue;
    out["benchmarks"].push_back({{"name", f.name},
                                 {"ns", out["two_threads"][f.key]},
                                 {"ns_min", nullptr},
                                 {"ns_max", nullptr},
                                 {"allocations", nullptr},
                                 {"instructions", nullptr}});
  }
}

}  // namespace

nlohmann::json run_engine_bench(const engine_options& options,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  std::vector<engine_case> cases = engine_cases(options);
  std::erase_if(cases,
                [&](const engine_case& c) { return c.name.find(options.filter) == std::string::npos; });
  const std::uint64_t steps = cases.size() * 2 + 2;
  std::uint64_t done = 0;

  nlohmann::json out;
  out["machine"] = machine();
  // Memory first, in a process that has freed nothing yet.
  if (options.filter.empty() || options.filter == "memory") out["memory"] = measure_memory(options);
  progress(++done, steps);
  // Then instructions: their children are forked from a process without threads.
  std::vector<std::optional<double>> instructions;
  for (const engine_case& c : cases) {
    instructions.push_back(c.single_thread ? instructions_per_call(c.make()) : std::nullopt);
    progress(++done, steps);
  }
  // A few rows at a time are alive and take turns, so that a noisy moment hits neighbours alike.
  constexpr std::size_t together = 8;
  for (std::size_t first = 0; first < cases.size(); first += together) {
    const std::size_t last = std::min(first + together, cases.size());
    std::vector<row> rows;
    std::vector<std::function<void(std::uint64_t)>> bodies;
    for (std::size_t i = first; i < last; ++i) {
      rows.push_back({.of = &cases[i], .ns = {}});
      bodies.push_back(cases[i].make());
      bodies.back()(cases[i].batch);  // warm
    }
    for (unsigned r = 0; r < options.repetitions; ++r) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::uint64_t n = rows[i].of->batch;
        const std::uint64_t before = allocations();
        const auto start = std::chrono::steady_clock::now();
        bodies[i](n);
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
        rows[i].allocations += allocations() - before;
        rows[i].ns.push_back(took.count() / static_cast<double>(n));
        rows[i].calls += n;
      }
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const row& r = rows[i];
      nlohmann::json entry = {
          {"name", r.of->name},
          {"ns", median(r.ns)},
          {"ns_min", *std::min_element(r.ns.begin(), r.ns.end())},
          {"ns_max", *std::max_element(r.ns.begin(), r.ns.end())},
          {"allocations", static_cast<double>(r.allocations) / static_cast<double>(r.calls)}};
      const auto& counted = instructions[first + i];
      entry["instructions"] = counted ? nlohmann::json(*counted) : nlohmann::json(nullptr);
      out["benchmarks"].push_back(std::move(entry));
      progress(++done, steps);
    }
  }
  add_two_threads(out, options);
  progress(++done, steps);
  return out;
}

}  // namespace braid::bench
