#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace braid::detail {

/// Tells the core that this thread spins.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// Waits for something that another thread does soon, or that may take 100 ms: spins a little, then
/// yields, then sleeps for longer and longer, up to a quarter of a millisecond.
class backoff {
 public:
  void pause() noexcept {
    if (++round_ < spins) {
      relax();
    } else {
      sleep();
    }
  }

 private:
  static constexpr unsigned spins = 200;
  void sleep() noexcept;
  unsigned round_ = 0;
};

/// A lock of four bytes that costs one locked instruction: taking it exchanges, giving it back only
/// stores. It spins briefly and then sleeps, because its holder may be inside a backend's first call.
///
/// Giving back with a plain store can miss a sleeper that announces itself at that very moment; such a
/// sleeper looks again by itself after `nap`. That is rare, bounded, and cheaper than a second locked
/// instruction on every hot path.
class spin_lock {
 public:
  [[gnu::always_inline]] void lock() noexcept {
    // acquire: pairs with the release in unlock()
    if (const std::uint32_t was = word_.exchange(held, std::memory_order_acquire); was != open) [[unlikely]]
      lock_slowly(was);
  }
  [[gnu::always_inline]] bool try_lock() noexcept {
    std::uint32_t was = word_.load(std::memory_order_relaxed);
    // Not an exchange: it could take from a routine what nobody would come for then.
    return was == open &&
           word_.compare_exchange_strong(was, held, std::memory_order_acquire, std::memory_order_relaxed);
  }
  [[gnu::always_inline]] void unlock() noexcept {
    const std::uint32_t was = word_.load(std::memory_order_relaxed);
    word_.store(open, std::memory_order_release);  // pairs with the acquire in lock()
    if (was == contended) [[unlikely]]
      wake();
  }

  /// By its holder: a routine (detail/routine.hpp) has it from now on, until somebody comes for it. False:
  /// somebody waits.
  [[nodiscard]] bool keep_for_routine() noexcept {
    std::uint32_t was = held;
    return word_.compare_exchange_strong(was, kept, std::memory_order_relaxed);  // the holder stays one
  }

 private:
  static constexpr std::uint32_t open = 0, held = 1, contended = 2, kept = 3;
  void lock_slowly(std::uint32_t was) noexcept;
  void wake() noexcept;

  std::atomic<std::uint32_t> word_{open};
};

/// Takes a lock for a scope, or does nothing where the engine is synchronised by its caller.
template <bool Synchronised>
class scoped_lock {
 public:
  explicit scoped_lock(spin_lock& lock) noexcept : lock_(lock) {
    if constexpr (Synchronised) lock_.lock();
  }
  ~scoped_lock() {
    if constexpr (Synchronised) lock_.unlock();
  }
  scoped_lock(const scoped_lock&) = delete;
  scoped_lock& operator=(const scoped_lock&) = delete;

 private:
  spin_lock& lock_;
};

}  // namespace braid::detail
