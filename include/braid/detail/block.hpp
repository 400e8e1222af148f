#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "braid/detail/resource_state.hpp"
#include "braid/memory.hpp"

namespace braid::detail {

struct page;
class pool;
struct block;

/// To the pool that it came from: see pool::give().
void give_back(block* b) noexcept;

/// The first of `count` ids that no other resource of this process has or will have.
std::uint64_t reserve_resource_ids(std::uint64_t count) noexcept;

/// Memory with its history: what a buffer is bound to while it lives, and what a pool keeps between two
/// buffers. The history stays with the bytes when the buffer dies, so that freeing never waits: the next
/// owner's first access comes after every access of the owners before.
///
/// While it has an owner, `size` is what the owner asked for, and `data`, `capacity` and `taken_as` do not
/// change; everything behind is the pool's own.
struct block : resource_state {
  block(std::byte* at, std::uint64_t bytes) : resource_state(bytes, {}), data(at), capacity(bytes) {}

  std::byte* data;
  std::uint64_t capacity;
  bool is_of_all_devices = false;           // each can use it, of several
  std::atomic<bool> is_owned{false};        // whether a buffer refers to it, as far as the runtime says
  reuse_step taken_as = reuse_step::fresh;  // of the present owner
  pool* home = nullptr;                     // that it goes back to

  enum class kind : std::uint8_t { small, large, adopted };
  enum class place : std::uint8_t { out, fresh, clean, of_lane, mixed };
  kind is = kind::large;
  place stands = place::out;  // in which shared list; out: with an owner, or in a lane's cache
  std::uint8_t size_class = 0;
  bool used = false;      // had an owner since it came from the source
  lane_id lane{};         // that it was taken for; where it stands `of_lane`: the lane of its one point
  page* in = nullptr;     // of a small block
  block* next = nullptr;  // in the list that it stands in
  block* prev = nullptr;
  block* before = nullptr;  // its neighbours in the segment, of a large block
  block* after = nullptr;
  block* older = nullptr;  // in the row of free large blocks with a history
  block* newer = nullptr;
};

}  // namespace braid::detail
