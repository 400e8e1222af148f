// Cholesky's factorisation of a matrix in tiles, A = L L^T, with OpenBLAS for each tile. Each tile is a
// buffer; the program is the plain triple loop. Which tiles can be worked on at the same time follows from
// what the ops read and write.
//
//   example_06_cholesky [-n SIDE] [-tile SIDE] [-streams N] [-workers N]   checks the result
//   example_06_cholesky --bench                                            measures n = 4096 in tiles of 256
//
// Each column of tiles has its stream; --automatic leaves the choice to the runtime.

#include <cblas.h>
#include <lapacke.h>

#include <algorithm>
#include <braid/cpu.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct options {
  std::size_t n = 768;
  std::size_t tile = 96;
  unsigned streams = 8;
  unsigned workers = 2;
  bool automatic = false;
  bool bench = false;
};

// ---- The kernels: on tiles of side b, stored by columns.

void potrf(int b, double* a) {
  const int at = LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', b, a, b);
  if (at != 0) throw std::domain_error("not positive definite, at row " + std::to_string(at) + " of a tile");
}
// In halves down to a few columns, so that most of the work is a product: OpenBLAS is a third faster that
// way.
void trsm(int columns, int b, const double* l, double* a) {
  if (columns <= 32) {
    return cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, b, columns, 1.0, l, b,
                       a, b);
  }
  const int left = columns / 2;
  double* right = a + static_cast<std::ptrdiff_t>(left) * b;
  trsm(left, b, l, a);
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, b, columns - left, left, -1.0, a, b, l + left, b, 1.0,
              right, b);
  trsm(columns - left, b, l + static_cast<std::ptrdiff_t>(left) * (b + 1), right);
}
void syrk(int b, const double* a, double* c) {
  cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, b, b, -1.0, a, b, 1.0, c, b);
}
void gemm(int b, const double* a1, const double* a2, double* c) {
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, b, b, b, -1.0, a1, b, a2, b, 1.0, c, b);
}

// ---- The matrix: whole by columns, and in tiles.

std::vector<double> make_matrix(std::size_t n) {
  std::vector<double> a(n * n);
  std::uint64_t random = 1;
  for (std::size_t c = 0; c < n; ++c) {
    for (std::size_t r = c; r < n; ++r) {
      random = random * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;
      a[c * n + r] = a[r * n + c] = static_cast<double>(random >> 11) * 0x1p-53 - 0.5;
    }
    a[c * n + c] += static_cast<double>(n);
  }
  return a;
}

void copy_tile(const std::vector<double>& from, std::size_t n, std::size_t row, std::size_t column,
               std::size_t b, double* to) {
  for (std::size_t c = 0; c < b; ++c) {
    std::copy_n(&from[(column * b + c) * n + row * b], b, to + c * b);
  }
}

/// What is kept of each tile of the lower half; a tile's place is row * (row + 1) / 2 + column.
template <class Tile>
class lower_tiles {
 public:
  explicit lower_tiles(std::size_t rows) : tiles_(rows * (rows + 1) / 2) {}
  Tile& operator()(std::size_t row, std::size_t column) { return tiles_[row * (row + 1) / 2 + column]; }

 private:
  std::vector<Tile> tiles_;
};

// The loop that everybody runs. What it is given says what to do with the tiles at these places.
template <class Potrf, class Trsm, class Syrk, class Gemm>
void factorise(std::size_t rows, Potrf on_diagonal, Trsm below_diagonal, Syrk update_diagonal, Gemm update) {
  for (std::size_t k = 0; k < rows; ++k) {
    on_diagonal(k);
    for (std::size_t i = k + 1; i < rows; ++i) below_diagonal(i, k);
    for (std::size_t j = k + 1; j < rows; ++j) {
      update_diagonal(j, k);
      for (std::size_t i = j + 1; i < rows; ++i) update(i, j, k);
    }
  }
}

class tiled {
 public:
  tiled(braid::cpu::runtime& rt, const options& with)
      : rt_(rt), b_(with.tile), rows_(with.n / with.tile), tiles_(rows_), automatic_(with.automatic) {
    for (std::size_t r = 0; r < rows_; ++r) {
      for (std::size_t c = 0; c <= r; ++c) tiles_(r, c) = rt.make_buffer<double>(b_ * b_, "tile");
    }
  }

