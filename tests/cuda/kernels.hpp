#pragma once

#include <cstddef>
#include <cstdint>

#include "braid/cuda.hpp"

// The work that the tests put on streams of CUDA: kernels, or, with the imitated driver, functions of the
// host that its streams run.

namespace braid::test {

using stream = cuda::native_stream;

void fill(stream on, int* to, std::size_t n, int value);
void increment(stream on, int* x, std::size_t n);
/// to += from
void add(stream on, int* to, const int* from, std::size_t n);
/// to = from
void assign(stream on, int* to, const int* from, std::size_t n);
/// Adds to each element with atomics.
void accumulate(stream on, int* to, std::size_t n, int amount);
/// Does nothing for so long.
void spin(stream on, unsigned microseconds);
/// Ends when the flag is not 0.
void hold(stream on, const std::uint32_t* flag);
/// Blocks until the stream is empty. Throws where that cannot be.
void synchronize(stream on);
/// Memory of the host that the device can reach.
void* make_pinned(std::size_t bytes);
void free_pinned(void* data);
/// Writes where nothing is: the device is lost.
void fault(stream on);

}  // namespace braid::test
