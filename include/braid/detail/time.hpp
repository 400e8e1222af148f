#pragma once

// Durations, clocks and std::future_status. With libstdc++ <chrono> brings streams and locales, for what it
// can print, and <future> threads: a fifth of all that nvcc, which compiles a file three times, would have to
// compile. A .cu file that uses more of them than braid does has to include them itself.

#if defined(__CUDACC__) && __has_include(<bits/chrono.h>)
#include <bits/chrono.h>
#else
#include <chrono>
#include <future>
#endif

namespace braid::detail {

/// Now and so much more, or the last moment that there is: the longest of durations overflow.
template <class Rep, class Period>
std::chrono::steady_clock::time_point deadline_in(std::chrono::duration<Rep, Period> time) noexcept {
  using steady = std::chrono::steady_clock;
  const steady::time_point now = steady::now();
  if (time <= time.zero()) return now;
  const std::chrono::duration<double> left = steady::time_point::max() - now;
  if (std::chrono::duration<double>(time) >= left) return steady::time_point::max();
  return now + std::chrono::duration_cast<steady::duration>(time);
}

}  // namespace braid::detail
