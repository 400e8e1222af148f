#include "braid/detail/lock.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "braid/detail/routine.hpp"

namespace braid::detail {

namespace {
constexpr long nap_ns = 1'000'000;  // how long a sleeper that was missed sleeps at most
constexpr unsigned yields = 8;
}  // namespace

void backoff::sleep() noexcept {
  if (round_ < spins + yields) {
    sched_yield();
    return;
  }
  const unsigned step = std::min(round_ - spins - yields, 5U);
  const timespec pause{0, 8'000L << step};  // 8 to 256 µs
  nanosleep(&pause, nullptr);
}

// Who finds that a routine kept the lock has overwritten that, and is the one to end the routine.
void spin_lock::lock_slowly(std::uint32_t was) noexcept {
  if (was == kept) end_routine_of(*this);
  for (unsigned spin = 0; spin < 100; ++spin) {
    if (try_lock()) return;
    relax();
  }
  const timespec nap{0, nap_ns};
  // The exchange says "contended" even when it succeeds: another sleeper may still be there.
  while ((was = word_.exchange(contended, std::memory_order_acquire)) != open) {  // pairs with unlock()
    if (was == kept) end_routine_of(*this);
    syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, contended, &nap, nullptr, 0);
  }
}

void spin_lock::wake() noexcept {
  syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace braid::detail
