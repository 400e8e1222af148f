#pragma once

#include <iosfwd>
#include <string>

#include "trace/model.hpp"

// The page of `braid timeline`: one HTML file with the trace in it, which needs nothing else.

namespace braid::trace {

/// Writes the page. Labels and names may hold anything: what is not UTF-8 is replaced, and nothing of it is
/// taken for HTML. Throws nothing of its own; whether `out` took it all is for the caller to ask.
void write_timeline(std::ostream& out, const trace& t, const std::string& title);

}  // namespace braid::trace
