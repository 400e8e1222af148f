#pragma once

// The runtime that programs use: buffers, and operations on them.
//
//   braid::cpu::runtime rt;
//   auto x = rt.make_buffer<double>(n, "x");
//   auto y = rt.make_buffer<double>(n, "y");
//   rt.submit("fill", write(x), [](std::span<double> x) { ... });
//   rt.submit("scale", read(x), write(y), [](std::span<const double> x, std::span<double> y) { ... });
//   std::vector<double> host = rt.read(y).get();
//
// submit() returns at once; the op runs when all that its bindings conflict with is done, in the order of
// submission, on whichever stream. Ops that do not conflict may run at the same time. A body that throws
// poisons what it would have written; what reads that is skipped, and whoever reads it on the host gets the
// error. An overwrite heals. The rest of the program goes on.
//
// Any thread may call anything. A body may neither submit nor wait; then() and coroutines may.
//
// Destroying the runtime finishes what was submitted, runs what was to follow (then, coroutines, retired
// objects), joins the threads, then frees the memory. Handles that are left are inert: their use throws.

#include "braid/detail/runtime_class.hpp"
#include "braid/detail/runtime_data.hpp"
#include "braid/detail/runtime_impl.hpp"
#include "braid/detail/runtime_place.hpp"
#include "braid/detail/runtime_replay.hpp"
#include "braid/multi_stream.hpp"
