// Heat in a plate: a five-point stencil, in strips that share their edge rows. Each strip is a slice of one buffer; an
// op reads its strip with one row more on each side, and writes its strip of the other buffer. Which strips may run at
// the same time follows from the slices.

#include <algorithm>
#include <cmath>
#include <vector>

#include "example.hpp"

__global__ void relax(const float* from, float* to, std::size_t width, std::size_t rows) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= width * rows) return;
  const std::size_t column = i % width;
  const std::size_t at = i + width;  // `from` begins one row earlier
  if (column == 0 || column == width - 1) {
    to[i] = from[at];
  } else {
    to[i] = 0.2F * (from[at] + from[at - 1] + from[at + 1] + from[at - width] + from[at + width]);
  }
}

namespace {

std::vector<float> make_plate(std::size_t side) {
  std::vector<float> plate(side * side);
  for (std::size_t i = 0; i < plate.size(); ++i) plate[i] = static_cast<float>((i * 2654435761U) % 1000) * 0.1F;
  return plate;
}

std::vector<float> on_the_host(std::vector<float> now, std::size_t side, int steps) {
  std::vector<float> next = now;
  for (int t = 0; t < steps; ++t) {
    for (std::size_t r = 1; r + 1 < side; ++r) {
      for (std::size_t c = 1; c + 1 < side; ++c) {
        const std::size_t at = r * side + c;
        next[at] = 0.2F * (now[at] + now[at - 1] + now[at + 1] + now[at - side] + now[at + side]);
      }
    }
    std::swap(now, next);
  }
  return now;
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(argc, argv, [](bool is_small) {
    const std::size_t side = is_small ? 66 : 1026;
    const std::size_t strips = 8;
    const int steps = is_small ? 10 : 50;
    const std::size_t height = (side - 2) / strips;
    const std::vector<float> plate = make_plate(side);
    braid::cuda::runtime rt;
    braid::buffer<float> plates[2] = {rt.make_buffer<float>(side * side, "even"), rt.make_buffer<float>(side * side, "odd")};
    for (auto& each : plates) rt.write(each, plate);
    for (int t = 0; t < steps; ++t) {
      for (std::size_t s = 0; s < strips; ++s) {
        const std::size_t first = 1 + s * height;
        rt.submit(braid::stream_id{s}, "relax", read(plates[t % 2].slice((first - 1) * side, (height + 2) * side)),
                  write(plates[(t + 1) % 2].slice(first * side, height * side)),
                  [side, height](cudaStream_t stream, std::span<const float> from, std::span<float> to) {
                    relax<<<blocks_for(to.size()), 256, 0, stream>>>(from.data(), to.data(), side, height);
                    braid::cuda::check(cudaGetLastError());
                  });
      }
    }
    const std::vector<float> found = rt.read(plates[steps % 2]).get();
    const std::vector<float> expected = on_the_host(plate, side, steps);
    float worst = 0.0F;
    for (std::size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::abs(found[i] - expected[i]));
    std::printf("%zu x %zu, %d steps, %zu strips: largest difference to the host %g\n", side, side, steps, strips,
                static_cast<double>(worst));
    return worst < 1e-3F;
  });
}
