#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "braid/detail/stamp.hpp"

namespace braid::detail {

/// Makes the stamps of one slot and takes them back. Made from by one thread at a time (the holder of
/// the slot's list lock); stamps come back from any thread.
class stamp_pool {
 public:
  stamp_pool(lane_id lane, bool shared) noexcept;
  ~stamp_pool();
  stamp_pool(const stamp_pool&) = delete;
  stamp_pool& operator=(const stamp_pool&) = delete;

  /// An immutable copy of `from`, held once.
  stamp* make(const clock& from);
  /// Likewise, the slot's current one until it leaves it: held by the slot. What it knows was known to the
  /// slot's op `since`, but for `source` and what that knew, if `source` is given.
  stamp* make_current(const clock& from, clock_entry source = {}, std::uint64_t since = 0) {
    stamp* made = make(from);
    made->source_ = source;
    made->since_ = since;
    made->refs_.store(stamp::current, std::memory_order_relaxed);  // not yet seen by anybody else
    made->by_slot_ = 1;
    made->by_list_ = 0;
    return made;
  }
  /// A stamp without knowledge, for a lane of its own, held once.
  stamp* make_named(lane_id lane) {
    stamp* made = make(clock{});
    made->lane_ = lane;
    return made;
  }
  /// A stamp without knowledge that lives as long as the arena and is never counted: it names the lane.
  [[nodiscard]] stamp* name() noexcept { return &name_; }

 private:
  friend class stamp;
  static constexpr unsigned classes = 4;
  static constexpr std::uint8_t capacity[classes] = {2, 8, 24, clock::places + clock::foreign_places};

  stamp name_;
  stamp* free_[classes] = {};
  std::atomic<stamp*> returned_[classes] = {};  // pushed by any thread, taken whole by the maker
  std::vector<stamp*> all_;
  bool shared_;
};

inline void stamp::recycle_by_maker() noexcept {
  next_ = std::exchange(home_->free_[size_class_], this);
}

inline void stamp::release_by_maker() noexcept {
  if (by_marks_ != 0) {
    --by_marks_;
    return settle();
  }
  if (counting_ == counting::never || !is_held_once()) return release();
  recycle_by_maker();
}

inline void stamp::leave_to_marks() noexcept {
  // relaxed: the slot holds it still
  if (const std::uint64_t others = by_slot_ + by_list_ - 1; others != 0) [[unlikely]]
    refs_.fetch_add(others, std::memory_order_relaxed);
  has_left_ = true;
  settle();
}

// Neither the slot nor a mark holds it any more: who else holds it counts by itself from now on.
inline void stamp::settle() noexcept {
  if (!has_left_ || by_marks_ != 0) return;
  has_left_ = false;
  if (refs_.load(std::memory_order_acquire) == current) {  // pairs with release()
    recycle_by_maker();
  } else {
    release(current);
  }
}

/// The memory that points refer to. Shared by the engine and by every resource it has seen.
class stamp_arena {
 public:
  stamp_pool& add_pool(lane_id lane, bool shared);

  void retain() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    // acq_rel: the deleter sees what every other holder did
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  /// The engine is gone: its resources are inert.
  void close() noexcept { open_.store(false, std::memory_order_release); }
  [[nodiscard]] bool is_open() const noexcept { return open_.load(std::memory_order_acquire); }

 private:
  ~stamp_arena() = default;
  std::atomic<std::uint32_t> refs_{1};
  std::atomic<bool> open_{true};
  std::mutex mutex_;
  std::vector<std::unique_ptr<stamp_pool>> pools_;
};

/// A share in a stamp.
class stamp_handle {
 public:
  /// Takes over the reference.
  explicit stamp_handle(stamp* held) noexcept : stamp_(held) {}
  stamp_handle(stamp_handle&& other) noexcept : stamp_(std::exchange(other.stamp_, nullptr)) {}
  stamp_handle& operator=(stamp_handle&& other) noexcept {
    std::swap(stamp_, other.stamp_);
    return *this;
  }
  ~stamp_handle() {
    if (stamp_ != nullptr) stamp_->release();
  }
  const stamp* operator->() const noexcept { return stamp_; }
  [[nodiscard]] const stamp& get() const noexcept { return *stamp_; }
  /// One more, for the caller to release.
  [[nodiscard]] stamp* share() const noexcept {
    stamp_->retain();
    return stamp_;
  }

 private:
  stamp* stamp_;
};

/// A share in an arena.
class arena_handle {
 public:
  arena_handle() : arena_(new stamp_arena) {}
  ~arena_handle() { arena_->release(); }
  arena_handle(const arena_handle&) = delete;
  arena_handle& operator=(const arena_handle&) = delete;
  [[nodiscard]] stamp_arena* get() const noexcept { return arena_; }
  stamp_arena* operator->() const noexcept { return arena_; }

 private:
  stamp_arena* arena_;
};

}  // namespace braid::detail
