#pragma once

#include <string>

#include "braid/cuda.hpp"

// What the tiles need of cuBLAS and cuSOLVER. The libraries are opened at run time, so that the command
// starts on machines without them. Matrices are stored by columns without gaps.

namespace braid::workloads::cuda_blas {

/// Why the libraries cannot be used; empty if they can.
const std::string& why_not();

/// Makes the handles of a stream, which takes long.
void prepare(cuda::native_stream on);
/// How many elements potrf() needs in `work`.
int work_of_potrf(cuda::native_stream on, int b);
void potrf(cuda::native_stream on, int b, double* a, double* work, int work_size, int* status);
void trsm(cuda::native_stream on, int m, int n, const double* l, double* a);
void syrk(cuda::native_stream on, int n, int k, const double* a, double* c);
void gemm(cuda::native_stream on, int m, int n, int k, const double* a, const double* b, double* c);

}  // namespace braid::workloads::cuda_blas
