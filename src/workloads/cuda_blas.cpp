#include "workloads/cuda_blas.hpp"

#if __has_include(<cublas_v2.h>) && __has_include(<cusolverDn.h>)
#define BRAID_HAS_CUBLAS_HEADERS 1
#include <cublas_v2.h>
#include <cusolverDn.h>
#include <dlfcn.h>
#else
#define BRAID_HAS_CUBLAS_HEADERS 0
#endif

#include <fmt/format.h>

namespace braid::workloads::cuda_blas {

#if BRAID_HAS_CUBLAS_HEADERS

namespace {

/// The functions that are used, by their types in the headers.
struct libraries {
  std::string error;
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasDtrsm_v2) trsm = nullptr;
  decltype(&cublasDsyrk_v2) syrk = nullptr;
  decltype(&cublasDgemm_v2) gemm = nullptr;
  decltype(&cusolverDnCreate) solver_create = nullptr;
  decltype(&cusolverDnDestroy) solver_destroy = nullptr;
  decltype(&cusolverDnSetStream) solver_set_stream = nullptr;
  decltype(&cusolverDnDpotrf_bufferSize) potrf_size = nullptr;
  decltype(&cusolverDnDpotrf) potrf = nullptr;

  libraries() {
    void* const blas = open(fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR));
    void* const solver = open(fmt::format("libcusolver.so.{}", CUSOLVER_VER_MAJOR));
    find(blas, "cublasCreate_v2", create);
    find(blas, "cublasDestroy_v2", destroy);
    find(blas, "cublasSetStream_v2", set_stream);
    find(blas, "cublasDtrsm_v2", trsm);
    find(blas, "cublasDsyrk_v2", syrk);
    find(blas, "cublasDgemm_v2", gemm);
    find(solver, "cusolverDnCreate", solver_create);
    find(solver, "cusolverDnDestroy", solver_destroy);
    find(solver, "cusolverDnSetStream", solver_set_stream);
    find(solver, "cusolverDnDpotrf_bufferSize", potrf_size);
    find(solver, "cusolverDnDpotrf", potrf);
  }

 private:
  // Kept open until the process ends: handles of streams may live that long.
  void* open(const std::string& name) {
    for (const std::string& path : {name, "/usr/local/cuda/lib64/" + name}) {
      if (void* const found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
    }
    if (error.empty()) error = fmt::format("{} cannot be opened; cholesky needs cuBLAS and cuSOLVER", name);
    return nullptr;
  }
  template <class F>
  void find(void* library, const char* name, F& to) {
    if (library == nullptr) return;
    to = reinterpret_cast<F>(dlsym(library, name));
    if (to == nullptr && error.empty()) error = fmt::format("cuBLAS and cuSOLVER have no {}", name);
  }
};

const libraries& use() {
  static const libraries opened;
  return opened;
}

void check(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw cuda::error(static_cast<int>(status), fmt::format("cuBLAS: status {}", static_cast<int>(status)));
}
void check(cusolverStatus_t status) {
  if (status == CUSOLVER_STATUS_SUCCESS) return;
  throw cuda::error(static_cast<int>(status), fmt::format("cuSOLVER: status {}", static_cast<int>(status)));
}

cublasHandle_t blas(cuda::native_stream stream) {
  static constexpr char key = 0;
  const auto make = [](cuda::native_stream on) -> void* {
    cublasHandle_t made = nullptr;
    check(use().create(&made));
    check(use().set_stream(made, on));
    return made;
  };
  const auto destroy = [](void* handle) { (void)use().destroy(static_cast<cublasHandle_t>(handle)); };
  return static_cast<cublasHandle_t>(cuda::detail::attachment(stream, &key, make, destroy));
}

cusolverDnHandle_t solver(cuda::native_stream stream) {
  static constexpr char key = 0;
  const auto make = [](cuda::native_stream on) -> void* {
    cusolverDnHandle_t made = nullptr;
    check(use().solver_create(&made));
    check(use().solver_set_stream(made, on));
    return made;
  };
  const auto destroy = [](void* handle) {
    (void)use().solver_destroy(static_cast<cusolverDnHandle_t>(handle));
  };
  return static_cast<cusolverDnHandle_t>(cuda::detail::attachment(stream, &key, make, destroy));
}

constexpr double one = 1.0;
constexpr double minus_one = -1.0;

}  // namespace

const std::string& why_not() {
  return use().error;
}

void prepare(cuda::native_stream on) {
  (void)blas(on);
  (void)solver(on);
}
int work_of_potrf(cuda::native_stream on, int b) {
  int size = 0;
  check(use().potrf_size(solver(on), CUBLAS_FILL_MODE_LOWER, b, nullptr, b, &size));
  return size;
}
void potrf(cuda::native_stream on, int b, double* a, double* work, int work_size, int* status) {
  check(use().potrf(solver(on), CUBLAS_FILL_MODE_LOWER, b, a, b, work, work_size, status));
}
void trsm(cuda::native_stream on, int m, int n, const double* l, double* a) {
  check(use().trsm(blas(on), CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T, CUBLAS_DIAG_NON_UNIT, m,
                   n, &one, l, n, a, m));
}
void syrk(cuda::native_stream on, int n, int k, const double* a, double* c) {
  check(use().syrk(blas(on), CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, n, k, &minus_one, a, n, &one, c, n));
}
void gemm(cuda::native_stream on, int m, int n, int k, const double* a, const double* b, double* c) {
  check(use().gemm(blas(on), CUBLAS_OP_N, CUBLAS_OP_T, m, n, k, &minus_one, a, m, b, n, &one, c, m));
}

#else

namespace {
[[noreturn]] void throw_absent() {
  throw usage_error(misuse::no_device, why_not());
}
}  // namespace

const std::string& why_not() {
  static const std::string reason = "this build has no cuBLAS: its headers were not found when it was built";
  return reason;
}
void prepare(cuda::native_stream) {
  throw_absent();
}
int work_of_potrf(cuda::native_stream, int) {
  throw_absent();
}
void potrf(cuda::native_stream, int, double*, double*, int, int*) {
  throw_absent();
}
void trsm(cuda::native_stream, int, int, const double*, double*) {
  throw_absent();
}
void syrk(cuda::native_stream, int, int, const double*, double*) {
  throw_absent();
}
void gemm(cuda::native_stream, int, int, int, const double*, const double*, double*) {
  throw_absent();
}

#endif

}  // namespace braid::workloads::cuda_blas
