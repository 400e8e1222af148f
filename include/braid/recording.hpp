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
  [[nodiscard]] virtual bool is_graph() const noexcept = 0;
};

}  // namespace detail

struct record_options {
  /// On CUDA: a replay is one CUDA graph. Bodies are called when they are recorded, and not again: what they
  /// launch is kept, with the arguments that it has then. The graph as a whole comes after what its ops wait
  /// for, and before what waits for them. Where a body does what cannot be captured, or names a stream that
  /// was adopted, and while data carries errors, the ops are given one by one and their bodies called, as
  /// they are with `false` and on other devices.
  bool graph = true;
};

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
    if (const auto kept = made_) kept->replay(times);  // also if a body drops this handle
  }
  [[nodiscard]] std::uint64_t ops() const noexcept { return made_ != nullptr ? made_->ops() : 0; }
  /// Whether a replay is one command of the device: see record_options.
  [[nodiscard]] bool is_graph() const noexcept { return made_ != nullptr && made_->is_graph(); }
  /// How many waits order the ops of one replay among themselves.
  [[nodiscard]] std::uint64_t waits() const noexcept { return made_ != nullptr ? made_->waits() : 0; }

 private:
  std::shared_ptr<detail::recorded_sequence> made_;
};

}  // namespace braid
