#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "braid/detail/lock.hpp"

// Which streams of the cpu backend are ready, and which threads have nothing to do.

namespace braid::detail {

class cpu_ready;
struct cpu_queue;

/// Streams that are ready, first in, first out.
struct alignas(64) cpu_ready_list {
  spin_lock lock;
  std::atomic<std::uint32_t> count{0};      // changed under the lock
  std::atomic<std::uint32_t> with_many{0};  // of these, with many ops to run
  cpu_queue* first = nullptr;
  cpu_queue* last = nullptr;
};

/// Somebody who waits for a point: a parked stream, or a thread.
struct cpu_waiter {
  enum : std::uint32_t {
    asleep,
    over,
    called
  };  // of a thread: `called` when there is work that it could help with

  std::uint64_t cursor = 0;
  cpu_waiter* next = nullptr;
  cpu_queue* stream = nullptr;  // null: a thread, which sleeps on `word`
  std::atomic<std::uint32_t> word{asleep};
  const std::atomic<std::uint32_t>* watched = nullptr;  // instead of a point: some word that will change
  cpu_waiter* next_helper = nullptr;                    // of cpu_ready, under its lock
  bool is_helper = false;
};

/// Where a worker that rests is called.
struct alignas(64) cpu_worker {
  enum : std::uint32_t { resting, asleep, called };
  std::atomic<std::uint32_t> word{called};
  cpu_queue* given = nullptr;  // by who called it; its state is `running`
  const cpu_ready* of = nullptr;
  std::size_t number = 0;
  cpu_worker* next = nullptr;  // that came to rest before it, under the lock of cpu_ready
};

/// Each worker has a list, and all other threads share one. What a thread makes ready goes to its own list,
/// and whoever finds his own one empty looks at the others'.
class cpu_ready {
 public:
  explicit cpu_ready(std::size_t workers);

  [[nodiscard]] cpu_worker& worker(std::size_t number) const noexcept { return workers_[number]; }
  /// The calling thread is this worker from now on.
  void enter(std::size_t number) noexcept;

  /// The stream's state is `queued`, and `has_many` is set. Calls somebody who has nothing to do; a worker
  /// that rests gets the stream itself, unless it is to be left to whoever comes first.
  void push(cpu_queue& q, bool is_for_anybody) noexcept;
  /// A stream, whose state is `running` then: the preferred one, or one of the calling thread's list, or one
  /// of another; now and then one of another first, that none is left for long. Null: nothing was ready.
  cpu_queue* take(cpu_queue* preferred = nullptr) noexcept;
  [[nodiscard]] bool has_own() const noexcept { return own().count.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool has_any() const noexcept;
  /// With many ops to run.
  [[nodiscard]] bool has_long() const noexcept;

  /// Enters the worker among those that rest; its word is `called` when there is something for it, perhaps.
  /// False: all is over.
  bool rest(cpu_worker& self) noexcept;
  void stop() noexcept;
  [[nodiscard]] bool is_stopped() const noexcept { return stop_.load(std::memory_order_relaxed); }

  /// Enters a thread that waits among those that may be called to help, unless something is ready, or
  /// `is_over`: false then.
  template <class IsOver>
  bool offer_help(cpu_waiter& w, IsOver is_over) noexcept {
    lock_.lock();
    const bool is_entered = !is_over();
    if (is_entered) {
      w.is_helper = true;
      w.next_helper = helpers_;
      helpers_ = &w;
      add_idle(1);
    }
    lock_.unlock();
    if (is_entered && has_any()) {
      withdraw_help(w);
      return false;
    }
    return is_entered;
  }
  void withdraw_help(cpu_waiter& w) noexcept;
  /// Calls the helpers that watch this word.
  void notify(const std::atomic<std::uint32_t>& word) noexcept;

  /// Wakes the threads that sleep on the word.
  static void wake(const std::atomic<std::uint32_t>& word) noexcept;
  /// Until the word is not `value` any more, or for no reason.
  static void sleep(const std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept;
  /// Likewise, or until so much time is over.
  static void nap(const std::atomic<std::uint32_t>& word, std::uint32_t value, unsigned ms) noexcept;

 private:
  [[nodiscard]] std::size_t own_number() const noexcept;
  [[nodiscard]] cpu_ready_list& own() const noexcept { return lists_[own_number()]; }
  static void unlink(cpu_ready_list& from, cpu_queue& q) noexcept;
  static cpu_queue* take_from(cpu_ready_list& list) noexcept;
  bool give_to_resting(cpu_queue& q) noexcept;
  const std::atomic<std::uint32_t>* call_somebody() noexcept;
  bool remove_resting(cpu_worker& self) noexcept;
  // Under the lock. seq_cst: who makes a stream ready sees it, or who has nothing to do sees the stream.
  void add_idle(std::uint32_t by) noexcept { idle_.store(idle_.load(std::memory_order_relaxed) + by); }

  std::size_t count_;  // of lists; the last one is of the threads that are no workers
  std::unique_ptr<cpu_ready_list[]> lists_;
  std::unique_ptr<cpu_worker[]> workers_;
  alignas(64) std::atomic<std::uint32_t> idle_{0};  // how many rest or may be called to help
  std::atomic<bool> stop_{false};
  alignas(64) spin_lock lock_;
  cpu_worker* resting_ = nullptr;  // the last one first
  cpu_waiter* helpers_ = nullptr;  // threads that sleep and could help
};

}  // namespace braid::detail
