#pragma once

#define CL_HPP_ENABLE_EXCEPTIONS  // calls that fail throw, and the op has failed

#include <braid/opencl.hpp>
#include <cstdio>
#include <exception>

// What the examples share: `run` says whether the result is right. Without a device an example says so and
// ends with 77, which counts as skipped.

template <class Run>
int run_example(Run run) {
  try {
    std::printf("on %s\n", braid::opencl::device_for("").name.c_str());
  } catch (const braid::usage_error& e) {
    std::printf("%s\n", e.what());
    return 77;
  }
  try {
    const bool is_right = run();
    std::printf("%s\n", is_right ? "the result is right" : "WRONG RESULT");
    return is_right ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
