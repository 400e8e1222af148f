#pragma once

#include <cstdint>

namespace braid::bench {

/// How often the calling thread has called operator new, in a program that links allocations.cpp.
std::uint64_t allocations() noexcept;

}  // namespace braid::bench
