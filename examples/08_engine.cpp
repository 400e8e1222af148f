// Two streams share two buffers. The program says what each op reads and writes; the engine inserts the waits
// and can tell why. The device is simulated: it runs the streams in a legal order of its own.

#include <braid/multi_stream.hpp>
#include <braid/sim.hpp>
#include <iostream>
#include <numeric>
#include <vector>

int main() {
  using namespace braid;
  std::vector<int> x(8), y(8);  // before the engine: it finishes all submitted work when it goes
  sim::device device({.seed = 7});
  multi_stream<sim::backend> engine{device.backend()};

  const resource rx = resource::memory(sizeof(int) * x.size(), "x");
  const resource ry = resource::memory(sizeof(int) * y.size(), "y");

  const auto submit = [&](stream_id stream, const char* label, std::initializer_list<binding> bindings,
                          auto body) {
    auto op = engine.resolve(stream, bindings);
    device.launch(op.current(), {.label = label, .touches = {}, .body = body});
    std::cout << label << " on stream " << to_string(stream) << ": " << to_string(op.waits());
  };

  submit({1}, "fill ", {write(rx)}, [&] { std::iota(x.begin(), x.end(), 1); });
  submit({2}, "scale", {read(rx), write(ry)}, [&] {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = 10 * x[i];
  });
  submit({1}, "clear", {write(rx)}, [&] { x.assign(x.size(), 0); });  // not before scale has read x

  engine.wait(ry);
  std::cout << "y[7] = " << y[7] << '\n';
  return y[7] == 80 ? 0 : 1;
}
