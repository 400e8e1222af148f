#include "trace/timeline.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "commands.hpp"
#include "output.hpp"

namespace braid::tool {

void add_timeline(CLI::App& app, int& status) {
  struct asked {
    std::string file;
    std::string out;
    std::string title;
  };
  auto with = std::make_shared<asked>();
  CLI::App* sub =
      app.add_subcommand("timeline", "Make a page that shows a trace: streams, ops, waits, memory");
  sub->add_option("TRACE", with->file, "The file that --trace or BRAID_TRACE wrote")->required();
  sub->add_option("-o,--output", with->out, "The page, one file; - is standard output")->required();
  sub->add_option("--title", with->title, "Of the page; default: the name of the trace");
  sub->callback([with, &status] {
    const trace::trace t = trace::read_file(with->file);
    const std::string title =
        with->title.empty() ? std::filesystem::path(with->file).filename().string() : with->title;
    write_output(with->out, [&](std::ostream& out) { trace::write_timeline(out, t, title); });
    status = 0;
  });
}

}  // namespace braid::tool
