#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>

namespace braid::bench {

struct memory_options {
  unsigned repetitions = 9;
  bool quick = false;  ///< fewer repetitions, a tenth of the allocations
  bool with_malloc = true;
  bool with_mimalloc = true;
};

/// Blocks taken and given back on a pool of system memory, with a write in each block's history; and a random
/// workload (1 byte to 4 MiB, up to 2 GiB live) on braid, malloc and, where it is installed, mimalloc.
/// {"benchmarks": [{"name", "ns", ...}, ...], "unavailable": [{"runtime", "reason"}, ...], "machine": ...}.
/// Medians over interleaved repetitions.
nlohmann::json run_memory_bench(const memory_options& options,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress);

}  // namespace braid::bench
