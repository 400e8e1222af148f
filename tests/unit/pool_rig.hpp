#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "braid/detail/pool.hpp"
#include "braid/detail/slot.hpp"

namespace braid::test {

/// Counts what it gave out, and can be told to have no more.
struct counting_source final : memory_source {
  void* allocate(std::uint64_t bytes) noexcept override {
    if (is_empty) return nullptr;
    void* data = inner.allocate(bytes);
    if (data != nullptr) {
      out += bytes;
      ++segments;
    }
    return data;
  }
  void free(void* data, std::uint64_t bytes) noexcept override {
    inner.free(data, bytes);
    out -= bytes;
    --segments;
  }
  [[nodiscard]] const char* name() const noexcept override { return "counting"; }

  system_source inner;
  std::uint64_t out = 0;
  std::uint64_t segments = 0;
  bool is_empty = false;
};

constexpr auto never = [](const detail::point&) { return false; };

/// A pool and the slots that use it, without an engine: an op is its entry in a block's history, and its wait
/// is what the test says the slot knows.
class pool_rig {
 public:
  explicit pool_rig(detail::pool_options options = {}, unsigned lanes = 4)
      : source(std::make_shared<counting_source>()),
        completed(lanes),
        known_complete(lanes),
        cursors(lanes),
        locks_(lanes) {
    for (unsigned i = 0; i < lanes; ++i) {
      names_.push_back(arena_->add_pool(static_cast<detail::lane_id>(i), true).make_current(detail::clock{}));
    }
    options.is_complete = [this](const detail::point& p) {
      ++completion_asked;
      return p.cursor <= completed[detail::index_of(p.lane)];
    };
    options.is_known_complete = [this](const detail::point& p) {
      ++knowledge_asked;
      return p.cursor <= known_complete[detail::index_of(p.lane)];
    };
    pool = std::make_unique<detail::pool>(source, std::move(options));
  }
  ~pool_rig() {
    pool.reset();
    for (detail::stamp* s : names_) s->leave();
  }
  pool_rig(const pool_rig&) = delete;
  pool_rig& operator=(const pool_rig&) = delete;

  /// Of a slot that knows nothing of the others.
  detail::block* take(unsigned lane, std::uint64_t bytes) {
    return own(pool->take(static_cast<detail::lane_id>(lane), bytes, never));
  }
  /// Of a slot that knows all ops of `known`.
  detail::block* take_knowing(unsigned lane, std::uint64_t bytes, unsigned known) {
    return own(pool->take(static_cast<detail::lane_id>(lane), bytes,
                          [&](const detail::point& p) { return detail::index_of(p.lane) == known; }));
  }
  detail::block* take_idle(unsigned lane, std::uint64_t bytes) {
    return own(pool->take_idle(static_cast<detail::lane_id>(lane), bytes, [this](const detail::point& p) {
      return p.cursor <= completed[detail::index_of(p.lane)];
    }));
  }
  void write(detail::block* b, unsigned lane) { enter(b, lane, access::write, {0, b->size}); }
  void write(detail::block* b, unsigned lane, byte_range range) { enter(b, lane, access::write, range); }
  void read(detail::block* b, unsigned lane) { enter(b, lane, access::read, {0, b->size}); }
  void give(detail::block* b) { pool->give(b); }
  /// Takes, writes, and gives back.
  detail::block* use(unsigned lane, std::uint64_t bytes) {
    detail::block* b = take(lane, bytes);
    write(b, lane);
    give(b);
    return b;
  }
  void complete(unsigned lane) { completed[lane] = cursors[lane].load(); }
  void complete_all() {
    for (unsigned i = 0; i < cursors.size(); ++i) complete(i);
  }
  [[nodiscard]] memory_usage usage() const { return pool->usage(); }
  [[nodiscard]] std::uint64_t taken(reuse_step step) const { return usage().taken_by(step); }
  /// The lanes that a first write of the block has to come after, and for which reason.
  static std::vector<std::pair<unsigned, hazard>> needs(const detail::block& b) {
    std::vector<std::pair<unsigned, hazard>> out;
    b.past.needs(access::write, 0, {0, b.size}, true, [&](const detail::point& p, hazard why) {
      out.emplace_back(detail::index_of(p.lane), why);
    });
    return out;
  }

  std::shared_ptr<counting_source> source;
  std::vector<std::atomic<std::uint64_t>> completed;
  std::vector<std::atomic<std::uint64_t>> known_complete;
  std::vector<std::atomic<std::uint64_t>> cursors;
  std::atomic<std::uint64_t> completion_asked{0};
  std::atomic<std::uint64_t> knowledge_asked{0};
  std::unique_ptr<detail::pool> pool;

 private:
  detail::block* own(detail::block* b) {
    if (b != nullptr && b->owner.load() == nullptr) {
      arena_->retain();
      b->owner.store(arena_.get());
    }
    return b;
  }
  void enter(detail::block* b, unsigned lane, access kind, byte_range range) {
    own(b);
    const bool whole = range.size == b->size && range.size != 0;
    const std::scoped_lock of_the_slot(locks_[lane]);
    b->past.apply(kind, 0, range, whole, ++cursors[lane], names_[lane], static_cast<detail::lane_id>(lane));
  }

  detail::arena_handle arena_;
  std::vector<detail::stamp*> names_;
  std::vector<std::mutex> locks_;
};

}  // namespace braid::test
