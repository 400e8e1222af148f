// The history against a model that keeps every access of every byte.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "braid/detail/history.hpp"
#include "braid/detail/stamp_pool.hpp"

namespace braid::detail {
namespace {

constexpr std::uint64_t size = 16;

struct entry {
  access kind;
  std::uint32_t tag, lane;
  std::uint64_t cursor;
};

/// What is ordered before the newest op of each lane, as an engine that waits for all needs would have it.
struct model {
  std::vector<entry> bytes[size];

  static bool conflicts(const std::vector<entry>& byte, std::size_t i, const entry& next) {
    const entry& old = byte[i];
    if (old.kind == access::read && next.kind == access::read) return false;
    if (old.kind != access::accumulate || next.kind != access::accumulate || old.tag != next.tag) return true;
    for (std::size_t k = i + 1; k < byte.size(); ++k) {
      if (byte[k].kind != access::accumulate || byte[k].tag != next.tag) return true;  // another group since
    }
    return false;
  }
};

using op_id = std::pair<std::uint32_t, std::uint64_t>;

RC_GTEST_PROP(history_property, waiting_for_the_needs_orders_every_conflict_and_each_need_is_a_conflict, ()) {
  arena_handle arena;
  std::vector<stamp_pool*> pools;
  for (std::uint32_t i = 0; i < 4; ++i) pools.push_back(&arena->add_pool(static_cast<lane_id>(i), true));
  history past(size);
  model all;
  std::map<op_id, std::set<op_id>> before;  // closed under what comes before
  std::map<std::uint32_t, std::uint64_t> cursors;

  const auto steps = *rc::gen::inRange(1, 60);
  for (int step = 0; step < steps; ++step) {
    const auto lane = *rc::gen::inRange<std::uint32_t>(0, 4);
    const auto kind = *rc::gen::element(access::read, access::write, access::read_write, access::accumulate);
    const auto begin = *rc::gen::inRange<std::uint64_t>(0, size);
    const auto end = *rc::gen::inRange<std::uint64_t>(begin, size + 1);
    const auto tag = *rc::gen::inRange<std::uint32_t>(0, 2);
    const byte_range range{begin, end - begin};
    const entry next{kind, tag, lane, ++cursors[lane]};
    const op_id id{lane, next.cursor};

    std::set<op_id>& mine = before[id];
    if (next.cursor > 1) {
      const op_id previous{lane, next.cursor - 1};
      mine = before[previous];
      mine.insert(previous);
    }
    past.needs(kind, tag, range, false, [&](const point& p, hazard) {
      bool is_conflict = false;
      for (std::uint64_t b = begin; b < end; ++b) {
        for (std::size_t i = 0; i < all.bytes[b].size(); ++i) {
          const entry& e = all.bytes[b][i];
          const bool same = e.lane == index_of(p.lane) && e.cursor == p.cursor;
          is_conflict = is_conflict || (same && model::conflicts(all.bytes[b], i, next));
        }
      }
      RC_ASSERT(is_conflict);
      const op_id needed{index_of(p.lane), p.cursor};
      mine.insert(before[needed].begin(), before[needed].end());
      mine.insert(needed);
    });
    for (std::uint64_t b = begin; b < end; ++b) {
      for (std::size_t i = 0; i < all.bytes[b].size(); ++i) {
        const entry& e = all.bytes[b][i];
        if (model::conflicts(all.bytes[b], i, next)) RC_ASSERT(mine.count({e.lane, e.cursor}) == 1U);
      }
      all.bytes[b].push_back(next);
    }
    past.apply(kind, tag, range, range.size == size, next.cursor, pools[lane]->name(),
               static_cast<lane_id>(lane));
  }
  past = history(0);
}

// Whatever is done to a history: if it says that it is of a lane, all that anybody would have to wait for is.
RC_GTEST_PROP(history_property, what_is_of_a_lane_needs_nothing_of_others, ()) {
  arena_handle arena;
  std::vector<stamp_pool*> pools;
  for (std::uint32_t i = 0; i < 3; ++i) pools.push_back(&arena->add_pool(static_cast<lane_id>(i), true));
  history past(size);
  std::uint64_t cursor = 0;
  const auto steps = *rc::gen::inRange(1, 60);
  for (int step = 0; step < steps; ++step) {
    const auto number = *rc::gen::inRange<std::uint32_t>(0, 3);
    const auto lane = static_cast<lane_id>(number);
    stamp* const by = pools[number]->name();
    const auto kind = *rc::gen::element(access::read, access::write, access::read_write, access::accumulate);
    const std::uint64_t begin = *rc::gen::inRange(0, 4) == 0 ? 5 : 0;
    const std::uint64_t end = *rc::gen::inRange(0, 4) == 0 ? 9 : size;
    ++cursor;
    switch (*rc::gen::inRange(0, 16)) {
      case 0: past.add(kind, begin, end, cursor, by, lane); break;
      case 1: past.take_back_reader(lane, cursor - 1, 0, size); break;
      case 2: past.hand_on(); break;
      case 3: past.hand_on(size); break;
      case 4: past.fold(); break;
      case 5: past = past.copy(); break;
      case 6: past.clear(); break;
      case 7: {
        history other(size);
        other.apply(kind, 0, {0, size}, true, cursor, by, lane);
        past.join(other);
        break;
      }
      case 8: {
        history elsewhere = std::move(past);
        RC_ASSERT(!past.is_of(lane));
        past = std::move(elsewhere);
        RC_ASSERT(!elsewhere.is_of(lane));  // NOLINT(bugprone-use-after-move): it has forgotten
        break;
      }
      default: {
        const bool is_whole = begin == 0 && end == size;
        if (is_whole && kind != access::accumulate && past.is_of(lane)) {
          kind == access::read ? past.read_own(cursor, by, lane) : past.write_own(cursor, by, lane);
          RC_ASSERT(past.is_of(lane));
        } else {
          past.apply(kind, 0, {begin, end - begin}, is_whole, cursor, by, lane);
        }
        bool is_entered = false;
        past.all([&](const point& p) { is_entered = is_entered || (p.cursor == cursor && p.lane == lane); });
        RC_ASSERT(is_entered);
      }
    }
    for (std::uint32_t other = 0; other < 3; ++other) {
      if (!past.is_of(static_cast<lane_id>(other))) continue;
      RC_ASSERT(past.segments() == 1U);
      std::size_t writers = 0;
      past.needs(access::read, 0, {0, size}, true, [&](const point&, hazard) { ++writers; });
      RC_ASSERT(writers == 1U);
      past.all([&](const point& p) { RC_ASSERT(index_of(p.lane) == other); });
    }
  }
  past = history(0);
}

RC_GTEST_PROP(clock_property, learning_is_a_maximum_and_stamps_keep_it, ()) {
  arena_handle arena;
  stamp_pool& pool = arena->add_pool(static_cast<lane_id>(63), true);
  clock c;
  std::map<std::uint32_t, std::uint64_t> expected;
  const auto learned = *rc::gen::container<std::vector<std::pair<std::uint32_t, std::uint64_t>>>(
      rc::gen::pair(rc::gen::inRange<std::uint32_t>(0, 63), rc::gen::inRange<std::uint64_t>(1, 1000)));
  for (const auto& [lane, cursor] : learned) {
    c.learn(static_cast<lane_id>(lane), cursor);
    expected[lane] = std::max(expected[lane], cursor);
  }
  stamp* s = pool.make(c);
  clock copy;
  copy.learn(*s, static_cast<lane_id>(63));
  for (std::uint32_t lane = 0; lane < 63; ++lane) {
    const auto at = expected.find(lane);
    const std::uint64_t known = at != expected.end() ? at->second : 0;
    RC_ASSERT(c.known(static_cast<lane_id>(lane)) == known);
    RC_ASSERT(s->known(static_cast<lane_id>(lane)) == known);
    RC_ASSERT(copy.known(static_cast<lane_id>(lane)) == known);
  }
  s->release();
}

}  // namespace
}  // namespace braid::detail
