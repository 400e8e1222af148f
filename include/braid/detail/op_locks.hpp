#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "braid/detail/routine.hpp"
#include "braid/detail/slot.hpp"
#include "braid/detail/stamp_pool.hpp"
#include "braid/error.hpp"
#include "braid/resource.hpp"
#include "braid/stream_pool.hpp"

namespace braid::detail {

[[noreturn]] void throw_bad_binding(const binding& b, std::size_t index);
[[noreturn]] void throw_not_ours(const resource_state& r);
[[noreturn]] void throw_handed_on(const resource_state& r);
[[noreturn]] void throw_conflicting(const resource_state& r, std::size_t first, std::size_t second);

/// Whether the op at hand could tell the two bindings of one resource apart only by an order.
inline bool is_conflict(const binding& a, const binding& b) noexcept {
  if (!a.range.overlaps(b.range)) return false;
  if (a.kind == access::read && b.kind == access::read) return false;
  return !(a.kind == access::accumulate && b.kind == access::accumulate && a.tag == b.tag);
}

/// Checks an op's bindings and locks its resources, in the order of their addresses; or tries to, in any
/// order: who only tries waits for nobody while it holds others.
template <class B, bool Synchronised>
class op_locks {
 public:
  using slot_type = slot<B>;

  op_locks(stream_pool<slot_type>& pool, stamp_arena& arena) noexcept : pool_(pool), arena_(arena) {}

  static void check(const binding& b, std::size_t index) {
    if (!is_valid(b)) [[unlikely]]
      throw_bad_binding(b, index);
  }

  /// Throws for misuse; else lists the uses in `s`, sorted. Takes no lock.
  void list(slot_type& s, std::span<const binding> bindings) const {
    use* const uses = s.room_for_uses(bindings.size());
    s.use_count = 0;
    for (std::uint32_t i = 0; i < bindings.size(); ++i) {
      const binding& b = bindings[i];
      check(b, i);
      if (b.state->owner.load(std::memory_order_acquire) != &arena_) own(*b.state);
      uses[i] = {b.state, i, b.kind != access::read};
    }
    if (bindings.size() > 1) sort(std::span<resource_use>(uses, bindings.size()));
    for (std::uint32_t i = 1; i < bindings.size(); ++i) {
      if (uses[i].state == uses[i - 1].state) join(uses, i, bindings);
    }
    s.use_count = static_cast<std::uint32_t>(bindings.size());
  }

  // The short way, for resources that are bound as a whole, not to accumulate, and once each.

  /// Lists the uses in `s`, sorted. False if a binding is another, or a resource comes twice, or they are too
  /// many to be sorted by hand. Takes no lock.
  [[nodiscard, gnu::always_inline]] bool list_plainly(slot_type& s,
                                                      std::span<const binding> bindings) const noexcept {
    constexpr std::size_t few = 32;
    if (bindings.size() > few || bindings.size() > s.use_capacity) [[unlikely]]
      return false;
    use* const uses = s.use_list.get();
    for (std::uint32_t i = 0; i < bindings.size(); ++i) {
      const binding& b = bindings[i];
      if (!is_plain(b)) [[unlikely]]
        return false;
      std::uint32_t at = i;
      for (; at > 0 && uses[at - 1].state >= b.state; --at) {
        if (uses[at - 1].state == b.state) [[unlikely]]
          return false;
        uses[at] = uses[at - 1];
      }
      uses[at] = {b.state, i, b.kind != access::read};
    }
    return true;
  }
  /// Holds the resource if nobody else does or waits to, and if it is simple: bound as a whole, with a
  /// history in one piece.
  [[nodiscard, gnu::always_inline]] bool try_lock_plain(const binding& b) const noexcept {
    if (!is_plain(b)) [[unlikely]]
      return false;
    resource_state& r = *b.state;
    if constexpr (Synchronised) {
      if (!r.lock.try_lock()) [[unlikely]]
        return false;
    }
    if (!r.handed_on && r.past.is_in_one_piece() && r.writers_waiting.load(std::memory_order_relaxed) == 0)
        [[likely]]
      return true;
    if constexpr (Synchronised) r.lock.unlock();
    return false;
  }
  /// Waits for writers and holds the resource. False, holding nothing: it has a next owner, or its history is
  /// in pieces.
  [[gnu::always_inline]] static bool lock_plain_to_read(resource_state& r) noexcept {
    if constexpr (Synchronised) {
      if (r.writers_waiting.load(std::memory_order_relaxed) != 0) [[unlikely]]
        let_writers_pass(r);
      r.lock.lock();
    }
    return keep_plain(r);
  }
  /// Likewise, and waits until each reader was handed over.
  [[gnu::always_inline]] bool lock_plain_to_write(const slot_type& s, resource_state& r) const noexcept {
    if constexpr (Synchronised) {
      r.lock.lock();
      if (!r.past.has_no_reader_but_of(s.lane) && !is_free_of_readers(s, r)) [[unlikely]]
        wait_for_readers(s, r);
    }
    return keep_plain(r);
  }

