#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "braid/backend.hpp"
#include "braid/detail/shared_marks.hpp"
#include "braid/detail/stamp_pool.hpp"

namespace braid::detail {

/// An event recorded on a slot, the cursor that it covers and what the slot knew then. To wait on a mark is
/// to learn both.
template <class B>
struct alignas(64) mark {  // what who waits looks at comes first
  std::uint64_t cursor = 0;
  stamp* clock = nullptr;
  std::optional<typename B::event> event;  // none where the backend is asked for the point itself
  std::atomic<std::uint32_t> refs{0};      // the list's, and those who are counted
  std::uint32_t waiting = 0;               // of `waiters`; those behind have been told
  mark* next = nullptr;                    // in a list of those that are in no slot's
  std::atomic<mark*>* home = nullptr;      // where the last holder outside the lists puts it
  struct waiter {
    const std::atomic<std::uint64_t>* committed;  // of its slot
    std::uint64_t cursor;                         // of its op
    [[nodiscard]] bool is_open() const noexcept {
      // acquire: pairs with the release in commit(); who uses the mark again sees the last use
      return committed->load(std::memory_order_acquire) < cursor;
    }
  };
  static constexpr std::uint32_t most_waiting = 6;
  static constexpr std::atomic<std::uint64_t> nobody{0};
  waiter waiters[most_waiting]{{&nobody, 0}, {&nobody, 0}, {&nobody, 0},  // ops that are told to wait for it
                               {&nobody, 0}, {&nobody, 0}, {&nobody, 0}};

  /// The event of a mark that was recorded.
  [[nodiscard]] const typename B::event& recorded() const noexcept {
    if (!event) std::terminate();  // a mark for a point: nobody may wait on its event
    return *event;
  }

  /// Until the op `at` of a slot is committed; nothing has to be given back. False: there is no room. Under
  /// the list's lock.
  [[nodiscard]] bool hold_until(const std::atomic<std::uint64_t>& committed, std::uint64_t at) noexcept {
    if (waiting == most_waiting && !forget_waiters()) [[unlikely]]
      return false;
    waiters[waiting++] = {&committed, at};
    return true;
  }
  /// The slot's open op will not be committed. Under the list's lock.
  void let_go(const std::atomic<std::uint64_t>& committed) noexcept {
    for (waiter& w : std::span(waiters, waiting)) {
      if (w.committed == &committed) w = {&nobody, 0};
    }
  }
  /// Whether no op is just being told to wait for it. Under the list's lock. Whether there were none, one or
  /// two cannot be foreseen: both places are looked at. Who stands there, behind `waiting`, was told.
  [[nodiscard]] bool is_let_go() const noexcept {
    bool is_held = waiters[0].is_open();
    is_held |= waiters[1].is_open();
    for (std::uint32_t i = 2; i < waiting; ++i) is_held |= waiters[i].is_open();
    return !is_held;
  }

