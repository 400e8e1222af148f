#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "braid/detail/labels.hpp"

namespace braid::detail {

/// The last ops that a stream of a device was given, for whoever has to say which were in flight when it was
/// lost. Written by the holder of the stream's slot, and read by anybody.
class given_ops {
 public:
  /// `label`: null if it dies with the op.
  void note(std::uint64_t cursor, const op_label* label) noexcept {
    // relaxed: for an error's text
    given& entry = last_[cursor % remembered];
    entry.label.store(label, std::memory_order_relaxed);
    entry.cursor.store(cursor, std::memory_order_relaxed);
  }
  /// The op's body has returned.
  void note_handed(std::uint64_t cursor) noexcept {
    handed_.store(cursor, std::memory_order_release);  // pairs with handed()
  }
  /// All up to this one were handed over.
  [[nodiscard]] std::uint64_t handed() const noexcept { return handed_.load(std::memory_order_acquire); }
  /// All up to this one are over.
  void note_complete(std::uint64_t cursor) noexcept {
    std::uint64_t seen = completed_.load(std::memory_order_relaxed);
    while (seen < cursor && !completed_.compare_exchange_weak(seen, cursor, std::memory_order_relaxed)) {
    }
  }
  /// Adds the names of those that may be in flight, in the order of their submission.
  void add_names(std::string& to) const;

 private:
  static constexpr std::uint64_t remembered = 32;
  struct given {
    std::atomic<std::uint64_t> cursor{0};
    std::atomic<const op_label*> label{nullptr};
  };
  std::atomic<std::uint64_t> handed_{0};  // beside what each op looks at
  std::atomic<std::uint64_t> completed_{0};
  std::array<given, remembered> last_{};
};

}  // namespace braid::detail
