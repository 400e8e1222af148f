#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plot.hpp"

namespace braid::tool {

/// `--rivals all|none|LIST`, the same for every benchmark that has some.
class rivals_option {
 public:
  /// `names` of all that is measured, braid included.
  explicit rivals_option(std::vector<std::string> names);
  void add_to(CLI::App& command);
  /// What to measure, always with `own`; empty: everything.
  [[nodiscard]] std::vector<std::string> with(const std::string& own) const;
  [[nodiscard]] bool wants(const std::string& rival) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::string> chosen_;
  std::vector<std::string> only_;  // of --runtime
};

/// Where a benchmark's results go, the same for all of them: `--json --csv --plot DIR --quick`.
struct output_options {
  explicit output_options(std::string benchmark) : name(std::move(benchmark)) {}
  void add_to(CLI::App& command, const std::string& what_quick_does);
  /// Throws now if the files could not be written later.
  void expect_writable();
  /// Prints the JSON, if that is asked for, and writes the files. The CSV has a line for each object in
  /// `out[rows]`, without what is nested.
  void write(const nlohmann::json& out, const std::string& rows,
             const std::vector<bench::line_chart>& charts);

  std::string name;
  bool json = false;
  bool quick = false;
  CLI::Option* csv_option = nullptr;
  std::string csv;
  std::string plot;

 private:
  [[nodiscard]] std::string csv_path() const;
};

/// The first lines of a report, and the last.
void print_machine(const nlohmann::json& out);
void print_runtimes(const nlohmann::json& out);

}  // namespace braid::tool
