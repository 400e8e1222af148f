#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "braid/detail/stamp.hpp"
#include "braid/error.hpp"
#include "braid/stream_id.hpp"

namespace braid {

/// The most slots that a pool can have, special ones included.
constexpr std::uint32_t max_slots = 65'536;

/// Where streams live: `max_streams` regular slots, to which an id maps by `id % max_streams`, and
/// `special_streams` slots beside them that only stream_id::special(n) names. A slot is made on first use and
/// lives as long as the pool; only asking for a stream never makes it. Any thread may call anything.
template <class Slot>
class stream_pool {
 public:
  stream_pool(std::uint32_t max_streams, std::uint32_t special_streams)
      : regular_(max_streams), total_(std::uint64_t{max_streams} + special_streams) {
    if (max_streams == 0) {
      throw usage_error(misuse::no_streams, "max_streams is 0: an engine needs at least one stream");
    }
    if (total_ > max_slots) {
      throw usage_error(misuse::too_many_streams,
                        "max_streams + special_streams is " + std::to_string(total_) + ": at most " +
                            std::to_string(max_slots) +
                            " slots are possible; ids may exceed that, they share slots");
    }
    by_index_ = std::make_unique<std::atomic<Slot*>[]>(total_);
    by_lane_ = std::make_unique<std::atomic<Slot*>[]>(total_);
  }

  /// The slot that an id maps to. Throws usage_error for a special id that the pool has no slot for.
  [[nodiscard]] std::size_t index(stream_id id) const {
    if (id.value < regular_) [[likely]]
      return id.value;
    if (!id.is_special()) return id.value % regular_;
    if (id.special_index() < total_ - regular_) return regular_ + id.special_index();
    throw usage_error(misuse::unknown_special,
                      "stream '" + to_string(id) + "' does not exist: the pool has " +
                          std::to_string(total_ - regular_) +
                          " special streams, numbered from 0; special_streams sets how many");
  }

  /// The slot of an id, or null if no op was ever given to it.
  [[nodiscard]] Slot* find(stream_id id) const {
    return by_index_[index(id)].load(std::memory_order_acquire);  // pairs with the release in get()
  }

  /// As find(), for ids that are their own slot's number; null for the others.
  [[nodiscard]] Slot* find_plain(stream_id id) const noexcept {
    if (id.value >= regular_) [[unlikely]]
      return nullptr;
    return by_index_[id.value].load(std::memory_order_acquire);  // as in find()
  }

  /// The slot of an id; `make(lane)` returns a new one's std::unique_ptr if there is none yet.
  template <class Make>
  Slot& get(stream_id id, Make&& make) {
    std::atomic<Slot*>& place = by_index_[index(id)];
    if (Slot* found = place.load(std::memory_order_acquire)) [[likely]]
      return *found;  // as in find()
    const std::scoped_lock lock(mutex_);
    if (Slot* found = place.load(std::memory_order_acquire)) return *found;
    const auto lane = static_cast<detail::lane_id>(owned_.size());
    Slot* made = owned_.emplace_back(make(lane)).get();
    by_lane_[index_of(lane)].store(made, std::memory_order_release);  // pairs with lane()
    place.store(made, std::memory_order_release);
    used_.store(static_cast<std::uint32_t>(owned_.size()), std::memory_order_release);
    return *made;
  }

  /// The slot of a lane that some history or clock names.
  [[nodiscard]] Slot& lane(detail::lane_id lane) const noexcept {
    return *by_lane_[index_of(lane)].load(std::memory_order_acquire);  // pairs with the release in get()
  }

  /// How many slots were made; their lanes are 0 to used() - 1.
  [[nodiscard]] std::uint32_t used() const noexcept { return used_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint32_t max_streams() const noexcept { return regular_; }

 private:
  std::uint32_t regular_;
  std::uint64_t total_;
  std::unique_ptr<std::atomic<Slot*>[]> by_index_;
  std::unique_ptr<std::atomic<Slot*>[]> by_lane_;
  std::atomic<std::uint32_t> used_{0};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slot>> owned_;
};

}  // namespace braid
