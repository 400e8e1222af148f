#include "braid/detail/history.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace braid::detail {

namespace {
// put() takes the point for the newest of its lane; points of two resources or ranges come in any order.
void put_newest(point_set& into, const point& p) {
  const point* known = into.find(p.lane);
  if (known == nullptr || known->cursor < p.cursor) into.put(p);
}
void put_newest(point_set& into, const point_set& all) {
  for (const point& p : all) put_newest(into, p);
}
}  // namespace

void history::segment::accumulate(std::uint32_t wanted, std::uint64_t cursor, stamp* by, lane_id lane) {
  sole = lane_note::nobody;
  if (is_open_group(wanted)) {
    last.put(cursor, by, lane);
    return;
  }
  if (!before) before = std::make_unique<point_set>();
  before_is = readers.empty() ? after_last(access::accumulate)
              : inherited     ? hazard::reuse
                              : hazard::write_after_read;
  if (uncovered) put_newest(readers, last);
  point_set& comes_before = readers.empty() ? last : readers;
  before->clear();
  before->swap(comes_before);
  last.set(cursor, by, lane);
  readers.clear();
  is = content::accumulated;
  tag = wanted;
  inherited = uncovered = false;
}

history::segment history::segment::split_off(std::uint64_t at) {
  segment tail;
  tail.last = last;
  tail.readers = readers;
  if (before) tail.before = std::make_unique<point_set>(*before);
  tail.begin = at;
  tail.end = std::exchange(end, at);
  tail.tag = tag;
  tail.is = is;
  tail.before_is = before_is;
  tail.inherited = inherited;
  tail.uncovered = uncovered;
  return tail;
}

// Of the points alone: the bytes stay as they are. If memory runs out it has some of them, which is safe.
void history::segment::absorb(const segment& other) {
  // An open group stops being one; what it came before is covered by its members.
  is = is == content::untouched && other.is == content::untouched ? content::untouched : content::written;
  if (before) before->clear();
  inherited = inherited || other.inherited;
  uncovered = true;
  sole = lane_note::nobody;
  put_newest(last, other.last);
  put_newest(readers, other.readers);
}

void history::split_at(std::uint64_t at) {
  // Before anything is split off, which would be lost if there were no room for it.
  if (many_->size() == many_->capacity()) many_->reserve(2 * many_->size());
  const auto it =
      std::partition_point(many_->begin(), many_->end(), [&](const segment& s) { return s.end <= at; });
  if (it == many_->end() || it->begin >= at) return;
  segment tail = it->split_off(at);
  many_->insert(std::next(it), std::move(tail));
}

void history::segment::add(access kind, std::uint64_t cursor, stamp* by, lane_id lane) {
  if (kind == access::read) {
    readers.put({cursor, by, lane});
  } else {
    last.put({cursor, by, lane});
    is = content::written;
    if (before) before->clear();
  }
  uncovered = true;  // neither did it wait for the others, nor they for it
  sole = lane_note::nobody;
}

const history::segment* history::first_behind(std::uint64_t at) const noexcept {
  const segment* const begin = many_->data();
  return std::partition_point(begin, begin + many_->size(), [&](const segment& s) { return s.end <= at; });
}

template <class Change>
bool history::apply_to_range(std::uint64_t begin, std::uint64_t end, bool joins, const Change& change) {
  if (begin >= end) return false;
  if (!many_) {
    auto made = std::make_unique<std::vector<segment>>();
    made->reserve(3);
    made->push_back(std::exchange(one_, segment{}));
    many_ = std::move(made);
  }
  std::vector<segment>& all = *many_;
  split_at(begin);
  split_at(end);
  const auto first =
      std::partition_point(all.begin(), all.end(), [&](const segment& s) { return s.end <= begin; });
  const auto past = std::partition_point(first, all.end(), [&](const segment& s) { return s.begin < end; });
  std::for_each(first, past, change);

  // After a write the bytes share one fate again.
  if (joins && std::distance(first, past) > 1) {
    first->end = std::prev(past)->end;
    all.erase(std::next(first), past);
  }
  const bool too_many = all.size() > max_segments;
  if (too_many) coarsen();
  if (all.size() == 1) {
    one_ = std::move(all.front());
    many_.reset();
  }
  return too_many;
}

bool history::apply_to_part(access kind, std::uint32_t tag, byte_range range, std::uint64_t cursor, stamp* by,
                            lane_id lane) {
  return apply_to_range(range.offset, range.end(), kind == access::write || kind == access::read_write,
                        [&](segment& s) { s.apply(kind, tag, cursor, by, lane); });
}

