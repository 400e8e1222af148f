// The pool against a model that knows which bytes are live, and every access that a block's bytes had.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "pool_rig.hpp"

namespace braid::test {
namespace {

using detail::block;
using detail::lane_id;
using detail::point;

constexpr unsigned lanes = 3;

/// For each stretch of bytes, across owners, the last write: it came after everything before.
class byte_model {
 public:
  using points = std::array<std::uint64_t, lanes>;

  void write(const block& b, unsigned lane, std::uint64_t cursor) {
    if (b.size == 0) return;  // touches nothing
    std::byte* const begin = b.data;
    const std::uint64_t bytes = b.capacity;
    split(begin);
    split(begin + bytes);
    for (auto it = at_.lower_bound(begin); it != at_.end() && it->first < begin + bytes; ++it) {
      it->second = {};
      it->second[lane] = cursor;
    }
  }
  /// What an op on these bytes has to come after.
  [[nodiscard]] points seen(std::byte* begin, std::uint64_t bytes) {
    split(begin);
    split(begin + bytes);
    points all{};
    for (auto it = at_.lower_bound(begin); it != at_.end() && it->first < begin + bytes; ++it) {
      for (unsigned i = 0; i < lanes; ++i) all[i] = std::max(all[i], it->second[i]);
    }
    return all;
  }

 private:
  void split(std::byte* at) {
    auto it = at_.upper_bound(at);
    const points of = it == at_.begin() ? points{} : std::prev(it)->second;
    at_.try_emplace(at, of);
  }
  std::map<std::byte*, points> at_;
};

void run(bool deterministic, std::uint64_t limit) {
  pool_rig rig({.limit = limit, .deterministic = deterministic, .lane_cache_bytes = std::uint64_t{1} << 20},
               lanes);
  byte_model model;
  std::map<std::byte*, block*> live;
  // What each slot knows of each other one: as a clock.
  std::array<std::array<std::uint64_t, lanes>, lanes> known{};

  const auto steps = *rc::gen::inRange(1, 300);
  for (int step = 0; step < steps; ++step) {
    const auto what = *rc::gen::weightedElement<int>({{10, 0}, {7, 1}, {4, 2}, {2, 3}, {2, 4}, {1, 5}});
    const auto lane = *rc::gen::inRange<unsigned>(0, lanes);
    if (what == 0) {
      const auto scale = *rc::gen::inRange(0, 22);
      const std::uint64_t bytes = *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << scale);
      block* b = nullptr;
      try {
        b = rig.pool->take(static_cast<lane_id>(lane), bytes,
                           [&](const point& p) { return p.cursor <= known[lane][detail::index_of(p.lane)]; });
      } catch (const out_of_memory&) {
        RC_ASSERT(limit != 0U);
        continue;
      }
      RC_ASSERT(b->capacity >= bytes);
      RC_ASSERT(b->size == bytes);
      const auto above = live.upper_bound(b->data);
      RC_ASSERT(above == live.end() || b->data + b->capacity <= above->first);
      if (above != live.begin()) {
        const block* below = std::prev(above)->second;
        RC_ASSERT(below->data + below->capacity <= b->data);
      }
      live[b->data] = b;

      // Everything that these bytes have seen is over, known to the slot, or in the history to be waited for.
      byte_model::points history{};
      bool all_complete = true;
      bool all_known = true;
      b->past.needs(access::write, 0, {0, bytes}, true, [&](const point& p, hazard why) {
        const unsigned of = detail::index_of(p.lane);
        RC_ASSERT(why == hazard::reuse);
        history[of] = std::max(history[of], p.cursor);
        all_complete = all_complete && p.cursor <= rig.completed[of];
        all_known = all_known && (of == lane || p.cursor <= known[lane][of]);
      });
      const byte_model::points seen = model.seen(b->data, b->capacity);
      for (unsigned i = 0; i < lanes; ++i) {
        RC_ASSERT(seen[i] <= rig.completed[i] || seen[i] <= history[i]);
      }
      if (b->taken_as == reuse_step::ordered) RC_ASSERT(all_known);
      if (b->taken_as == reuse_step::complete || b->taken_as == reuse_step::fresh) RC_ASSERT(b->past.empty());
      if (deterministic) RC_ASSERT(b->taken_as != reuse_step::complete);
      // The first op waits for all that, and learns it.
      for (unsigned i = 0; i < lanes; ++i) known[lane][i] = std::max(known[lane][i], history[i]);
      rig.write(b, lane);
      model.write(*b, lane, rig.cursors[lane]);
    } else if (what == 1 && !live.empty()) {
      const auto which = *rc::gen::inRange<std::size_t>(0, live.size());
      const auto it = std::next(live.begin(), static_cast<std::ptrdiff_t>(which));
      rig.give(it->second);
      live.erase(it);
    } else if (what == 2 && !live.empty()) {
      // Another slot waits for the owner, then writes.
      const auto which = *rc::gen::inRange<std::size_t>(0, live.size());
      block* b = std::next(live.begin(), static_cast<std::ptrdiff_t>(which))->second;
      b->past.needs(access::write, 0, {0, b->size}, true, [&](const point& p, hazard) {
        const unsigned of = detail::index_of(p.lane);
        known[lane][of] = std::max(known[lane][of], p.cursor);
      });
      rig.write(b, lane);
      model.write(*b, lane, rig.cursors[lane]);
    } else if (what == 3) {
      // Ops complete in the order of their lane; a lane's ops come after what they waited for.
      rig.completed[lane] = *rc::gen::inRange<std::uint64_t>(rig.completed[lane], rig.cursors[lane] + 1);
    } else if (what == 4 && !deterministic) {
      rig.pool->trim(*rc::gen::inRange<std::uint64_t>(0, 8 << 20));
    } else if (what == 5) {
      if (block* b = rig.take_idle(lane, *rc::gen::inRange<std::uint64_t>(1, 300'000))) {
        RC_ASSERT(b->past.empty());
        const byte_model::points seen = model.seen(b->data, b->capacity);
        for (unsigned i = 0; i < lanes; ++i) RC_ASSERT(seen[i] <= rig.completed[i]);
        rig.give(b);
      }
    }
    if (limit != 0) RC_ASSERT(rig.source->out <= limit);
    RC_ASSERT(rig.usage().reserved == rig.source->out);
  }

  std::uint64_t bytes = 0;
  for (const auto& [data, b] : live) bytes += b->size;
  RC_ASSERT(rig.usage().live == bytes);
  RC_ASSERT(rig.usage().live_blocks == live.size());
  for (const auto& [data, b] : live) rig.give(b);
  rig.complete_all();
  rig.pool->trim();
  const memory_usage last = rig.usage();
  RC_ASSERT(last.reserved == 0U);
  RC_ASSERT(last.live == 0U);
  RC_ASSERT(last.padding == 0U);
  RC_ASSERT(last.pending == 0U);
}

RC_GTEST_PROP(pool_property, live_blocks_never_overlap_and_no_access_is_forgotten, ()) {
  run(false, 0);
}
RC_GTEST_PROP(pool_property, the_same_holds_at_a_limit, ()) {
  run(false, std::uint64_t{6} << 20);
}
RC_GTEST_PROP(pool_property, the_same_holds_where_completion_never_decides, ()) {
  run(true, *rc::gen::element<std::uint64_t>(0, std::uint64_t{6} << 20));
}

}  // namespace
}  // namespace braid::test
