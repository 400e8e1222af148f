// A loop that does the same again and again: heat in a rod of blocks, two buffers a block, written in turn.
// Two steps are recorded, once; what orders their ops is found then. The loop is a replay of them.
//
//   example_10_record [-n POINTS] [-blocks BLOCKS] [-steps STEPS]

#include <braid/cpu.hpp>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <vector>

namespace {

using in = std::span<const double>;

double mean(double left, double self, double right) {
  return 0.25 * left + 0.5 * self + 0.25 * right;
}

// The ends of the rod stay at 1 and 0.
void step(in left, in old, in right, std::span<double> out) {
  for (std::size_t i = 0; i < old.size(); ++i) {
    const double before = i > 0 ? old[i - 1] : (left.empty() ? 1.0 : left.back());
    const double after = i + 1 < old.size() ? old[i + 1] : (right.empty() ? 0.0 : right.front());
    out[i] = mean(before, old[i], after);
  }
}

struct rod {
  braid::cpu::runtime& rt;
  std::vector<braid::buffer<double>> now;
  std::vector<braid::buffer<double>> next;

  // From `from` to `to`: one op a block, which reads its neighbours.
  void submit_step(const std::vector<braid::buffer<double>>& from,
                   const std::vector<braid::buffer<double>>& to) {
    for (std::size_t b = 0; b < from.size(); ++b) {
      const auto edge = [&](std::size_t other) {
        const bool is_there = other < from.size();
        return is_there ? read(from[other]) : read(from[b].slice(0, 0));
      };
      rt.submit(braid::stream_id{b % 4}, "step", edge(b - 1), read(from[b]), edge(b + 1), write(to[b]), step);
    }
  }
};

std::vector<double> in_one_piece(std::size_t points, std::size_t steps) {
  std::vector<double> now(points, 0.0);
  std::vector<double> next(points);
  for (std::size_t s = 0; s < steps; ++s) {
    step({}, now, {}, next);
    now.swap(next);
  }
  return now;
}

std::size_t option(int argc, char** argv, const char* name, std::size_t value) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return std::strtoull(argv[i + 1], nullptr, 10);
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t blocks = option(argc, argv, "-blocks", 8);
  const std::size_t points = option(argc, argv, "-n", 512) / blocks * blocks;
  const std::size_t steps = option(argc, argv, "-steps", 1000) / 2 * 2;
  if (blocks == 0 || points == 0) {
    std::cerr << "there has to be a block, and a point in each\n";
    return 2;
  }

  braid::cpu::runtime rt;
  rod r{rt, {}, {}};
  for (std::size_t b = 0; b < blocks; ++b) {
    r.now.push_back(rt.make_buffer<double>(points / blocks, braid::zeroed, "now"));
    r.next.push_back(rt.make_buffer<double>(points / blocks, "next"));
  }

  const braid::recording two_steps = rt.record([&] {
    r.submit_step(r.now, r.next);
    r.submit_step(r.next, r.now);
  });
  std::cout << two_steps.ops() << " ops recorded, with " << two_steps.waits() << " waits between streams\n";
  two_steps.replay(steps / 2);

  std::vector<double> result;
  for (const auto& block : r.now) {
    for (const double x : rt.read(block).get()) result.push_back(x);
  }
  const bool is_right = result == in_one_piece(points, steps);
  std::cout << steps << " steps of " << points << " points: " << (is_right ? "right" : "WRONG") << "\n";
  return is_right ? 0 : 1;
}
