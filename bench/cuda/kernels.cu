#include "kernels.hpp"

namespace braid::bench {

namespace {

__global__ void empty() {}

// A block takes all of a multiprocessor's shared memory, so that no other one shares it.
__global__ void busy(unsigned nanoseconds) {
  unsigned long long begin = 0;
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

__global__ void swap(int* x, int* y, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int kept = x[i];
  x[i] = y[i];
  y[i] = kept;
}

constexpr unsigned all_shared_memory = 200 * 1024;

}  // namespace

void launch_empty(cudaStream_t on) {
  empty<<<1, 1, 0, on>>>();
}

void launch_busy(cudaStream_t on, unsigned blocks, unsigned nanoseconds) {
  static const cudaError_t allowed =
      cudaFuncSetAttribute(busy, cudaFuncAttributeMaxDynamicSharedMemorySize, all_shared_memory);
  busy<<<blocks, 32, allowed == cudaSuccess ? all_shared_memory : 0, on>>>(nanoseconds);
}

void launch_swap(cudaStream_t on, int* x, int* y, std::size_t n) {
  swap<<<static_cast<unsigned>((n + 127) / 128), 128, 0, on>>>(x, y, n);
}

}  // namespace braid::bench