  void retain() noexcept { refs.fetch_add(1, std::memory_order_relaxed); }  // under the list's lock
  /// By a holder outside the lists, on any thread. What the mark holds is given back by the next user of
  /// the lists, so that no driver is called here.
  void release() noexcept {
    // acq_rel: whoever recycles it sees the last use
    if (refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    next = home->load(std::memory_order_relaxed);
    // release: pairs with the acquire in mark_list::take()
    while (!home->compare_exchange_weak(next, this, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }

 private:
  // Those that have been told. Whether there is room then.
  bool forget_waiters() noexcept {
    std::uint32_t left = 0;
    for (const waiter& w : std::span(waiters, waiting)) {
      if (w.is_open()) waiters[left++] = w;
    }
    waiting = left;
    return left != most_waiting;
  }
};

/// The marks of one slot that still serve, oldest first. A bounded number: where the exact one is gone the
/// next newer one is used, which reaches further. All but release() under the slot's list lock.
template <class B>
class mark_list {
 public:
  static constexpr std::uint32_t capacity = most_kept_marks;

  mark_list() = default;
  mark_list(const mark_list&) = delete;
  mark_list& operator=(const mark_list&) = delete;
  ~mark_list() {
    // Everything is over, and slots may be gone.
    while (size_ > 0) give_back(ring_[(first_ + --size_) % capacity]);
    for (mark<B>* m = held_; m != nullptr;) give_back(std::exchange(m, m->next));
    collect_returned(true);
  }

  /// The oldest mark that covers `cursor`, or null.
  [[nodiscard]] mark<B>* covering(std::uint64_t cursor) const noexcept {
    if (size_ == 0) return nullptr;
    // Where each op has a mark, as many before the newest.
    if (const std::uint64_t ahead = newest()->cursor - cursor; ahead < size_) {
      mark<B>* const exact = ring_[(first_ + size_ - 1 - ahead) % capacity];
      if (exact->cursor == cursor) return exact;
    }
    mark<B>* best = nullptr;
    for (std::uint32_t i = size_; i-- > 0;) {
      mark<B>* m = ring_[(first_ + i) % capacity];
      if (m->cursor < cursor) break;
      best = m;
    }
    return best;
  }

  /// An unused mark that only the caller knows.
  mark<B>* take() {
    if (free_ == nullptr) {
      collect_returned(false);
      collect_held();
    }
    if (free_ != nullptr) {
      mark<B>* m = free_;
      free_ = m->next;
      return m;
    }
    mark<B>* m = all_.emplace_back(std::make_unique<mark<B>>()).get();
    m->home = &returned_;
    return m;
  }
  void give_back(mark<B>* m) noexcept {
    if constexpr (!requires(B& b, typename B::stream& s) { b.flush_again(s, *m->event); }) m->event.reset();
    if (m->clock != nullptr) m->clock->release_by_maker();
    m->clock = nullptr;
    m->waiting = 0;
    m->next = free_;
    free_ = m;
  }

  void add(mark<B>* m) noexcept {
    if (size_ == capacity) drop_oldest();
    m->refs.store(1, std::memory_order_relaxed);  // nobody else knows it yet
    ring_[(first_ + size_++) % capacity] = m;
  }

  /// Forgets marks that no need can ask for any more.
  void drop_up_to(std::uint64_t cursor) noexcept {
    while (size_ > 0 && ring_[first_]->cursor <= cursor) drop_oldest();
  }

 private:
  [[nodiscard]] mark<B>* newest() const noexcept { return ring_[(first_ + size_ - 1) % capacity]; }

  void drop_oldest() noexcept {
    mark<B>* m = ring_[first_];
    first_ = (first_ + 1) % capacity;
    --size_;
    // Holders are added only under the list lock. If the list is the last one it can skip the counting.
    if (m->refs.load(std::memory_order_acquire) == 1) {  // pairs with release()
      give_back_if_let_go(m);
    } else {
      m->release();
    }
  }

  void give_back_if_let_go(mark<B>* m) noexcept {
    if (m->is_let_go()) [[likely]]
      return give_back(m);
    m->next = std::exchange(held_, m);
  }

  void collect_returned(bool all) noexcept {
    mark<B>* m = returned_.exchange(nullptr, std::memory_order_acquire);  // pairs with mark::release()
    while (m != nullptr) {
      mark<B>* next = m->next;
      all ? give_back(m) : give_back_if_let_go(m);
      m = next;
    }
  }
  void collect_held() noexcept {
    mark<B>* m = std::exchange(held_, nullptr);
    while (m != nullptr) give_back_if_let_go(std::exchange(m, m->next));
  }

  std::array<mark<B>*, capacity> ring_{};
  std::uint32_t first_ = 0;
  std::uint32_t size_ = 0;
  mark<B>* free_ = nullptr;
  mark<B>* held_ = nullptr;  // dropped while an op was being told to wait for them
  std::atomic<mark<B>*> returned_{nullptr};
  std::vector<std::unique_ptr<mark<B>>> all_;
};

}  // namespace braid::detail
