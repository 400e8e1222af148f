// y = a x + y on a GPU. The body gets the stream and spans of device memory; kernels are launched as always.

#include <algorithm>
#include <vector>

#include "example.hpp"

__global__ void axpy(double a, const double* x, double* y, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}

int main(int argc, char** argv) {
  return run_example(argc, argv, [](bool is_small) {
    const std::size_t n = is_small ? 10'000 : 10'000'000;
    braid::cuda::runtime rt;
    auto x = rt.make_buffer<double>(n, "x");
    auto y = rt.make_buffer<double>(n, "y");
    rt.fill(x, 2.0);
    rt.write(y, std::vector<double>(n, 1.0));
    rt.submit("axpy", read(x), read_write(y), [](cudaStream_t stream, std::span<const double> from, std::span<double> to) {
      axpy<<<blocks_for(to.size()), 256, 0, stream>>>(3.0, from.data(), to.data(), to.size());
      braid::cuda::check(cudaGetLastError());
    });
    const std::vector<double> result = rt.read(y).get();
    return std::all_of(result.begin(), result.end(), [](double v) { return v == 7.0; });
  });
}
