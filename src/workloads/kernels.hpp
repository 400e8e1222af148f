#pragma once

#include <cstdint>

// What nvcc compiles, as plain functions. Each puts one kernel on the stream and returns a cudaError_t: 0 if
// that went well. The arithmetic is that of arithmetic.hpp; what the arguments are is said where the same is
// done on the CPU.

struct CUstream_st;

namespace braid::workloads::kernels {

using stream = CUstream_st*;

const char* error_text(int code);

int make_tile(stream on, double* to, std::uint64_t count, std::uint64_t seed, std::uint64_t n,
              std::uint64_t row, std::uint64_t column, std::uint64_t height);

struct plate_block {
  std::uint64_t rows;
  std::uint64_t columns;
};
int make_block(stream on, double* to, plate_block shape, std::uint64_t seed, std::uint64_t n,
               std::uint64_t row, std::uint64_t column);
int step_block(stream on, plate_block shape, const double* old, const double* north, const double* south,
               const double* west, const double* east, double* to);

int decode(stream on, const std::uint8_t* packed, std::uint32_t* frame, std::uint64_t samples);
int filter(stream on, const std::uint32_t* frame, std::uint32_t* smooth, std::uint64_t samples);
int blend(stream on, const std::uint32_t* smooth, std::uint32_t* background, std::uint32_t* difference,
          std::uint64_t samples);
int encode(stream on, const std::uint32_t* difference, std::uint8_t* coded, std::uint64_t samples);
int digest(stream on, const std::uint8_t* coded, std::uint64_t samples, std::uint64_t* to);

int layer(stream on, const std::int16_t* weights, const std::int16_t* from, std::int16_t* to,
          std::uint64_t width);

/// An op of a task graph: what execute() does, and for how long.
struct graph_op {
  static constexpr unsigned most_accesses = 64;  // they travel as an argument of the kernel: 4 KiB at most
  struct access {
    std::uint64_t* words;       // of the range
    const std::uint64_t* cuts;  // on the device
    std::uint64_t first;        // word of the range in its resource, where cuts count from
    std::uint64_t count;        // of words
    std::uint32_t cut_count;
    std::uint32_t kind;  // a braid::access
  };
  access accesses[most_accesses];
  std::uint64_t seed;
  std::uint64_t nanoseconds;
  std::uint32_t access_count;
  std::uint32_t reads;   // the first so many accesses are plain reads
  std::uint32_t kernel;  // a graph_kernel
};
int execute(stream on, const graph_op& op);

}  // namespace braid::workloads::kernels
