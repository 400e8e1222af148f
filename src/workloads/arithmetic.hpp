#pragma once

#include <cstdint>

// Arithmetic that the host and the kernels of a device share: what must come out the same, bit by bit.

#ifdef __CUDACC__
#define BRAID_HOST_DEVICE __host__ __device__
#else
#define BRAID_HOST_DEVICE
#endif

namespace braid::workloads {

/// Spreads the bits of a number: the last step of splitmix64.
BRAID_HOST_DEVICE constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// From -0.5 up to 0.5.
BRAID_HOST_DEVICE constexpr double centred(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53 - 0.5;
}

// ---- cholesky

/// Of a symmetric matrix of side n with a heavy diagonal: it is positive definite.
BRAID_HOST_DEVICE constexpr double matrix_element(std::uint64_t seed, std::uint64_t n, std::uint64_t row,
                                                  std::uint64_t column) {
  const std::uint64_t low = row < column ? row : column;
  const std::uint64_t high = row < column ? column : row;
  const double off = centred(mix(seed + (high << 32 | low)));
  return row == column ? static_cast<double>(n) + off : off;
}

// ---- stencil

/// The order of the additions is part of it.
BRAID_HOST_DEVICE constexpr double mean(double north, double south, double west, double east) {
  return 0.25 * ((north + south) + (west + east));
}

// ---- pipeline: frames of samples of 16 bits; a packed byte is four samples.

BRAID_HOST_DEVICE constexpr std::uint32_t decoded(std::uint8_t packed, std::uint64_t i) {
  const std::uint32_t level = (std::uint32_t{packed} >> (2 * (i % 4))) & 3U;
  return level * 16384U + static_cast<std::uint32_t>(mix(i) & 4095U);
}
BRAID_HOST_DEVICE constexpr std::uint32_t smoothed(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                                   std::uint32_t d, std::uint32_t e) {
  return (a + 4 * b + 6 * c + 4 * d + e + 8) / 16;
}
/// Rounds, so that the order of the frames matters.
BRAID_HOST_DEVICE constexpr std::uint32_t blended(std::uint32_t background, std::uint32_t now) {
  return (3 * background + now + 2) / 4;
}
BRAID_HOST_DEVICE constexpr std::uint8_t encoded(std::uint32_t difference) {
  return static_cast<std::uint8_t>((difference >> 6) ^ (difference >> 14));
}
/// What one byte adds to the digest of a frame: sums may be taken in any order.
BRAID_HOST_DEVICE constexpr std::uint64_t digest_part(std::uint8_t byte, std::uint64_t i) {
  return mix(i * 256 + byte);
}

// ---- inference: whole numbers, as in quantised networks.

BRAID_HOST_DEVICE constexpr std::int16_t activation(std::int32_t sum) {
  const std::int32_t scaled = (sum + 1024) >> 11;
  return static_cast<std::int16_t>(scaled < 0 ? 0 : scaled > 255 ? 255 : scaled);
}

// ---- taskgraph

/// What the word number `piece` of access number `access` adds to the value of an op: in any order.
BRAID_HOST_DEVICE constexpr std::uint64_t absorbed(std::uint64_t word, std::uint64_t access,
                                                   std::uint64_t piece) {
  return mix(word ^ mix(access << 40 | piece));
}
/// What an op of this value writes there.
BRAID_HOST_DEVICE constexpr std::uint64_t emitted(std::uint64_t value, std::uint64_t access,
                                                  std::uint64_t piece) {
  return mix(value + (access << 40 | piece));
}

}  // namespace braid::workloads
