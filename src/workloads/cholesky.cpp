#include "workloads/cholesky.hpp"

#include <stdexcept>

#include "braid/cpu.hpp"
#include "braid/detail/cores.hpp"
#include "workloads/programs.hpp"

#ifndef BRAID_HAS_OPENBLAS
#define BRAID_HAS_OPENBLAS 0
#endif
#if BRAID_HAS_OPENBLAS
#include <cblas.h>
#include <lapacke.h>
#endif

namespace braid::workloads {

namespace {

using in = std::span<const double>;
using out = std::span<double>;

[[noreturn]] void throw_indefinite(std::uint64_t at) {
  throw std::domain_error(fmt::format("not positive definite, at row {} of the tile", at));
}

#if BRAID_HAS_OPENBLAS

void use_one_thread() {
  openblas_set_num_threads(1);
}

void potrf(int b, double* a) {
  const int at = LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', b, a, b);
  if (at != 0) throw_indefinite(static_cast<std::uint64_t>(at));
}
// In halves down to a few columns, so that most of the work is a product: OpenBLAS is a third faster that
// way.
void trsm(int m, int n, int ld_of_l, const double* l, double* a) {
  if (n <= 32) {
    return cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, m, n, 1.0, l, ld_of_l,
                       a, m);
  }
  const int left = n / 2;
  double* right = a + static_cast<std::ptrdiff_t>(left) * m;
  trsm(m, left, ld_of_l, l, a);
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, m, n - left, left, -1.0, a, m, l + left, ld_of_l, 1.0,
              right, m);
  trsm(m, n - left, ld_of_l, l + static_cast<std::ptrdiff_t>(left) * (ld_of_l + 1), right);
}
void syrk(int n, int k, const double* a, double* c) {
  cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, n, k, -1.0, a, n, 1.0, c, n);
}
void gemm(int m, int n, int k, const double* a, const double* b, double* c) {
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, m, n, k, -1.0, a, m, b, n, 1.0, c, m);
}

#else

void use_one_thread() {}

// to[i] -= sum over k of from[i, k] * by[k], four columns at a time: then `to` is loaded and stored less
// often.
void subtract(std::ptrdiff_t rows, double* to, std::ptrdiff_t columns, const double* from,
              std::ptrdiff_t ld_of_from, const double* by, std::ptrdiff_t step_of_by) {
  std::ptrdiff_t k = 0;
  for (; k + 4 <= columns; k += 4) {
    const double* const f0 = from + k * ld_of_from;
    const double* const f1 = f0 + ld_of_from;
    const double* const f2 = f1 + ld_of_from;
    const double* const f3 = f2 + ld_of_from;
    const double b0 = by[k * step_of_by];
    const double b1 = by[(k + 1) * step_of_by];
    const double b2 = by[(k + 2) * step_of_by];
    const double b3 = by[(k + 3) * step_of_by];
    for (std::ptrdiff_t i = 0; i < rows; ++i) to[i] -= (f0[i] * b0 + f1[i] * b1) + (f2[i] * b2 + f3[i] * b3);
  }
  for (; k < columns; ++k) {
    for (std::ptrdiff_t i = 0; i < rows; ++i) to[i] -= from[k * ld_of_from + i] * by[k * step_of_by];
  }
}
void potrf(int b, double* a) {
  const std::ptrdiff_t ld = b;
  for (std::ptrdiff_t j = 0; j < ld; ++j) {
    double* const column = a + j * ld;
    subtract(ld - j, column + j, j, a + j, ld, a + j, ld);
    if (!(column[j] > 0.0)) throw_indefinite(static_cast<std::uint64_t>(j) + 1);
    column[j] = std::sqrt(column[j]);
    for (std::ptrdiff_t i = j + 1; i < ld; ++i) column[i] /= column[j];
  }
}
void trsm(int m, int n, int ld_of_l, const double* l, double* a) {
  for (std::ptrdiff_t j = 0; j < n; ++j) {
    double* const column = a + j * m;
    subtract(m, column, j, a, m, l + j, ld_of_l);
    for (std::ptrdiff_t i = 0; i < m; ++i) column[i] /= l[j * ld_of_l + j];
  }
}
void syrk(int n, int k, const double* a, double* c) {
  for (std::ptrdiff_t j = 0; j < n; ++j) subtract(n - j, c + j * n + j, k, a + j, n, a + j, n);
}
void gemm(int m, int n, int k, const double* a, const double* b, double* c) {
  for (std::ptrdiff_t j = 0; j < n; ++j) subtract(m, c + j * m, k, a, m, b + j, n);
}

#endif

struct cpu_cholesky {
  using runtime = cpu::runtime;
  static constexpr std::uint64_t default_n = BRAID_HAS_OPENBLAS ? 4096 : 2048;
  static constexpr std::uint64_t largest_tile = 256;
  static constexpr const char* streams_are = "a stream for each column of tiles";

  static void configure(runtime_options&, const options&) {}
  static void prepare(runtime&, std::uint32_t, std::array<std::uint64_t, 2>) { use_one_thread(); }
  // Then a stream waits only for columns to the left of its own.
  static stream_id stream(std::uint64_t j, std::uint64_t, std::uint64_t, std::uint32_t) { return {j}; }

  static auto make(std::uint64_t seed, std::uint64_t n, std::uint64_t row, std::uint64_t column,
                   std::uint64_t height) {
    return [=](out to) {
      for (std::uint64_t i = 0; i < to.size(); ++i) {
        to[i] = matrix_element(seed, n, row + i % height, column + i / height);
      }
    };
  }
  template <class Submit>
  static void potrf(Submit&& submit, const buffer<double>& tile, std::uint64_t b) {
    submit(read_write(tile), [b](out a) { workloads::potrf(static_cast<int>(b), a.data()); });
  }
  static auto trsm(std::uint64_t m, std::uint64_t n) {
    return [m = static_cast<int>(m), n = static_cast<int>(n)](in l, out a) {
      workloads::trsm(m, n, n, l.data(), a.data());
    };
  }
  static auto syrk(std::uint64_t n, std::uint64_t k) {
    return [n = static_cast<int>(n), k = static_cast<int>(k)](in a, out c) {
      workloads::syrk(n, k, a.data(), c.data());
    };
  }
  static auto gemm(std::uint64_t m, std::uint64_t n, std::uint64_t k) {
    return [m = static_cast<int>(m), n = static_cast<int>(n), k = static_cast<int>(k)](in a, in b, out c) {
      workloads::gemm(m, n, k, a.data(), b.data(), c.data());
    };
  }
};

}  // namespace

// Few workers are best kept busy by a stream for each column of tiles. Many have more to do than that lets
// run at once: on eight the runtime's own choice takes two thirds of the time, on sixteen half
// (docs/benchmarks/trace.md).
result cholesky_on_cpu(const options& with, const hooks& call) {
  constexpr unsigned few = 4;
  options chosen = with;
  if (!with.placement && with.workers.value_or(detail::cores_of_process().usable) > few) {
    chosen.placement = placement::automatic;
  }
  return cholesky<cpu_cholesky>(chosen, call).run();
}

}  // namespace braid::workloads
