#include "braid/detail/stamp_pool.hpp"

#include <algorithm>
#include <new>

namespace braid::detail {

namespace {

// Calls `visit(first, length)` for each run of ones, from the lowest on. Lanes are dense, and runs are few.
template <class Visit>
[[gnu::always_inline]] inline void for_runs(std::uint64_t bits, Visit visit) {
  while (bits != 0) {
    const auto first = static_cast<unsigned>(std::countr_zero(bits));
    const auto length = static_cast<unsigned>(std::countr_one(bits >> first));
    visit(first, length);
    bits &= bits + (std::uint64_t{1} << first);  // without the run
  }
}

}  // namespace

std::uint64_t clock::known_foreign(lane_id lane) const noexcept {
  const clock_entry& entry = foreign_entries_[index_of(lane) % foreign_places];
  return entry.lane == lane ? entry.cursor : 0;
}

// Of a lane that has no entry.
void clock::learn_anew(lane_id lane, std::uint64_t cursor) noexcept {
  if (is_foreign(lane)) {
    const unsigned place = index_of(lane) % foreign_places;
    if ((foreign_ >> place & 1) == 0) ++count_;
    foreign_ |= 1U << place;
    foreign_entries_[place] = {cursor, lane};
    return;
  }
  const unsigned place = index_of(lane) % places;
  const std::uint64_t bit = std::uint64_t{1} << place;
  if ((occupied_ & bit) != 0) {
    evicted_ |= bit;
  } else {
    ++count_;
  }
  occupied_ |= bit;
  entries_[place] = {cursor, lane};
}

// Which of the two is newer cannot be foreseen, and is not branched on.
void clock::learn(const stamp& other, lane_id own) noexcept {
  for (const clock_entry& told : other.entries()) {
    clock_entry& entry = entries_[index_of(told.lane) % places];  // never of a foreign lane
    if (entry.lane == told.lane) [[likely]] {
      entry.cursor = std::max(entry.cursor, told.cursor);
    } else if (told.lane != own) {
      learn_anew(told.lane, told.cursor);
    }
  }
}

void stamp::recycle() noexcept {
  std::atomic<stamp*>& list = home_->returned_[size_class_];
  next_ = list.load(std::memory_order_relaxed);
  // release: pairs with the acquire of the whole list in stamp_pool::make(). Nobody pops a single one, so
  // there is no ABA.
  while (!list.compare_exchange_weak(next_, this, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

stamp_pool::stamp_pool(lane_id lane, bool shared) noexcept : shared_(shared) {
  name_.lane_ = lane;
  name_.home_ = this;
}

stamp_pool::~stamp_pool() {
  for (stamp* made : all_) {
    made->~stamp();
    ::operator delete(made);
  }
}

stamp* stamp_pool::make(const clock& from) {
  const std::uint32_t size = from.count_;
  std::uint8_t size_class = 0;
  while (capacity[size_class] < size) ++size_class;

  stamp*& free = free_[size_class];
  if (free == nullptr) {
    // acquire: pairs with the release in stamp::recycle()
    free = returned_[size_class].exchange(nullptr, std::memory_order_acquire);
  }
  stamp* made = free;
  if (made != nullptr) {
    free = made->next_;
  } else {
    all_.push_back(nullptr);
    const std::size_t bytes = sizeof(stamp) + capacity[size_class] * sizeof(clock_entry);
    made = all_.back() = new (::operator new(bytes)) stamp;
    made->lane_ = name_.lane_;
    made->home_ = this;
    made->size_class_ = size_class;
    made->counting_ = shared_ ? stamp::counting::shared : stamp::counting::by_owner;
  }
  made->refs_.store(1, std::memory_order_relaxed);  // not yet seen by anybody else
  made->source_ = {};
  made->occupied_ = from.occupied_;
  made->foreign_ = from.foreign_;
  made->size_ = static_cast<std::uint8_t>(size);
  clock_entry* entry = made->data();
  for_runs(from.occupied_, [&](unsigned first, unsigned length) {
    for (const clock_entry *next = from.entries_ + first, *end = next + length; next != end;)
      *entry++ = *next++;
  });
  for (std::uint32_t left = from.foreign_; left != 0; left &= left - 1) {
    *entry++ = from.foreign_entries_[std::countr_zero(left)];
  }
  return made;
}

stamp_pool& stamp_arena::add_pool(lane_id lane, bool shared) {
  const std::scoped_lock lock(mutex_);
  return *pools_.emplace_back(std::make_unique<stamp_pool>(lane, shared));
}

}  // namespace braid::detail
