#include "tasks/foreign_load.hpp"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

namespace braid::bench {

foreign_load::foreign_load() : start_(take()) {}

double foreign_load::cores() const {
  const sample end = take();
  if (end.all == start_.all) return -1;
  const auto foreign = (end.all - start_.all) - (end.own - start_.own);
  // Both are sums of ticks: a little below zero is zero.
  return std::max(0.0, foreign / std::chrono::duration<double>(end.at - start_.at));
}

foreign_load::sample foreign_load::take() {
  std::ifstream in("/proc/stat");
  std::string word;
  std::array<double, 8> ticks{};  // user, nice, system, idle, iowait, irq, softirq, steal
  in >> word;
  for (double& t : ticks) in >> t;
  const double busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
  timespec own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  rusage children{};  // those that are over: ranks are, when this is asked
  getrusage(RUSAGE_CHILDREN, &children);
  const auto seconds_of = [](const timeval& t) {
    return std::chrono::duration<double>(std::chrono::seconds(t.tv_sec) +
                                         std::chrono::microseconds(t.tv_usec));
  };
  return {.all = std::chrono::duration<double>(busy / static_cast<double>(sysconf(_SC_CLK_TCK))),
          .own = std::chrono::duration<double>(std::chrono::seconds(own.tv_sec) +
                                               std::chrono::nanoseconds(own.tv_nsec)) +
                 seconds_of(children.ru_utime) + seconds_of(children.ru_stime),
          .at = std::chrono::steady_clock::now()};
}

}  // namespace braid::bench
