#pragma once

#include "braid/cpu.hpp"
#include "grid.hpp"

namespace braid::bench {

/// How a program that repeats itself is written.
enum class braid_use {
  submit,  ///< each task is submitted, and what it depends on is found
  record,  ///< as long as the rows repeat: some are recorded, and replayed; the others are submitted
};

/// Runs the grid on braid; the ns from the first submit to the end of the wait, recording included.
double run_on_braid(cpu::runtime& rt, const grid& g, braid_use use);

}  // namespace braid::bench
