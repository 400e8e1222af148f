#include "heap.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "braid/detail/stamp_pool.hpp"

namespace braid::detail {

namespace {
/// What a new segment adds: an eighth while there is little, then less, so that it hardly counts as waste.
std::uint64_t usual_segment(std::uint64_t reserved) noexcept {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  const std::uint64_t size = std::max(std::min(reserved / 8, 32 * mib), reserved / 64);
  return round_up(std::clamp(size, mib, 1024 * mib), granule);
}
}  // namespace

// ---- Objects

void share_arena(block& to, const block& from) noexcept {
  stamp_arena* arena = from.owner.load(std::memory_order_acquire);
  if (arena == nullptr || to.owner.load(std::memory_order_relaxed) != nullptr) return;
  arena->retain();
  to.owner.store(arena, std::memory_order_release);  // pairs with the acquire of whoever looks at the owner
}

spare_blocks::~spare_blocks() {
  for (block* list : {ready_, first_}) {
    while (list != nullptr) delete std::exchange(list, list->next);
  }
}

void spare_blocks::put(block* b) noexcept {
  if (b->past.empty()) {
    b->next = std::exchange(ready_, b);
    return;
  }
  b->next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = b;
  last_ = b;
}

block* spare_blocks::take(point_question is_complete) noexcept {
  for (int looks = 2; looks > 0 && first_ != nullptr; --looks) {
    block* b = std::exchange(first_, first_->next);
    if (all_points(*b, is_complete)) b->past.clear();
    put(b);
  }
  if (ready_ != nullptr) return std::exchange(ready_, ready_->next);
  return new (std::nothrow) block(nullptr, 0);
}

// ---- The heap

heap::~heap() {
  for (const segment& s : segments_) {
    for (block* b = s.first; b != nullptr;) delete std::exchange(b, b->after);
    source_.free(s.data, s.bytes);
  }
}

void heap::add_lane(lane_id lane) {
  const std::uint32_t at = index_of(lane);
  if (at >= lanes_.size()) lanes_.resize(at + 1);
  if (lanes_[at]) return;
  lanes_in_use_.reserve(lanes_in_use_.size() + 1);
  lanes_[at] = std::make_unique<fit_index>();
  lanes_in_use_.push_back(at);
}

void heap::insert(block* b) noexcept {
  if (!has_no_history(*b)) {
    ++used_blocks_;
    used_.push_back(b);
  }
  index_for(*b).put(b);
}

void heap::erase(block* b) noexcept {
  if (!has_no_history(*b)) {
    --used_blocks_;
    used_.erase(b);
  }
  index_for(*b).erase(b);
}

void heap::classify(block& b) noexcept {
  if (b.past.empty()) {
    b.stands = b.used ? block::place::clean : block::place::fresh;
    return;
  }
  bool has_one = false;
  bool is_mixed = false;
  (void)all_points(b, [&](const point& p) {
    is_mixed = is_mixed || (has_one && p.lane != b.lane);
    b.lane = p.lane;
    return has_one = true;
  });
  if (is_mixed || index_of_lane(b.lane) == nullptr) {
    b.stands = block::place::mixed;
    return;
  }
  b.stands = block::place::of_lane;
  b.past.fold();  // to one point, which takes no memory
}

void heap::absorb(block* lower, block* upper) noexcept {
  lower->capacity += upper->capacity;
  lower->used = lower->used || upper->used;
  if (lower->used && lower->stands == block::place::fresh) lower->stands = block::place::clean;
  lower->after = upper->after;
  if (upper->after != nullptr) upper->after->before = lower;
  upper->stands = block::place::out;
  upper->before = upper->after = nullptr;
  --blocks_;
  spares_.put(upper);
}

block* heap::put(block* b) noexcept {
  classify(*b);
  if (!has_no_history(*b)) ++since_sweep_;
  if (block* upper = b->after; upper != nullptr && are_alike(*b, *upper)) {
    erase(upper);
    if (b->stands == block::place::of_lane) b->past.join(upper->past);
    absorb(b, upper);
  }
  if (block* lower = b->before; lower != nullptr && are_alike(*lower, *b)) {
    erase(lower);
    if (b->stands == block::place::of_lane) lower->past.join(b->past);
    absorb(lower, b);
    b = lower;
  }
  insert(b);
  return b;
}

block* heap::cut(block* b, std::uint64_t bytes, std::uint64_t least_rest,
                 point_question is_complete) noexcept {
  erase(b);
  const std::uint64_t left = b->capacity - bytes;
  block* rest = left >= granule && left > least_rest ? spares_.take(is_complete) : nullptr;
  if (rest != nullptr) {
    try {
      if (!b->past.empty()) {
        rest->past = b->past.copy();
        share_arena(*rest, *b);
      }
      rest->data = b->data + bytes;
      rest->capacity = left;
      rest->used = b->used;
      rest->is = block::kind::large;
      rest->stands = b->stands;
      rest->lane = b->lane;
      rest->before = b;
      rest->after = b->after;
      if (b->after != nullptr) b->after->before = rest;
      b->after = rest;
      b->capacity = bytes;
      ++blocks_;
      insert(rest);
    } catch (const std::bad_alloc&) {
      spares_.put(rest);  // the block stays whole
    }
  }
  b->stands = block::place::out;
  return b;
}

block* heap::forget(block* b) noexcept {
  erase(b);
  b->past.clear();
  return put(b);
}

block* heap::best_used(std::uint64_t bytes) const noexcept {
  block* found = mixed_.best(bytes);
  for (const std::uint32_t lane : lanes_in_use_) {
    block* b = lanes_[lane]->best(bytes);
    if (b != nullptr && (found == nullptr || b->capacity < found->capacity)) found = b;
  }
  return found;
}

block* heap::grow(std::uint64_t bytes) {
  if (!may_grow(bytes)) return nullptr;
  const std::uint64_t room = limit_ == 0 ? ~std::uint64_t{0} : (limit_ - reserved_) / granule * granule;
  std::uint64_t size = std::min(std::max(bytes, usual_segment(reserved_)), room);
  segments_.reserve(segments_.size() + 1);
  auto whole = std::make_unique<block>(nullptr, 0);
  void* data = source_.allocate(size);
  if (data == nullptr && size > bytes) data = source_.allocate(size = bytes);
  if (data == nullptr) return nullptr;
  whole->data = static_cast<std::byte*>(data);
  whole->capacity = size;
  segments_.push_back({whole->data, size, whole.get()});
  ++blocks_;
  reserved_ += size;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return put(whole.release());
}

void heap::settle(point_question is_complete) noexcept {
  int misses = 0;
  for (int looks = 4; looks > 0 && misses < 2 && used_.first() != nullptr; --looks) {
    block* b = used_.first();
    if (all_points(*b, is_complete)) {
      (void)forget(b);
    } else {
      ++misses;
      used_.erase(b);
      used_.push_back(b);  // the others' turn
    }
  }
}

void heap::sweep(point_question is_complete) noexcept {
  for (const segment& s : segments_) {
    for (block* b = s.first; b != nullptr; b = b->after) {
      if (b->stands == block::place::out || has_no_history(*b) || !all_points(*b, is_complete)) continue;
      b = forget(b);
    }
  }
  since_sweep_ = 0;
}

block* heap::join_run(block* first, std::uint64_t bytes) {
  while (first->capacity < bytes) {
    block* upper = first->after;
    history both = first->past.copy();
    both.join(upper->past);  // nothing was changed if there is no memory for it
    share_arena(*first, *upper);
    erase(first);
    erase(upper);
    std::swap(first->past, both);
    absorb(first, upper);
    classify(*first);
    insert(first);
  }
  return first;
}

std::uint64_t heap::release(std::uint64_t keep) noexcept {
  std::uint64_t gone = 0;
  std::erase_if(segments_, [&](const segment& s) {
    block* b = s.first;
    if (!has_no_history(*b) || b->after != nullptr || reserved_ - s.bytes < keep) return false;
    erase(b);
    b->stands = block::place::out;
    --blocks_;
    spares_.put(b);
    source_.free(s.data, s.bytes);
    reserved_ -= s.bytes;
    gone += s.bytes;
    return true;
  });
  return gone;
}

}  // namespace braid::detail
