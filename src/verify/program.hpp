#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "braid/access.hpp"
#include "braid/settings.hpp"
#include "braid/sim.hpp"

namespace braid::verify {

/// What an op of a program does to a resource.
struct use {
  std::uint32_t resource = 0;
  byte_range range;
  access kind = access::read;
  std::uint32_t tag = 0;
};

struct step {
  enum class kind : std::uint8_t {
    op,
    retire,   // an object after all work now on the stream
    hand_on,  // the resource gets a next owner
    wait,     // the host waits for the stream
  };
  kind what = kind::op;
  std::uint32_t thread = 0;
  std::uint64_t stream = 0;
  std::uint32_t resource = 0;
  std::vector<use> uses{};
};

/// A random program: what is submitted, by whom, to an engine with which settings.
struct program {
  bool points = false;  ///< the backend addresses points instead of events
  bool asked = true;    ///< events are asked whether they are complete before they are waited for
  bool deterministic = true;
  mark_policy marks = mark_policy::learned;
  std::uint32_t max_streams = 8;
  std::uint32_t threads = 1;
  std::uint64_t seed = 1;  ///< of the device
  sim::fault inject = sim::fault::none;
  std::vector<std::uint64_t> sizes;  ///< of the resources, in bytes
  std::vector<step> steps;

  [[nodiscard]] std::size_t ops() const noexcept;
};

struct shape {
  std::uint32_t ops = 300;
  std::uint32_t streams = 8;
  std::uint32_t threads = 1;
};

/// The program that a seed stands for.
program generate(const shape& of, std::uint64_t seed);

/// As a small text that parse() reads back.
std::string to_text(const program& p);
/// Throws usage_error(bad_settings) with the line and what was expected.
program parse(std::istream& in, const std::string& name);

}  // namespace braid::verify
