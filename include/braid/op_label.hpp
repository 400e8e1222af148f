#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace braid {

/// The name of a kind of operation, made once and used for each of its submissions. The engine learns from
/// it whether other streams tend to use what such operations write, also when each writes new memory.
/// Lives at least as long as the engines that saw it; any thread may use it.
class op_label {
 public:
  explicit op_label(std::string name) : name_(std::move(name)) {}
  op_label(const op_label&) = delete;
  op_label& operator=(const op_label&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Whether the last outputs were used from another stream.
  [[nodiscard]] bool is_likely_shared() const noexcept { return score_.load(std::memory_order_relaxed) > 0; }
  /// Enters what became of one output. A guess, not a count: concurrent calls may lose one.
  void learn(bool shared) noexcept {
    const std::uint8_t score = score_.load(std::memory_order_relaxed);  // a hint: orders nothing
    if (shared) {
      if (score < 4) score_.store(4, std::memory_order_relaxed);
    } else if (score > 0) {
      score_.store(static_cast<std::uint8_t>(score - 1), std::memory_order_relaxed);
    }
  }

 private:
  std::string name_;
  std::atomic<std::uint8_t> score_{0};
};

}  // namespace braid
