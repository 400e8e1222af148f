#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "shared_lists.hpp"

namespace braid::detail {

/// A block that is out of every list, and where it came from.
struct choice {
  block* b = nullptr;
  reuse_step step = reuse_step::fresh;
  explicit operator bool() const noexcept { return b != nullptr; }
};

/// One search for one block, under the shared lock.
struct pool::shared_lists::search {
  shared_lists& in;
  lane_cache& cache;
  const std::uint64_t bytes;  // of a large block: rounded up
  const point_question ask;   // is it ordered, or for an idle block: is it complete
  const asked_for what;
  bool has_looked_in_cache;
  bool has_reclaimed = false;

  // Whether completion may be asked for, and of whom.
  [[nodiscard]] bool may_be_complete() const noexcept {
    return what == asked_for::idle || !in.options.deterministic;
  }
  [[nodiscard]] bool is_over(const point& p) const {
    return what == asked_for::idle ? ask(p) : in.completion(p);
  }
  [[nodiscard]] bool is_complete(const block& b) const {
    return all_points(b, [&](const point& p) { return is_over(p); });
  }
  [[nodiscard]] bool is_ordered(const block& b) const {
    return all_points(b, [&](const point& p) { return p.lane == cache.lane || ask(p); });
  }

  choice run() {
    if (bytes > largest_small && may_be_complete()) {
      in.large.settle([&](const point& p) { return is_over(p); });
    }
    if (choice c = by_order()) return c;
    in.reclaim(true);
    if (may_be_complete()) {
      in.small.sweep([&](const point& p) { return is_over(p); });
      in.small.release(in.large);
      sweep();
    }
    if (choice c = by_order()) return c;
    // Room under the limit for a segment of another size.
    (void)in.large.release(0);
    if (choice c = by_order()) return c;
    if (what == asked_for::idle) return {};
    if (bytes > largest_small) {
      block* b = in.large.squeeze(bytes, [](const block&) { return true; });
      return b != nullptr ? choice{cut(b, bytes), reuse_step::waited} : choice{};
    }
    const std::uint64_t size = page_store::page_bytes(class_of(bytes));
    block* b = in.large.squeeze(size, [](const block&) { return true; });
    if (b == nullptr) return {};
    add_page(cut(b, size));
    return by_order();
  }

 private:
  choice by_order() {
    for (const reuse_step step : in.options.order) {
      if (choice c = bytes > largest_small ? find_large(step, bytes) : find_small(step)) return c;
    }
    return {};
  }

  // Of `size` bytes: for the owner, or for a page of small blocks, which the lanes' caches do not keep.
  choice find_large(reuse_step step, std::uint64_t size) {
    heap& from = in.large;
    const bool is_page = bytes <= largest_small;
    block* b = nullptr;
    switch (step) {
      case reuse_step::ordered:
        if (what == asked_for::idle) return {};
        if (choice c = is_page ? choice{} : from_cache()) return c;
        if (choice c = closest(step, size)) return c;
        b = from.find_used(size, [&](const block& each) { return is_ordered(each); });
        if (b == nullptr && !is_page) return steal_ordered();
        break;
      case reuse_step::complete:
        if (choice c = is_page ? choice{} : from_cache_if_complete()) return c;
        if (choice c = closest(step, size)) return c;
        if (!may_be_complete()) return {};
        b = from.find_used(size, [&](const block& each) { return is_complete(each); });
        if (b == nullptr && !is_page) return steal_complete();
        if (b != nullptr) b = from.forget(b);
        break;
      case reuse_step::fresh:
        b = from.best_fresh(size);
        if (b == nullptr && from.may_grow(size)) return grow(size);
        break;
      case reuse_step::waited:
        if (what == asked_for::idle) return {};
        if (may_be_complete() && from.is_sweep_due()) {
          sweep();
          if (choice c = closest(reuse_step::complete, size)) return c;
        }
        b = from.best_used(size);
        if (b != nullptr) return {from.cut(b, size, b->capacity / 8, in.completion), step};
        break;
    }
    return b != nullptr ? choice{cut(b, size), step} : choice{};
  }

  // Of the lane's own blocks and of those without history, neither of which costs a wait, the one that fits
  // more closely, if both are to be tried before new memory.
  choice closest(reuse_step step, std::uint64_t size) {
    block* own = what == asked_for::idle ? nullptr : in.large.best_of(cache.lane, size);
    block* clean = in.large.best_clean(size);
    const auto place = [&](reuse_step each) {
      return std::find(in.options.order.begin(), in.options.order.end(), each);
    };
    const auto fresh = place(reuse_step::fresh);
    const bool both = place(reuse_step::ordered) < fresh && place(reuse_step::complete) < fresh;
    const bool prefers_own = step == reuse_step::ordered;
    bool takes_own = prefers_own;
    if (both && own != nullptr && clean != nullptr) {
      takes_own = prefers_own ? own->capacity <= clean->capacity : own->capacity < clean->capacity;
    } else if (both) {
      takes_own = own != nullptr;
    }
    block* b = takes_own ? own : clean;
    if (b == nullptr) return {};
    return {cut(b, size), takes_own ? reuse_step::ordered : reuse_step::complete};
  }

