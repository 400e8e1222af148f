#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace braid {

namespace detail {

/// A sequence of ops that a runtime recorded.
class recorded_sequence {
 public:
  virtual ~recorded_sequence() = default;
  virtual void replay(std::uint64_t times) = 0;
  [[nodiscard]] virtual std::uint64_t ops() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t waits() const noexcept = 0;
};

}  // namespace detail

/// Ops that were submitted inside runtime::record(), to be run again and again. It keeps its buffers alive. A
/// handle: copies share the sequence; it may be destroyed while a replay runs.
class recording {
 public:
  /// An empty one: replay() does nothing.
  recording() noexcept = default;
  explicit recording(std::shared_ptr<detail::recorded_sequence> made) noexcept : made_(std::move(made)) {}

  /// Submits all ops, so many times, ordered among themselves and against everything else as if each were
  /// submitted here. Returns at once. Throws usage_error where a submit would: inside a body, or when the
  /// runtime is gone or shut down. Where ops run on this machine's cores the number of times costs nothing.
  void replay(std::uint64_t times = 1) const {
    if (made_ != nullptr) made_->replay(times);
  }
  [[nodiscard]] std::uint64_t ops() const noexcept { return made_ != nullptr ? made_->ops() : 0; }
  /// How many waits order the ops of one replay among themselves; 0 where they are found anew each time.
  [[nodiscard]] std::uint64_t waits() const noexcept { return made_ != nullptr ? made_->waits() : 0; }

 private:
  std::shared_ptr<detail::recorded_sequence> made_;
};

}  // namespace braid