bool history::add(access kind, std::uint64_t begin, std::uint64_t end, std::uint64_t cursor, stamp* by,
                  lane_id lane) {
  return apply_to_range(begin, end, false, [&](segment& s) { s.add(kind, cursor, by, lane); });
}

void history::coarsen() {
  std::vector<segment>& all = *many_;
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) all[i].absorb(all[i + 1]);
  // From here on nothing throws.
  auto kept = all.begin();
  for (std::size_t i = 0; i < all.size(); i += 2, ++kept) {
    if (i + 1 < all.size()) all[i].end = all[i + 1].end;
    if (&*kept != &all[i]) *kept = std::move(all[i]);
  }
  all.erase(kept, all.end());
}

template <class Visit>
void history::readers_at(lane_id lane, std::uint64_t cursor, std::uint64_t begin, std::uint64_t end,
                         Visit visit) {
  const auto look = [&](segment& s) {
    point* p = s.begin < end && begin < s.end ? s.readers.find(lane) : nullptr;
    if (p != nullptr && p->cursor == cursor) visit(s, *p);
  };
  if (!many_) return look(one_);
  for (segment& s : *many_) look(s);
}

void history::restamp_reader(lane_id lane, std::uint64_t cursor, std::uint64_t begin, std::uint64_t end,
                             stamp* before, stamp* by) noexcept {
  readers_at(lane, cursor, begin, end, [&](segment&, point& p) {
    if (p.by != before) return;
    p.by = by;
    before->release_under_lock();
    by->retain_under_lock();
  });
}

void history::take_back_reader(lane_id lane, std::uint64_t cursor, std::uint64_t begin,
                               std::uint64_t end) noexcept {
  readers_at(lane, cursor, begin, end, [&](segment& s, point& p) {
    s.uncovered = true;
    s.sole = lane_note::nobody;
    if (--p.cursor == 0) s.readers.erase(&p);
  });
}

void history::move_reader(lane_id lane, std::uint64_t from, std::uint64_t to) noexcept {
  readers_at(lane, from, 0, std::numeric_limits<std::uint64_t>::max(), [&](segment& s, point& p) {
    p.cursor = to;
    if (to != 0) return;
    s.sole = lane_note::nobody;
    s.readers.erase(&p);
  });
}

void history::forget(std::span<const lane_id> over) noexcept {
  const auto without = [&](point_set& all) {
    for (const lane_id lane : over) {
      if (point* p = all.find(lane)) all.erase(p);
    }
  };
  const auto look = [&](segment& s) {
    without(s.last);
    without(s.readers);
    if (s.before) without(*s.before);
  };
  if (!many_) return look(one_);
  for (segment& s : *many_) look(s);
}

void history::hand_on() noexcept {
  const auto inherit = [](segment& s) {
    if (s.is != content::untouched || !s.readers.empty()) s.inherited = true;
  };
  if (!many_) return inherit(one_);
  for (segment& s : *many_) inherit(s);
}

void history::clear() noexcept {
  one_.end = extent();
  many_.reset();
  one_.last.clear();
  one_.readers.clear();
  if (one_.before) one_.before->clear();
  one_.is = content::untouched;
  one_.inherited = one_.uncovered = false;
  one_.sole = lane_note::nobody;
}

void history::fold() {
  const auto gather = [](const segment& s, point_set& into) {
    put_newest(into, s.readers);
    if (s.readers.empty() || s.uncovered) put_newest(into, s.last);
  };
  if (many_) {
    segment all;
    for (const segment& s : *many_) gather(s, all.last);
    all.end = extent();
    one_ = std::move(all);
    many_.reset();
  } else if (!one_.readers.empty()) {
    if (one_.uncovered) put_newest(one_.readers, one_.last);
    one_.last.swap(one_.readers);
    one_.readers.clear();
  }
  if (one_.before) one_.before->clear();
  one_.is = one_.last.empty() ? content::untouched : content::written;
  one_.inherited = !one_.last.empty();
  one_.uncovered = false;
  one_.sole = lane_note::nobody;
}

void history::join(const history& other) {
  fold();
  other.needs(access::write, 0, {0, ~std::uint64_t{0}}, true,
              [&](const point& p, hazard) { put_newest(one_.last, p); });
  if (one_.last.empty()) return;
  one_.is = content::written;
  one_.inherited = true;
}

history history::copy() const {
  history made(extent());
  made.join(*this);
  return made;
}

}  // namespace braid::detail
