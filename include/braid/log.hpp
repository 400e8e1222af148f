#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "braid/detail/callback.hpp"

// Logs by area, each with a level of its own. A disabled area costs the caller one predictable branch: no
// text is made unless is_enabled() said yes.

namespace braid {

namespace detail {
void end_all_routines() noexcept;  // see detail/routine.hpp: what they wait for is not told
}

enum class log_area : std::uint8_t { streaming, memory, errors };
constexpr unsigned log_area_count = 3;

enum class log_level : std::uint8_t {
  disabled,
  basic,  ///< what happened: who waits on whom
  full,   ///< and why
};

const char* to_string(log_area area) noexcept;
const char* to_string(log_level level) noexcept;

class logger {
 public:
  using sink = detail::callback<void(log_area, log_level, std::string_view)>;

  /// Everything disabled.
  logger();
  /// Writes to `to`: "stdout", "stderr" or the path of a file that is appended to. Throws
  /// usage_error(bad_settings) if the file cannot be opened.
  explicit logger(const std::string& to);
  /// Calls `to` for each line, from any thread, one at a time. It may not call back into braid.
  explicit logger(sink to);
  ~logger();
  logger(const logger&) = delete;
  logger& operator=(const logger&) = delete;

  /// The logger that the settings of this process describe (see settings.hpp).
  static const std::shared_ptr<logger>& process();

  void set_level(log_area area, log_level level) noexcept {
    levels_[static_cast<unsigned>(area)].store(level, std::memory_order_relaxed);
    if (area == log_area::streaming && level != log_level::disabled) detail::end_all_routines();
  }
  [[nodiscard]] log_level level(log_area area) const noexcept {
    return levels_[static_cast<unsigned>(area)].load(std::memory_order_relaxed);  // orders nothing
  }
  [[nodiscard]] bool is_enabled(log_area area, log_level wanted = log_level::basic) const noexcept {
    return level(area) >= wanted;
  }

  /// Writes one line if the area is enabled at that level. Never throws: a log that fails stays silent.
  void write(log_area area, log_level level, std::string_view text) noexcept;

 private:
  struct impl;
  std::array<std::atomic<log_level>, log_area_count> levels_{};
  std::unique_ptr<impl> impl_;
};

}  // namespace braid
