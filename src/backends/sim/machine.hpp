#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "braid/backend.hpp"
#include "braid/memory.hpp"
#include "braid/stream_id.hpp"

// The simulated device in the order of time: streams whose ops take as long as they are said to, run by so
// many workers. It is what `braid replay` predicts with. Nothing runs by itself: who drives it starts one op
// after the other, and sets the time at which the host is.
//
// A worker behaves as one of the cpu backend's: it takes the stream that has been ready for longest, and
// stays with it while that has something to run.

namespace braid::sim {

class machine {
 public:
  using time = std::int64_t;  // ns

  /// As on the cpu backend a thread that waits is one of the workers: one less is there from the beginning,
  /// but at least one. 0 workers: each stream has one of its own, as on a device.
  explicit machine(std::uint32_t workers);

  // ---- What the host does, at now().
  std::uint32_t add_stream();
  void wait(std::uint32_t stream, std::uint32_t origin, std::uint64_t cursor);
  void launch(std::uint32_t stream, time duration);
  void commit(std::uint32_t stream, std::uint64_t cursor);
  void set_now(time t) noexcept { now_ = t; }
  [[nodiscard]] time now() const noexcept { return now_; }
  /// Another worker from now() on: a thread that waits. Its number.
  std::size_t add_worker();
  /// It is gone; returns when its last op is over.
  time remove_worker(std::size_t number);

  // ---- Running.
  /// When the next op starts; nothing if none can, whatever the time.
  [[nodiscard]] std::optional<time> next_start() const;
  /// Starts that op.
  void step();

  // ---- About it.
  /// When the op is over; nothing if it has not started.
  [[nodiscard]] std::optional<time> end_of(std::uint32_t stream, std::uint64_t cursor) const;
  /// Whether it is over at now().
  [[nodiscard]] bool is_over(std::uint32_t stream, std::uint64_t cursor) const;
  /// The last op that was given.
  [[nodiscard]] std::uint64_t given(std::uint32_t stream) const { return streams_[stream].given; }
  /// How many ops are not over at now().
  [[nodiscard]] std::uint64_t length_of(std::uint32_t stream);
  [[nodiscard]] std::uint32_t workers() const noexcept { return asked_; }
  [[nodiscard]] time makespan() const noexcept { return makespan_; }

 private:
  struct point {
    std::uint32_t stream;
    std::uint64_t cursor;
  };
  struct piece {
    time submitted = 0;
    time duration = 0;
    std::vector<point> waits;
  };
  struct queue {
    std::deque<piece> pieces;
    piece open;              // of the op that is being given
    std::vector<time> ends;  // of the ops that started, by cursor - 1
    std::uint64_t given = 0;
    std::uint64_t over = 0;  // known to be over at some now()
    time last_end = 0;
  };
  struct worker {
    time free_at = 0;
    std::uint32_t with = none;  // the stream it stays with
    unsigned turn = 0;
    bool is_there = true;
  };
  struct candidate {
    std::uint32_t stream;
    std::size_t worker;
    time start;
  };
  static constexpr std::uint32_t none = 0xffff'ffff;

  [[nodiscard]] std::optional<time> ready_at(const queue& s) const;
  [[nodiscard]] std::optional<candidate> next() const;

  std::uint32_t asked_;
  std::vector<queue> streams_;
  std::vector<worker> workers_;
  time now_ = 0;
  time makespan_ = 0;
};

/// Memory that nobody looks at.
class imagined_source final : public memory_source {
 public:
  explicit imagined_source(std::uintptr_t first = std::uintptr_t{1} << 44) noexcept : next_(first) {}
  [[nodiscard]] void* allocate(std::uint64_t bytes) noexcept override {
    next_ += bytes;
    return reinterpret_cast<void*>(next_ - bytes);  // NOLINT(performance-no-int-to-ptr): never looked at
  }
  void free(void*, std::uint64_t) noexcept override {}
  [[nodiscard]] const char* name() const noexcept override { return "imagined"; }

 private:
  std::uintptr_t next_;
};

/// The machine as a backend, with events or with points. An op's body has `duration` and `given(stream,
/// cursor)`.
template <bool Points>
class machine_backend {
 public:
  struct stream {
    std::uint32_t index;
  };
  struct event {
    std::uint32_t stream;
    std::uint64_t cursor;
  };
  static constexpr const char* name = "replay";

  explicit machine_backend(std::shared_ptr<machine> m) : machine_(std::move(m)) {}

  stream create_stream() { return {machine_->add_stream()}; }
  event flush(stream& s) { return {s.index, machine_->given(s.index)}; }
  void wait_event(stream& s, const event& e) { machine_->wait(s.index, e.stream, e.cursor); }
  void wait_event_sync(const event&) {}
  bool is_complete(const event& e) { return machine_->is_over(e.stream, e.cursor); }
  void commit_point(stream& s, std::uint64_t cursor) { machine_->commit(s.index, cursor); }
  void wait_point(stream& s, const stream& origin, std::uint64_t cursor)
    requires Points
  {
    machine_->wait(s.index, origin.index, cursor);
  }
  void wait_point_sync(const stream&, std::uint64_t)
    requires Points
  {}
  bool is_point_complete(const stream& s, std::uint64_t cursor)
    requires Points
  {
    return machine_->is_over(s.index, cursor);
  }

  template <class F>
  void launch(stream& s, std::uint64_t cursor, F&& f) {
    machine_->launch(s.index, f.body.duration);
    f.body.given(s.index, cursor);
    f(cursor);
  }
  [[nodiscard]] std::shared_ptr<memory_source> memory() const { return std::make_shared<imagined_source>(); }
  [[nodiscard]] std::shared_ptr<memory_source> staging() const { return memory(); }
  [[nodiscard]] std::uint32_t useful_streams() const noexcept {
    return machine_->workers() != 0 ? 8 * machine_->workers() : 1U << 15;
  }
  [[nodiscard]] std::uint64_t length_of(const stream& s) const { return machine_->length_of(s.index); }

 private:
  std::shared_ptr<machine> machine_;
};

static_assert(event_stream_backend<machine_backend<false>> && !point_backend<machine_backend<false>>);
static_assert(point_backend<machine_backend<true>>);

}  // namespace braid::sim
