#include "workloads/kernels.hpp"

#include "workloads/arithmetic.hpp"

namespace braid::workloads::kernels {

namespace {

constexpr unsigned threads = 256;

unsigned blocks_for(std::uint64_t n) { return static_cast<unsigned>((n + threads - 1) / threads); }

__device__ std::uint64_t here() { return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

// ---- cholesky

__global__ void make_tile_kernel(double* to, std::uint64_t count, std::uint64_t seed, std::uint64_t n, std::uint64_t row,
                                 std::uint64_t column, std::uint64_t height) {
  const std::uint64_t i = here();
  if (i < count) to[i] = matrix_element(seed, n, row + i % height, column + i / height);
}

// ---- stencil

/// A point of a block, and the copies of it in the edges.
__device__ void put(double* block, plate_block s, std::uint64_t r, std::uint64_t c, double value) {
  double* const north = block + s.rows * s.columns;
  double* const south = north + s.columns;
  double* const west = south + s.columns;
  double* const east = west + s.rows;
  block[r * s.columns + c] = value;
  if (r == 0) north[c] = value;
  if (r == s.rows - 1) south[c] = value;
  if (c == 0) west[r] = value;
  if (c == s.columns - 1) east[r] = value;
}

__global__ void make_block_kernel(double* to, plate_block s, std::uint64_t seed, std::uint64_t n, std::uint64_t row,
                                  std::uint64_t column) {
  const std::uint64_t i = here();
  if (i >= s.rows * s.columns) return;
  const std::uint64_t r = i / s.columns;
  const std::uint64_t c = i % s.columns;
  put(to, s, r, c, centred(mix(seed + (row + r) * n + column + c)));
}

__global__ void step_block_kernel(plate_block s, const double* old, const double* north, const double* south,
                                  const double* west, const double* east, double* to) {
  const std::uint64_t i = here();
  if (i >= s.rows * s.columns) return;
  const std::uint64_t r = i / s.columns;
  const std::uint64_t c = i % s.columns;
  put(to, s, r, c,
      mean(r > 0 ? old[i - s.columns] : north[c], r + 1 < s.rows ? old[i + s.columns] : south[c],
           c > 0 ? old[i - 1] : west[r], c + 1 < s.columns ? old[i + 1] : east[r]));
}

// ---- pipeline

__global__ void decode_kernel(const std::uint8_t* packed, std::uint32_t* frame, std::uint64_t n) {
  const std::uint64_t i = here();
  if (i < n) frame[i] = decoded(packed[i / 4], i);
}

__global__ void filter_kernel(const std::uint32_t* frame, std::uint32_t* smooth, std::uint64_t n) {
  const std::uint64_t i = here();
  if (i >= n) return;
  const auto at = [&](std::uint64_t k) { return frame[k < 2 ? 0 : k - 2 < n ? k - 2 : n - 1]; };  // shifted by 2
  smooth[i] = smoothed(at(i), at(i + 1), at(i + 2), at(i + 3), at(i + 4));
}

__global__ void blend_kernel(const std::uint32_t* smooth, std::uint32_t* background, std::uint32_t* difference,
                             std::uint64_t n) {
  const std::uint64_t i = here();
  if (i >= n) return;
  difference[i] = smooth[i] - background[i];
  background[i] = blended(background[i], smooth[i]);
}

__global__ void encode_kernel(const std::uint32_t* difference, std::uint8_t* coded, std::uint64_t n) {
  const std::uint64_t i = here();
  if (i < n) coded[i] = encoded(difference[i]);
}

/// Of all threads of the block; each gets it.
__device__ std::uint64_t sum_of_block(std::uint64_t mine) {
  __shared__ unsigned long long sum;
  __syncthreads();  // nobody still reads the sum of the call before
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  for (unsigned step = 16; step > 0; step /= 2) mine += __shfl_down_sync(0xffffffff, mine, step);
  if (threadIdx.x % 32 == 0) atomicAdd(&sum, static_cast<unsigned long long>(mine));
  __syncthreads();
  return sum;
}

__global__ void digest_kernel(const std::uint8_t* coded, std::uint64_t n, std::uint64_t* to) {
  std::uint64_t mine = 0;
  for (std::uint64_t i = threadIdx.x; i < n; i += blockDim.x) mine += digest_part(coded[i], i);
  const std::uint64_t sum = sum_of_block(mine);
  if (threadIdx.x == 0) *to = sum;
}

// ---- inference: a warp for each row.

__global__ void layer_kernel(const std::int16_t* weights, const std::int16_t* from, std::int16_t* to, std::uint64_t width) {
  const std::uint64_t row = here() / 32;
  if (row >= width) return;
  std::int32_t sum = 0;
  for (std::uint64_t i = threadIdx.x % 32; i < width; i += 32) sum += std::int32_t{weights[row * width + i]} * from[i];
  for (unsigned step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
  if (threadIdx.x % 32 == 0) to[row] = activation(sum);
}

// ---- taskgraph: one block does all of an op, so that its threads can wait for each other.

__device__ std::uint64_t nanoseconds_now() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

constexpr std::uint32_t reads_only = 0;  // as braid::access numbers them
constexpr std::uint32_t writes_only = 1;
constexpr std::uint32_t reads_and_writes = 2;
constexpr std::uint32_t accumulates = 3;
constexpr std::uint32_t fills = 1;  // as graph_kernel numbers them
constexpr std::uint32_t copies = 2;
constexpr std::uint32_t sums = 3;

__global__ void execute_kernel(const __grid_constant__ graph_op op) {
  const std::uint64_t begin = nanoseconds_now();
  std::uint64_t mine = 0;
  for (std::uint32_t a = 0; a < op.access_count; ++a) {
    const graph_op::access& of = op.accesses[a];
    if (of.kind != reads_only && of.kind != reads_and_writes) continue;
    for (std::uint64_t c = threadIdx.x; c < of.cut_count; c += blockDim.x) {
      mine += absorbed(of.words[of.cuts[c] - of.first], a, c);
    }
    if (op.kernel == sums) {
      for (std::uint64_t w = threadIdx.x; w < of.count; w += blockDim.x) mine += absorbed(of.words[w], a, w);
    }
  }
  const std::uint64_t value = op.seed + sum_of_block(mine);
  for (std::uint32_t a = 0; a < op.access_count; ++a) {
    const graph_op::access& of = op.accesses[a];
    if (of.kind != writes_only) continue;
    if (op.kernel == fills) {
      for (std::uint64_t w = threadIdx.x; w < of.count; w += blockDim.x) of.words[w] = emitted(~value, a, w);
    } else if (op.kernel == copies) {
      const graph_op::access& from = op.accesses[a % op.reads];
      for (std::uint64_t w = threadIdx.x; w < of.count; w += blockDim.x) of.words[w] = from.words[w % from.count];
    }
  }
  __syncthreads();
  for (std::uint32_t a = 0; a < op.access_count; ++a) {
    const graph_op::access& of = op.accesses[a];
    for (std::uint64_t c = threadIdx.x; of.kind != reads_only && c < of.cut_count; c += blockDim.x) {
      std::uint64_t* const to = of.words + (of.cuts[c] - of.first);
      if (of.kind == accumulates) {
        atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(emitted(value, a, c)));
      } else {
        *to = emitted(value, a, c);
      }
    }
  }
  while (nanoseconds_now() - begin < op.nanoseconds) {
  }
}

}  // namespace

const char* error_text(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }

int make_tile(stream on, double* to, std::uint64_t count, std::uint64_t seed, std::uint64_t n, std::uint64_t row,
              std::uint64_t column, std::uint64_t height) {
  make_tile_kernel<<<blocks_for(count), threads, 0, on>>>(to, count, seed, n, row, column, height);
  return cudaGetLastError();
}
int make_block(stream on, double* to, plate_block shape, std::uint64_t seed, std::uint64_t n, std::uint64_t row,
               std::uint64_t column) {
  make_block_kernel<<<blocks_for(shape.rows * shape.columns), threads, 0, on>>>(to, shape, seed, n, row, column);
  return cudaGetLastError();
}
int step_block(stream on, plate_block shape, const double* old, const double* north, const double* south,
               const double* west, const double* east, double* to) {
  step_block_kernel<<<blocks_for(shape.rows * shape.columns), threads, 0, on>>>(shape, old, north, south, west, east, to);
  return cudaGetLastError();
}
int decode(stream on, const std::uint8_t* packed, std::uint32_t* frame, std::uint64_t samples) {
  decode_kernel<<<blocks_for(samples), threads, 0, on>>>(packed, frame, samples);
  return cudaGetLastError();
}
int filter(stream on, const std::uint32_t* frame, std::uint32_t* smooth, std::uint64_t samples) {
  filter_kernel<<<blocks_for(samples), threads, 0, on>>>(frame, smooth, samples);
  return cudaGetLastError();
}
int blend(stream on, const std::uint32_t* smooth, std::uint32_t* background, std::uint32_t* difference,
          std::uint64_t samples) {
  blend_kernel<<<blocks_for(samples), threads, 0, on>>>(smooth, background, difference, samples);
  return cudaGetLastError();
}
int encode(stream on, const std::uint32_t* difference, std::uint8_t* coded, std::uint64_t samples) {
  encode_kernel<<<blocks_for(samples), threads, 0, on>>>(difference, coded, samples);
  return cudaGetLastError();
}
int digest(stream on, const std::uint8_t* coded, std::uint64_t samples, std::uint64_t* to) {
  digest_kernel<<<1, 1024, 0, on>>>(coded, samples, to);
  return cudaGetLastError();
}
int layer(stream on, const std::int16_t* weights, const std::int16_t* from, std::int16_t* to, std::uint64_t width) {
  layer_kernel<<<blocks_for(width * 32), threads, 0, on>>>(weights, from, to, width);
  return cudaGetLastError();
}
int execute(stream on, const graph_op& op) {
  execute_kernel<<<1, threads, 0, on>>>(op);
  return cudaGetLastError();
}

}  // namespace braid::workloads::kernels
