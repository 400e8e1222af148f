#include "braid/detail/point_set.hpp"

#include <algorithm>

namespace braid::detail {

std::uint32_t point_set::lower_bound(lane_id lane) const noexcept {
  constexpr std::uint32_t few = 8;
  const point* at = begin();
  if (size_ <= few) {
    for (const point* const last = end(); at != last && at->lane < lane; ++at) {
    }
  } else {
    at = std::lower_bound(at, end(), lane, [](const point& p, lane_id wanted) { return p.lane < wanted; });
  }
  return static_cast<std::uint32_t>(at - begin());
}

void point_set::reserve(std::uint32_t capacity) {
  if (capacity <= capacity_) return;
  auto* more = new point[capacity];
  std::copy(begin(), end(), more);
  delete[] more_;
  more_ = more;
  capacity_ = capacity;
}

void point_set::insert(std::uint32_t place, const point& p) {
  if (size_ == capacity_) {
    try {
      reserve(std::max(4U, capacity_ * 2));
    } catch (...) {
      p.release();
      throw;
    }
  }
  point* at = data() + place;
  if (place != size_) std::move_backward(at, data() + size_, data() + size_ + 1);
  *at = p;
  ++size_;
}

void point_set::put_among_many(const point& p) {
  const std::uint32_t place = lower_bound(p.lane);
  point* at = data() + place;
  if (place == size_ || at->lane != p.lane) {
    insert(place, p);
  } else if (p.cursor >= at->cursor) {
    at->release();
    *at = p;
  } else {
    p.release();
  }
}

point* point_set::find(lane_id lane) noexcept {
  const std::uint32_t place = lower_bound(lane);
  return place < size_ && data()[place].lane == lane ? data() + place : nullptr;
}

void point_set::erase(point* p) noexcept {
  p->release();
  std::move(p + 1, data() + size_, p);
  --size_;
}

void point_set::assign(const point_set& other) {
  reserve(other.size_);
  for (const point& p : other) p.retain();
  clear();
  std::copy(other.begin(), other.end(), data());
  size_ = other.size_;
}

}  // namespace braid::detail
