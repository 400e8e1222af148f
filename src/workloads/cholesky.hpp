#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "workloads/arithmetic.hpp"
#include "workloads/measured.hpp"

// Cholesky's factorisation of a matrix in tiles, A = L L^T. Each tile is a buffer, stored by columns; the
// program is the plain triple loop, and what may run at the same time follows from what the ops read and
// write.

namespace braid::workloads {

/// The matrix and its tiles. `Kernels` has
///   runtime                              the type
///   default_n, largest_tile
///   streams_are                          how it names streams
///   configure(runtime_options&, with)    what it wants of the runtime
///   prepare(rt, streams, sides)          before anything is measured
///   stream(j, k, i, streams)             of the op that changes tile (i, j) with what column k has
///   make(seed, n, row, column, height)   body that fills a tile which begins at this row and column
///   potrf(submit, tile, b)               calls submit(bindings..., body)
///   trsm(m, n), syrk(n, k), gemm(m, n, k)   bodies
template <class Kernels>
class cholesky {
 public:
  using runtime = typename Kernels::runtime;

  cholesky(const options& with, const hooks& call)
      : n_(size_of(with, Kernels::default_n, most_n)),
        side_(side_for(n_)),
        rows_((n_ + side_ - 1) / side_),
        seed_(mix(with.seed)),
        made_(options_of(with)),
        rt_(made_),
        part_(rt_, made_, with, call, rows_ * (rows_ + 1) * (rows_ + 2) / 6, Kernels::streams_are),
        tiles_(rows_ * (rows_ + 1) / 2) {
    for (std::uint64_t r = 0; r < rows_; ++r) {
      for (std::uint64_t c = 0; c <= r; ++c) {
        tile(r, c) = rt_.template make_buffer<double>(height(r) * height(c), fmt::format("A[{},{}]", r, c));
      }
    }
  }

  result run() {
    kernels_.prepare(rt_, part_.result().streams, {side_, height(rows_ - 1)});
    for (std::uint64_t r = 0; r < rows_; ++r) {
      for (std::uint64_t c = 0; c <= r; ++c) {
        rt_.submit(fmt::format("make {},{}", r, c), write(tile(r, c)),
                   kernels_.make(seed_, n_, r * side_, c * side_, height(r)));
      }
    }
    part_.start();
    factorise();
    part_.finish();
    result& of = part_.result();
    const double side = static_cast<double>(n_);
    of.problem = fmt::format("n = {}, tiles of {}", n_, side_);
    of.work = side * side * side / 3.0 * 1e-9;
    of.unit = "GFLOP";
    const double found = residual();
    const double most = 8.0 * std::numeric_limits<double>::epsilon() * side;
    of.verified = found <= most;
    of.check = fmt::format("||A x - L L^T x|| / ||A x|| for {} random x: {:.2g} (at most {:.2g})", vectors,
                           found, most);
    return of;
  }

 private:
  static constexpr std::uint64_t most_n = 65'536;
  static constexpr std::size_t vectors = 2;
  using several = std::array<double, vectors>;

  /// Sixteen tiles on a side are enough to work on at the same time, small tiles cost more than they bring,
  /// and a large matrix is kept from becoming too many of them.
  static std::uint64_t side_for(std::uint64_t n) {
    const std::uint64_t eighth = std::clamp<std::uint64_t>((n + 7) / 8, 16, 128);
    const std::uint64_t wanted = std::max(eighth, std::min((n + 15) / 16, Kernels::largest_tile));
    return std::min(n, std::max(wanted, (n + 63) / 64));
  }
  static runtime_options options_of(const options& with) {
    runtime_options of = runtime_options_of(with, placement::automatic);
    Kernels::configure(of, with);
    return of;
  }
  buffer<double>& tile(std::uint64_t row, std::uint64_t column) {
    return tiles_[row * (row + 1) / 2 + column];
  }
  [[nodiscard]] std::uint64_t height(std::uint64_t row) const { return std::min(side_, n_ - row * side_); }

