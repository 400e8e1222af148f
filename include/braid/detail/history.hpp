#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "braid/access.hpp"
#include "braid/detail/point_set.hpp"
#include "braid/hazard.hpp"

// What happened to the bytes of a resource, as far as a next access has to know it.
//
// A history is a row of segments without gaps, in the order of their bytes; most have one. Each segment
// keeps `last`, the newest write or the members of the newest accumulate group, and `readers`, the readers
// since. Every reader waited for `last`, so a write that waits for the readers needs nothing else. A group
// also keeps `before`, what each of its members has to come after.
//
// A history is a plain state machine: it knows no locks, no slots and no backend.

namespace braid::detail {

class history {
 public:
  /// More segments than this are merged to half as many: safe, and counted.
  static constexpr std::size_t max_segments = 256;

  explicit history(std::uint64_t size) noexcept { one_.end = size; }
  history(history&&) noexcept = default;
  history& operator=(history&&) noexcept = default;

  /// Calls `need(const point&, hazard)` for each point that an access of `range` has to come after. `whole`
  /// says that the range is known to be all of the resource, and not empty.
  template <class Need>
  void needs(access kind, std::uint32_t tag, byte_range range, bool whole, Need need) const {
    if (!many_) [[likely]] {
      if (whole || range.size > 0) one_.needs(kind, tag, need);
    } else {
      needs_of_many(kind, tag, range, need);
    }
  }

  /// Enters the access of the op at `cursor`. The points that it needed are to be waited for by then. Returns
  /// whether the history had to coarsen.
  bool apply(access kind, std::uint32_t tag, byte_range range, bool whole, std::uint64_t cursor, stamp* by,
             lane_id lane) {
    if (whole && !many_) [[likely]] {
      one_.apply(kind, tag, cursor, by, lane);
      return false;
    }
    return apply_to_part(kind, tag, range, cursor, by, lane);
  }

  // What most ops meet, a resource bound as a whole whose history is in one piece: without a look at what
  // such a history has not. `known(const point&)` says whether the op comes after the point anyway.
  [[nodiscard]] bool is_in_one_piece() const noexcept { return !many_; }
  /// Whether a reader of the whole has to wait for nobody. False: needs() tells.
  template <class Known>
  [[nodiscard, gnu::always_inline]] bool is_free_to_read(Known known) const noexcept {
    return one_.last.empty() || (one_.last.size() == 1 && known(one_.last.front()));
  }
  /// Whether a writer of the whole has to wait for nobody. False: needs() tells.
  template <class Known>
  [[nodiscard, gnu::always_inline]] bool is_free_to_write(Known known) const noexcept {
    const point_set& newest = one_.readers.empty() ? one_.last : one_.readers;
    return newest.empty() || (newest.size() == 1 && !one_.uncovered && known(newest.front()));
  }
  /// Of one in one piece: what an access of the whole, which does not accumulate, has to come after, and why.
  struct points_before {
    const point_set* points;  // null: those of more than one set
    bool are_readers;
    hazard why;
  };
  [[nodiscard, gnu::always_inline]] points_before before_whole(access kind) const noexcept {
    if (kind == access::read)
      return {&one_.last, false, one_.inherited ? hazard::reuse : hazard::read_after_write};
    if (one_.readers.empty()) return {&one_.last, false, one_.after_last(kind)};
    return {one_.uncovered ? nullptr : &one_.readers, true,
            one_.inherited ? hazard::reuse : hazard::write_after_read};
  }
  /// Whether it is in one piece, which an op of this lane wrote, and no op of another lane read since.
  [[nodiscard, gnu::always_inline]] bool is_of(lane_id lane) const noexcept { return one_.sole == lane; }
  // For a next op of that lane.
  [[gnu::always_inline]] void read_own(std::uint64_t cursor, stamp* by, lane_id lane) noexcept {
    [[maybe_unused]] const bool is_put = one_.readers.try_put(cursor, by, lane);
    assert(is_put);
  }
  [[gnu::always_inline]] void write_own(std::uint64_t cursor, stamp* by, lane_id lane) noexcept {
    assert(one_.last.size() == 1);
    one_.last.move_on(cursor, by, lane);
    one_.readers.clear(by);
    one_.inherited = false;
  }
  [[gnu::always_inline]] void read_all(std::uint64_t cursor, stamp* by, lane_id lane) {
    one_.read(cursor, by, lane);
  }
  [[gnu::always_inline]] void write_all(std::uint64_t cursor, stamp* by, lane_id lane) noexcept {
    one_.write(cursor, by, lane);
  }

