#pragma once

#include <cstdint>

// What the layer between OpenCL's loader and its platforms does for the tests: OPENCL_LAYERS names it. It
// counts calls and objects, and lets calls fail. With BRAID_LAYER_EXPECT_NONE set, a process that leaves an
// object behind ends with status 86 and says which.

extern "C" {

struct braid_layer_objects {
  std::uint64_t contexts, queues, buffers, events, programs, kernels;
};
/// Those that are alive.
using braid_layer_alive_function = braid_layer_objects();
/// How often a call of this name was made.
using braid_layer_calls_function = std::uint64_t(const char* call);
/// The call number `nth` of this name from now on, from 0, returns `code`, and so do all behind it while
/// `count` lasts. Null: none does.
using braid_layer_fail_function = void(const char* call, std::uint64_t nth, std::uint64_t count, int code);
/// Commands seem to have ended with this status from now on; 0: with their own.
using braid_layer_end_with_function = void(int status);
}
