#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace braid::bench {

/// Ends the process with status 1, and says in what, when one step takes far too long: a runtime that hangs
/// is named, and hangs nobody. Its thread sleeps all the time.
class watchdog {
 public:
  watchdog(std::string command, std::chrono::seconds limit);
  ~watchdog();
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

  /// A step begins, and the one before is over.
  void begin(std::string step);

 private:
  void watch();

  const std::string command_;
  const std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::string step_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::thread thread_;
};

}  // namespace braid::bench
