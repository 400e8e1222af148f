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
