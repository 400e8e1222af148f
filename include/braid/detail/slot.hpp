#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "braid/alignment.hpp"
#include "braid/backend.hpp"
#include "braid/detail/lock.hpp"
#include "braid/detail/mark.hpp"
#include "braid/detail/resource_state.hpp"
#include "braid/detail/retired.hpp"
#include "braid/detail/stamp_pool.hpp"
#include "braid/resource.hpp"
#include "braid/stream_stats.hpp"

namespace braid::detail {

/// A count that one thread at a time adds to and any thread reads.
class counter {
 public:
  [[gnu::always_inline]] void operator+=(std::uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);  // orders nothing
  }
  void operator++() noexcept { *this += 1; }
  operator std::uint64_t() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// A point that an op has to come after and that its slot does not know.
struct need {
  std::uint64_t cursor = 0;
  lane_id lane{};
  std::uint32_t binding = 0;
  const resource_state* resource = nullptr;  // lives as long as its op is open
  stamp* by = nullptr;
  hazard why{};
  bool holds = false;  // `by`: while the resource is not locked its history may drop the point
};

/// In the order in which they are looked at: by their origin, then by the binding, the newest first.
[[nodiscard]] inline bool comes_before(const need& x, const need& y) noexcept {
  if (x.lane != y.lane) return x.lane < y.lane;
  if (x.binding != y.binding) return x.binding < y.binding;
  return x.cursor > y.cursor;
}
void sort(std::vector<need>& needs) noexcept;

/// A resource that an op uses, by one of its bindings.
struct resource_use {
  resource_state* state;
  std::uint32_t binding;
  bool exclusive;  // of the first use of a resource: whether the op writes it anywhere
};
/// By the address of the resource.
void sort(std::span<resource_use> uses) noexcept;

/// The newest need of one origin, on its way to a wait.
template <class B>
struct planned_wait {
  planned_wait() noexcept = default;
  explicit planned_wait(const need& of) noexcept : n(of) {}

  need n;
  mark<B>* m =
      nullptr;  // held, or held until the op is committed; null: to be recorded, or a point, or foreign
  stamp* clock = nullptr;  // where m is null: what waiting for it will teach at least
  std::uint64_t reached = 0;
  bool removed = false;
  bool is_news = false;      // no clock knows it
  bool is_recorded = false;  // m, for this
  bool is_counted = false;   // m, as held
  bool is_implied = false;   // removed, because another one brings it along
  bool implies_others = false;
};

/// A stream with all that the engine knows of it.
template <class B>
struct slot final : open_op {
  slot(lane_id number, stream_id made_for, typename B::stream made, stamp_pool& from)
      : lane(number),
        stream(std::move(made)),
        name(from.name()),
        first_id(made_for),
        known(number),
        stamps(from),
        now(from.make_current(known)) {
    ids.push_back({1, made_for});
    (void)room_for_uses(8);
  }
  ~slot() {
    leave_before();
    if constexpr (point_backend<B>) {
      now->leave();
    } else {
      now->leave_to_marks();
    }
  }

  // ---- Of the op that is being given: under `lock`, from resolve to commit.
  alignas(64) spin_lock lock;  // what an op of a routine looks at stands in one line with it
  bool mark_wanted = false;    // what the last op wrote is likely to be used elsewhere
  bool has_afterwork = false;  // commit has to look at `retiring`, `orphans`, the work in flight or a mark
  bool has_waits = false;      // `needs` and `plan` are of the last op
  bool is_adopted = false;     // the stream is the program's
  const lane_id lane;
  void* followed = nullptr;                 // the routine that has the slot
  std::uint64_t cursor = 0;                 // of the open op, and of the last one when none is open
  std::atomic<std::uint64_t> committed{0};  // ops handed over; the release store pairs with all acquires
  stream_id last_id{~std::uint64_t{0}};
  typename B::stream stream;
  stamp* const name;  // never counted
  const stream_id first_id;
  using use = resource_use;
  std::unique_ptr<use[]>
      use_list;  // the op's resources, in address order, or as the op names them if nobody waits
  std::uint32_t use_count = 0;
  std::uint32_t use_capacity = 0;
  std::uint8_t other_ops = 0;  // so many more ops do not try the shortest way
  counter elided_same_stream;
  clock known;