  /// Enters an access that waited for nothing: it joins what is there instead of taking its place.
  bool add(access kind, std::uint64_t begin, std::uint64_t end, std::uint64_t cursor, stamp* by,
           lane_id lane);

  /// The op at `cursor`, a reader in [begin, end), gets the stamp that it runs with. Under the lock of its
  /// slot, which has not left the stamp that it had when the reader was entered.
  void restamp_reader(lane_id lane, std::uint64_t cursor, std::uint64_t begin, std::uint64_t end,
                      stamp* before, stamp* by) noexcept;
  /// The op at `cursor` was entered as a reader in [begin, end) and is not given after all: the op before it,
  /// which was, takes its place, and did not wait for what the reader would have waited for.
  void take_back_reader(lane_id lane, std::uint64_t cursor, std::uint64_t begin, std::uint64_t end) noexcept;

  /// Whether it is in one piece, a single point with `is_last` is all that was done to it, and `readers`
  /// points, each with `is_reader`, have read it since.
  template <class IsLast, class IsReader>
  [[nodiscard]] bool consists_of(IsLast is_last, IsReader is_reader, std::size_t reader_count) const {
    if (many_ || one_.is != content::written || one_.uncovered || one_.last.size() != 1 ||
        one_.readers.size() != reader_count || !is_last(one_.last.front()))
      return false;
    for (const point& p : one_.readers) {
      if (!is_reader(p)) return false;
    }
    return true;
  }
  /// Forgets the accesses of these lanes, which are no slots' and are over.
  void forget(std::span<const lane_id> over) noexcept;
  /// The reader of `lane` with the cursor `from` gets another one; 0: it goes.
  void move_reader(lane_id lane, std::uint64_t from, std::uint64_t to) noexcept;

  /// Calls `visit(const point&)` for each reader in [begin, end).
  template <class Visit>
  void readers(std::uint64_t begin, std::uint64_t end, Visit&& visit) const {
    const auto look = [&](const segment& s) {
      if (s.begin < end && begin < s.end) {
        for (const point& p : s.readers) visit(p);
      }
    };
    if (!many_) return look(one_);
    for (const segment& s : *many_) look(s);
  }

  /// Calls `visit(const point&)` for each point that is kept, some of them more than once.
  template <class Visit>
  void all(Visit&& visit) const {
    const auto look = [&](const segment& s) {
      for (const point& p : s.last) visit(p);
      for (const point& p : s.readers) visit(p);
    };
    if (!many_) return look(one_);
    for (const segment& s : *many_) look(s);
  }

  /// The memory gets a next owner: what follows waits for reuse, not for a hazard of the owner's own.
  void hand_on() noexcept;

  // What a pool of memory does with the history of a block between two owners.

  /// As hand_on(), for an owner of `size` bytes. Where the size changes, what is known of parts is known of
  /// the whole from then on.
  void hand_on(std::uint64_t size) {
    if (many_) [[unlikely]] {
      if (extent() != size) fold();
    }
    if (many_) [[unlikely]]
      return hand_on();
    one_.end = size;
    one_.inherited = one_.inherited || one_.is != content::untouched || !one_.readers.empty();
  }
  [[nodiscard]] bool empty() const noexcept { return !many_ && one_.last.empty() && one_.readers.empty(); }
  /// Forgets everything.
  void clear() noexcept;
  /// One segment with the points that a write of the whole has to come after: safe, and less exact.
  void fold();
  /// What happened to `other` also counts as having happened here, to every byte. Folds.
  void join(const history& other);
  /// A history with the same points.
  [[nodiscard]] history copy() const;

  [[nodiscard]] std::size_t segments() const noexcept { return many_ ? many_->size() : 1; }
  /// Whether nobody else can have read since the last write. False: readers() tells.
  [[nodiscard, gnu::always_inline]] bool has_no_reader_but_of(lane_id lane) const noexcept {
    return !many_ && one_.readers.has_none_but_of(lane);
  }

 private:
  enum class content : std::uint8_t { untouched, written, accumulated };

  /// A lane, or none; one that is moved from forgets it.
  struct lane_note {
    static constexpr auto nobody = static_cast<lane_id>(~std::uint32_t{0});
    lane_id value = nobody;

    lane_note() noexcept = default;
    lane_note(lane_note&& other) noexcept : value(std::exchange(other.value, nobody)) {}
    lane_note& operator=(lane_note&& other) noexcept {
      value = std::exchange(other.value, nobody);
      return *this;
    }
    ~lane_note() = default;
    lane_note& operator=(lane_id lane) noexcept {
      value = lane;
      return *this;
    }
    bool operator==(lane_id lane) const noexcept { return value == lane; }
  };

