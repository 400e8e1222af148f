#pragma once

#include <iosfwd>

#include "trace/model.hpp"

namespace braid::trace {

/// The ops of a trace and what orders them, for Graphviz: an edge for each wait, named by its hazard and what
/// both ops use, and a thin one from each op to the next of its stream.
void write_graph(std::ostream& out, const trace& t);

}  // namespace braid::trace
