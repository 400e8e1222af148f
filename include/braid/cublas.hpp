#pragma once

#include <cublas_v2.h>

#include <stdexcept>
#include <string>

#include "braid/cuda.hpp"

// A cuBLAS handle for each stream of a runtime, made at its first use and destroyed with the stream:
//
//   rt.submit("gemm", read(a), read(b), read_write(c), [=](cudaStream_t stream, auto a, auto b, auto c) {
//     braid::cuda::check(cublasDgemm(braid::cuda::cublas(stream), ...));
//   });
//
// The first call takes some 100 ms: call it once for each stream before time matters.

namespace braid::cuda {

inline void check(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw error(static_cast<int>(status), std::string("cuBLAS: ") + cublasGetStatusString(status));
}

inline cublasHandle_t cublas(native_stream stream) {
  static constexpr char key = 0;
  const auto make = [](native_stream on) -> void* {
    cublasHandle_t made = nullptr;
    check(cublasCreate(&made));
    check(cublasSetStream(made, on));
    return made;
  };
  const auto destroy = [](void* handle) { (void)cublasDestroy(static_cast<cublasHandle_t>(handle)); };
  return static_cast<cublasHandle_t>(detail::attachment(stream, &key, make, destroy));
}

}  // namespace braid::cuda
