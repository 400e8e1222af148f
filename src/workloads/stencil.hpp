#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "workloads/arithmetic.hpp"
#include "workloads/measured.hpp"

// Heat on a plate: each point becomes the mean of its four neighbours, step after step. The plate is cut into
// blocks, each a buffer of its own with copies of its four edges behind its points, so that a neighbour binds
// just the edge that it needs: a slice. There is no barrier between steps.

namespace braid::workloads {

/// A block as the kernels see it: the points by rows, then the edges, north and south (columns each), west
/// and east (rows each).
struct block_shape {
  std::uint64_t rows;
  std::uint64_t columns;
  [[nodiscard]] std::uint64_t points() const { return rows * columns; }
  [[nodiscard]] std::uint64_t all() const { return points() + 2 * (rows + columns); }
};

/// `Kernels` has
///   runtime, default_n, largest_block, steps
///   make(seed, n, row, column, shape)   body that fills a block whose first point is at this row and column
///   step(shape)                   body (old points, north, south, west, east, new block)
template <class Kernels>
class stencil {
 public:
  using runtime = typename Kernels::runtime;

  stencil(const options& with, const hooks& call)
      : n_(size_of(with, Kernels::default_n, most_n)),
        side_(std::min<std::uint64_t>(n_, std::max<std::uint64_t>(Kernels::largest_block, (n_ + 31) / 32))),
        blocks_((n_ + side_ - 1) / side_),
        seed_(mix(with.seed)),
        made_(runtime_options_of(with, placement::automatic)),
        rt_(made_),
        part_(rt_, made_, with, call, Kernels::steps * blocks_ * blocks_, to_string(placement::automatic)) {}

  result run() {
    plate now = make_plate("even");
    plate next = make_plate("odd");
    for (std::uint64_t r = 0; r < blocks_; ++r) {
      for (std::uint64_t c = 0; c < blocks_; ++c) {
        rt_.submit(fmt::format("make {},{}", r, c), write(now[r * blocks_ + c]),
                   Kernels::make(seed_, n_, r * side_, c * side_, shape(r, c)));
      }
    }
    const auto hot = rt_.template make_buffer<double>(side_, "hot");  // beyond the plate's northern side
    const auto cold = rt_.template make_buffer<double>(side_, zeroed, "cold");
    rt_.fill(hot, 1.0);
    // Loads what is loaded at first use; the first step writes the same again.
    rt_.submit("warm up", read(now[0].slice(0, shape(0, 0).points())),
               read(hot.slice(0, shape(0, 0).columns)), read(cold.slice(0, shape(0, 0).columns)),
               read(cold.slice(0, shape(0, 0).rows)), read(cold.slice(0, shape(0, 0).rows)), write(next[0]),
               Kernels::step(shape(0, 0)));
    part_.start();
    for (std::uint64_t s = 0; s < Kernels::steps; ++s) {
      step(now, next, hot, cold);
      std::swap(now, next);
    }
    part_.finish();

    result& of = part_.result();
    of.problem =
        fmt::format("{} x {} points in {} blocks, {} steps", n_, n_, blocks_ * blocks_, Kernels::steps);
    of.work = static_cast<double>(n_) * static_cast<double>(n_) * static_cast<double>(Kernels::steps) * 1e-6;
    of.unit = "Mpoint";
    std::vector<double> found = gather(now);
    part_.tamper(std::span(found));
    const std::vector<double> expected = in_one_piece();
    const auto differing = static_cast<std::uint64_t>(std::inner_product(
        found.begin(), found.end(), expected.begin(), std::uint64_t{0}, std::plus<>{},
        [](double a, double b) {
          return std::uint64_t{std::bit_cast<std::uint64_t>(a) != std::bit_cast<std::uint64_t>(b)};
        }));
    of.verified = differing == 0;
    of.check = of.verified
                   ? "equal to the plate in one piece, bit by bit"
                   : fmt::format("{} of {} points differ from the plate in one piece", differing, n_ * n_);
    return of;
  }

 private:
  static constexpr std::uint64_t most_n = 32'768;
  using plate = std::vector<buffer<double>>;
  enum class edge { north, south, west, east };

