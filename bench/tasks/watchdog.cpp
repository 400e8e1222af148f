#include "tasks/watchdog.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace braid::bench {

watchdog::watchdog(std::string command, std::chrono::seconds limit)
    : command_(std::move(command)), limit_(limit), thread_([this] { watch(); }) {}

watchdog::~watchdog() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void watchdog::begin(std::string step) {
  const std::lock_guard lock(mutex_);
  step_ = std::move(step);
  since_ = std::chrono::steady_clock::now();
}

void watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!end_) {
    if (std::chrono::steady_clock::now() - since_ > limit_) {
      fmt::print(stderr, "braid {}: {} is not over after {} s\n", command_, step_, limit_.count());
      std::_Exit(1);
    }
    ended_.wait_until(lock, since_ + limit_ + std::chrono::milliseconds(1));
  }
}

}  // namespace braid::bench
