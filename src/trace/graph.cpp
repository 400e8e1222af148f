#include "trace/graph.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <array>
#include <ostream>

#include "trace/analysis.hpp"

namespace braid::trace {

namespace {

std::string quoted_for_dot(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

const char* colour_of(hazard why) {
  constexpr std::array<const char*, hazard_count> colours = {"#c0392b", "#2471a3", "#7d3c98",
                                                             "#b9770e", "#7f8c8d", "#7f8c8d"};
  return colours[static_cast<unsigned>(why)];
}

}  // namespace

void write_graph(std::ostream& out, const trace& t) {
  fmt::print(
      out,
      "digraph braid {{\n  rankdir=LR;\n  fontname=sans;\n  node [shape=box, style=rounded, fontname=sans];\n"
      "  edge [fontname=sans, fontsize=9];\n");
  for (std::size_t s = 0; s < t.streams.size(); ++s) {
    fmt::print(out, "  subgraph cluster_{} {{\n    label={};\n    color=gray;\n", s,
               quoted_for_dot("stream " + t.streams[s].name));
    for (const op_index i : t.streams[s].ops) {
      const op& o = t.ops[i];
      fmt::print(out, "    op{} [label={}];\n", i,
                 quoted_for_dot(o.label + " (" + to_text(o.end - o.start) + ")"));
    }
    for (std::size_t i = 1; i < t.streams[s].ops.size(); ++i) {
      fmt::print(out, "    op{} -> op{} [color=gray, arrowsize=0.5, weight=4];\n", t.streams[s].ops[i - 1],
                 t.streams[s].ops[i]);
    }
    fmt::print(out, "  }}\n");
  }
  for (op_index i = 0; i < t.ops.size(); ++i) {
    for (const wait& w : t.ops[i].waits) {
      if (w.on == no_op) continue;
      fmt::print(
          out, "  op{} -> op{} [color=\"{}\", fontcolor=\"{}\", label={}];\n", w.on, i, colour_of(w.why),
          colour_of(w.why),
          quoted_for_dot(std::string(to_string(w.why)) + (w.resource.empty() ? "" : " " + w.resource)));
    }
  }
  fmt::print(out, "}}\n");
}

}  // namespace braid::trace
