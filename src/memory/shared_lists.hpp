#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "braid/detail/lock.hpp"
#include "braid/detail/pool.hpp"
#include "heap.hpp"
#include "lane_cache.hpp"
#include "page_store.hpp"

namespace braid::detail {

using guard = std::lock_guard<spin_lock>;

/// Lanes by number, in two levels so that looking one up takes no lock.
struct pool::lane_table {
  static constexpr std::uint32_t wide = 256;
  struct row {
    std::array<std::atomic<lane_cache*>, wide> caches{};
  };
  std::array<std::atomic<row*>, wide> rows{};
  std::vector<std::unique_ptr<row>> made_rows;      // under the shared lock, as is the next
  std::vector<std::unique_ptr<lane_cache>> caches;  // in the order of first use
};

/// What lanes share: everything under `lock`. A lane's lock may be taken while holding it, never the other
/// way.
struct pool::shared_lists {
  shared_lists(memory_source& source, const pool_options& with, lane_table& all)
      : options(with), completion{with}, lanes(all), large(source, with.limit) {}

  const pool_options& options;
  const struct {
    const pool_options& options;
    bool operator()(const point& p) const { return options.is_complete && options.is_complete(p); }
  } completion;
  lane_table& lanes;
  spin_lock lock;
  heap large;
  page_store small;
  std::size_t turn = 0;  // whose cache to look into next
  block_list leaving;    // adopted memory that was given back
  block_list adopted;    // adopted memory with an owner
  std::uint64_t peak_live = 0;
  std::atomic<std::int64_t> live{0};  // as far as published; a statistic, orders nothing

  void put(block* b) noexcept {
    if (b->is == block::kind::small) return small.put(b);
    (void)large.put(b);
  }
  /// What the lanes keep to themselves becomes everybody's.
  void reclaim(bool small_too) {
    for (const auto& cache : lanes.caches) {
      const guard own(cache->lock);
      cache->drain(small_too, [&](block* b) { put(b); });
    }
  }
  void publish(std::int64_t change) noexcept {
    const std::int64_t sum = live.fetch_add(change, std::memory_order_relaxed) + change;
    if (sum > 0) peak_live = std::max(peak_live, static_cast<std::uint64_t>(sum));
  }
  /// Deletes adopted blocks that nobody uses any more, after a few looks.
  void look_at_leaving(std::size_t looks) noexcept {
    const block* kept = nullptr;  // the first that was asked about and stays
    while (looks-- > 0 && leaving.first() != nullptr && leaving.first() != kept) {
      block* b = leaving.first();
      leaving.erase(b);
      if (all_points(*b, completion)) {
        delete b;
      } else {
        leaving.push_back(b);
        if (kept == nullptr) kept = b;
      }
    }
  }

  struct search;
};

}  // namespace braid::detail
