#pragma once

#include <cstdint>
#include <string>

#include "braid/sim.hpp"
#include "verify/program.hpp"

namespace braid::verify {

/// What became of one program.
struct outcome {
  std::uint64_t ops = 0;
  sim::report report;
  std::uint64_t value_mismatches = 0;  ///< cells and inputs that differ from the sequential run
  std::uint64_t premature = 0;         ///< retired objects destroyed before their event
  std::uint64_t lost = 0;              ///< retired objects never destroyed
  bool injected = false;               ///< the program's fault found a place
  std::string error;                   ///< what was thrown
  bool one_thread = true;
  bool points = false;

  /// Each wait of a single submitter is accounted for; several submitters may know less than is so.
  [[nodiscard]] bool has_superfluous_waits() const noexcept {
    return one_thread && report.violations.empty() && report.minimal_waits != report.waits;
  }
  [[nodiscard]] bool has_excess_at_points() const noexcept { return points && report.excess_orderings != 0; }
  [[nodiscard]] bool failed() const noexcept {
    return !report.violations.empty() || value_mismatches != 0 || premature != 0 || lost != 0 ||
           !error.empty() || has_superfluous_waits() || has_excess_at_points();
  }
};

/// Runs the program through the real engine on the simulated device, checks the device's log, and compares
/// the values with a sequential run.
outcome run(const program& p);

/// What was wrong, in lines.
std::string describe(const outcome& o);

}  // namespace braid::verify
