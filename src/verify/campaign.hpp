#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "verify/program.hpp"
#include "verify/run.hpp"

namespace braid::verify {

enum class backend_mode : std::uint8_t { both, event, point };

struct campaign_options {
  std::uint64_t programs = 2000;
  shape of;
  std::uint64_t seed = 1;
  backend_mode mode = backend_mode::both;
  sim::fault inject = sim::fault::none;
  unsigned jobs = 0;  ///< programs at a time; 0: as many as cores
};

/// The sums over programs that ran in one mode.
struct totals {
  std::uint64_t runs = 0;
  std::uint64_t ops = 0;
  std::uint64_t conflicts_checked = 0;
  std::uint64_t violations = 0;
  std::uint64_t value_mismatches = 0;
  std::uint64_t waits = 0;
  std::uint64_t minimal_waits = 0;
  std::uint64_t excess_orderings = 0;
  std::uint64_t dropped_waits = 0;
  std::uint64_t dropped_waits_detected = 0;
  std::uint64_t retire_failures = 0;  ///< objects destroyed too early, or never
  std::uint64_t errors = 0;           ///< programs in which the engine threw
  std::uint64_t injected = 0;         ///< programs in which the fault found a place
  std::uint64_t caught = 0;           ///< of these, those that failed

  totals& operator+=(const totals& other) noexcept;
};

struct failure {
  program shrunk;
  outcome what;
};

struct campaign_result {
  std::uint64_t programs = 0;
  totals event;
  totals point;
  std::optional<failure> first;  ///< the first failing program, made small
  [[nodiscard]] totals all() const noexcept;
  [[nodiscard]] bool failed() const noexcept { return first.has_value(); }
};

/// Runs the programs of the seeds `seed`, `seed` + 1, ... in each mode. `progress(done)` is called now and
/// then, from one thread at a time.
campaign_result run_campaign(const campaign_options& options,
                             const std::function<void(std::uint64_t)>& progress);

/// The smallest program like `p` that still fails.
failure shrink_failure(const program& p);

}  // namespace braid::verify
