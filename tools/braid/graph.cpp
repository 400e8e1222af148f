#include "trace/graph.hpp"

#include <memory>

#include "commands.hpp"
#include "output.hpp"

namespace braid::tool {

void add_graph(CLI::App& app, int& status) {
  struct asked {
    std::string file;
    std::string out = "-";
  };
  auto with = std::make_shared<asked>();
  CLI::App* sub = app.add_subcommand("graph", "Print the ops of a trace and their hazards, for Graphviz");
  sub->add_option("TRACE", with->file, "The file that --trace or BRAID_TRACE wrote")->required();
  sub->add_option("-o,--output", with->out, "A file; - is standard output")->capture_default_str();
  sub->footer("As a picture: braid graph TRACE | dot -Tsvg > graph.svg (package graphviz)");
  sub->callback([with, &status] {
    const trace::trace t = trace::read_file(with->file);
    write_output(with->out, [&](std::ostream& out) { trace::write_graph(out, t); });
    status = 0;
  });
}

}  // namespace braid::tool
