#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

// What a slot knew at one moment, kept as long as somebody may ask.
//
// A slot's clock changes only when the slot waits. A stamp is an immutable copy of it, taken after each
// op that waited, and shared by all points and marks of the slot until the next one: so that most ops
// copy nothing and count nothing. Whoever waits for a point or a mark learns its stamp.
//
// While a stamp is its slot's current one, those who add a holder hold one of the slot's two locks: they
// count without locked instructions, in a number for each lock. When the slot goes on to its next stamp the
// two are added to what the releases, which come from any thread, have been counting all the time. Marks are
// counted apart, because they also let go under a lock: a stamp that only marks hold is never counted
// otherwise.
//
// Stamps are memory of a stamp_arena, which the engine and every resource that the engine has seen
// share. A handle that outlives its engine therefore never refers to freed memory.

namespace braid::detail {

/// std::popcount() is a call into a library where the compiler may not use the instruction.
constexpr unsigned count_bits(std::uint64_t x) noexcept {
#ifdef __POPCNT__
  return static_cast<unsigned>(std::popcount(x));
#else
  x -= x >> 1 & 0x5555'5555'5555'5555U;
  x = (x & 0x3333'3333'3333'3333U) + (x >> 2 & 0x3333'3333'3333'3333U);
  x = (x + (x >> 4)) & 0x0f0f'0f0f'0f0f'0f0fU;
  return static_cast<unsigned>(x * 0x0101'0101'0101'0101U >> 56);
#endif
}

/// The number of a slot in the order of first use: dense, so that up to 64 used slots are told apart
/// exactly however large the pool is. Foreign accesses (see multi_stream::note) have lanes of their own.
enum class lane_id : std::uint32_t {};

constexpr lane_id first_foreign_lane{1U << 31};
constexpr bool is_foreign(lane_id lane) noexcept {
  return lane >= first_foreign_lane;
}
constexpr std::uint32_t index_of(lane_id lane) noexcept {
  return static_cast<std::uint32_t>(lane);
}

struct clock_entry {
  std::uint64_t cursor = 0;
  lane_id lane{};
};

class clock;
class stamp_arena;
class stamp_pool;

class stamp {
 public:
  [[nodiscard]] lane_id lane() const noexcept { return lane_; }
  [[nodiscard]] std::span<const clock_entry> entries() const noexcept { return {data(), size_}; }

  /// Whether the op at `cursor` of `lane` comes before what carries this stamp. The slot's own ops are
  /// not part of a stamp: its carrier's cursor tells them.
  [[nodiscard]] bool covers(lane_id lane, std::uint64_t cursor) const noexcept {
    return known(lane) >= cursor;
  }

  /// The cursor of `lane` up to which all comes before; 0 for none.
  [[nodiscard]] std::uint64_t known(lane_id lane) const noexcept {
    const clock_entry* entry = find(lane);
    return entry != nullptr && entry->lane == lane ? entry->cursor : 0;
  }

  /// Whether the owner of `known`, a slot of `own`, has nothing to learn from it: it knows what the slot knew
  /// before, and where the rest comes from. Said in the most common cases only, of what comes back from
  /// somebody who learned it here.
  [[nodiscard]] inline bool tells_nothing_new(const clock& known, lane_id own) const noexcept;

  /// By the holder of the slot's lock, while it is the slot's current one.
  [[gnu::always_inline]] void retain_under_lock() noexcept {
    if (counting_ != counting::never) ++by_slot_;  // the others are not written to: many threads look at them
  }
  /// Likewise, also while the slot has not left it for its next one.
  [[gnu::always_inline]] void release_under_lock() noexcept {
    if (counting_ != counting::never) --by_slot_;
  }
  /// By the holder of the slot's list lock, while it is the slot's current one.
  void retain_under_list_lock() noexcept { ++by_list_; }
  /// Likewise, for a mark, which lets go with release_by_maker().
  void retain_for_mark() noexcept { ++by_marks_; }
  /// By the holder of the slot's lock: the slot, which has gone on to its next one, does not hold it any
  /// more. No mark was counted.
  void leave() noexcept { release(current - (by_slot_ + by_list_ - 1)); }
  /// Likewise, by the holder of both locks; marks may be counted.
  inline void leave_to_marks() noexcept;

  /// By anybody who knows a holder.
  void retain() noexcept {
    if (counting_ == counting::never) return;
    if (counting_ == counting::shared) {
      refs_.fetch_add(1, std::memory_order_relaxed);  // the caller holds a reference already
    } else {
      refs_.store(refs_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  }

  /// Whether only the caller holds it.
  [[nodiscard]] bool is_held_once() const noexcept {
    return refs_.load(std::memory_order_acquire) == 1;  // pairs with release()
  }

  void release() noexcept {
    if (counting_ != counting::never) release(1);
  }

  /// As release(), by the maker of the slot's stamps, for a mark.
  inline void release_by_maker() noexcept;

 private:
  friend class stamp_pool;
  friend class clock;
  enum class counting : std::uint8_t { never, by_owner, shared };

  static constexpr std::uint64_t current = std::uint64_t{1} << 62;  // in refs_: not 0 while the locks count

  [[nodiscard]] const clock_entry* find(lane_id lane) const noexcept;
  [[gnu::always_inline]] void release(std::uint64_t count) noexcept {
    if (counting_ == counting::shared) {
      // acq_rel: the last release happens after every other holder's last look
      if (refs_.fetch_sub(count, std::memory_order_acq_rel) == count) recycle();
    } else {
      const std::uint64_t left = refs_.load(std::memory_order_relaxed) - count;
      refs_.store(left, std::memory_order_relaxed);
      if (left == 0) recycle();
    }
  }
  void recycle() noexcept;
  inline void recycle_by_maker() noexcept;
  inline void settle() noexcept;
  // The entries stand right behind the stamp, as many as its size class has room for.
  [[nodiscard]] clock_entry* data() noexcept { return reinterpret_cast<clock_entry*>(this + 1); }
  [[nodiscard]] const clock_entry* data() const noexcept {
    return reinterpret_cast<const clock_entry*>(this + 1);
  }

  std::uint64_t occupied_ = 0;  // places of the direct-mapped clock that are present, in entry order
  std::uint32_t foreign_ = 0;   // likewise for foreign lanes; their entries follow
  std::atomic<std::uint64_t> refs_{1};
  std::uint64_t by_slot_ = 0;
  std::uint64_t by_list_ = 0;
  std::uint64_t by_marks_ = 0;  // changes under the list lock
  std::uint64_t since_ = 0;     // the slot's op that the stamp before this one was made for
  clock_entry source_;          // what was learned since, and what its op knew; none if it was more than one
  lane_id lane_{};
  std::uint8_t size_ = 0;
  std::uint8_t size_class_ = 0;
  counting counting_ = counting::never;
  bool has_left_ = false;  // the slot, while marks are still counted apart
  stamp* next_ = nullptr;  // in a free list
  stamp_pool* home_ = nullptr;
};

/// A slot's clock: for each lane, the cursor up to which everything is known to come before the slot's
/// next op. Direct-mapped: place `lane % 64`. Up to 64 used slots no two lanes share a place and
/// knowledge is exact; beyond, the newer of two lanes stays and the other is forgotten, which is safe.
class clock {
 public:
  static constexpr unsigned places = 64;
  static constexpr unsigned foreign_places = 16;

  clock() noexcept {
    constexpr lane_id nobody{~std::uint32_t{0}};
    for (clock_entry& entry : entries_) entry.lane = nobody;
  }
  /// Of the slot with this lane. What others tell of its own ops is not kept, and has a place to go to.
  explicit clock(lane_id own) noexcept : clock() { entries_[index_of(own) % places].lane = own; }

  [[nodiscard]] std::uint64_t known(lane_id lane) const noexcept {
    if (is_foreign(lane)) [[unlikely]]
      return known_foreign(lane);
    const clock_entry& entry = entries_[index_of(lane) % places];
    return entry.lane == lane ? entry.cursor : 0;
  }
  [[nodiscard, gnu::always_inline]] bool covers(lane_id lane, std::uint64_t cursor) const noexcept {
    const clock_entry& entry = entries_[index_of(lane) % places];  // never of a foreign lane
    if (entry.lane == lane) [[likely]]
      return entry.cursor >= cursor;
    return is_foreign(lane) && known_foreign(lane) >= cursor;
  }
  /// Whether an entry of this lane may have been forgotten for another lane's.
  [[nodiscard]] bool may_have_forgotten(lane_id lane) const noexcept {
    const unsigned place = index_of(lane) % places;
    return !is_foreign(lane) && (evicted_ >> place & 1) != 0 && entries_[place].lane != lane;
  }

  [[gnu::always_inline]] void learn(lane_id lane, std::uint64_t cursor) noexcept {
    clock_entry& entry = entries_[index_of(lane) % places];  // never of a foreign lane
    if (entry.lane != lane) [[unlikely]]
      return learn_anew(lane, cursor);
    if (entry.cursor < cursor) entry.cursor = cursor;
  }
  /// Learns all of `other` but what it says about `own`, the lane that this clock belongs to.
  void learn(const stamp& other, lane_id own) noexcept;

 private:
  friend class stamp_pool;
  [[nodiscard]] std::uint64_t known_foreign(lane_id lane) const noexcept;
  void learn_anew(lane_id lane, std::uint64_t cursor) noexcept;

  std::uint64_t occupied_ = 0;
  std::uint64_t evicted_ = 0;
  std::uint32_t foreign_ = 0;
  std::uint32_t count_ = 0;      // of places taken, foreign ones included
  clock_entry entries_[places];  // of nobody at first
  clock_entry foreign_entries_[foreign_places]{};
};

inline bool stamp::tells_nothing_new(const clock& known, lane_id own) const noexcept {
  return source_.cursor != 0 && (source_.lane == own || known.covers(source_.lane, source_.cursor)) &&
         (since_ == 0 || known.covers(lane_, since_));
}

inline const clock_entry* stamp::find(lane_id lane) const noexcept {
  const unsigned place = index_of(lane) % clock::places;
  if (!is_foreign(lane)) {
    if ((occupied_ >> place & 1) == 0) return nullptr;
    const std::uint64_t below = (std::uint64_t{1} << place) - 1;
    if ((occupied_ & below) == below) return data() + place;
    return data() + count_bits(occupied_ & below);
  }
  const unsigned foreign_place = index_of(lane) % clock::foreign_places;
  if ((foreign_ >> foreign_place & 1) == 0) return nullptr;
  return data() + count_bits(occupied_) + count_bits(foreign_ & ((1U << foreign_place) - 1));
}

}  // namespace braid::detail
