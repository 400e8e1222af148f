#include "tasks/quiet.hpp"

#include <time.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace braid::bench {

namespace {

std::chrono::nanoseconds processor_time() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

}  // namespace

void wait_until_quiet(const std::string& runtime) {
  using namespace std::chrono_literals;
  unsigned quiet = 0;
  for (unsigned i = 0; i < 500; ++i) {
    const auto before = processor_time();
    std::this_thread::sleep_for(5ms);
    quiet = processor_time() - before < 200us ? quiet + 1 : 0;
    if (quiet == 2) return;
  }
  throw std::runtime_error("the threads of " + runtime + " do not go to sleep");
}

}  // namespace braid::bench
