#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

// Rows of tasks: task (t, i) writes cell (t, i) and reads some of row t - 1.

namespace braid::bench {

constexpr unsigned row_steps = 200;
constexpr unsigned width = 8;

enum class row_reads { none, stencil, butterfly, random };

/// Which cells of row t - 1 a task reads. Small: it is to be in the cache for who submits, as it is for who
/// computes it.
struct from_row {
  std::uint8_t count = 0;
  std::uint8_t cell[3]{};
  [[nodiscard]] std::span<const std::uint8_t> cells() const { return {cell, count}; }
};
/// Of each task (t, i), by t * width + i.
using row_inputs = std::vector<from_row>;

inline row_inputs row_inputs_of(row_reads kind, std::uint32_t seed) {
  std::mt19937 random(seed);
  row_inputs all;
  for (unsigned t = 0; t < row_steps; ++t) {
    for (int i = 0; i < static_cast<int>(width); ++i) {
      std::vector<int> from;
      const int distance = t == 0 ? 0 : 1 << ((t - 1) % 3);
      if (t > 0 && kind == row_reads::stencil) from = {i - 1, i, i + 1};
      if (t > 0 && kind == row_reads::butterfly) from = {i - distance, i, i + distance};
      if (t > 0 && kind == row_reads::random) {
        from = {static_cast<int>(random() % width), static_cast<int>(random() % width)};
        if (from[0] == from[1]) from.pop_back();
      }
      from_row inside;
      for (const int f : from) {
        if (f >= 0 && f < static_cast<int>(width)) inside.cell[inside.count++] = static_cast<std::uint8_t>(f);
      }
      all.push_back(inside);
    }
  }
  return all;
}

}  // namespace braid::bench
