#include <cuda_runtime.h>

#include "kernels.hpp"

namespace braid::test {

namespace {

constexpr unsigned threads = 128;

unsigned blocks_for(std::size_t n) {
  return static_cast<unsigned>((n + threads - 1) / threads);
}

__global__ void fill_all(int* to, std::size_t n, int value) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) to[i] = value;
}
__global__ void increment_all(int* x, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) ++x[i];
}
__global__ void add_all(int* to, const int* from, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) to[i] += from[i];
}
__global__ void assign_all(int* to, const int* from, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i];
}
__global__ void accumulate_all(int* to, std::size_t n, int amount) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(to + i, amount);
}
__global__ void spin_for(unsigned long long nanoseconds) {
  unsigned long long begin = 0;
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}
// Not for ever: a tool that runs one kernel at a time would never let the host set the flag.
__global__ void wait_for(const volatile std::uint32_t* flag) {
  unsigned long long begin = 0;
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (*flag == 0 && now - begin < 5'000'000'000ULL);
}
__global__ void write_nowhere(int* nowhere) {
  *nowhere = 1;
}

}  // namespace

void fill(stream on, int* to, std::size_t n, int value) {
  if (n == 0) return;
  fill_all<<<blocks_for(n), threads, 0, on>>>(to, n, value);
  cuda::check(cudaGetLastError());
}
void increment(stream on, int* x, std::size_t n) {
  if (n == 0) return;
  increment_all<<<blocks_for(n), threads, 0, on>>>(x, n);
  cuda::check(cudaGetLastError());
}
void add(stream on, int* to, const int* from, std::size_t n) {
  if (n == 0) return;
  add_all<<<blocks_for(n), threads, 0, on>>>(to, from, n);
  cuda::check(cudaGetLastError());
}
void assign(stream on, int* to, const int* from, std::size_t n) {
  if (n == 0) return;
  assign_all<<<blocks_for(n), threads, 0, on>>>(to, from, n);
  cuda::check(cudaGetLastError());
}
void accumulate(stream on, int* to, std::size_t n, int amount) {
  if (n == 0) return;
  accumulate_all<<<blocks_for(n), threads, 0, on>>>(to, n, amount);
  cuda::check(cudaGetLastError());
}
void spin(stream on, unsigned microseconds) {
  spin_for<<<1, 1, 0, on>>>(1000ULL * microseconds);
  cuda::check(cudaGetLastError());
}
void hold(stream on, const std::uint32_t* flag) {
  wait_for<<<1, 1, 0, on>>>(flag);
  cuda::check(cudaGetLastError());
}
void synchronize(stream on) {
  const cudaError_t code = cudaStreamSynchronize(on);
  (void)cudaGetLastError();  // it is told here, and not again by the next launch
  cuda::check(code);
}
void* make_pinned(std::size_t bytes) {
  void* made = nullptr;
  cuda::check(cudaHostAlloc(&made, bytes, cudaHostAllocMapped));
  return made;
}
void free_pinned(void* data) {
  (void)cudaFreeHost(data);
}
void fault(stream on) {
  write_nowhere<<<1, 1, 0, on>>>(reinterpret_cast<int*>(64));
  cuda::check(cudaGetLastError());
}

}  // namespace braid::test
