#pragma once

#include "braid/cpu.hpp"
#include "grid.hpp"

namespace braid::bench {

/// Runs the grid on braid; the ns from the first submit to the end of the wait.
double run_on_braid(cpu::runtime& rt, const grid& g);

}  // namespace braid::bench
