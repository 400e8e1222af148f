#include <algorithm>
#include <braid/cpu.hpp>
#include <iostream>
#include <numeric>

int main() {
  braid::cpu::runtime rt({.deterministic = true});  // the same waits every time
  const auto x = rt.make_buffer<int>(8, "x"), y = rt.make_buffer<int>(8, "y");
  const braid::stream_id one{1}, two{2};

  rt.submit(one, "fill", write(x), [](std::span<int> out) { std::iota(out.begin(), out.end(), 1); });
  rt.submit(two, "scale", read(x), write(y), [](std::span<const int> in, std::span<int> out) {
    std::ranges::transform(in, out.begin(), [](int v) { return 10 * v; });
  });
  rt.submit(one, "clear", write(x), [](std::span<int> out) { std::ranges::fill(out, 0); });

  const std::vector<int> host = rt.read(y).get();
  const auto waits = [did = rt.stats().streams](braid::hazard why) { return did.waits_for(why); };
  std::cout << "y[7] = " << host[7] << "\nscale waits for fill: " << waits(braid::hazard::read_after_write)
            << ", clear waits for scale: " << waits(braid::hazard::write_after_read) << '\n';
  return host[7] == 80 ? 0 : 1;
}
