#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

// Memory of a runtime: where it comes from, which block a new owner gets, and what is in use.
//
// A freed block can be used again at once: it carries its history, and the next owner's first op comes after
// every access of the owners before. Freeing therefore never waits and never asks a device.

namespace braid {

/// Where a block for a new owner may come from.
enum class reuse_step : std::uint8_t {
  ordered,   ///< a block whose accesses all come before the asking stream's next op anyway
  complete,  ///< a block whose accesses are over
  fresh,     ///< memory that nobody used yet, from the source if need be
  waited,    ///< a block that is still in use elsewhere: the new owner's first op waits for that
};

constexpr unsigned reuse_step_count = 4;

/// "ordered", "complete", "fresh", "waited".
const char* to_string(reuse_step step) noexcept;

/// The steps in the order in which they are tried; each occurs once.
using reuse_order = std::array<reuse_step, reuse_step_count>;
constexpr reuse_order default_reuse_order{reuse_step::ordered, reuse_step::complete, reuse_step::fresh,
                                          reuse_step::waited};

/// What a pool holds, in bytes unless said otherwise.
struct memory_usage {
  struct of_stream {
    std::string name;
    std::uint64_t live = 0;     ///< asked for on this stream and not given back
    std::uint64_t cached = 0;   ///< free, kept for this stream
    std::uint64_t pending = 0;  ///< free, with accesses of this stream that are not over
  };

  std::uint64_t live = 0;      ///< asked for and not given back
  std::uint64_t padding = 0;   ///< by which live blocks are larger than what was asked for
  std::uint64_t reserved = 0;  ///< taken from the source
  std::uint64_t free = 0;      ///< reserved, neither live nor padding
  std::uint64_t pending = 0;   ///< of `free`: with accesses that are not over
  /// The most that was live at once. Exact for one stream; with several, what they gave to and took from
  /// their own caches in between is seen late.
  std::uint64_t peak_live = 0;
  std::uint64_t peak_reserved = 0;
  std::uint64_t limit = 0;                              ///< on `reserved`; 0: none
  std::uint64_t live_blocks = 0;                        ///< how many
  std::array<std::uint64_t, reuse_step_count> taken{};  ///< how many blocks were taken at each step
  std::vector<of_stream> streams;                       ///< those with anything to tell

  /// Of two pools together; peaks are added, as if they had been at the same time.
  memory_usage& operator+=(const memory_usage& other);
  [[nodiscard]] std::uint64_t taken_by(reuse_step step) const noexcept {
    return taken[static_cast<unsigned>(step)];
  }
};

/// One line, for people.
std::string to_string(const memory_usage& usage);

/// The source has no more, or the limit is reached, and no block that is free fits, not even one to wait for.
class out_of_memory : public std::runtime_error {
 public:
  /// `why`: what the source said, if anything.
  out_of_memory(std::uint64_t asked, const char* source, memory_usage usage, const std::string& why = {});
  [[nodiscard]] std::uint64_t asked() const noexcept { return asked_; }
  [[nodiscard]] const memory_usage& usage() const noexcept { return usage_; }

 private:
  std::uint64_t asked_;
  memory_usage usage_;
};

/// Where pools take memory from, in large segments. Called by one thread at a time for each pool.
class memory_source {
 public:
  memory_source() = default;
  virtual ~memory_source() = default;
  memory_source(const memory_source&) = delete;
  memory_source& operator=(const memory_source&) = delete;

  /// `bytes`, a multiple of 4096, aligned to at least 256; null where there is no more.
  [[nodiscard]] virtual void* allocate(std::uint64_t bytes) noexcept = 0;
  virtual void free(void* data, std::uint64_t bytes) noexcept = 0;
  [[nodiscard]] virtual const char* name() const noexcept = 0;
  /// What every block has to be aligned to: a power of two up to 4096. Where it is more than 64, small blocks
  /// are rounded up to it.
  [[nodiscard]] virtual std::uint64_t alignment() const noexcept { return 64; }
  /// Why allocate() returned null; empty where there is nothing to say.
  [[nodiscard]] virtual std::string last_error() const { return {}; }
};

/// Pages of the operating system.
class system_source final : public memory_source {
 public:
  explicit system_source(bool huge_pages = false) noexcept : huge_pages_(huge_pages) {}
  [[nodiscard]] void* allocate(std::uint64_t bytes) noexcept override;
  void free(void* data, std::uint64_t bytes) noexcept override;
  [[nodiscard]] const char* name() const noexcept override { return "system"; }

 private:
  bool huge_pages_;
};

}  // namespace braid
