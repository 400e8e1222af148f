#pragma once

#include <memory>
#include <utility>

#include "backends/drivers.hpp"
#include "suite.hpp"

// What the tests of CUDA share.

namespace braid::conformance {

using native = cuda::native_stream;

inline std::unique_ptr<cuda::runtime> make(runtime_options with = {}) {
  return std::make_unique<cuda::runtime>(complete(std::move(with)));
}

inline bool is_imitated() {
  return cuda::devices().front().name == "an imitated device";
}

/// A function of the driver, or of its imitation.
template <class Function>
Function* driver_function(const char* name) {
  static const detail::vendor_library library("libcuda.so.1");
  return library.function<Function>(name);
}

/// A stream that stands for one of the program's own.
inline native stream_in(cuda::runtime& rt, std::uint64_t id) {
  return rt.engine().stream_of(rt.engine().lane_of(stream_id{id})).native();
}

}  // namespace braid::conformance
