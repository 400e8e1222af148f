#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "braid/memory.hpp"

namespace braid::trace {

/// Records, the oldest of which make room for new ones. A record is words; the low half of the first one says
/// how many. Memory is taken from the system as it fills.
class ring {
 public:
  explicit ring(std::uint64_t bytes)
      : capacity_(std::bit_ceil(std::max<std::uint64_t>(bytes, 65'536)) / 8),
        words_(static_cast<std::uint64_t*>(memory_.allocate(capacity_ * 8))) {}
  ~ring() {
    if (words_ != nullptr) memory_.free(words_, capacity_ * 8);
  }
  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;

  static constexpr std::uint64_t size_mask = 0xffff'ffff;

  void write(std::span<const std::uint64_t> record) noexcept {
    if (words_ == nullptr || record.size() > capacity_ / 4) {
      ++dropped_;
      return;
    }
    while (head_ + record.size() - tail_ > capacity_) {
      tail_ += at(tail_) & size_mask;
      ++dropped_;
    }
    for (const std::uint64_t word : record) at(head_++) = word;
  }

  /// All that is there, the oldest first.
  [[nodiscard]] std::vector<std::uint64_t> read() const {
    std::vector<std::uint64_t> all;
    all.reserve(head_ - tail_);
    for (std::uint64_t i = tail_; i < head_; ++i) all.push_back(at(i));
    return all;
  }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  [[nodiscard]] std::uint64_t& at(std::uint64_t i) const noexcept { return words_[i & (capacity_ - 1)]; }

  system_source memory_;
  const std::uint64_t capacity_;  // in words
  std::uint64_t* const words_;    // null: the system had none
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace braid::trace