  void factorise() {
    const std::uint32_t streams = part_.result().streams;
    for (std::uint64_t k = 0; k < rows_; ++k) {
      kernels_.potrf(
          [&](auto&&... op) {
            part_.submit_on(Kernels::stream(k, k, k, streams), fmt::format("potrf {}", k),
                            std::forward<decltype(op)>(op)...);
          },
          tile(k, k), height(k));
      for (std::uint64_t i = k + 1; i < rows_; ++i) {
        part_.submit_on(Kernels::stream(k, k, i, streams), fmt::format("trsm {},{}", i, k), read(tile(k, k)),
                        read_write(tile(i, k)), kernels_.trsm(height(i), height(k)));
      }
      for (std::uint64_t j = k + 1; j < rows_; ++j) {
        part_.submit_on(Kernels::stream(j, k, j, streams), fmt::format("syrk {},{}", j, k), read(tile(j, k)),
                        read_write(tile(j, j)), kernels_.syrk(height(j), height(k)));
        for (std::uint64_t i = j + 1; i < rows_; ++i) {
          part_.submit_on(Kernels::stream(j, k, i, streams), fmt::format("gemm {},{},{}", i, j, k),
                          read(tile(i, k)), read(tile(j, k)), read_write(tile(i, j)),
                          kernels_.gemm(height(i), height(j), height(k)));
        }
      }
    }
  }

  // ---- The check: A x by its definition against L (L^T x), for a few x. That takes n^2 steps.

  /// Calls f(row, column, value) for each element of L.
  template <class F>
  void for_each_of_l(F&& f) {
    for (std::uint64_t r = 0; r < rows_; ++r) {
      for (std::uint64_t c = 0; c <= r; ++c) {
        std::vector<double> values = rt_.read(tile(r, c)).get();
        part_.tamper(std::span(values));
        const std::uint64_t m = height(r);
        for (std::uint64_t j = 0; j < height(c); ++j) {
          for (std::uint64_t i = r == c ? j : 0; i < m; ++i)
            f(r * side_ + i, c * side_ + j, values[j * m + i]);
        }
      }
    }
  }
  double residual() {
    std::vector<several> x(n_), ax(n_), ltx(n_), lltx(n_);
    for (std::uint64_t i = 0; i < n_; ++i) {
      for (std::size_t v = 0; v < vectors; ++v) x[i][v] = centred(mix(seed_ ^ (i * vectors + v)));
    }
    const auto add = [](several& to, double by, const several& from) {
      for (std::size_t v = 0; v < vectors; ++v) to[v] += by * from[v];
    };
    for (std::uint64_t c = 0; c < n_; ++c) {
      add(ax[c], matrix_element(seed_, n_, c, c), x[c]);
      for (std::uint64_t r = c + 1; r < n_; ++r) {
        const double a = matrix_element(seed_, n_, r, c);
        add(ax[r], a, x[c]);
        add(ax[c], a, x[r]);
      }
    }
    for_each_of_l([&](std::uint64_t r, std::uint64_t c, double l) { add(ltx[c], l, x[r]); });
    for_each_of_l([&](std::uint64_t r, std::uint64_t c, double l) { add(lltx[r], l, ltx[c]); });
    double worst = 0.0;
    for (std::size_t v = 0; v < vectors; ++v) {
      double wrong = 0.0;
      double whole = 0.0;
      for (std::uint64_t i = 0; i < n_; ++i) {
        wrong += (ax[i][v] - lltx[i][v]) * (ax[i][v] - lltx[i][v]);
        whole += ax[i][v] * ax[i][v];
      }
      const double found = std::sqrt(wrong / whole);
      worst = found <= worst ? worst : found;  // also if it is not a number
    }
    return worst;
  }

  std::uint64_t n_;
  std::uint64_t side_;
  std::uint64_t rows_;
  std::uint64_t seed_;
  runtime_options made_;
  runtime rt_;
  measured<runtime> part_;
  Kernels kernels_;
  std::vector<buffer<double>> tiles_;
};

}  // namespace braid::workloads
