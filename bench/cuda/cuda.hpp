#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

// What braid costs on a GPU, beside the same programs written by hand with streams and events, and beside the
// scheme that braid's origin uses: an event with timing that is created for each alignment and destroyed by a
// thread when it is reached.

namespace braid::bench {

struct cuda_options {
  unsigned repetitions = 9;
  std::string filter;  ///< only cases whose name contains this
  bool quick = false;
};

/// Throws usage_error(no_device) where there is no GPU. `progress` is called with (done, of).
nlohmann::json run_cuda_bench(const cuda_options& options,
                              const std::function<void(std::uint64_t, std::uint64_t)>& progress);

}  // namespace braid::bench
