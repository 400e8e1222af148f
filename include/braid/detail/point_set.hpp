#pragma once

#include <cstdint>
#include <utility>

#include "braid/detail/stamp.hpp"

namespace braid::detail {

/// One op, as histories remember it: its slot's lane, its cursor there, and what it ran after, where points
/// are waited for (null elsewhere: there the marks tell).
struct point {
  std::uint64_t cursor = 0;
  stamp* by = nullptr;
  lane_id lane{};

  void retain() const noexcept {
    if (by != nullptr) by->retain();
  }
  void release() const noexcept {
    if (by != nullptr) by->release();
  }
};

/// Points of different lanes, in the order of their lanes; of each lane the newest, because a slot runs in
/// order. Room for one without memory of its own; what it once took it keeps.
class point_set {
 public:
  point_set() noexcept = default;
  point_set(const point_set& other) { assign(other); }
  point_set& operator=(const point_set& other) {
    if (this != &other) assign(other);
    return *this;
  }
  point_set(point_set&& other) noexcept { swap(other); }
  point_set& operator=(point_set&& other) noexcept {
    swap(other);
    return *this;
  }
  ~point_set() {
    clear();
    delete[] more_;
  }

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] const point* begin() const noexcept { return data(); }
  /// Of a set that is not empty.
  [[nodiscard]] const point& front() const noexcept { return *data(); }
  [[nodiscard]] const point* end() const noexcept { return data() + size_; }
  [[nodiscard, gnu::always_inline]] bool has_none_but_of(lane_id lane) const noexcept {
    return size_ == 0 || (size_ == 1 && front().lane == lane);
  }

  // By the holder of the lock of the lane's slot, with the slot's current stamp.
  /// Forgets everything else.
  [[gnu::always_inline]] void set(std::uint64_t cursor, stamp* by, lane_id lane) {
    if (size_ == 1) [[likely]] {
      replace(*data(), cursor, by, lane);
      return;
    }
    clear(by);
    put_first(cursor, by, lane);
  }

  /// Of a set that is not empty: the next op of its only lane takes the place of the last one.
  [[gnu::always_inline]] void move_on(std::uint64_t cursor, stamp* by, lane_id lane) noexcept {
    replace(*data(), cursor, by, lane);
  }

  /// Forgets everything.
  [[gnu::always_inline]] void clear(stamp* by) noexcept {
    if (size_ != 0) release_all(by);
  }

  /// Adds the point, or moves its lane's point on.
  void put(std::uint64_t cursor, stamp* by, lane_id lane) {
    if (size_ == 1 && data()->lane == lane) [[likely]] {
      replace(*data(), cursor, by, lane);
      return;
    }
    if (by != nullptr) by->retain_under_lock();
    put_among_many({cursor, by, lane});
  }

  /// As put(), if that takes no memory; else does nothing and says so.
  [[gnu::always_inline]] bool try_put(std::uint64_t cursor, stamp* by, lane_id lane) noexcept {
    if (size_ == 0) {
      put_first(cursor, by, lane);
      return true;
    }
    point* const first = data();
    if (size_ == 1 && first->lane == lane) {
      replace(*first, cursor, by, lane);
      return true;
    }
    if (size_ == capacity_ || first[size_ - 1].lane >= lane) return false;
    if (by != nullptr) by->retain_under_lock();
    first[size_++] = {cursor, by, lane};  // streams often come in the order of their lanes
    return true;
  }

  /// A point that is known from elsewhere, by anybody.
  void put(const point& p) {
    p.retain();
    put_among_many(p);
  }

  [[nodiscard]] point* find(lane_id lane) noexcept;
  void erase(point* p) noexcept;

  /// By anybody.
  void clear() noexcept {
    if (size_ != 0) release_all(nullptr);
  }

  void swap(point_set& other) noexcept {
    std::swap(one_, other.one_);
    std::swap(more_, other.more_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  // Of a set that is not empty. Either all points have stamps, or foreign ones alone, and those come last.
  void release_all(const stamp* current) noexcept {
    if (data()[size_ - 1].by != nullptr) release_stamps(current);
    size_ = 0;
  }
  void release_stamps(const stamp* current) noexcept {
    for (point *p = data(), *last = p + size_; p != last; ++p) {
      if (p->by == nullptr) continue;
      p->by == current ? p->by->release_under_lock() : p->by->release();
    }
  }
  [[nodiscard]] point* data() noexcept { return more_ != nullptr ? more_ : &one_; }
  [[nodiscard]] const point* data() const noexcept { return more_ != nullptr ? more_ : &one_; }

  [[gnu::always_inline]] static void replace(point& p, std::uint64_t cursor, stamp* by,
                                             lane_id lane) noexcept {
    p.cursor = cursor;
    if (p.by != by) {
      if (by != nullptr) by->retain_under_lock();
      p.release();
      p.by = by;
    }
    p.lane = lane;
  }

  // Into an empty set, which always has room.
  [[gnu::always_inline]] void put_first(std::uint64_t cursor, stamp* by, lane_id lane) noexcept {
    if (by != nullptr) by->retain_under_lock();
    *data() = {cursor, by, lane};
    size_ = 1;
  }
  void assign(const point_set& other);
  // Its stamp is held for the set already.
  void insert(std::uint32_t place, const point& p);
  void put_among_many(const point& p);
  [[nodiscard]] std::uint32_t lower_bound(lane_id lane) const noexcept;
  void reserve(std::uint32_t capacity);

  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = 1;
  point one_;
  point* more_ = nullptr;
};

}  // namespace braid::detail