  // A block that suits from the cache of another lane, after a look at a few.
  template <class Suits>
  block* steal(const Suits& suits) {
    const auto& caches = in.lanes.caches;
    std::size_t looks = std::min<std::size_t>(caches.size(), 8);
    for (; looks > 0; --looks) {
      if (in.turn >= caches.size()) in.turn = 0;
      lane_cache& other = *caches[in.turn++];
      if (&other == &cache) continue;
      const guard theirs(other.lock);
      if (block* b = other.pop_if(bytes, suits)) return b;
    }
    return nullptr;
  }
  choice steal_ordered() {
    return {steal([&](const block& each) { return is_ordered(each); }), reuse_step::ordered};
  }
  choice steal_complete() {
    return without_history(steal([&](const block& each) { return is_complete(each); }));
  }

  // New memory costs more than looking everywhere first.
  choice grow(std::uint64_t size) {
    if (!has_reclaimed) {
      has_reclaimed = true;
      in.reclaim(false);
      if (may_be_complete()) sweep();
      for (const reuse_step step : in.options.order) {
        if (step == reuse_step::fresh) break;
        if (step == reuse_step::waited) continue;
        if (choice c = find_large(step, size)) return c;
        if (step != reuse_step::ordered || what == asked_for::idle) continue;
        const auto needs_no_wait = [&](const block& b) {
          return heap::has_no_history(b) || (b.stands == block::place::of_lane && b.lane == cache.lane);
        };
        if (block* b = in.large.squeeze(size, needs_no_wait)) return {cut(b, size), step};
      }
    }
    block* b = in.large.grow(size);
    return b != nullptr ? choice{cut(b, size), reuse_step::fresh} : choice{};
  }

  choice find_small(reuse_step step) {
    page_store& from = in.small;
    const unsigned k = class_of(bytes);
    block* b = nullptr;
    switch (step) {
      case reuse_step::ordered:
        if (what == asked_for::idle) return {};
        if (choice c = from_cache()) return c;
        b = from.find_used(k, [&](const block& each) { return is_ordered(each); });
        if (b == nullptr) return steal_ordered();
        break;
      case reuse_step::complete:
        if (choice c = from_cache_if_complete()) return c;
        b = from.first_clean(k);
        if (b != nullptr) break;
        if (!may_be_complete()) return {};
        b = from.find_used(k, [&](const block& each) { return is_complete(each); });
        return b != nullptr ? without_history(from.take(b)) : steal_complete();
      case reuse_step::fresh:
        b = from.carve(k);
        if (b == nullptr && add_clean_page(k)) b = from.carve(k);
        return {b, step};
      case reuse_step::waited:
        if (what == asked_for::idle) return {};
        b = from.first_used(k);
        if (b == nullptr) {
          const choice memory = find_large(reuse_step::waited, page_store::page_bytes(k));
          if (!memory) return {};
          add_page(memory.b);
          b = from.carve(k);
          if (b != nullptr) return {b, reuse_step::complete};
          if (memory.step == reuse_step::ordered) step = reuse_step::ordered;
          b = from.first_used(k);
        }
        break;
    }
    return b != nullptr ? choice{from.take(b), step} : choice{};
  }

  bool add_clean_page(unsigned k) {
    const std::uint64_t size = page_store::page_bytes(k);
    block* b = in.large.best_clean(size);
    if (b == nullptr) b = in.large.best_fresh(size);
    if (b == nullptr && in.large.may_grow(size)) {
      if (may_be_complete()) {
        sweep();
        b = in.large.best_clean(size);
      }
      if (b == nullptr) b = in.large.grow(size);
    }
    if (b == nullptr) return false;
    add_page(cut(b, size));
    return true;
  }
  void add_page(block* memory) { in.small.add(memory, class_of(bytes), in.large); }

  choice from_cache() {
    if (std::exchange(has_looked_in_cache, false)) return {};
    const guard own(cache.lock);
    return {cache.pop(bytes), reuse_step::ordered};
  }
  // The lane's own blocks are ordered before its ops, but not before the host.
  choice from_cache_if_complete() {
    if (what != asked_for::idle) return {};
    const guard own(cache.lock);
    return without_history(cache.pop_if(bytes, [&](const block& each) { return is_complete(each); }));
  }
  static choice without_history(block* b) noexcept {
    if (b != nullptr) b->past.clear();
    return {b, reuse_step::complete};
  }
  block* cut(block* b, std::uint64_t size) { return in.large.cut(b, size, 0, in.completion); }
  void sweep() {
    in.large.sweep([&](const point& p) { return is_over(p); });
  }
};

}  // namespace braid::detail
