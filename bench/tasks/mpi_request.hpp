#pragma once

#include <cstdint>
#include <istream>
#include <ostream>

#include "grid.hpp"

namespace braid::bench {

/// What the harness asks the ranks for, one line each: the grid and the kernel's length.
struct mpi_request {
  grid_options options;
  std::uint64_t iterations = 0;
};

inline std::ostream& operator<<(std::ostream& out, const mpi_request& r) {
  const grid_options& g = r.options;
  const grid_edge dropped = g.dropped.value_or(grid_edge{0, 0, 0});
  return out << static_cast<unsigned>(g.pattern) << ' ' << g.width << ' ' << g.steps << ' ' << g.radix << ' '
             << g.period << ' ' << g.seed << ' ' << g.one_per_row << ' ' << static_cast<unsigned>(g.kernel)
             << ' ' << r.iterations << ' ' << g.dropped.has_value() << ' ' << dropped.step << ' '
             << dropped.column << ' ' << dropped.on;
}

inline std::istream& operator>>(std::istream& in, mpi_request& r) {
  unsigned pattern = 0;
  unsigned kernel = 0;
  bool has_dropped = false;
  grid_edge dropped{0, 0, 0};
  grid_options& g = r.options;
  in >> pattern >> g.width >> g.steps >> g.radix >> g.period >> g.seed >> g.one_per_row >> kernel >>
      r.iterations >> has_dropped >> dropped.step >> dropped.column >> dropped.on;
  g.pattern = static_cast<grid_pattern>(pattern);
  g.kernel = static_cast<grid_kernel>(kernel);
  if (has_dropped) g.dropped = dropped;
  return in;
}

/// What they answer.
struct mpi_answer {
  double ns = 0;
  grid_check check;
};

inline std::ostream& operator<<(std::ostream& out, const mpi_answer& a) {
  return out << a.ns << ' ' << a.check.executed << ' ' << a.check.wrong_inputs << ' '
             << a.check.wrong_outputs;
}

inline std::istream& operator>>(std::istream& in, mpi_answer& a) {
  return in >> a.ns >> a.check.executed >> a.check.wrong_inputs >> a.check.wrong_outputs;
}

}  // namespace braid::bench
