#pragma once

// Ranges that NVIDIA's profilers show, named by the labels of ops. Nothing where the header was not there
// when braid was built.

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define BRAID_HAS_NVTX 1
#endif

namespace braid::cuda::detail {

inline void push_range([[maybe_unused]] const char* name) noexcept {
#ifdef BRAID_HAS_NVTX
  (void)nvtxRangePushA(name);
#endif
}

inline void pop_range() noexcept {
#ifdef BRAID_HAS_NVTX
  (void)nvtxRangePop();
#endif
}

}  // namespace braid::cuda::detail
