#pragma once

#include <cuda_runtime.h>

#include <braid/cuda.hpp>
#include <cstdio>
#include <cstring>
#include <exception>

// What the examples share: `run` is called with whether a small size was asked for, and says whether the
// result is right. Without a GPU an example says so and ends with 77, which counts as skipped.

template <class Run>
int run_example(int argc, char** argv, Run run) {
  try {
    (void)braid::cuda::devices();
  } catch (const braid::usage_error& e) {
    std::printf("%s\n", e.what());
    return 77;
  }
  try {
    const bool is_small = argc > 1 && std::strcmp(argv[1], "--small") == 0;
    const bool is_right = run(is_small);
    std::printf("%s\n", is_right ? "the result is right" : "WRONG RESULT");
    return is_right ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

inline unsigned blocks_for(std::size_t n, unsigned threads = 256) {
  return static_cast<unsigned>((n + threads - 1) / threads);
}
