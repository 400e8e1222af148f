#pragma once

#include "backends/drivers.hpp"

namespace braid::opencl::detail {

/// libOpenCL.so.1, opened at the first call.
const braid::detail::vendor_library& loader();

}  // namespace braid::opencl::detail
