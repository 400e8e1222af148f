#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "braid/backend.hpp"
#include "braid/detail/cpu_queue.hpp"
#include "braid/runtime.hpp"

// The cores of this machine as a device. A stream is a light in-order queue; a fixed set of threads runs
// whichever streams have something to run. A stream that must wait is parked and costs no thread: thousands
// of streams on two cores are fine. A point is its own event.

namespace braid::cpu {

class stream {
 public:
  explicit stream(detail::cpu_queue& queue) noexcept : queue_(&queue) {}
  /// Puts `f` behind what the stream was given: part of the op whose guard is open. What it throws is
  /// reported by the next wait for the op or for one behind it.
  template <class F>
  void launch(F&& f) {
    queue_->launch(std::forward<F>(f));
  }

 private:
  friend class backend;
  detail::cpu_queue* queue_;
};

/// An op of a stream.
class event {
 private:
  friend class backend;
  event(std::shared_ptr<detail::cpu_scheduler> home, detail::cpu_queue* queue, std::uint64_t cursor) noexcept
      : home_(std::move(home)), queue_(queue), cursor_(cursor) {}
  std::shared_ptr<detail::cpu_scheduler> home_;
  detail::cpu_queue* queue_;
  std::uint64_t cursor_;
};

class backend {
 public:
  using stream = cpu::stream;
  using event = cpu::event;
  static constexpr const char* name = "cpu";

  /// workers and pin_workers are looked at.
  explicit backend(const runtime_options& options = {});

  stream create_stream() { return stream(scheduler_->add_queue()); }
  event flush(stream& s) {
    return {scheduler_, s.queue_,
            s.queue_->submitted.load(std::memory_order_acquire)};  // pairs with commit()
  }
  void wait_event(stream& s, const event& e) { s.queue_->waits.push_back({e.queue_, e.cursor_}); }
  void wait_event_sync(const event& e) { wait(*e.queue_, e.cursor_); }
  bool is_complete(const event& e) { return is_complete(*e.queue_, e.cursor_); }

  void commit_point(stream& s, std::uint64_t cursor) { s.queue_->commit(cursor); }
  void wait_point(stream& s, const stream& origin, std::uint64_t cursor) {
    s.queue_->waits.push_back({origin.queue_, cursor});
  }
  void wait_point_sync(const stream& s, std::uint64_t cursor) { wait(*s.queue_, cursor); }
  bool is_point_complete(const stream& s, std::uint64_t cursor) { return is_complete(*s.queue_, cursor); }

  // What a runtime needs.
  template <class F>
  void launch(stream& s, std::uint64_t, F&& f) {
    s.queue_->launch(std::forward<F>(f));  // who runs the stream knows the cursor
  }
  /// Puts all parts of a replay on their streams, each behind its cursor in `before`, and commits them; or
  /// throws.
  template <class StreamOf>
  void launch_replay(std::shared_ptr<const detail::recorded_ops> ops, std::uint64_t times,
                     std::uint64_t order, std::span<const std::uint64_t> before, StreamOf stream_of) {
    auto made = std::make_shared<detail::cpu_replay>();
    made->times = times;
    made->order = order;
    for (std::size_t i = 0; i < before.size(); ++i) {
      detail::cpu_queue& q = *stream_of(i).queue_;
      q.expect_part();
      made->parts.push_back({&q, before[i]});
    }
    made->ops = std::move(ops);
    for (std::size_t i = 0; i < before.size(); ++i) made->parts[i].origin->launch_part(made, i);
    for (std::size_t i = 0; i < before.size(); ++i) {
      made->parts[i].origin->commit(before[i] + times * made->ops->plan.parts[i].ops);
    }
  }
  [[nodiscard]] event event_of(stream& s, std::uint64_t cursor) { return {scheduler_, s.queue_, cursor}; }
  [[nodiscard]] std::shared_ptr<memory_source> memory() const;
  [[nodiscard]] std::shared_ptr<memory_source> staging() const { return memory(); }
  /// Keeps a submitter from running away from the workers, so that the memory of queued ops stays bounded.
  void admit(stream& s) {
    const detail::cpu_queue& q = *s.queue_;
    // relaxed: a guess is good enough
    if (q.done_seen.load(std::memory_order_relaxed) < q.room_after.load(std::memory_order_relaxed))
        [[unlikely]]
      wait_for_room(*s.queue_);
  }
  void help_while(const std::atomic<std::uint32_t>& word, std::uint32_t old) {
    scheduler_->help_while(word, old);
  }
  void notify(const std::atomic<std::uint32_t>& word) noexcept { scheduler_->notify(word); }
  /// More streams than this do not make programs faster on these workers.
  [[nodiscard]] std::uint32_t useful_streams() const noexcept { return 8 * workers_; }
  /// Whether ops are so short that making one stream wait for another costs more than they do.
  [[nodiscard]] bool is_fine_grained() const noexcept { return scheduler_->grain() < cost_of_a_wait; }
  /// Ops that the stream has still to run.
  [[nodiscard]] std::uint64_t length_of(const stream& s) const noexcept {
    // relaxed: a guess is good enough
    return s.queue_->submitted.load(std::memory_order_relaxed) -
           s.queue_->done.load(std::memory_order_relaxed);
  }
  [[nodiscard]] unsigned workers() const noexcept { return workers_; }

 private:
  static constexpr std::uint64_t cost_of_a_wait = 250;  // ns
  void wait(detail::cpu_queue& q, std::uint64_t cursor);
  bool is_complete(detail::cpu_queue& q, std::uint64_t cursor);
  static void wait_for_room(detail::cpu_queue& q);
  static void report_failures(detail::cpu_queue& q, std::uint64_t cursor);

  unsigned workers_;
  std::shared_ptr<detail::cpu_scheduler> scheduler_;
};

static_assert(point_backend<backend> && runtime_backend<backend>);

using options = runtime_options;
using runtime = basic_runtime<backend>;

}  // namespace braid::cpu

namespace braid {

// What is not inlined is in the library: a program that includes this compiles in two thirds of the time.
extern template class multi_stream<cpu::backend>;
extern template class basic_runtime<cpu::backend>;

}  // namespace braid
