#pragma once

// Which stream an op gets that names none, and what a stream's device can reach; part of runtime.hpp.

#include <algorithm>
#include <vector>

#include "braid/detail/pool.hpp"
#include "braid/detail/runtime_class.hpp"

namespace braid {

template <runtime_backend B>
std::size_t basic_runtime<B>::device_of(const detail::block& memory) const noexcept {
  const auto at = std::ranges::find(pools_, memory.home, [](const auto& each) { return each.get(); });
  return at != pools_.end() ? static_cast<std::size_t>(at - pools_.begin()) : 0;
}

template <runtime_backend B>
[[gnu::noinline]] std::size_t basic_runtime<B>::device_near(
    std::span<detail::buffer_core* const> used) const {
  std::vector<std::uint64_t> bytes(pools_.size());
  for (const detail::buffer_core* core : used) {
    const detail::block* memory =
        core != nullptr ? core->memory.load(std::memory_order_acquire) : nullptr;  // pairs with take_memory()
    if (memory != nullptr && !memory->is_of_all_devices) bytes[device_of(*memory)] += core->bytes;
  }
  const auto most = std::ranges::max_element(bytes);
  return *most != 0 ? static_cast<std::size_t>(most - bytes.begin()) : any_device;
}

template <runtime_backend B>
[[gnu::noinline]] const detail::buffer_core* basic_runtime<B>::find_unreachable(
    [[maybe_unused]] detail::lane_id lane, std::span<detail::buffer_core* const> used) const noexcept {
  if constexpr (requires { engine_->backend().can_reach(engine_->stream_of(lane), std::size_t{}); }) {
    if (pools_.size() == 1) return nullptr;
    for (const detail::buffer_core* core : used) {
      const detail::block* memory =
          core != nullptr ? core->memory.load(std::memory_order_acquire) : nullptr;  // as above
      if (memory == nullptr || memory->is_of_all_devices) continue;
      if (!engine_->backend().can_reach(engine_->stream_of(lane), device_of(*memory))) return core;
    }
  }
  return nullptr;
}

template <runtime_backend B>
void basic_runtime<B>::expect_reachable(std::string_view label, stream_id id, detail::lane_id lane,
                                        std::span<detail::buffer_core* const> used) const {
  if (const detail::buffer_core* found = find_unreachable(lane, used)) [[unlikely]]
    detail::throw_unreachable(label, id, *found);
}

template <runtime_backend B>
bool basic_runtime<B>::may_place(stream_id id, std::size_t device) {
  // As slots belong to devices.
  if (device != any_device && (id.is_special() || id.value % width_ % pools_.size() != device)) return false;
  return !has_adopted_lanes_.load(std::memory_order_acquire) || !is_adopted(engine_->lane_of(id));
}

template <runtime_backend B>
bool basic_runtime<B>::is_adopted(detail::lane_id lane) {
  const std::scoped_lock lock(adopted_mutex_);
  for (const detail::lane_id adopted : adopted_lanes_)
    if (adopted == lane) return true;
  return false;
}

template <runtime_backend B>
void basic_runtime<B>::add_points_of(detail::buffer_core& core, access kind,
                                     detail::op_point*& out) noexcept {
  // relaxed: hints
  detail::op_point last;
  last.bits = core.last_write.load(std::memory_order_relaxed);
  if (last.bits != 0) *out++ = last;
  if (kind == access::read) return;
  last.bits = core.last_read.load(std::memory_order_relaxed);
  if (last.bits != 0) *out++ = last;
}

template <runtime_backend B>
std::uint64_t basic_runtime<B>::length_of(stream_id id) noexcept {
  const std::uint64_t cursor = engine_->cursor(id);
  if (cursor == 0) return 0;
  const detail::lane_id lane = engine_->lane_of(id);
  if constexpr (requires { engine_->backend().length_of(engine_->stream_of(lane)); }) {
    return engine_->backend().length_of(engine_->stream_of(lane));
  } else {
    return cursor - engine_->known_over(lane);
  }
}

// On the device that has most of what the op uses. Where ops are shorter than a wait, behind the last writer
// of the first thing that the op uses: whatever is queued there takes less time than a wait. Else behind an
// op that this one conflicts with, if nothing was queued there since: it has to come after that op anyway, so
// that costs no parallelism and saves a wait. Else the stream with the least to do, of a few: the submitter
// runs ahead of the work, so that to stay behind the producer would mean to wait for all that is queued
// there.
template <runtime_backend B>
stream_id basic_runtime<B>::place(std::span<const detail::op_point> before,
                                  std::span<detail::buffer_core* const> used) {
  if (placement_ == placement::single) return stream_id{0};
  if (placement_ == placement::per_thread) return stream_id::current();
  bool is_fine_grained = false;
  if constexpr (requires { engine_->backend().is_fine_grained(); }) {
    is_fine_grained = !deterministic_ && engine_->backend().is_fine_grained();
  }
  if (is_fine_grained && !before.empty()) return engine_->id_of(before.front().lane());
  const std::size_t device = pools_.size() == 1 ? any_device : device_near(used);
  for (const detail::op_point p : before) {
    if (engine_->cursor_of(p.lane()) != p.cursor()) continue;
    if (const stream_id behind = engine_->id_of(p.lane()); may_place(behind, device)) return behind;
  }
  // relaxed: a hint, and a lost update does no harm
  const std::uint32_t next = rotation_.load(std::memory_order_relaxed) % width_;
  std::uint32_t chosen = next;
  for (std::uint32_t i = 0; i < width_ && !may_place(stream_id{chosen}, device); ++i)
    chosen = (chosen + 1) % width_;
  std::uint64_t shortest = std::numeric_limits<std::uint64_t>::max();
  std::uint32_t looks = deterministic_ || is_fine_grained ? 0 : 4;
  for (std::uint32_t i = 0; i < width_ && looks != 0 && shortest != 0; ++i) {
    const std::uint32_t candidate = (next + i) % width_;
    if (!may_place(stream_id{candidate}, device)) continue;
    --looks;
    const std::uint64_t length = length_of(stream_id{candidate});
    if (length >= shortest) continue;
    shortest = length;
    chosen = candidate;
  }
  rotation_.store((chosen + 1) % width_, std::memory_order_relaxed);
  return stream_id{chosen};
}

}  // namespace braid