  stamp* before =
      nullptr;  // with points: the one before `now`, as long as readers of the open op may have it
  std::vector<need> needs;            // of the op that is being given, or was last given with waits
  std::vector<planned_wait<B>> plan;  // likewise
  std::vector<const typename B::event*> awaited;  // of the plan, where a backend waits at once
  alignment aligned;                              // the same in words, if somebody asked
  std::uint64_t admitted_bytes = 0;               // where the work in flight is limited
  std::vector<retired> retiring;
  std::vector<resource_state*> orphans;

  counter waits[hazard_count], elided_known, elided_implied, elided_complete, marks_reused, excess, forgotten,
      coarsened, retired_objects, errors, followed_ops;

  // ---- What others may look up: under `list_lock`.
  alignas(64) spin_lock list_lock;
  stamp_pool& stamps;
  stamp* now;                   // a copy of `known`, made after the waits of an op were handed over
  std::uint64_t published = 0;  // that op
  mark_list<B> marks;
  std::uint64_t pending_from = 0;  // a mark at this cursor was seen to be incomplete
  std::uint32_t patience = 0;      // how many more looks at such marks to skip
  struct id_run {
    std::uint64_t from;
    stream_id id;
  };
  std::vector<id_run> ids;  // which id the ops from a cursor on were given to
  std::atomic<bool> has_many_ids{false};
  std::uint64_t learned = 0;  // the newest op that some slot's clock may know
  counter marks_recorded, marks_early;
  std::atomic<std::uint64_t> marked{0};  // the newest mark's cursor
  std::exception_ptr failure;            // of the op at `failed_at`, for who waits next
  std::uint64_t failed_at = 0;
  std::atomic<bool> has_failed{false};
  std::atomic<std::uint64_t> waited_out{0};  // up to here the engine's end has waited

  // ---- Raised by any thread.
  alignas(64) std::atomic<std::uint64_t> completed{0};

  void raise_completed(std::uint64_t to) noexcept {
    std::uint64_t seen = completed.load(std::memory_order_relaxed);
    // release: pairs with the acquire in is_complete()
    while (seen < to &&
           !completed.compare_exchange_weak(seen, to, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  [[nodiscard]] bool is_complete(std::uint64_t at) const noexcept {
    return completed.load(std::memory_order_acquire) >= at;  // pairs with raise_completed()
  }

  [[nodiscard]] bool uses(const resource_state* state) const noexcept override {
    for (const use& u : all_uses())
      if (u.state == state) return true;
    return false;
  }
  void adopt(resource_state* state) noexcept override {
    orphans.push_back(state);
    has_afterwork = true;
  }

  [[nodiscard]] std::span<const use> all_uses() const noexcept { return {use_list.get(), use_count}; }
  /// The needs' stamps are not looked at any more.
  void release_needs() noexcept {
    if constexpr (point_backend<B>) {
      for (need& n : needs) {
        if (std::exchange(n.holds, false)) n.by->release();
      }
    }
  }
  void leave_before() noexcept {
    if (stamp* old = std::exchange(before, nullptr)) old->leave();
  }
  void forget_waits() noexcept {
    needs.clear();
    plan.clear();
    aligned.shared.clear();
    aligned.waits.clear();
    has_waits = false;
  }
  /// Room for `count` uses; none are listed yet.
  [[nodiscard]] use* room_for_uses(std::size_t count) {
    if (count > use_capacity) [[unlikely]] {
      use_list = std::make_unique<use[]>(2 * count);
      use_capacity = static_cast<std::uint32_t>(2 * count);
    }
    return use_list.get();
  }

  /// Somebody will have waited for the op at `at`. Under `list_lock`.
  void note_learned(std::uint64_t at) noexcept {
    if (learned < at) learned = at;
  }

  /// The id that the op at `at` was given to. Under `list_lock`.
  [[nodiscard]] stream_id id_at(std::uint64_t at) const noexcept {
    auto run = ids.size();
    while (run > 1 && ids[run - 1].from > at) --run;
    return ids[run - 1].id;
  }
  /// The op at `at` and those after it are given to `id`. Under `list_lock`.
  void enter_id(std::uint64_t at, stream_id id) {
    constexpr std::size_t most = 64;
    if (ids.back().id == id) return;
    if (ids.size() == most) ids.erase(ids.begin() + 1);  // an old op may be named by a neighbour's id
    ids.push_back({at, id});
    has_many_ids.store(true, std::memory_order_relaxed);  // published with the first op of the new id
  }
};

}  // namespace braid::detail
