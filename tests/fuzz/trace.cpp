// Whatever bytes a trace consists of, reading it ends with a trace or a trace_error; and whatever trace that
// is, it can be explained, drawn and replayed.

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "fuzz.hpp"
#include "trace/explain.hpp"
#include "trace/graph.hpp"
#include "trace/replay.hpp"
#include "trace/timeline.hpp"

#include <nlohmann/json.hpp>

void braid::fuzz::run(std::string_view input) {
  std::istringstream in{std::string(input)};
  try {
    const trace::trace t = trace::read(in, "input");
    const trace::explanation e = trace::explain(t);
    (void)trace::to_text(t, e);
    (void)trace::to_json(t, e).dump();
    std::ostringstream out;
    trace::write_graph(out, t);
    trace::write_timeline(out, t, "input");
    if (t.ops.empty() || t.ops.size() > 1'000) return;
    for (const auto placed :
         {trace::replay_setting::placing::recorded, trace::replay_setting::placing::automatic}) {
      (void)trace::replay(t, {.streams = 4, .placed = placed});
    }
  } catch (const trace::trace_error&) {
  }
}
