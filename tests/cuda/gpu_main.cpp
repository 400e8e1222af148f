#include <gtest/gtest.h>

#include <cstdio>

#include "braid/cuda.hpp"

// Without a GPU there is nothing to test: says why, and ends with 77, which ctest counts as skipped.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    if (braid::cuda::devices().empty()) throw std::runtime_error("no CUDA device");
  } catch (const std::exception& e) {
    std::puts(e.what());
    return testing::GTEST_FLAG(list_tests) ? RUN_ALL_TESTS() : 77;
  }
  return RUN_ALL_TESTS();
}
