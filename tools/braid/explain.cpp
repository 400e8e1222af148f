#include "trace/explain.hpp"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"

namespace braid::tool {

void add_explain(CLI::App& app, int& status) {
  struct asked {
    std::string file;
    std::size_t waits = 10;
    std::size_t steps = 12;
    bool json = false;
  };
  auto with = std::make_shared<asked>();
  CLI::App* sub = app.add_subcommand("explain", "Say where the time of a trace went, and why streams waited");
  sub->add_option("TRACE", with->file, "The file that --trace or BRAID_TRACE wrote")->required();
  sub->add_option("--waits", with->waits, "How many of the longest waits are listed")->capture_default_str();
  sub->add_option("--steps", with->steps, "How many pieces of the critical path are listed")
      ->capture_default_str();
  sub->add_flag("--json", with->json, "Print JSON, with all of the critical path");
  sub->footer(
      "Exit status: 0; 1 if an op starts before what it waited for is over; 2 for a file that is no trace.");
  sub->callback([with, &status] {
    const trace::trace t = trace::read_file(with->file);
    const trace::explanation e = trace::explain(t, with->waits);
    if (with->json) {
      fmt::print("{}\n", trace::to_json(t, e).dump(2));
    } else {
      fmt::print("{}", trace::to_text(t, e, with->steps));
    }
    status = e.violations.empty() ? 0 : 1;
  });
}

}  // namespace braid::tool
