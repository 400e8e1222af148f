#include <cstdio>
#include <exception>

#include "commands.hpp"

int main(int argc, char** argv) {
  CLI::App app{"braid: streams that align themselves", "braid"};
  app.set_version_flag("--version", "braid " BRAID_VERSION);
  app.require_subcommand(1);
  app.footer("`braid COMMAND --help` tells each command's options. The script ./braid also knows `test`.");
  int status = 0;
  braid::tool::add_run(app, status);
  braid::tool::add_explain(app, status);
  braid::tool::add_timeline(app, status);
  braid::tool::add_replay(app, status);
  braid::tool::add_graph(app, status);
  braid::tool::add_verify(app, status);
  braid::tool::add_bench(app, status);
  braid::tool::add_config(app, status);
  braid::tool::add_info(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "braid: %s\n", e.what());
    return 2;
  }
  return status;
}