  // What most ops look at stands first.
  struct segment {
    lane_note sole;  // wrote it as a whole, and nobody else has done anything since
    std::uint32_t tag = 0;
    content is = content::untouched;
    hazard before_is = hazard::read_after_write;
    bool inherited = false;  // `last` and `readers` are of a previous owner
    bool uncovered = false;  // readers need not have waited for `last`
    point_set last;
    point_set readers;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::unique_ptr<point_set> before;  // of an open accumulate group; kept for the next group

    [[nodiscard]] bool is_open_group(std::uint32_t wanted) const noexcept {
      return is == content::accumulated && tag == wanted && readers.empty() && !uncovered && !inherited;
    }

    template <class Need>
    void needs(access kind, std::uint32_t wanted, Need& need) const {
      const point_set* of = &last;
      hazard why =
          kind == access::read ? (inherited ? hazard::reuse : hazard::read_after_write) : after_last(kind);
      if (kind != access::read) {
        if (kind == access::accumulate && is_open_group(wanted)) {
          of = before.get();
          why = before_is;
        } else if (!readers.empty()) {
          of = &readers;
        }
      }
      for (;;) {
        const hazard each = of == &readers ? (inherited ? hazard::reuse : hazard::write_after_read) : why;
        for (const point& p : *of) need(p, each);
        if (of != &readers || !uncovered) return;
        of = &last;
      }
    }

    void apply(access kind, std::uint32_t wanted, std::uint64_t cursor, stamp* by, lane_id lane) {
      switch (kind) {
        case access::read: return read(cursor, by, lane);
        case access::accumulate: return accumulate(wanted, cursor, by, lane);
        case access::write:
        case access::read_write: return write(cursor, by, lane);
      }
    }
    [[gnu::always_inline]] void read(std::uint64_t cursor, stamp* by, lane_id lane) {
      if (!(sole == lane)) sole = lane_note::nobody;
      if (!readers.try_put(cursor, by, lane)) readers.put(cursor, by, lane);
    }
    [[gnu::always_inline]] void write(std::uint64_t cursor, stamp* by, lane_id lane) {
      last.set(cursor, by, lane);
      readers.clear(by);
      if (is == content::accumulated) [[unlikely]]
        before->clear();
      is = content::written;
      inherited = uncovered = false;
      sole = lane;
    }

    [[nodiscard]] hazard after_last(access kind) const noexcept {
      if (inherited) return hazard::reuse;
      return kind == access::write || is == content::accumulated ? hazard::write_after_write
                                                                 : hazard::read_after_write;
    }
    void accumulate(std::uint32_t wanted, std::uint64_t cursor, stamp* by, lane_id lane);
    void add(access kind, std::uint64_t cursor, stamp* by, lane_id lane);
    [[nodiscard]] segment split_off(std::uint64_t at);
    void absorb(const segment& other);
  };

  /// Calls `visit(segment&, point&)` where the newest reader of `lane` in [begin, end) is the op at `cursor`.
  template <class Visit>
  void readers_at(lane_id lane, std::uint64_t cursor, std::uint64_t begin, std::uint64_t end, Visit visit);
  template <class Need>
  [[gnu::noinline]] void needs_of_many(access kind, std::uint32_t tag, byte_range range, Need& need) const {
    const segment* s = first_behind(range.offset);
    const segment* const end = many_->data() + many_->size();
    for (; s != end && s->begin < range.end(); ++s) {
      if (range.size > 0) s->needs(kind, tag, need);
    }
  }

  /// Cuts out [begin, end) and applies `change` to its segments, which then become one if `joins`.
  template <class Change>
  bool apply_to_range(std::uint64_t begin, std::uint64_t end, bool joins, const Change& change);
  bool apply_to_part(access kind, std::uint32_t tag, byte_range range, std::uint64_t cursor, stamp* by,
                     lane_id lane);
  /// Of many, the first that ends behind this place.
  [[nodiscard]] const segment* first_behind(std::uint64_t at) const noexcept;
  void split_at(std::uint64_t at);
  void coarsen();
  [[nodiscard]] std::uint64_t extent() const noexcept { return many_ ? many_->back().end : one_.end; }

  std::unique_ptr<std::vector<segment>> many_;  // all segments, in order, where there is more than one
  segment one_;                                 // else all there is
};

}  // namespace braid::detail
