#include "braid/detail/pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "braid/error.hpp"
#include "search.hpp"
#include "shared_lists.hpp"

namespace braid::detail {

namespace {
constexpr std::uint64_t largest_block = std::uint64_t{1} << 46;
}

pool::pool(std::shared_ptr<memory_source> source, pool_options options)
    : source_(std::move(source)),
      options_(std::move(options)),
      alignment_(source_->alignment()),
      lanes_(std::make_unique<lane_table>()),
      shared_(std::make_unique<shared_lists>(*source_, options_, *lanes_)) {
  for (unsigned i = 0; i < reuse_step_count; ++i) {
    if (std::count(options_.order.begin(), options_.order.end(), static_cast<reuse_step>(i)) == 1) continue;
    throw usage_error(misuse::bad_settings, fmt::format("the order of reuse has to name '{}' once: each of "
                                                        "ordered, complete, fresh, waited",
                                                        to_string(static_cast<reuse_step>(i))));
  }
}

pool::~pool() {
  const auto over = [](const point&) { return true; };  // the caller's promise
  shared_lists& all = *shared_;
  all.reclaim(true);
  all.small.sweep(over);
  all.small.release(all.large);
  all.large.sweep(over);
  (void)all.large.release(0);
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  for (const auto& cache : lanes_->caches) {
    blocks += cache->blocks;
    bytes += cache->live;
  }
  for (block_list* list : {&all.leaving, &all.adopted}) {
    while (block* b = list->first()) {
      list->erase(b);
      if (list == &all.adopted) ++blocks;
      delete b;
    }
  }
  if (blocks == 0 || !options_.log) return;
  options_.log->write(log_area::memory, log_level::basic,
                      fmt::format("the pool of '{}' ends with {} blocks of {} bytes that still had an owner",
                                  source_->name(), blocks, bytes));
}

pool::lane_cache* pool::find_cache(lane_id lane) const noexcept {
  const std::uint32_t at = index_of(lane);
  if (at >= lane_table::wide * lane_table::wide) return nullptr;
  // acquire, twice: pairs with the release in make_cache()
  const lane_table::row* row = lanes_->rows[at / lane_table::wide].load(std::memory_order_acquire);
  return row != nullptr ? row->caches[at % lane_table::wide].load(std::memory_order_acquire) : nullptr;
}

pool::lane_cache& pool::make_cache(lane_id lane) {
  const guard lock(shared_->lock);
  if (lane_cache* made = find_cache(lane)) return *made;
  const std::uint32_t at = index_of(lane);
  lane_table& table = *lanes_;
  std::atomic<lane_table::row*>& row = table.rows.at(at / lane_table::wide);
  if (row.load(std::memory_order_relaxed) == nullptr) {
    table.made_rows.push_back(std::make_unique<lane_table::row>());
    row.store(table.made_rows.back().get(), std::memory_order_release);  // pairs with find_cache()
  }
  table.caches.push_back(std::make_unique<lane_cache>(lane, options_.lane_cache_bytes));
  lane_cache& made = *table.caches.back();
  row.load(std::memory_order_relaxed)
      ->caches[at % lane_table::wide]
      .store(&made, std::memory_order_release);  // pairs with find_cache()
  return made;
}

block* pool::take(lane_id lane, std::uint64_t bytes, point_question is_ordered) {
  lane_cache* cache = find_cache(lane);
  if (cache == nullptr) [[unlikely]]
    cache = &make_cache(lane);
  if (options_.order[0] == reuse_step::ordered) {
    cache->lock.lock();
    if (block* b = cache->pop(room_for(bytes))) [[likely]] {
      cache->note_taken(bytes, b->capacity, reuse_step::ordered);
      const std::uint64_t id = cache->new_id();
      cache->lock.unlock();
      return prepare(b, lane, bytes, id, reuse_step::ordered);
    }
    cache->lock.unlock();
  }
  return take_slowly(*cache, bytes, is_ordered, asked_for::any);
}

block* pool::take_idle(lane_id lane, std::uint64_t bytes, point_question is_known_complete) {
  lane_cache* cache = find_cache(lane);
  if (cache == nullptr) cache = &make_cache(lane);
  return take_slowly(*cache, bytes, is_known_complete, asked_for::idle);
}

block* pool::take_slowly(lane_cache& cache, std::uint64_t bytes, point_question ask, asked_for what) {
  choice found;
  std::uint64_t id = 0;
  std::uint64_t grown = 0;
  if (bytes <= largest_block) {
    shared_lists& all = *shared_;
    const guard lock(all.lock);
    const std::uint64_t before = all.large.reserved();
    const std::uint64_t room = room_for(bytes);
    const bool is_large = room > largest_small;
    if (is_large) all.large.add_lane(cache.lane);
    all.look_at_leaving(2);
    const bool looked = what == asked_for::any && options_.order[0] == reuse_step::ordered;
    found =
        shared_lists::search{all, cache, is_large ? round_up(bytes, granule) : room, ask, what, looked}.run();
    if (found) {
      // Where completion decides nothing, what has no history just comes before everything.
      if (found.step == reuse_step::complete && options_.deterministic && what == asked_for::any) {
        found.step = reuse_step::ordered;
      }
      const guard own(cache.lock);
      cache.note_taken(bytes, found.b->capacity, found.step);
      id = cache.new_id();
      all.publish(cache.unpublished());
    }
    if (all.large.reserved() > before) grown = all.large.reserved();
  }
  if (grown != 0 && options_.log && options_.log->is_enabled(log_area::memory)) {
    options_.log->write(log_area::memory, log_level::basic,
                        fmt::format("the pool of '{}' grew to {} bytes", source_->name(), grown));
  }
  if (found) return prepare(found.b, cache.lane, bytes, id, found.step);
  if (what == asked_for::idle) return nullptr;
  throw out_of_memory(bytes, source_->name(), usage(), source_->last_error());
}

block* pool::prepare(block* b, lane_id lane, std::uint64_t bytes, std::uint64_t id, reuse_step step) {
  b->size = bytes;
  b->lane = lane;
  b->id = id;
  b->taken_as = step;
  b->used = true;
  b->home = this;
  b->handed_on = false;
  b->crossed = 0;
  b->score = 0;
  b->writer = nullptr;
  b->is_passing = false;
  b->refs.store(1, std::memory_order_relaxed);  // nobody else has it
  try {
    b->past.hand_on(bytes);
  } catch (...) {
    give(b);
    throw;
  }
  return b;
}

void pool::note_taken(const block& taken, std::string_view name) const noexcept {
  if (traced_as_ != 0) trace_take(traced_as_, taken, name);
}

block* pool::adopt(void* data, std::uint64_t bytes) {
  auto made = std::make_unique<block>(static_cast<std::byte*>(data), bytes);
  made->is = block::kind::adopted;
  made->home = this;
  const guard lock(shared_->lock);
  for (const block* old = shared_->leaving.first(); old != nullptr; old = old->next) {
    if (old->data >= made->data + bytes || made->data >= old->data + old->capacity) continue;
    share_arena(*made, *old);
    made->past.join(old->past);
  }
  made->past.hand_on();
  shared_->adopted.push_back(made.get());
  return made.release();
}

void give_back(block* b) noexcept {
  b->home->give(b);
}

void pool::give(block* b) noexcept {
  // No handle is left: nobody else looks at the block.
  if (b->writer != nullptr && b->crossed == 0) b->writer->learn(false);
  b->writer = nullptr;
  if (b->is == block::kind::adopted) {
    const guard lock(shared_->lock);
    shared_->adopted.erase(b);
    shared_->leaving.push_back(b);
    return shared_->look_at_leaving(2);
  }
  if (is_tracing() && traced_as_ != 0) [[unlikely]]
    trace_give(traced_as_, *b);
  lane_id lane = b->lane;
  bool has_one = false;
  bool is_mixed = false;
  if (!b->past.is_of(lane)) {
    (void)all_points(*b, [&](const point& p) {
      is_mixed = is_mixed || (has_one && p.lane != lane);
      lane = p.lane;
      return has_one = true;
    });
  }

  if ((is_mixed || lane != b->lane) && options_.is_known_complete && !options_.deterministic &&
      all_points(*b, options_.is_known_complete)) {
    b->past.clear();  // nothing is left to come after: it stays with the lane that it was taken for
    is_mixed = false;
    lane = b->lane;
  }
  const bool is_own = !is_mixed && lane == b->lane;
  lane_cache& taken_for = *find_cache(b->lane);
  block* over = b;
  std::int64_t change = 0;
  taken_for.lock.lock();
  taken_for.note_given(*b);
  if (is_own) over = taken_for.push(b);  // from here on it may be another's
  if (over != nullptr) change = taken_for.unpublished();
  taken_for.lock.unlock();
  if (over == nullptr) return;

  if (!is_mixed && !is_own) {
    if (lane_cache* other = find_cache(lane)) {
      const guard lock(other->lock);
      over = other->push(b);
    }
  }
  if (over == nullptr) {
    shared_->live.fetch_add(change, std::memory_order_relaxed);
    return;
  }
  const guard lock(shared_->lock);
  shared_->publish(change);
  shared_->put(over);
}

std::uint64_t pool::trim(std::uint64_t keep) {
  std::uint64_t gone = 0;
  std::uint64_t left = 0;
  {
    shared_lists& all = *shared_;
    const guard lock(all.lock);
    all.look_at_leaving(std::numeric_limits<std::size_t>::max());
    all.reclaim(true);
    all.small.sweep(all.completion);
    all.small.release(all.large);
    all.large.sweep(all.completion);
    gone = all.large.release(keep);
    left = all.large.reserved();
  }
  if (gone != 0 && options_.log && options_.log->is_enabled(log_area::memory)) {
    options_.log->write(
        log_area::memory, log_level::basic,
        fmt::format("the pool of '{}' gave {} bytes back and keeps {}", source_->name(), gone, left));
  }
  return gone;
}

memory_usage pool::usage() const {
  memory_usage out;
  std::map<std::uint32_t, memory_usage::of_stream> lanes;
  shared_lists& all = *shared_;
  {
    const guard lock(all.lock);
    const auto note_free = [&](const block& b) {
      std::vector<lane_id> pending;
      (void)all_points(b, [&](const point& p) {
        if (!all.completion(p) && std::find(pending.begin(), pending.end(), p.lane) == pending.end()) {
          pending.push_back(p.lane);
        }
        return true;
      });
      if (!pending.empty()) out.pending += b.capacity;
      for (const lane_id lane : pending) lanes[index_of(lane)].pending += b.capacity;
    };
    for (const auto& cache : lanes_->caches) {
      const guard own(cache->lock);
      memory_usage::of_stream& lane = lanes[index_of(cache->lane)];
      lane.live = cache->live;
      lane.cached = cache->cached;
      out.live += cache->live;
      out.padding += cache->padding;
      out.live_blocks += cache->blocks;
      out.peak_live = std::max(out.peak_live, cache->peak);
      for (unsigned i = 0; i < reuse_step_count; ++i) out.taken[i] += cache->taken[i];
      cache->each(note_free);
    }
    all.small.used(note_free);
    for (const heap::segment& s : all.large.segments()) {
      for (const block* b = s.first; b != nullptr; b = b->after) {
        if (b->stands != block::place::out) note_free(*b);
      }
    }
    all.peak_live = std::max(all.peak_live, out.live);
    out.peak_live = std::max(out.peak_live, all.peak_live);
    out.reserved = all.large.reserved();
    out.peak_reserved = all.large.peak_reserved();
    out.peak_live = std::min(out.peak_live, out.peak_reserved);  // what is seen late may be counted twice
  }
  out.free = out.reserved - out.live - out.padding;
  out.limit = options_.limit;
  for (auto& [lane, of] : lanes) {
    if (of.live == 0 && of.cached == 0 && of.pending == 0) continue;
    of.name =
        options_.lane_name ? options_.lane_name(static_cast<lane_id>(lane)) : fmt::format("lane {}", lane);
    out.streams.push_back(std::move(of));
  }
  return out;
}

}  // namespace braid::detail