  [[nodiscard]] std::uint64_t length(std::uint64_t i) const { return std::min(side_, n_ - i * side_); }
  [[nodiscard]] block_shape shape(std::uint64_t r, std::uint64_t c) const { return {length(r), length(c)}; }

  plate make_plate(const char* name) {
    plate made;
    for (std::uint64_t r = 0; r < blocks_; ++r) {
      for (std::uint64_t c = 0; c < blocks_; ++c) {
        made.push_back(
            rt_.template make_buffer<double>(shape(r, c).all(), fmt::format("{}[{},{}]", name, r, c)));
      }
    }
    return made;
  }
  [[nodiscard]] buffer_slice<double> edge_of(const plate& of, std::uint64_t r, std::uint64_t c,
                                             edge which) const {
    const block_shape s = shape(r, c);
    const buffer<double>& all = of[r * blocks_ + c];
    switch (which) {
      case edge::north: return all.slice(s.points(), s.columns);
      case edge::south: return all.slice(s.points() + s.columns, s.columns);
      case edge::west: return all.slice(s.points() + 2 * s.columns, s.rows);
      default: return all.slice(s.points() + 2 * s.columns + s.rows, s.rows);
    }
  }
  void step(const plate& now, const plate& next, const buffer<double>& hot, const buffer<double>& cold) {
    const std::uint64_t last = blocks_ - 1;
    for (std::uint64_t r = 0; r <= last; ++r) {
      for (std::uint64_t c = 0; c <= last; ++c) {
        const block_shape s = shape(r, c);
        const std::uint64_t here = r * blocks_ + c;
        part_.submit(fmt::format("step {},{}", r, c), read(now[here].slice(0, s.points())),
                     read(r > 0 ? edge_of(now, r - 1, c, edge::south) : hot.slice(0, s.columns)),
                     read(r < last ? edge_of(now, r + 1, c, edge::north) : cold.slice(0, s.columns)),
                     read(c > 0 ? edge_of(now, r, c - 1, edge::east) : cold.slice(0, s.rows)),
                     read(c < last ? edge_of(now, r, c + 1, edge::west) : cold.slice(0, s.rows)),
                     write(next[here]), Kernels::step(s));
      }
    }
  }

  // ---- The check: the same arithmetic in a plain loop over the whole plate.

  std::vector<double> gather(const plate& from) {
    std::vector<double> whole(n_ * n_);
    for (std::uint64_t r = 0; r < blocks_; ++r) {
      for (std::uint64_t c = 0; c < blocks_; ++c) {
        const block_shape s = shape(r, c);
        const std::vector<double> points = rt_.read(from[r * blocks_ + c].slice(0, s.points())).get();
        for (std::uint64_t i = 0; i < s.rows; ++i) {
          std::copy_n(&points[i * s.columns], s.columns, &whole[(r * side_ + i) * n_ + c * side_]);
        }
      }
    }
    return whole;
  }
  std::vector<double> in_one_piece() const {
    std::vector<double> now(n_ * n_), next(n_ * n_);
    const std::vector<double> hot(n_, 1.0), cold(n_, 0.0);
    for (std::uint64_t i = 0; i < now.size(); ++i) now[i] = centred(mix(seed_ + i));
    for (std::uint64_t s = 0; s < Kernels::steps; ++s) {
      for (std::uint64_t r = 0; r < n_; ++r) {
        const double* const above = r > 0 ? &now[(r - 1) * n_] : hot.data();
        const double* const below = r + 1 < n_ ? &now[(r + 1) * n_] : cold.data();
        const double* const row = &now[r * n_];
        double* const to = &next[r * n_];
        to[0] = mean(above[0], below[0], 0.0, n_ > 1 ? row[1] : 0.0);
        for (std::uint64_t c = 1; c + 1 < n_; ++c) to[c] = mean(above[c], below[c], row[c - 1], row[c + 1]);
        if (n_ > 1) to[n_ - 1] = mean(above[n_ - 1], below[n_ - 1], row[n_ - 2], 0.0);
      }
      std::swap(now, next);
    }
    return now;
  }

  std::uint64_t n_;
  std::uint64_t side_;
  std::uint64_t blocks_;
  std::uint64_t seed_;
  runtime_options made_;
  runtime rt_;
  measured<runtime> part_;
};

}  // namespace braid::workloads
