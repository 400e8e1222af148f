#include "bench_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "output.hpp"

namespace braid::tool {

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// The plain fields of all rows, in the order in which they come.
std::vector<std::string> columns_of(const nlohmann::json& rows) {
  std::vector<std::string> out;
  for (const auto& row : rows)
    for (const auto& [key, value] : row.items())
      if (value.is_primitive() && !contains(out, key)) out.push_back(key);
  return out;
}

std::string field(const nlohmann::json& row, const std::string& key) {
  if (!row.contains(key) || row[key].is_null()) return "";
  if (!row[key].is_string()) return row[key].dump();
  std::string text = row[key].get<std::string>();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '"');
  return '"' + text + '"';
}

void write_csv(std::ostream& to, const nlohmann::json& rows) {
  const std::vector<std::string> columns = columns_of(rows);
  for (std::size_t i = 0; i < columns.size(); ++i) to << (i == 0 ? "" : ",") << columns[i];
  to << '\n';
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i) to << (i == 0 ? "" : ",") << field(row, columns[i]);
    to << '\n';
  }
}

}  // namespace

rivals_option::rivals_option(std::vector<std::string> names) : names_(std::move(names)) {}

void rivals_option::add_to(CLI::App& command) {
  std::vector<std::string> known{"all", "none"};
  for (const std::string& name : names_)
    if (name != "braid") known.push_back(name);
  command
      .add_option("--rivals", chosen_,
                  "all, none, or a list of what is measured beside braid; what is absent is reported")
      ->check(CLI::IsMember(known))
      ->delimiter(',');
  command.add_option("--runtime", only_, "Only these runtimes; braid is one of them")
      ->check(CLI::IsMember(names_))
      ->delimiter(',');
}

std::vector<std::string> rivals_option::with(const std::string& own) const {
  if (!only_.empty()) return only_;
  if (chosen_.empty() || contains(chosen_, "all")) return {};
  std::vector<std::string> out = chosen_;
  std::erase(out, "none");
  out.push_back(own);
  return out;
}

bool rivals_option::wants(const std::string& rival) const {
  const auto all = with("braid");
  return all.empty() || contains(all, rival);
}

void output_options::add_to(CLI::App& command, const std::string& what_quick_does) {
  command.add_flag("--quick", quick, what_quick_does);
  command.add_flag("--json", json, "Print JSON");
  csv_option = command.add_option("--csv", csv,
                                  fmt::format("Write the results as CSV as well; the default is {}.csv, in "
                                              "the folder of the plots if there are any",
                                              name));
  csv_option->expected(0, 1)->type_name("FILE");
  command.add_option("--plot", plot, "Write plots (SVG) into this folder")->type_name("DIR");
}

std::string output_options::csv_path() const {
  if (csv_option == nullptr || csv_option->empty()) return "";
  if (!csv.empty()) return csv;
  return (std::filesystem::path(plot) / (name + ".csv")).string();
}

void output_options::expect_writable() {
  if (!plot.empty()) {
    std::error_code why;
    std::filesystem::create_directories(plot, why);
    if (why) throw std::system_error(why, "the folder '" + plot + "' cannot be made");
  }
  tool::expect_writable(csv_path());
}

void output_options::write(const nlohmann::json& out, const std::string& rows,
                           const std::vector<bench::line_chart>& charts) {
  if (json) fmt::print("{}\n", out.dump(2));
  if (const std::string path = csv_path(); !path.empty())
    write_output(path, [&](std::ostream& to) { write_csv(to, out[rows]); });
  if (plot.empty()) return;
  for (const bench::line_chart& chart : charts)
    write_output((std::filesystem::path(plot) / (chart.name + ".svg")).string(),
                 [&](std::ostream& to) { bench::write_svg(to, chart); });
}

void print_machine(const nlohmann::json& out) {
  const auto& m = out["machine"];
  fmt::print("{}, {} MHz, nproc {}, others used {:.2f} cores; ", m["cpu"].get<std::string>(),
             m["mhz"].get<std::string>(), m["nproc"].get<unsigned>(), out["foreign_load"].get<double>());
}

void print_runtimes(const nlohmann::json& out) {
  if (out.contains("versions"))
    for (const auto& [name, text] : out["versions"].items())
      fmt::print("{}: {}\n", name, text.get<std::string>());
  for (const auto& u : out["unavailable"])
    fmt::print("{} is unavailable: {}\n", u["runtime"].get<std::string>(), u["reason"].get<std::string>());
}

}  // namespace braid::tool
