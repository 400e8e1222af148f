#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace braid::bench {

/// The instructions that `calls(n)` executes for each n, counted by letting a child process run it step by
/// step: exact and the same on every machine, also where no hardware counter can be read. None where a
/// process may not trace its child. The caller has no other thread.
std::optional<double> instructions_per_call(const std::function<void(std::uint64_t n)>& calls);

}  // namespace braid::bench
