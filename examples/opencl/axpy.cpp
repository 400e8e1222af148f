// y = a x + y on a device of OpenCL. The body gets the queue and the buffers, and enqueues a kernel as
// always.

#include <algorithm>
#include <vector>

#include "example.hpp"

int main() {
  return run_example([] {
    constexpr std::size_t n = 1'000'000;
    const braid::opencl::program kernels(
        "kernel void axpy(float a, global const float* x, global float* y) {\n"
        "  const size_t i = get_global_id(0);\n"
        "  y[i] += a * x[i];\n"
        "}\n");
    braid::opencl::runtime rt;
    auto x = rt.make_buffer<float>(n, "x");
    auto y = rt.make_buffer<float>(n, "y");
    rt.fill(x, 2.0F);
    rt.write(y, std::vector<float>(n, 1.0F));
    rt.submit("axpy", read(x), read_write(y),
              [&](cl::CommandQueue& queue, const cl::Buffer& from, const cl::Buffer& to) {
                cl::Kernel& axpy = kernels.kernel(queue, "axpy");
                axpy.setArg(0, 3.0F);
                axpy.setArg(1, from);
                axpy.setArg(2, to);
                queue.enqueueNDRangeKernel(axpy, cl::NullRange, cl::NDRange(n));
              });
    const std::vector<float> result = rt.read(y).get();
    return std::all_of(result.begin(), result.end(), [](float v) { return v == 7.0F; });
  });
}
