#pragma once

#include <fmt/format.h>

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "braid/settings.hpp"
#include "workloads/workload.hpp"

// What the programs share: how a runtime is made from the options, and the measured part.

namespace braid::workloads {

using clock = std::chrono::steady_clock;

inline double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

/// Of the calling thread's own: what others do on its core meanwhile does not count.
inline clock::duration thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

[[noreturn]] inline void throw_bad_option(const std::string& text) {
  throw usage_error(misuse::bad_settings, text);
}

/// The size that was asked for, or this one. Throws unless it is in the range.
inline std::uint64_t size_of(const options& with, std::uint64_t otherwise, std::uint64_t most) {
  const std::uint64_t size = with.size.value_or(otherwise);
  if (size == 0 || size > most) {
    throw_bad_option(fmt::format("--size {}: has to be from 1 to {}", size, most));
  }
  return size;
}

inline runtime_options runtime_options_of(const options& with, braid::placement otherwise) {
  runtime_options of;
  of.streams = with.streams;
  of.workers = with.workers;
  of.placement = with.placement.value_or(otherwise);
  of.device = with.device;
  return of;
}

/// Wraps the part that is measured: from start() to finish(). What happens in between goes through it.
template <class Runtime>
class measured {
 public:
  /// `made` are the options of the runtime; `ops` is how many there will be, for the progress; `placed` says
  /// which streams ops go to if no placement was asked for.
  measured(Runtime& rt, const runtime_options& made, const options& with, const hooks& call,
           std::uint64_t ops, const char* placed)
      : rt_(rt),
        call_(call),
        ops_(ops),
        step_(std::min(ops / milestones + 1, most_step)),
        names_streams_(!with.placement) {
    result_.streams = made.streams.value_or(settings::process().max_streams.value);
    if constexpr (requires { rt.backend().workers(); }) result_.workers = rt.backend().workers();
    result_.placement = with.placement ? to_string(*with.placement) : placed;
  }

  void start() {
    rt_.synchronize();
    result_.before = rt_.stats();
    report(0.0);
    if (call_.begin) call_.begin();
    begin_ = clock::now();
  }

  /// Submits to the stream, or to one that the runtime chooses if a placement was asked for.
  template <class... Op>
  submission submit_on(stream_id stream, Op&&... op) {
    return give([&] {
      return names_streams_ ? rt_.submit(stream, std::forward<Op>(op)...)
                            : rt_.submit(std::forward<Op>(op)...);
    });
  }
  template <class... Op>
  submission submit(Op&&... op) {
    return give([&] { return rt_.submit(std::forward<Op>(op)...); });
  }
  /// `submits` gives the runtime one op and returns its submission.
  template <class Submits>
  submission give(Submits&& submits) {
    if (!stretch_) stretch_ = thread_time();
    const submission op = submits();
    if (++submitted_ % step_ == 0) {
      end_stretch();
      pending_.push_back(op);
      while (!pending_.empty() && pending_.front().is_over()) reach_next();
      // A queue that is full would block inside submit(), and that time is not what submitting costs.
      while (submitted_ - reached_ > most_ahead) wait_for_next();
    }
    return op;
  }
  /// Counts the time that `f` takes as time for giving ops.
  template <class F>
  auto timed(F&& f) {
    const clock::duration before = thread_time();
    auto made = f();
    add_submitting(thread_time() - before);
    return made;
  }
  /// Time that other threads spent on giving ops.
  void add_submitting(clock::duration time) { submitting_ += time; }
  void report(double share) const {
    if (call_.progress) call_.progress(share);
  }

  /// Waits for all that was submitted.
  void finish() {
    end_stretch();
    while (!pending_.empty()) wait_for_next();
    rt_.synchronize();
    result_.seconds = seconds_since(begin_);
    if (call_.end) call_.end();
    result_.after = rt_.stats();
    result_.submit_seconds = std::chrono::duration<double>(submitting_).count();
    report(1.0);
  }

  /// The program fills in what it alone knows.
  [[nodiscard]] workloads::result& result() noexcept { return result_; }

  /// For tests of the check: the result may be changed before it is looked at.
  template <class T>
  void tamper(std::span<T> with) const {
    if (call_.tamper) call_.tamper(std::as_writable_bytes(with));
  }

 private:
  static constexpr std::uint64_t milestones = 100;
  static constexpr std::uint64_t most_step = 1024;
  static constexpr std::uint64_t most_ahead = 12'288;
  void end_stretch() {
    if (!stretch_) return;
    add_submitting(thread_time() - *stretch_);
    stretch_.reset();
  }
  void wait_for_next() {
    pending_.front().wait();
    reach_next();
  }
  void reach_next() {
    pending_.pop_front();
    reached_ += step_;
    report(std::min(1.0, static_cast<double>(reached_) / static_cast<double>(ops_)));
  }

  Runtime& rt_;
  const hooks& call_;
  std::uint64_t ops_;
  std::uint64_t step_;
  bool names_streams_;
  workloads::result result_;
  clock::time_point begin_;
  clock::duration submitting_{0};
  std::optional<clock::duration> stretch_;  // when the submits began that are not counted yet
  std::uint64_t submitted_ = 0;
  std::uint64_t reached_ = 0;
  std::deque<submission> pending_;  // each `step_`th op, for the progress
};

}  // namespace braid::workloads
