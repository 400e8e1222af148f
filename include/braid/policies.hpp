#pragma once

#include <cstdint>

// What a program may choose for an engine or a runtime, and what is in force where it does not choose.

namespace braid {

/// When marks are recorded on backends that have events.
enum class mark_policy : std::uint8_t {
  learned,  ///< early where other streams tend to use what the last op wrote, and before a foreign wait
  eager,    ///< after each op
  lazy,     ///< when somebody waits
};

const char* to_string(mark_policy policy) noexcept;

/// Which stream an op goes to when none is named.
enum class placement : std::uint8_t {
  automatic,   ///< behind the op that it has to follow where nothing else is queued there, else a free stream
  per_thread,  ///< the submitting thread's own
  single,      ///< one for all
};

const char* to_string(placement where) noexcept;

namespace detail {

/// The values of the settings of this process (see settings.hpp), for headers that do without the rest.
struct defaults {
  std::uint32_t max_streams;
  std::uint32_t special_streams;
  mark_policy marks;
  bool deterministic;
  placement placed;
  std::uint64_t memory_limit;
  std::uint64_t ops_in_flight;
  std::uint64_t bytes_in_flight;
};
const defaults& process_defaults();

}  // namespace detail

}  // namespace braid
