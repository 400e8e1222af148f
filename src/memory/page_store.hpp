#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "braid/detail/block.hpp"
#include "heap.hpp"
#include "size_class.hpp"

namespace braid::detail {

using block_list = row_of_blocks<&block::next, &block::prev>;

/// A large block that small ones of one size are carved from, one after the other.
struct page {
  page(block* from, unsigned of_class);
  ~page();
  page(const page&) = delete;
  page& operator=(const page&) = delete;

  block* const memory;
  block* const blocks;  // room for `count` objects, of which `carved` are there
  const std::uint32_t count;
  const std::uint8_t size_class;
  std::uint32_t carved = 0;
  std::uint32_t clean = 0;  // stand in the list of clean blocks
};

/// The free small blocks that no lane keeps to itself. Their objects live as long as their page, since ops in
/// flight may refer to them. A plain state machine under the pool's lock.
class page_store {
 public:
  /// Puts a block that is out into its list.
  void put(block* b) noexcept;
  /// Takes a block out of its list.
  block* take(block* b) noexcept;

  [[nodiscard]] block* first_clean(unsigned size_class) const noexcept { return clean_[size_class].first(); }
  /// The one that has been free for longest.
  [[nodiscard]] block* first_used(unsigned size_class) const noexcept { return used_[size_class].first(); }
  /// The first that suits of a few; those that do not are asked again last.
  template <class Suits>
  [[nodiscard]] block* find_used(unsigned size_class, const Suits& suits) noexcept {
    block_list& list = used_[size_class];
    block* const stop = list.first();
    for (unsigned looks = 8; looks > 0 && list.first() != nullptr; --looks) {
      block* b = list.first();
      if (suits(*b)) return b;
      list.erase(b);
      list.push_back(b);
      if (list.first() == stop) break;
    }
    return nullptr;
  }

  /// A block that was never used, out of every list; null if no page has one left.
  [[nodiscard]] block* carve(unsigned size_class) noexcept;
  /// `memory`, a large block of page_bytes() that is out, becomes a page, or returns to `from` if that
  /// throws. If it has a history, each of its blocks has it.
  void add(block* memory, unsigned size_class, heap& from);
  [[nodiscard]] static std::uint64_t page_bytes(unsigned size_class) noexcept {
    return round_up(class_size(size_class) * blocks_of_page(size_class), granule);
  }

  /// Forgets the histories that are complete.
  void sweep(point_question is_complete) noexcept;
  /// Gives the memory of pages that are all clean back.
  void release(heap& to) noexcept;

  template <class Visit>
  void used(const Visit& visit) const {
    for (const block_list& list : used_) {
      for (const block* b = list.first(); b != nullptr; b = b->next) visit(*b);
    }
  }

 private:
  [[nodiscard]] block_list& list_of(const block& b) noexcept {
    return (b.stands == block::place::clean ? clean_ : used_)[b.size_class];
  }

  std::array<block_list, class_count> clean_;
  std::array<block_list, class_count> used_;
  std::array<page*, class_count> open_{};  // has blocks left to carve
  std::vector<std::unique_ptr<page>> pages_;
};

}  // namespace braid::detail
