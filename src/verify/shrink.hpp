#pragma once

#include <functional>

#include "verify/program.hpp"

namespace braid::verify {

/// The smallest program found, by removing steps and uses, that still `fails`. Tries at most `tries`
/// programs.
program shrink(program p, const std::function<bool(const program&)>& fails, unsigned tries = 4000);

}  // namespace braid::verify
