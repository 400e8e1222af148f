#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "pattern.hpp"

/// What the tasks do, the same for every runtime. The additions are plain: two tasks that run at the same
/// time where they must not lose one, and a task that runs before what it reads is there adds nothing. Either
/// way the totals at the end are wrong.
namespace braid::bench {

inline void touch_body(std::uint64_t& own) {
  ++own;
}

/// b8 goes one ahead of b0..b7 when all of them have caught up.
inline void gather_body(const std::array<std::uint64_t, 8>& read, std::uint64_t& own) {
  bool caught_up = true;
  for (const std::uint64_t r : read) caught_up &= r == own;
  own += caught_up ? 1U : 0U;
}

/// One of b0..b7 catches up with b8.
inline void scatter_body(std::uint64_t read, std::uint64_t& own) {
  own += read == own + 1 ? 1U : 0U;
}

/// The nine buffers of a runtime that leaves memory to the program. 64 bytes each, of which the first eight
/// are the counter.
struct alignas(64) cell {
  std::uint64_t count = 0;
  std::array<std::uint64_t, 7> rest{};
};
static_assert(sizeof(cell) == 64);
using cells = std::array<cell, buffer_count>;

inline void gather_body(cells& b) {
  gather_body(
      {b[0].count, b[1].count, b[2].count, b[3].count, b[4].count, b[5].count, b[6].count, b[7].count},
      b[8].count);
}

/// Counts the tasks that touch no buffer: one counter per thread, each on a cache line of its own. Threads
/// come and go with the runtimes; a counter is never given out twice.
struct alignas(64) thread_count {
  std::uint64_t value = 0;
};
inline constexpr unsigned max_thread_counts = 8192;
inline std::array<thread_count, max_thread_counts> thread_counts;
inline std::atomic<unsigned> thread_counts_given{0};
// initial-exec: in a module that is loaded later, as cheap as in the program itself.
[[gnu::tls_model("initial-exec")]] inline constinit thread_local thread_count* own_thread_count = nullptr;

inline void nothing_body() {
  if (own_thread_count == nullptr) {
    const unsigned index = thread_counts_given.fetch_add(1);
    if (index >= max_thread_counts) std::abort();
    own_thread_count = &thread_counts[index];
  }
  ++own_thread_count->value;
}

/// The sum of all threads' counters, which then are zero. Only while no task runs.
inline std::uint64_t take_executed() {
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < thread_counts_given.load(); ++i) {
    sum += thread_counts[i].value;
    thread_counts[i].value = 0;
  }
  return sum;
}

}  // namespace braid::bench
