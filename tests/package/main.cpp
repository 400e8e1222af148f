// A program of somebody else's: uses only what is installed.

#include <braid/multi_stream.hpp>
#include <braid/sim.hpp>
#include <cstdio>

int main() {
  braid::sim::device device;
  braid::multi_stream<braid::sim::backend> engine{device.backend(), {.max_streams = 2}};
  const braid::resource x = braid::resource::memory(8, "x");
  { auto op = engine.resolve(braid::stream_id{0}, {braid::write(x)}); }
  auto op = engine.resolve(braid::stream_id{1}, {braid::read(x)});
  std::printf("%zu wait\n", op.waits().waits.size());
  return op.waits().waits.size() == 1 ? 0 : 1;
}