  void load(const std::vector<double>& a) {
    for (std::size_t r = 0; r < rows_; ++r) {
      for (std::size_t c = 0; c <= r; ++c) {
        std::vector<double> one(b_ * b_);
        copy_tile(a, rows_ * b_, r, c, b_, one.data());
        rt_.write_from(tiles_(r, c), std::move(one));
      }
    }
    rt_.synchronize();
  }

  /// Submits all ops. Those that write to one column of tiles go to one stream, which then waits only for
  /// columns to the left of it; or the runtime chooses the streams.
  void go() {
    const int b = static_cast<int>(b_);
    using in = std::span<const double>;
    using out = std::span<double>;
    const auto submit = [this](std::size_t column, const auto&... op) {
      automatic_ ? rt_.submit(op...) : rt_.submit(braid::stream_id{column}, op...);
    };
    factorise(
        rows_,
        [&](std::size_t k) {
          submit(k, "potrf", read_write(tiles_(k, k)), [b](out a) { potrf(b, a.data()); });
        },
        [&](std::size_t i, std::size_t k) {
          submit(k, "trsm", read(tiles_(k, k)), read_write(tiles_(i, k)),
                 [b](in l, out a) { trsm(b, b, l.data(), a.data()); });
        },
        [&](std::size_t j, std::size_t k) {
          submit(j, "syrk", read(tiles_(j, k)), read_write(tiles_(j, j)),
                 [b](in a, out c) { syrk(b, a.data(), c.data()); });
        },
        [&](std::size_t i, std::size_t j, std::size_t k) {
          submit(j, "gemm", read(tiles_(i, k)), read(tiles_(j, k)), read_write(tiles_(i, j)),
                 [b](in a1, in a2, out c) { gemm(b, a1.data(), a2.data(), c.data()); });
        });
  }

  /// The largest difference to `whole` in the lower half.
  double difference(const std::vector<double>& whole) {
    double largest = 0.0;
    std::vector<double> expected(b_ * b_);
    for (std::size_t r = 0; r < rows_; ++r) {
      for (std::size_t c = 0; c <= r; ++c) {
        const std::vector<double> found = rt_.read(tiles_(r, c)).get();
        copy_tile(whole, rows_ * b_, r, c, b_, expected.data());
        for (std::size_t i = 0; i < found.size(); ++i) {
          if (r == c && i % b_ < i / b_) continue;  // above the diagonal
          largest = std::max(largest, std::abs(found[i] - expected[i]));
        }
      }
    }
    return largest;
  }

 private:
  braid::cpu::runtime& rt_;
  std::size_t b_;
  std::size_t rows_;
  lower_tiles<braid::buffer<double>> tiles_;
  bool automatic_;
};

/// The same kernels one after the other on this thread.
class one_by_one {
 public:
  explicit one_by_one(const options& with) : b_(with.tile), rows_(with.n / with.tile), tiles_(rows_) {}
  void load(const std::vector<double>& a) {
    for (std::size_t r = 0; r < rows_; ++r) {
      for (std::size_t c = 0; c <= r; ++c) {
        tiles_(r, c).resize(b_ * b_);
        copy_tile(a, rows_ * b_, r, c, b_, tiles_(r, c).data());
      }
    }
  }
  void go() {
    const int b = static_cast<int>(b_);
    factorise(
        rows_, [&](std::size_t k) { potrf(b, tiles_(k, k).data()); },
        [&](std::size_t i, std::size_t k) { trsm(b, b, tiles_(k, k).data(), tiles_(i, k).data()); },
        [&](std::size_t i, std::size_t k) { syrk(b, tiles_(i, k).data(), tiles_(i, i).data()); },
        [&](std::size_t i, std::size_t j, std::size_t k) {
          gemm(b, tiles_(i, k).data(), tiles_(j, k).data(), tiles_(i, j).data());
        });
  }

 private:
  std::size_t b_;
  std::size_t rows_;
  lower_tiles<std::vector<double>> tiles_;
};

void whole_by_openblas(std::vector<double>& a, std::size_t n) {
  const auto side = static_cast<lapack_int>(n);
  if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', side, a.data(), side) != 0) {
    throw std::domain_error("OpenBLAS finds that the matrix is not positive definite");
  }
}

bool is_small(double difference, const options& with) {
  if (difference < 1e-12 * static_cast<double>(with.n)) return true;
  std::cerr << "wrong: the factors differ by " << difference << '\n';
  return false;
}

// ---- Measuring.

