#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "braid/detail/block.hpp"
#include "braid/detail/pool.hpp"
#include "fit_index.hpp"

// Large blocks: segments from the source, cut into blocks that know their neighbours.
//
// A free block stands in one of four kinds of index. `fresh`: never used. `clean`: no history. `of_lane`: all
// its points are of one lane, folded to the newest. `mixed`: any other history. Free neighbours become one
// when both have no history or both are of one lane: then nobody waits for more than before, because a lane's
// ops run in order. Others stay apart until their ops are complete (settle, sweep), or until the alternative
// is new memory or none (squeeze).
//
// Invariant: after put() a block has no free neighbour that could become one with it.
//
// The object of a block that became part of its neighbour is used again when its own ops are complete: they
// may refer to it until then. `data` never changes, since the lower neighbour takes the upper one in.
//
// A heap is a plain state machine under the pool's lock.

namespace braid::detail {

/// Whether `yes` holds for every point that a next owner has to come after.
template <class Question>
bool all_points(const block& b, const Question& yes) {
  bool all = true;
  b.past.needs(access::write, 0, {0, ~std::uint64_t{0}}, true,
               [&](const point& p, hazard) { all = all && yes(p); });
  return all;
}

/// A row of blocks, through two of their members.
template <block* block::*Next, block* block::*Prev>
class row_of_blocks {
 public:
  [[nodiscard]] block* first() const noexcept { return first_; }
  void push_back(block* b) noexcept {
    b->*Next = nullptr;
    b->*Prev = std::exchange(last_, b);
    (b->*Prev != nullptr ? (b->*Prev)->*Next : first_) = b;
  }
  void erase(block* b) noexcept {
    (b->*Next != nullptr ? (b->*Next)->*Prev : last_) = b->*Prev;
    (b->*Prev != nullptr ? (b->*Prev)->*Next : first_) = b->*Next;
  }

 private:
  block* first_ = nullptr;
  block* last_ = nullptr;
};

/// `to` gets points of `from`: it holds on to their memory as long.
void share_arena(block& to, const block& from) noexcept;

/// Objects of blocks that have no memory now. Those whose ops may not be over wait in a row.
class spare_blocks {
 public:
  ~spare_blocks();
  void put(block* b) noexcept;
  /// Null if there is none and no memory to make one.
  [[nodiscard]] block* take(point_question is_complete) noexcept;

 private:
  block* ready_ = nullptr;
  block* first_ = nullptr;  // the row of those that may be in use
  block* last_ = nullptr;
};

class heap {
 public:
  struct segment {
    std::byte* data;
    std::uint64_t bytes;
    block* first;
  };

  heap(memory_source& source, std::uint64_t limit) : source_(source), limit_(limit) {}
  ~heap();
  heap(const heap&) = delete;
  heap& operator=(const heap&) = delete;

  /// Blocks of this lane stand in an index of their own from now on.
  void add_lane(lane_id lane);

  // What fits best of each kind; null for none. Nothing changes.
  [[nodiscard]] block* best_clean(std::uint64_t bytes) const noexcept { return clean_.best(bytes); }
  [[nodiscard]] block* best_fresh(std::uint64_t bytes) const noexcept { return fresh_.best(bytes); }
  [[nodiscard]] block* best_of(lane_id lane, std::uint64_t bytes) const noexcept {
    const fit_index* of = index_of_lane(lane);
    return of != nullptr ? of->best(bytes) : nullptr;
  }
  /// The smallest block with a history, whatever it is.
  [[nodiscard]] block* best_used(std::uint64_t bytes) const noexcept;
  /// A block with a history that suits, after a few looks. Looks at other lanes each time.
  template <class Suits>
  [[nodiscard]] block* find_used(std::uint64_t bytes, const Suits& suits) {
    constexpr unsigned looks = 8;
    if (block* b = mixed_.find(bytes, looks, suits)) return b;
    unsigned left = looks;
    for (std::size_t i = 0; i < lanes_in_use_.size() && left > 0; ++i) {
      if (turn_ >= lanes_in_use_.size()) turn_ = 0;
      const fit_index& of = *lanes_[lanes_in_use_[turn_++]];
      if (of.empty()) continue;
      block* b = of.best(bytes);
      if (b != nullptr && suits(*b)) return b;
      --left;
    }
    return nullptr;
  }

