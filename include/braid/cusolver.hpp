#pragma once

#include <cusolverDn.h>

#include <string>

#include "braid/cuda.hpp"

// A cuSOLVER handle for each stream of a runtime, as cublas.hpp has them for cuBLAS.

namespace braid::cuda {

inline void check(cusolverStatus_t status) {
  if (status == CUSOLVER_STATUS_SUCCESS) return;
  throw error(static_cast<int>(status), "cuSOLVER: status " + std::to_string(static_cast<int>(status)));
}

inline cusolverDnHandle_t cusolver(native_stream stream) {
  static constexpr char key = 0;
  const auto make = [](native_stream on) -> void* {
    cusolverDnHandle_t made = nullptr;
    check(cusolverDnCreate(&made));
    check(cusolverDnSetStream(made, on));
    return made;
  };
  const auto destroy = [](void* handle) { (void)cusolverDnDestroy(static_cast<cusolverDnHandle_t>(handle)); };
  return static_cast<cusolverDnHandle_t>(detail::attachment(stream, &key, make, destroy));
}

}  // namespace braid::cuda
