#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "braid/detail/block.hpp"
#include "braid/detail/callback.hpp"
#include "braid/detail/trace_hooks.hpp"
#include "braid/log.hpp"
#include "braid/memory.hpp"

// A stream-ordered pool: hands out blocks of memory and takes them back at once, whatever is still in flight.
//
// A block keeps its history while it is free. Its next owner's first op, resolved on the same resource_state,
// waits for what is in there and is not known to come before. So give() asks nobody and waits for nobody, and
// take() is a choice between blocks that differ in what that first op will have to wait for.
//
// A block whose points are all of one lane returns to that lane's own cache, and is taken from there again
// under the lane's own lock, with no question asked: a slot's ops run in order. Everything else goes through
// the shared lists, under one lock.
//
// All functions may be called from any thread. The questions are asked under the pool's locks: they may not
// block, throw, or call the pool. An op takes a block's `data` while the block has an owner; it may go on to
// refer to the block object until it is complete.

namespace braid::detail {

/// A question about a point, valid for the time of a call.
class point_question {
 public:
  template <class F>
    requires(!std::same_as<F, point_question>)
  point_question(const F& ask) noexcept
      : object_(&ask), call_([](const void* object, const point& p) -> bool {
          return (*static_cast<const F*>(object))(p);
        }) {}
  bool operator()(const point& p) const { return call_(object_, p); }

 private:
  const void* object_;
  bool (*call_)(const void*, const point&);
};

struct pool_options {
  std::uint64_t limit = 0;     ///< on what is reserved, in bytes; 0: none
  bool deterministic = false;  ///< take() never lets completion decide
  reuse_order order = default_reuse_order;
  std::uint64_t lane_cache_bytes = std::uint64_t{32} << 20;  ///< the most that one lane keeps to itself
  /// Whether the work at a point is over (failed work too). Required. Also asked in deterministic mode, but
  /// then only for what changes no wait: trim(), usage(), adopted memory, objects of the pool.
  callback<bool(const point&)> is_complete = {};
  /// Whether it is known to be over, without a question to the device. Not asked in deterministic mode. Null:
  /// nothing is.
  callback<bool(const point&)> is_known_complete = {};
  callback<std::string(lane_id)> lane_name = {};  ///< for reports; null: "lane N"
  std::shared_ptr<logger> log = {};               ///< null: none
};

class pool {
 public:
  /// Throws usage_error(bad_settings) for an order that leaves out a step.
  pool(std::shared_ptr<memory_source> source, pool_options options);
  /// All work is over. Blocks that still have an owner are gone too; the log says how many.
  ~pool();
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;

  /// A block of at least `bytes` for an owner whose first op is given to `lane`; `is_ordered` says whether a
  /// point comes before that op anyway (never asked for points of `lane`). Held once (refs == 1), with a
  /// fresh id and `size` == bytes; the caller names it. Aligned to 64 bytes, to 256 from 256 bytes on, and as
  /// the source asks for. Throws out_of_memory.
  [[nodiscard]] block* take(lane_id lane, std::uint64_t bytes, point_question is_ordered);

  /// As take(), but only a block that no op can still touch, because the host writes into it at once: one
  /// that is complete, without history, or new. Null if there are only others. `is_known_complete` is asked
  /// also in deterministic mode: there it has to answer from what the program waited for.
  [[nodiscard]] block* take_idle(lane_id lane, std::uint64_t bytes, point_question is_known_complete);

  /// A block around memory that is not the pool's, behind all that is still to be done to the same bytes.
  /// After give() its object lives on until it is complete.
  [[nodiscard]] block* adopt(void* data, std::uint64_t bytes);

  /// The last handle is gone. Never blocks on a device and asks it nothing.
  void give(block* b) noexcept;

  /// Gives segments that are free and complete back to the source, as long as `keep` bytes stay reserved.
  /// Returns how many bytes went.
  std::uint64_t trim(std::uint64_t keep = 0);

  [[nodiscard]] memory_usage usage() const;
  [[nodiscard]] std::string last_error() const { return source_->last_error(); }

  /// Tells traces of what is taken and given back, as the runtime of this number. Before the first use.
  void trace_as(std::uint32_t runtime) noexcept { traced_as_ = runtime; }
  /// A block was taken for an owner of this name.
  void note_owner(block& taken, std::string_view name) const {
    if (taken.name != name) taken.name = name;  // most blocks go from one buffer to the next of its kind
    if (is_tracing()) [[unlikely]]
      note_taken(taken, name);
  }

 private:
  void note_taken(const block& taken, std::string_view name) const noexcept;
  /// What has to be looked for: sizes that are multiples of the alignment keep blocks on it.
  [[nodiscard]] std::uint64_t room_for(std::uint64_t bytes) const noexcept {
    return (bytes + alignment_ - 1) & ~(alignment_ - 1);
  }
  struct lane_cache;
  struct lane_table;
  struct shared_lists;
  enum class asked_for : std::uint8_t { any, idle };

  [[nodiscard]] lane_cache* find_cache(lane_id lane) const noexcept;
  lane_cache& make_cache(lane_id lane);
  [[nodiscard]] block* take_slowly(lane_cache& cache, std::uint64_t bytes, point_question ask,
                                   asked_for what);
  block* prepare(block* b, lane_id lane, std::uint64_t bytes, std::uint64_t id, reuse_step step);

  const std::shared_ptr<memory_source> source_;
  const pool_options options_;
  const std::uint64_t alignment_;  // of the source
  const std::unique_ptr<lane_table> lanes_;
  const std::unique_ptr<shared_lists> shared_;
  std::uint32_t traced_as_ = 0;  // 0: not at all
};

}  // namespace braid::detail
