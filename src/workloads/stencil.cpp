#include "workloads/stencil.hpp"

#include <algorithm>

#include "braid/cpu.hpp"
#include "workloads/programs.hpp"

namespace braid::workloads {

namespace {

using in = std::span<const double>;
using out = std::span<double>;

void copy_edges(block_shape s, out block) {
  double* const north = block.data() + s.points();
  double* const south = north + s.columns;
  double* const west = south + s.columns;
  double* const east = west + s.rows;
  std::copy_n(block.data(), s.columns, north);
  std::copy_n(block.data() + (s.rows - 1) * s.columns, s.columns, south);
  for (std::uint64_t r = 0; r < s.rows; ++r) {
    west[r] = block[r * s.columns];
    east[r] = block[(r + 1) * s.columns - 1];
  }
}

struct cpu_stencil {
  using runtime = cpu::runtime;
  static constexpr std::uint64_t default_n = 2048;
  static constexpr std::uint64_t largest_block = 256;
  static constexpr std::uint64_t steps = 50;

  static auto make(std::uint64_t seed, std::uint64_t n, std::uint64_t row, std::uint64_t column,
                   block_shape s) {
    return [=](out to) {
      for (std::uint64_t i = 0; i < s.points(); ++i) {
        to[i] = centred(mix(seed + (row + i / s.columns) * n + column + i % s.columns));
      }
      copy_edges(s, to);
    };
  }
  static auto step(block_shape s) {
    return [s](in old, in north, in south, in west, in east, out to_block) {
      const std::uint64_t n = s.columns;
      for (std::uint64_t r = 0; r < s.rows; ++r) {
        const double* const above = r > 0 ? &old[(r - 1) * n] : north.data();
        const double* const below = r + 1 < s.rows ? &old[(r + 1) * n] : south.data();
        const double* const row = &old[r * n];
        double* const to = &to_block[r * n];
        to[0] = mean(above[0], below[0], west[r], n > 1 ? row[1] : east[r]);
        for (std::uint64_t c = 1; c + 1 < n; ++c) to[c] = mean(above[c], below[c], row[c - 1], row[c + 1]);
        if (n > 1) to[n - 1] = mean(above[n - 1], below[n - 1], row[n - 2], east[r]);
      }
      copy_edges(s, to_block);
    };
  }
};

}  // namespace

result stencil_on_cpu(const options& with, const hooks& call) {
  return stencil<cpu_stencil>(with, call).run();
}

}  // namespace braid::workloads
