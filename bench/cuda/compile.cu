// A program of a user's: how long it takes to compile is told in docs/benchmarks/h200.md; tests/package builds it.
#include <braid/cuda.hpp>
#include <cstdio>

__global__ void twice(const double* from, double* to, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) to[i] = 2 * from[i];
}

int main() {
  braid::cuda::runtime rt;
  const auto x = rt.make_buffer<double>(1 << 20, "x"), y = rt.make_buffer<double>(1 << 20, "y");
  rt.fill(x, 1.0);
  rt.submit("twice", read(x), write(y), [](cudaStream_t on, std::span<const double> from, std::span<double> to) {
    twice<<<static_cast<unsigned>(to.size() / 256), 256, 0, on>>>(from.data(), to.data(), to.size());
    braid::cuda::check(cudaGetLastError());
  });
  std::printf("%g\n", rt.read(y).get().front());
}
