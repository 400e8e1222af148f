#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "braid/access.hpp"

// Graphs of ops in files. The schema is in docs/guide/taskgraph.md.

namespace braid::workloads {

/// What an op does beside passing values on.
enum class graph_kernel : std::uint8_t {
  spin,  ///< keeps busy for the op's duration, which may be 0
  fill,  ///< writes all of what it writes
  copy,  ///< copies what it reads to what it writes
  sum,   ///< reads all of what it reads
};

/// Sizes and places are in words of 8 bytes.
struct graph {
  struct resource {
    std::string name;
    std::uint64_t words = 0;
    /// Where a range of some access begins or ends, sorted: between two of them all accesses see the same.
    std::vector<std::uint64_t> cuts{};
  };
  struct access {
    std::uint32_t resource = 0;
    braid::access kind{};
    std::uint32_t tag = 0;
    std::uint64_t first = 0;
    std::uint64_t words = 0;
    std::uint32_t first_cut = 0;  ///< the cuts inside: at its begin, and more where others cut it
    std::uint32_t cuts = 0;
  };
  struct op {
    std::string label;
    std::uint64_t first_access = 0;
    std::uint32_t accesses = 0;
    graph_kernel kernel = graph_kernel::spin;
    std::uint64_t nanoseconds = 0;
    std::optional<std::uint64_t> stream{};
  };
  std::vector<resource> resources;
  std::vector<access> accesses;
  std::vector<op> ops;
  std::uint64_t repeat = 1;
};

struct graph_limits {
  std::uint64_t text = std::uint64_t{256} << 20;
  std::uint64_t ops = 1'000'000;
  std::uint64_t resources = 100'000;
  std::uint64_t accesses_of_op = 1024;
  std::uint64_t bytes = std::uint64_t{1} << 30;  ///< of all resources
  std::uint64_t runs = 100'000'000;              ///< ops times repeat
  double seconds = 3600.0;                       ///< of all durations, times repeat
  std::uint64_t cuts = 50'000'000;               ///< of all accesses
  std::uint64_t name = 200;                      ///< bytes of a name or a label
};

/// Throws usage_error(bad_settings) with "NAME:LINE: FIELD: what is wrong" for anything that is not a graph.
/// Takes time by the length of the text, about.
graph parse_taskgraph(std::string_view text, const std::string& name, const graph_limits& limits = {});

/// Of a file. Throws usage_error(bad_settings) also if it cannot be read.
graph read_taskgraph(const std::string& file, const graph_limits& limits = {});

}  // namespace braid::workloads
