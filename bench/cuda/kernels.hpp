#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace braid::bench {

/// One thread that does nothing.
void launch_empty(cudaStream_t on);
/// So many blocks that each keep a multiprocessor busy for so long.
void launch_busy(cudaStream_t on, unsigned blocks, unsigned nanoseconds);
/// Exchanges the two arrays.
void launch_swap(cudaStream_t on, int* x, int* y, std::size_t n);

}  // namespace braid::bench
