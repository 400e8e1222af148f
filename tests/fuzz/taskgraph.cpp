// Whatever bytes a task graph consists of, reading it ends with a graph or a usage_error.

#include "braid/error.hpp"
#include "fuzz.hpp"
#include "workloads/taskgraph_file.hpp"

void braid::fuzz::run(std::string_view input) {
  try {
    (void)workloads::parse_taskgraph(input, "input");
  } catch (const usage_error&) {
  }
}