  /// Takes the resource of a use: for the moment if the op only reads it. One that the op writes is locked
  /// with its first use and given back with that. Throws, holding nothing more, if it has a next owner.
  void lock(slot_type& s, std::size_t i) const {
    const use& u = s.use_list[i];
    if constexpr (Synchronised) {
      if (!u.exclusive) {
        // With a second use of the resource the op is among the readers that the writers wait for.
        if (is_first(s, i)) let_writers_pass(*u.state);
        u.state->lock.lock();
      } else if (is_first(s, i)) {
        u.state->lock.lock();
        if (!is_free_of_readers(s, *u.state)) wait_for_readers(s, *u.state);
      }
    }
    if (u.state->handed_on) {
      unlock(s, i);
      throw_handed_on(*u.state);
    }
  }

  static void unlock(slot_type& s, std::size_t i) noexcept {
    if constexpr (Synchronised) {
      if (!s.use_list[i].exclusive || is_first(s, i)) s.use_list[i].state->lock.unlock();
    }
  }

  /// Takes a resource of a recorded sequence of ops. The lanes of the sequence have no open op. Waits only if
  /// `may_wait`: then nothing else may be held. Throws, holding nothing more, if it has a next owner.
  [[nodiscard]] bool lock_for_replay(const slot_type& s, resource_state& r, bool is_written,
                                     bool may_wait) const {
    if constexpr (Synchronised) {
      if (may_wait) {
        if (!is_written) let_writers_pass(r);
        r.lock.lock();
        if (is_written && !is_free_of_readers(s, r)) wait_for_readers(s, r);
      } else {
        if (!is_written && r.writers_waiting.load(std::memory_order_relaxed) != 0) return false;
        if (!r.lock.try_lock()) return false;
        if (is_written && !is_free_of_readers(s, r)) {
          r.lock.unlock();
          return false;
        }
      }
    }
    if (r.handed_on) {
      if constexpr (Synchronised) r.lock.unlock();
      throw_handed_on(r);
    }
    return true;
  }

  void own(resource_state& r) const {
    stamp_arena* none = nullptr;
    // acq_rel: pairs with the loads of other engines' threads
    if (r.owner.compare_exchange_strong(none, &arena_, std::memory_order_acq_rel)) {
      arena_.retain();
    } else if (none != &arena_) {
      throw_not_ours(r);
    }
  }

 private:
  using use = typename slot_type::use;

  [[nodiscard, gnu::always_inline]] bool is_plain(const binding& b) const noexcept {
    return b.whole && b.kind != access::accumulate &&
           b.state->owner.load(std::memory_order_acquire) == &arena_;  // pairs with own()
  }

  [[nodiscard]] static bool is_valid(const binding& b) noexcept {
    return b.whole || (b.state != nullptr && b.range.offset <= b.state->size &&
                       b.range.size <= b.state->size - b.range.offset);
  }

  [[nodiscard]] static bool is_first(const slot_type& s, std::size_t i) noexcept {
    return i == 0 || s.use_list[i - 1].state != s.use_list[i].state;
  }

  // Uses i - 1 and i are of one resource: they must not conflict, and any write makes all of them exclusive.
  static void join(use* uses, std::uint32_t i, std::span<const binding> bindings) {
    for (std::uint32_t j = i; j-- > 0 && uses[j].state == uses[i].state;) {
      if (is_conflict(bindings[uses[j].binding], bindings[uses[i].binding])) {
        throw_conflicting(*uses[i].state, uses[j].binding, uses[i].binding);
      }
      if (uses[i].exclusive) uses[j].exclusive = true;
      if (uses[j].exclusive) uses[i].exclusive = true;
    }
  }

  [[gnu::always_inline]] static bool keep_plain(resource_state& r) noexcept {
    if (!r.handed_on && r.past.is_in_one_piece()) [[likely]]
      return true;
    if constexpr (Synchronised) r.lock.unlock();
    return false;
  }

  // Keeps writers from starving; orders nothing.
  [[gnu::noinline]] static void let_writers_pass(const resource_state& r) noexcept {
    backoff wait;
    while (r.writers_waiting.load(std::memory_order_relaxed) != 0) wait.pause();
  }

  // Whether each reader was handed over. Under the resource's lock.
  [[nodiscard, gnu::noinline]] bool is_free_of_readers(const slot_type& s,
                                                       const resource_state& r) const noexcept {
    bool free = true;
    r.past.readers(0, std::numeric_limits<std::uint64_t>::max(), [&](const point& p) {
      if (is_foreign(p.lane)) return;
      if (p.lane == s.lane || s.known.covers(p.lane, p.cursor)) return;
      // acquire: pairs with the release in commit(); what the reader's thread did before is seen
      if (pool_.lane(p.lane).committed.load(std::memory_order_acquire) < p.cursor) free = false;
    });
    return free;
  }

  [[gnu::noinline]] void wait_for_readers(const slot_type& s, resource_state& r) const {
    r.writers_waiting.fetch_add(1, std::memory_order_relaxed);
    backoff wait;
    do {
      r.lock.unlock();
      // A routine reads it again and again.
      if (r.routines.load(std::memory_order_acquire) != 0) end_routines_of(r);
      wait.pause();
      r.lock.lock();
    } while (!is_free_of_readers(s, r));
    r.writers_waiting.fetch_sub(1, std::memory_order_relaxed);
  }

  stream_pool<slot_type>& pool_;
  stamp_arena& arena_;
};

}  // namespace braid::detail
