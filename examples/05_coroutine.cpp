// Two systems of equations are solved at once by Jacobi's method. How many sweeps are needed is not known
// before: after each ten sweeps a coroutine looks at the residual and decides. No thread waits for it.

#include <algorithm>
#include <braid/cpu.hpp>
#include <braid/task.hpp>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

namespace {

using vec = braid::buffer<double>;
constexpr std::size_t n = 2000;

// 4 x[i] - x[i - 1] - x[i + 1] = b[i], with 0 beyond the ends.
double neighbours(std::span<const double> x, std::size_t i) {
  return (i > 0 ? x[i - 1] : 0.0) + (i + 1 < x.size() ? x[i + 1] : 0.0);
}

void sweep(std::span<const double> b, std::span<const double> x, std::span<double> next) {
  for (std::size_t i = 0; i < x.size(); ++i) next[i] = (b[i] + neighbours(x, i)) / 4.0;
}

void residual(std::span<const double> b, std::span<const double> x, std::span<double> largest) {
  largest[0] = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    largest[0] = std::max(largest[0], std::abs(b[i] - (4.0 * x[i] - neighbours(x, i))));
  }
}

struct solution {
  std::vector<double> x;
  int sweeps;
};

// What a coroutine uses after a co_await has to live that long: buffers come by value, being handles.
braid::task<solution> solve(braid::cpu::runtime& rt, vec b, double wanted) {
  vec x = rt.make_buffer<double>(n, braid::zeroed, "x");
  vec next = rt.make_buffer<double>(n, "next");
  const vec largest = rt.make_buffer<double>(1, "largest");
  for (int sweeps = 0;;) {
    for (int end = sweeps + 10; sweeps < end; ++sweeps) {
      rt.submit("sweep", read(b), read(x), write(next), sweep);
      std::swap(x, next);
    }
    rt.submit("residual", read(b), read(x), write(largest), residual);
    const std::vector<double> now = co_await rt.read(largest);  // goes on on a braid thread
    if (now[0] >= wanted) continue;
    std::vector<double> found = co_await rt.read(x);
    co_return solution{std::move(found), sweeps};
  }
}

vec ramp(braid::cpu::runtime& rt, double by) {
  vec b = rt.make_buffer<double>(n, "b");
  rt.submit("ramp", write(b), [by](std::span<double> out) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = by * static_cast<double>(i);
  });
  return b;
}

bool is_solved(const solution& found, double by, double wanted) {
  double worst = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    worst =
        std::max(worst, std::abs(by * static_cast<double>(i) - (4.0 * found.x[i] - neighbours(found.x, i))));
  }
  return worst < wanted;
}

}  // namespace

int main() {
  braid::cpu::runtime rt;
  braid::task<solution> rough = solve(rt, ramp(rt, 1.0), 1e-3);
  braid::task<solution> fine = solve(rt, ramp(rt, 0.5), 1e-9);
  const solution first = rough.get();
  const solution second = fine.get();
  std::cout << "to 1e-3: " << first.sweeps << " sweeps\nto 1e-9: " << second.sweeps << " sweeps\n";
  if (!is_solved(first, 1.0, 1e-3) || !is_solved(second, 0.5, 1e-9)) {
    std::cerr << "wrong: a residual is too large\n";
    return 1;
  }
  return first.sweeps < second.sweeps ? 0 : 1;
}
