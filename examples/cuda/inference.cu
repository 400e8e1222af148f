// A server in small: eight threads answer requests with the same weights. Each request goes through three layers in
// the stream of its thread; all read the weights, which nobody writes, so no request waits for another one.

#include <atomic>
#include <thread>
#include <vector>

#include "example.hpp"

__global__ void layer(const float* weights, const float* in, float* out, std::size_t width) {
  const std::size_t row = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= width) return;
  float sum = 0.0F;
  for (std::size_t k = 0; k < width; ++k) sum += weights[row * width + k] * in[k];
  out[row] = sum > 0.0F ? sum : 0.0F;
}

namespace {

constexpr int layers = 3;

std::vector<float> make_weights(std::size_t width, int number) {
  std::vector<float> w(width * width);
  for (std::size_t i = 0; i < w.size(); ++i) {
    w[i] = static_cast<float>((i * 31 + static_cast<std::size_t>(number) * 17) % 7) - 3.0F;
  }
  return w;
}

/// What a request of ones, times `scale`, has for an answer. Whole numbers that floats hold exactly.
std::vector<float> expected_of(const std::vector<std::vector<float>>& weights, std::size_t width, float scale) {
  std::vector<float> x(width, scale);
  for (const auto& w : weights) {
    std::vector<float> y(width);
    for (std::size_t r = 0; r < width; ++r) {
      float sum = 0.0F;
      for (std::size_t k = 0; k < width; ++k) sum += w[r * width + k] * x[k];
      y[r] = sum > 0.0F ? sum : 0.0F;
    }
    x = std::move(y);
  }
  return x;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(argc, argv, [](bool is_small) {
    const std::size_t width = is_small ? 16 : 32;
    const int requests = is_small ? 4 : 100;
    constexpr unsigned servers = 8;
    braid::cuda::runtime rt({.streams = servers + 1});
    std::vector<std::vector<float>> host;
    std::vector<braid::buffer<float>> weights;
    for (int i = 0; i < layers; ++i) {
      host.push_back(make_weights(width, i));
      weights.push_back(rt.make_buffer<float>(width * width, "weights"));
      rt.write(weights.back(), host.back());
    }
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned server = 0; server < servers; ++server) {
      threads.emplace_back([&, server] {
        const braid::stream_id mine{server};
        for (int r = 0; r < requests; ++r) {
          const float scale = static_cast<float>(1 + (r + static_cast<int>(server)) % 3);
          auto x = rt.make_buffer<float>(width, "activation");
          rt.write(x, std::vector<float>(width, scale));
          for (const auto& w : weights) {
            auto y = rt.make_buffer<float>(width, "activation");
            rt.submit(mine, "layer", read(w), read(x), write(y),
                      [](cudaStream_t stream, std::span<const float> by, std::span<const float> in, std::span<float> out) {
                        layer<<<blocks_for(out.size(), 32), 32, 0, stream>>>(by.data(), in.data(), out.data(), out.size());
                        braid::cuda::check(cudaGetLastError());
                      });
            x = y;
          }
          if (rt.read(x).get() != expected_of(host, width, scale)) ++wrong;
        }
      });
    }
    for (std::thread& t : threads) t.join();
    const braid::runtime_stats did = rt.stats();
    std::printf("%u threads, %d requests each: %llu ops, peak memory %llu bytes\n", servers, requests,
                static_cast<unsigned long long>(did.streams.ops), static_cast<unsigned long long>(did.memory.peak_live));
    return wrong == 0;
  });
}
