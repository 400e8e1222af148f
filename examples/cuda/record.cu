// The same work for each request, recorded once: two branches of layers, multiplied by cuBLAS, and their sum. A replay
// is one CUDA graph; what it reads, the input, is written anew for each request.

#include <chrono>
#include <vector>

#include "braid/cublas.hpp"
#include "example.hpp"

__global__ void keep_positive(float* x, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n && x[i] < 0.0F) x[i] = 0.0F;
}

__global__ void add(const float* a, const float* b, float* sum, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}

namespace {

using floats = braid::buffer<float>;

struct network {
  network(braid::cuda::runtime& on, std::size_t n, int layers_of_a_branch)
      : rt(on), width(n), layers(layers_of_a_branch), in(rt.make_buffer<float>(n, "in")), out(rt.make_buffer<float>(n, "out")) {
    for (int w = 0; w < 2 * layers; ++w) {
      auto& host = host_weights.emplace_back(width * width);
      for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>((i * 31 + static_cast<std::size_t>(w) * 17) % 5) - 2.0F;
      weights.push_back(rt.make_buffer<float>(host.size(), "weights"));
      rt.write(weights.back(), host);
    }
    rt.write(in, std::vector<float>(width, 0.0F));
  }

  /// Submits the work of one request.
  void answer() const {
    floats ends[2];
    for (int branch = 0; branch < 2; ++branch) {
      floats x = in;
      for (int l = 0; l < layers; ++l) {
        auto y = rt.make_buffer<float>(width, "activation");
        rt.submit("layer", read(weights[static_cast<std::size_t>(branch * layers + l)]), read(x), write(y),
                  [n = static_cast<int>(width)](cudaStream_t stream, std::span<const float> w, std::span<const float> from,
                                                std::span<float> to) {
                    const float one = 1.0F;
                    const float zero = 0.0F;
                    braid::cuda::check(cublasSgemv(braid::cuda::cublas(stream), CUBLAS_OP_T, n, n, &one, w.data(), n, from.data(), 1,
                                                   &zero, to.data(), 1));
                    keep_positive<<<blocks_for(to.size()), 256, 0, stream>>>(to.data(), to.size());
                    braid::cuda::check(cudaGetLastError());
                  });
        x = y;
      }
      ends[branch] = x;
    }
    rt.submit("sum", read(ends[0]), read(ends[1]), write(out),
              [](cudaStream_t stream, std::span<const float> a, std::span<const float> b, std::span<float> sum) {
                add<<<blocks_for(sum.size()), 256, 0, stream>>>(a.data(), b.data(), sum.data(), sum.size());
                braid::cuda::check(cudaGetLastError());
              });
  }

  /// For an input of equal numbers; whole numbers that floats hold exactly.
  [[nodiscard]] std::vector<float> expected(float value) const {
    std::vector<float> sum(width, 0.0F);
    for (int branch = 0; branch < 2; ++branch) {
      std::vector<float> x(width, value);
      for (int l = 0; l < layers; ++l) {
        const auto& w = host_weights[static_cast<std::size_t>(branch * layers + l)];
        std::vector<float> y(width);
        for (std::size_t r = 0; r < width; ++r) {
          for (std::size_t k = 0; k < width; ++k) y[r] += w[r * width + k] * x[k];
          if (y[r] < 0.0F) y[r] = 0.0F;
        }
        x = y;
      }
      for (std::size_t i = 0; i < width; ++i) sum[i] += x[i];
    }
    return sum;
  }

  braid::cuda::runtime& rt;
  std::size_t width;
  int layers;
  floats in, out;
  std::vector<std::vector<float>> host_weights;
  std::vector<floats> weights;
};

/// Microseconds a request; -1 if an answer is wrong.
template <class Answer>
double serve(network& net, int requests, Answer answer) {
  const std::vector<float> of_one = net.expected(1.0F);
  const auto request = [&](int r) {
    const float value = static_cast<float>(1 + r % 3);
    net.rt.write(net.in, std::vector<float>(net.width, value));
    answer();
    const std::vector<float> got = net.rt.read(net.out).get();
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] != value * of_one[i]) return false;
    }
    return true;
  };
  if (!request(0)) return -1.0;
  const auto begin = std::chrono::steady_clock::now();
  for (int r = 0; r < requests; ++r) {
    if (!request(r)) return -1.0;
  }
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / requests;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(argc, argv, [](bool is_small) {
    const int requests = is_small ? 5 : 500;
    braid::cuda::runtime rt;
    network net(rt, 32, 3);
    const double submitted = serve(net, requests, [&] { net.answer(); });
    const braid::recording recorded = rt.record([&] { net.answer(); });
    const double replayed = serve(net, requests, [&] { recorded.replay(); });
    std::printf("%llu ops a request: %.1f us submitted, %.1f us replayed as %s\n",
                static_cast<unsigned long long>(recorded.ops()), submitted, replayed,
                recorded.is_graph() ? "a graph" : "calls");
    return submitted > 0 && replayed > 0 && recorded.is_graph();
  });
}
