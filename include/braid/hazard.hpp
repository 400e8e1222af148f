#pragma once

#include <cstdint>

namespace braid {

/// Why a stream waits.
enum class hazard : std::uint8_t {
  read_after_write,
  write_after_read,
  write_after_write,
  reuse,     ///< the memory had another owner before
  capacity,  ///< a limit on the work in flight
  user,      ///< the program asked for it
};

constexpr unsigned hazard_count = 6;

/// "RAW", "WAR", "WAW", "reuse", "capacity", "user".
const char* to_string(hazard why) noexcept;

}  // namespace braid