  /// Takes a block that is free out of its index, and cuts off what is left over `bytes` if that is more than
  /// `least_rest`.
  block* cut(block* b, std::uint64_t bytes, std::uint64_t least_rest, point_question is_complete) noexcept;
  /// A free block is complete: forgets its history. Returns the block that it is part of now.
  block* forget(block* b) noexcept;
  /// Puts a block back, and its neighbours with it. Returns the block that it is part of now.
  block* put(block* b) noexcept;

  /// A new segment with room for `bytes`, as one free block. Null where limit or source do not allow it.
  block* grow(std::uint64_t bytes);
  [[nodiscard]] bool may_grow(std::uint64_t bytes) const noexcept {
    return limit_ == 0 || (limit_ > reserved_ && limit_ - reserved_ >= bytes);
  }
  /// Looks at the blocks whose ops came first, and forgets their histories if they are complete.
  void settle(point_question is_complete) noexcept;
  /// Forgets the histories that are complete, and joins what then can be.
  void sweep(point_question is_complete) noexcept;
  /// Makes one block of free neighbours with different histories, if some that suit have room for `bytes`.
  template <class Suits>
  block* squeeze(std::uint64_t bytes, const Suits& suits) {
    block* found = nullptr;
    std::uint64_t smallest = ~std::uint64_t{0};
    for (const segment& s : segments_) {
      block* first = nullptr;
      std::uint64_t run = 0;
      for (block* b = s.first; b != nullptr; b = b->after) {
        if (b->stands == block::place::out || !suits(*b)) {
          first = nullptr;
          continue;
        }
        if (first == nullptr) {
          first = b;
          run = 0;
        }
        run += b->capacity;
        const bool ends = b->after == nullptr || b->after->stands == block::place::out || !suits(*b->after);
        if (ends && run >= bytes && run < smallest) {
          smallest = run;
          found = first;
        }
      }
    }
    return found != nullptr ? join_run(found, bytes) : nullptr;
  }
  /// Gives segments of one block without history back while more than `keep` stays. Returns how many bytes
  /// went.
  std::uint64_t release(std::uint64_t keep) noexcept;

  /// Of a free block.
  [[nodiscard]] static bool has_no_history(const block& b) noexcept {
    return b.stands == block::place::fresh || b.stands == block::place::clean;
  }
  [[nodiscard]] std::uint64_t reserved() const noexcept { return reserved_; }
  [[nodiscard]] std::uint64_t peak_reserved() const noexcept { return peak_reserved_; }
  [[nodiscard]] const std::vector<segment>& segments() const noexcept { return segments_; }
  /// Whether enough came back since the last sweep to pay for looking at all blocks.
  [[nodiscard]] bool is_sweep_due() const noexcept { return used_blocks_ > 0 && since_sweep_ * 4 >= blocks_; }

 private:
  [[nodiscard]] fit_index* index_of_lane(lane_id lane) const noexcept {
    return index_of(lane) < lanes_.size() ? lanes_[index_of(lane)].get() : nullptr;
  }
  [[nodiscard]] fit_index& index_for(const block& b) noexcept {
    switch (b.stands) {
      case block::place::fresh: return fresh_;
      case block::place::clean: return clean_;
      case block::place::mixed: return mixed_;
      default: return *lanes_[index_of(b.lane)];
    }
  }
  void insert(block* b) noexcept;
  void erase(block* b) noexcept;
  void classify(block& b) noexcept;
  [[nodiscard]] static bool are_alike(const block& a, const block& b) noexcept {
    if (has_no_history(a)) return has_no_history(b);
    return a.stands == block::place::of_lane && b.stands == block::place::of_lane && a.lane == b.lane;
  }
  void absorb(block* lower, block* upper) noexcept;
  block* join_run(block* first, std::uint64_t bytes);

  memory_source& source_;
  const std::uint64_t limit_;
  std::uint64_t reserved_ = 0;
  std::uint64_t peak_reserved_ = 0;
  std::uint64_t blocks_ = 0;
  std::uint64_t used_blocks_ = 0;  // free ones with a history
  std::uint64_t since_sweep_ = 0;
  std::vector<segment> segments_;
  fit_index fresh_;
  fit_index clean_;
  fit_index mixed_;
  std::vector<std::unique_ptr<fit_index>> lanes_;  // by lane, where the lane takes large blocks
  std::vector<std::uint32_t> lanes_in_use_;
  std::size_t turn_ = 0;
  row_of_blocks<&block::newer, &block::older> used_;  // free ones with a history, the newest last
  spare_blocks spares_;
};

}  // namespace braid::detail
