#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>

namespace braid::tool {

/// A bar on standard error, where that is a terminal; redrawn at most ten times a second, gone at the end.
class progress_bar {
 public:
  progress_bar(const char* what, std::uint64_t total)
      : what_(what), total_(total), shows_(isatty(STDERR_FILENO) == 1) {}
  ~progress_bar() {
    if (shows_ && drawn_) std::fprintf(stderr, "\r\033[K");
  }
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  void show(std::uint64_t done) {
    if (!shows_) return;
    const auto now = std::chrono::steady_clock::now();
    if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    drawn_ = true;
    constexpr int width = 40;
    const int full = total_ == 0 ? width : static_cast<int>(done * width / total_);
    std::fprintf(stderr, "\r%s [%.*s%*s] %llu of %llu", what_, full,
                 "########################################", width - full, "",
                 static_cast<unsigned long long>(done), static_cast<unsigned long long>(total_));
    std::fflush(stderr);
  }

 private:
  const char* what_;
  std::uint64_t total_;
  bool shows_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace braid::tool