struct sample {
  std::vector<double> seconds;
  template <class F>
  void measure(F&& f) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  [[nodiscard]] double median() const {
    std::vector<double> sorted = seconds;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
};

void print(const char* what, const sample& s, double divided_by, double flops) {
  const auto [least, most] = std::ranges::minmax(s.seconds);
  std::cout << std::left << std::setw(34) << what << std::fixed << std::setprecision(4)
            << s.median() / divided_by << " s (" << least / divided_by << " to " << most / divided_by << ")  "
            << std::setprecision(1) << flops / s.median() * divided_by * 1e-9 << " GF/s\n";
}

int bench(const options& with) {
  constexpr int repetitions = 9;
  const std::vector<double> a = make_matrix(with.n);
  std::vector<double> whole;
  one_by_one sequential(with);
  sample kernels, braids, openblas;
  double difference = 0.0;
  for (int repetition = 0; repetition <= repetitions; ++repetition) {  // the first warms up and is dropped
    const auto quiet = [] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); };
    openblas_set_num_threads(1);
    sequential.load(a);
    quiet();
    kernels.measure([&] { sequential.go(); });
    {
      braid::cpu::runtime rt({.streams = with.streams, .workers = with.workers});
      tiled tiles(rt, with);
      tiles.load(a);
      quiet();
      braids.measure([&] {
        tiles.go();
        rt.synchronize();
      });
      openblas_set_num_threads(static_cast<int>(with.workers));
      whole = a;
      quiet();
      openblas.measure([&] { whole_by_openblas(whole, with.n); });
      difference = tiles.difference(whole);
    }
  }
  for (sample* s : {&kernels, &braids, &openblas}) s->seconds.erase(s->seconds.begin());
  const double side = static_cast<double>(with.n);
  const double flops = side * side * side / 3.0;
  std::cout << "n = " << with.n << ", tiles of " << with.tile << ", " << with.streams << " streams, "
            << with.workers << " workers; median of " << repetitions << " (least to most)\n";
  print("kernels one by one / workers", kernels, with.workers, flops);
  print("braid", braids, 1.0, flops);
  print("OpenBLAS's own threads", openblas, 1.0, flops);
  std::cout << std::setprecision(3) << "bound / braid = " << kernels.median() / with.workers / braids.median()
            << "\nbraid / OpenBLAS = " << braids.median() / openblas.median() << '\n';
  return is_small(difference, with) ? 0 : 1;
}

int check(const options& with) {
  const std::vector<double> a = make_matrix(with.n);
  braid::cpu::runtime rt({.streams = with.streams, .workers = with.workers});
  tiled tiles(rt, with);
  openblas_set_num_threads(1);
  tiles.load(a);
  tiles.go();
  std::vector<double> whole = a;
  whole_by_openblas(whole, with.n);
  const double difference = tiles.difference(whole);
  const braid::stream_stats did = rt.stats().streams;
  std::cout << "n = " << with.n << ", tiles of " << with.tile << ": " << did.ops << " ops on " << did.streams
            << " streams\nlargest difference to LAPACK's dpotrf: " << difference << '\n';
  return is_small(difference, with) ? 0 : 1;
}

int usage(const char* program) {
  std::cerr << "usage: " << program
            << " [-n SIDE] [-tile SIDE] [-streams N] [-workers N] [--automatic] [--bench]\n"
            << "n has to be a multiple of the tile's side\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  options with;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--bench") {
      with.bench = true;
      with.n = 4096;
      with.tile = 256;
      continue;
    }
    if (option == "--automatic") {
      with.automatic = true;
      continue;
    }
    if (++i == argc) return usage(argv[0]);
    const std::size_t value = std::strtoull(argv[i], nullptr, 10);
    if (option == "-n") {
      with.n = value;
    } else if (option == "-tile") {
      with.tile = value;
    } else if (option == "-streams") {
      with.streams = static_cast<unsigned>(value);
    } else if (option == "-workers") {
      with.workers = static_cast<unsigned>(value);
    } else {
      return usage(argv[0]);
    }
  }
  if (with.tile == 0 || with.n == 0 || with.n % with.tile != 0 || with.streams == 0 || with.workers == 0) {
    return usage(argv[0]);
  }
  try {
    return with.bench ? bench(with) : check(with);
  } catch (const std::exception& e) {
    std::cerr << "wrong: " << e.what() << '\n';
    return 1;
  }
}
