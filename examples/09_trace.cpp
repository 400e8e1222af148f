// A trace of one part of a program: which op waited for which, and why. `braid explain` and `braid timeline`
// read the file.

#include <braid/cpu.hpp>
#include <braid/trace.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <numeric>

int main(int argc, char** argv) {
  const std::filesystem::path file = argc > 1 ? std::filesystem::path(argv[1])
                                              : std::filesystem::temp_directory_path() / "braid_example.json";
  braid::cpu::runtime rt({.deterministic = true});
  const auto x = rt.make_buffer<int>(1000, braid::zeroed, "x");
  rt.synchronize();

  braid::tracing trace(file);  // from here
  const braid::stream_id one{1}, two{2};
  const auto sum = rt.make_buffer<int>(1, "sum");
  rt.submit(one, "count", write(x), [](std::span<int> out) { std::iota(out.begin(), out.end(), 1); });
  rt.submit(two, "add up", read(x), write(sum),
            [](std::span<const int> in, std::span<int> out) { out[0] = std::reduce(in.begin(), in.end()); });
  const int found = rt.read(sum).get()[0];
  const braid::trace_summary made = trace.stop();  // to here

  std::cout << "the sum is " << found << "; the trace has " << made.ops << " ops and " << made.waits
            << " wait" << (made.waits == 1 ? "" : "s") << '\n';
  if (argc == 1) std::filesystem::remove(file);
  return found == 500'500 && made.ops == 3 && made.incomplete == 0 ? 0 : 1;
}
