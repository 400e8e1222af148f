#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "braid/detail/block.hpp"
#include "size_class.hpp"

namespace braid::detail {

/// Free blocks by size: sixteen lists to each power of two, with bits for those that are not empty. Finds the
/// smallest block that fits (among very many of nearly one size, a nearly smallest). Takes no memory.
class fit_index {
 public:
  void put(block* b) noexcept {
    const bin at = bin_of(b->capacity);
    block*& head = heads_[at.octave][at.part];
    b->prev = nullptr;
    b->next = head;
    if (head != nullptr) head->prev = b;
    head = b;
    octaves_ |= std::uint64_t{1} << at.octave;
    parts_[at.octave] = static_cast<std::uint16_t>(parts_[at.octave] | 1U << at.part);
  }

  void erase(block* b) noexcept {
    if (b->next != nullptr) b->next->prev = b->prev;
    if (b->prev != nullptr) {
      b->prev->next = b->next;
      return;
    }
    const bin at = bin_of(b->capacity);
    heads_[at.octave][at.part] = b->next;
    if (b->next != nullptr) return;
    parts_[at.octave] = static_cast<std::uint16_t>(parts_[at.octave] & ~(1U << at.part));
    if (parts_[at.octave] == 0) octaves_ &= ~(std::uint64_t{1} << at.octave);
  }

  [[nodiscard]] bool empty() const noexcept { return octaves_ == 0; }

  /// The best that fits, or null.
  [[nodiscard]] block* best(std::uint64_t bytes) const noexcept {
    bin at = bin_of(bytes);
    for (bool more = seek(at); more; more = next(at)) {
      block* found = nullptr;
      unsigned looks = 64;
      for (block* b = heads_[at.octave][at.part]; b != nullptr && looks-- > 0; b = b->next) {
        if (b->capacity == bytes) return b;
        if (b->capacity > bytes && (found == nullptr || b->capacity < found->capacity)) found = b;
      }
      if (found != nullptr) return found;  // only the first list can hold blocks that are too small
    }
    return nullptr;
  }

  /// The first that fits and suits, from the smallest sizes on, of at most `looks` that are asked about.
  template <class Suits>
  [[nodiscard]] block* find(std::uint64_t bytes, unsigned looks, const Suits& suits) const {
    bin at = bin_of(bytes);
    for (bool more = seek(at); more; more = next(at)) {
      for (block* b = heads_[at.octave][at.part]; b != nullptr; b = b->next) {
        if (b->capacity < bytes) continue;
        if (suits(*b)) return b;
        if (--looks == 0) return nullptr;
      }
    }
    return nullptr;
  }

 private:
  struct bin {
    unsigned octave, part;
  };
  static constexpr unsigned octaves = 36;  // to 2^48 bytes

  static bin bin_of(std::uint64_t bytes) noexcept {
    const std::uint64_t units = bytes / granule;
    const auto octave = static_cast<unsigned>(std::bit_width(units)) - 1;
    return {octave, static_cast<unsigned>((units << 4 >> octave) & 15)};
  }
  /// Moves to the first list from `at` on that is not empty.
  bool seek(bin& at) const noexcept {
    if (const unsigned rest = parts_[at.octave] & ~0U << at.part; rest != 0) {
      at.part = static_cast<unsigned>(std::countr_zero(rest));
      return true;
    }
    const std::uint64_t above = octaves_ & ~std::uint64_t{1} << at.octave;
    if (above == 0) return false;
    at.octave = static_cast<unsigned>(std::countr_zero(above));
    at.part = static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(parts_[at.octave])));
    return true;
  }
  bool next(bin& at) const noexcept {
    if (++at.part == 16) {
      at.part = 0;
      if (++at.octave == octaves) return false;
    }
    return seek(at);
  }

  std::uint64_t octaves_ = 0;
  std::array<std::uint16_t, octaves> parts_{};
  std::array<std::array<block*, 16>, octaves> heads_{};
};

}  // namespace braid::detail
