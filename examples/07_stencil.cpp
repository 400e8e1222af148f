// Heat on a plate: each point becomes the mean of its four neighbours, step after step. The plate is cut into
// blocks, each a buffer of its own. A block keeps copies of its four edges behind its points, so that a
// neighbour can bind just the edge that it needs: a slice. There is no barrier between steps; a block goes on
// as soon as its neighbours' edges are there.
//
//   example_07_stencil [-n SIDE] [-block SIDE] [-steps STEPS]

#include <array>
#include <braid/cpu.hpp>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

namespace {

// The order of the additions is the same everywhere, so that results can be compared bit by bit.
double mean(double north, double south, double west, double east) {
  return 0.25 * ((north + south) + (west + east));
}

using block = braid::buffer<double>;
enum edge : std::uint64_t { north_edge, south_edge, west_edge, east_edge };

struct plate {
  std::uint64_t blocks;  // on a side
  std::uint64_t side;    // of a block
  std::vector<block> all;

  plate(braid::cpu::runtime& rt, std::uint64_t n, std::uint64_t block_side)
      : blocks(n / block_side), side(block_side) {
    for (std::uint64_t i = 0; i < blocks * blocks; ++i) {
      all.push_back(rt.make_buffer<double>(side * side + 4 * side, braid::zeroed, "block"));
    }
  }
  [[nodiscard]] const block& at(std::uint64_t row, std::uint64_t column) const {
    return all[row * blocks + column];
  }
  [[nodiscard]] auto points_of(std::uint64_t row, std::uint64_t column) const {
    return at(row, column).slice(0, side * side);
  }
  [[nodiscard]] auto edge_of(std::uint64_t row, std::uint64_t column, edge which) const {
    return at(row, column).slice(side * side + which * side, side);
  }
};

using in = std::span<const double>;

// One block, one step: all points, then the copies of the edges.
void step(std::uint64_t side, in old, in north, in south, in west, in east, std::span<double> out) {
  for (std::uint64_t r = 0; r < side; ++r) {
    const in above = r > 0 ? old.subspan((r - 1) * side, side) : north;
    const in below = r + 1 < side ? old.subspan((r + 1) * side, side) : south;
    const in row = old.subspan(r * side, side);
    double* to = out.data() + r * side;
    to[0] = mean(above[0], below[0], west[r], side > 1 ? row[1] : east[r]);
    for (std::uint64_t c = 1; c + 1 < side; ++c) to[c] = mean(above[c], below[c], row[c - 1], row[c + 1]);
    if (side > 1) to[side - 1] = mean(above[side - 1], below[side - 1], row[side - 2], east[r]);
  }
  double* edges = out.data() + side * side;
  for (std::uint64_t i = 0; i < side; ++i) {
    edges[north_edge * side + i] = out[i];
    edges[south_edge * side + i] = out[(side - 1) * side + i];
    edges[west_edge * side + i] = out[i * side];
    edges[east_edge * side + i] = out[i * side + side - 1];
  }
}

std::vector<double> in_blocks(braid::cpu::runtime& rt, std::uint64_t n, std::uint64_t side, unsigned steps) {
  plate now(rt, n, side);
  plate next(rt, n, side);
  const auto hot = rt.make_buffer<double>(side, "hot");  // beyond the plate's northern side
  const auto cold = rt.make_buffer<double>(side, braid::zeroed, "cold");
  rt.fill(hot, 1.0);

  for (unsigned s = 0; s < steps; ++s) {
    const std::uint64_t last = now.blocks - 1;
    for (std::uint64_t r = 0; r <= last; ++r) {
      for (std::uint64_t c = 0; c <= last; ++c) {
        rt.submit("step", read(now.points_of(r, c)),  //
                  read(r > 0 ? now.edge_of(r - 1, c, south_edge) : hot),
                  read(r < last ? now.edge_of(r + 1, c, north_edge) : cold),
                  read(c > 0 ? now.edge_of(r, c - 1, east_edge) : cold),
                  read(c < last ? now.edge_of(r, c + 1, west_edge) : cold),  //
                  write(next.at(r, c)),
                  [side](in old, in north, in south, in west, in east, std::span<double> out) {
                    step(side, old, north, south, west, east, out);
                  });
      }
    }
    std::swap(now, next);
  }

  std::vector<double> whole(n * n);
  for (std::uint64_t r = 0; r < now.blocks; ++r) {
    for (std::uint64_t c = 0; c < now.blocks; ++c) {
      const std::vector<double> points = rt.read(now.points_of(r, c)).get();
      for (std::uint64_t i = 0; i < side; ++i) {
        std::memcpy(&whole[(r * side + i) * n + c * side], &points[i * side], side * sizeof(double));
      }
    }
  }
  return whole;
}

std::vector<double> in_one_piece(std::uint64_t n, unsigned steps) {
  std::vector<double> now(n * n), next(n * n);
  for (unsigned s = 0; s < steps; ++s) {
    for (std::uint64_t r = 0; r < n; ++r) {
      for (std::uint64_t c = 0; c < n; ++c) {
        next[r * n + c] = mean(r > 0 ? now[(r - 1) * n + c] : 1.0, r + 1 < n ? now[(r + 1) * n + c] : 0.0,
                               c > 0 ? now[r * n + c - 1] : 0.0, c + 1 < n ? now[r * n + c + 1] : 0.0);
      }
    }
    std::swap(now, next);
  }
  return now;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t n = 512, side = 64, steps = 40;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    std::uint64_t* const value = option == "-n"       ? &n
                                 : option == "-block" ? &side
                                 : option == "-steps" ? &steps
                                                      : nullptr;
    if (value == nullptr || i + 1 == argc) {
      std::cerr << "usage: " << argv[0] << " [-n SIDE] [-block SIDE] [-steps STEPS]\n";
      return 2;
    }
    *value = std::strtoull(argv[i + 1], nullptr, 10);
  }
  if (side == 0 || n == 0 || n % side != 0) {
    std::cerr << "the side of the plate has to be a multiple of the side of a block\n";
    return 2;
  }

  braid::cpu::runtime rt;
  const std::vector<double> blocks = in_blocks(rt, n, side, static_cast<unsigned>(steps));
  const braid::stream_stats did = rt.stats().streams;
  std::cout << n << " x " << n << " points in " << n / side * (n / side) << " blocks, " << steps
            << " steps: " << did.ops << " ops\n";
  const std::vector<double> whole = in_one_piece(n, static_cast<unsigned>(steps));
  if (std::memcmp(blocks.data(), whole.data(), whole.size() * sizeof(double)) != 0) {
    std::cerr << "wrong: the blocks differ from the plate in one piece\n";
    return 1;
  }
  std::cout << "equal to the plate in one piece, bit by bit\n";
  return 0;
}
