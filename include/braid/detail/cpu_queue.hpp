#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "braid/detail/cpu_ready.hpp"
#include "braid/detail/lock.hpp"
#include "braid/detail/recorded.hpp"

// Streams on the cores of this machine.
//
// A cpu_queue is a stream: records of ops in chunks of memory, written by one thread at a time (the holder of
// the stream's slot) and run in order by one thread at a time (the holder of its state). An op that must come
// after ops of other streams carries their points; where one is not complete the stream is parked with that
// origin, and the thread goes on with another stream. Who completes a point wakes exactly the streams and
// threads that wait for it.
//
// What the submitter writes and what the runner writes stand in different cache lines. Two pairs of stores
// and loads have to be seen in one order by all and are therefore seq_cst: `submitted` then `state` on one
// side, `state` then `submitted` on the other; and likewise `done` with `first_awaited`, but for short ops of
// a replay (publish_soon()): whom those miss looks again by itself.

namespace braid::detail {

class cpu_scheduler;
struct cpu_queue;

/// One piece of work in a chunk; behind it stand the points to wait for and the payload.
struct cpu_record {
  /// Runs and destroys. Null: the payload is a cpu_part, or, of no size, go on in the next chunk.
  void (*run)(void* payload, std::uint64_t cursor);
  std::uint32_t size;  // with all that follows
  std::uint32_t waits : 31;
  std::uint32_t ends_op : 1;
};

struct cpu_point {
  cpu_queue* origin;
  std::uint64_t cursor;
};

/// Replays of recorded ops, with the point behind which each of their parts begins.
struct cpu_replay {
  std::shared_ptr<const recorded_ops> ops;
  std::uint64_t times;
  std::uint64_t order;  // of the last op before
  std::vector<cpu_point> parts;
};
/// One part of it, on its stream: as many ops as are left, each run from where it was recorded.
struct cpu_part {
  std::shared_ptr<const cpu_replay> of;
  lane_id lane;
  const recorded_op* next;
  const recorded_op* begin;
  const recorded_op* end;
  std::uint64_t order;         // of this sequence's first op
  std::uint64_t sequence = 0;  // of so many that follow each other
  std::uint64_t last_sequence;
  // How far two of the others were when they were last looked at: each look takes the line from who writes
  // it.
  std::uint64_t seen[2] = {0, 0};
  std::uint32_t seen_of[2] = {0, 0};

  /// Of the next op.
  [[nodiscard]] const recorded_waits& waits() const noexcept {
    return sequence == 0 ? next->once : next->again;
  }
};

struct cpu_chunk {
  cpu_chunk* next;
  std::size_t size;
};

struct alignas(64) cpu_queue {
  static constexpr std::uint64_t nobody = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::size_t most_chunks = 128;  // four megabytes of ops to run
  enum : std::uint32_t { idle, queued, running, parked };

  explicit cpu_queue(cpu_scheduler& by);
  ~cpu_queue();
  cpu_queue(const cpu_queue&) = delete;
  cpu_queue& operator=(const cpu_queue&) = delete;

  // ---- Of the submitter.
  std::byte* tail = nullptr;
  std::byte* tail_end = nullptr;
  cpu_record* last = nullptr;  // of the op that is being given
  std::vector<cpu_point> waits;
  cpu_chunk* tail_chunk = nullptr;
  cpu_scheduler& home;
  std::uint64_t chunks_left = 0;
  std::unique_ptr<std::uint64_t[]> last_of;  // the last op of each of the last most_chunks that were left
  std::atomic<std::uint64_t> room_after{0};  // while this op is not over, all these chunks are in use,
  std::atomic<std::uint64_t> half_after{0};  // and with this one half of them are not
  std::atomic<std::uint64_t> done_seen{0};  // a lower bound of `done` that costs no look at the runner's line
  std::atomic<std::uint64_t> submitted{0};

  // ---- Of who holds the state. Others look at the first line.
  alignas(64) std::atomic<std::uint64_t> done{0};
  std::atomic<std::uint64_t> first_awaited{nobody};
  alignas(64) std::byte* head = nullptr;
  cpu_chunk* head_chunk = nullptr;
  std::uint32_t next_wait = 0;  // of the front record: those before are complete

  // ---- Between them.
  alignas(64) std::atomic<std::uint32_t> state{idle};
  cpu_queue* next = nullptr;  // in a list of cpu_ready, under its lock
  cpu_queue* previous = nullptr;
  std::atomic<cpu_ready_list*> listed_in{nullptr};
  bool has_many = false;  // when it was listed

  std::atomic<cpu_chunk*> spare{nullptr};
  spin_lock waiters_lock;
  cpu_waiter* waiters = nullptr;
  cpu_waiter parking;  // of this stream, in its origin's list
  std::atomic<bool> has_failed{false};
  std::mutex failures_mutex;
  std::vector<std::pair<std::uint64_t, std::string>> failures;  // of bodies that threw, until somebody asks

  /// Room for a record with `payload` bytes. The pointer is to the payload; the record runs when the op that
  /// is being given is committed and its turn comes.
  void* reserve(std::size_t payload, void (*run)(void*, std::uint64_t)) {
    const std::size_t prefix = sizeof(cpu_record) + waits.size() * sizeof(cpu_point);
    const std::size_t size = (prefix + payload + 15) & ~std::size_t{15};
    if (tail + size + sizeof(cpu_record) > tail_end) [[unlikely]]
      add_chunk(size + sizeof(cpu_record));
    auto* r = new (tail) cpu_record{run, static_cast<std::uint32_t>(size),
                                    static_cast<std::uint32_t>(waits.size()) & 0x7fffffffU, 0};
    if (!waits.empty()) [[unlikely]] {
      std::copy(waits.begin(), waits.end(), reinterpret_cast<cpu_point*>(r + 1));
      waits.clear();
    }
    void* at = tail + prefix;
    tail += size;
    last = r;
    return at;
  }

  /// Puts `f` behind what the stream was given: part of the op that is being given.
  template <class F>
  void launch(F&& f) {
    using body = std::decay_t<F>;
    constexpr bool fits = sizeof(body) <= 2048 && alignof(body) <= 16;
    if constexpr (fits && std::is_nothrow_constructible_v<body, F>) {
      void* at = reserve(sizeof(body), [](void* payload, [[maybe_unused]] std::uint64_t cursor) {
        body& held = *std::launder(static_cast<body*>(payload));
        struct destroy {
          body& what;
          ~destroy() { what.~body(); }
        } const at_exit{held};
        if constexpr (std::is_invocable_v<body&, std::uint64_t>) {
          held(cursor);
        } else {
          held();
        }
      });
      new (at) body(std::forward<F>(f));
    } else {
      launch([kept = std::make_unique<body>(std::forward<F>(f))]([[maybe_unused]] std::uint64_t cursor) {
        if constexpr (std::is_invocable_v<body&, std::uint64_t>) {
          (*kept)(cursor);
        } else {
          (*kept)();
        }
      });
    }
  }

  /// Makes room for launch_part(), which then does not throw.
  void expect_part() {
    const std::size_t least =
        2 * (sizeof(cpu_record) + 16) + waits.size() * sizeof(cpu_point) + sizeof(cpu_part);
    if (tail + least + sizeof(cpu_record) > tail_end) add_chunk(least + sizeof(cpu_record));
  }
  /// Puts as many ops as the part has behind what the stream was given.
  void launch_part(std::shared_ptr<const cpu_replay> of, std::size_t part) noexcept {
    // What the part waits for stands in front of it: its ops have waits of their own.
    if (!waits.empty()) reserve(0, [](void*, std::uint64_t) {});
    const std::vector<recorded_op>& all = of->ops->parts[part];
    const lane_id lane = of->ops->plan.parts[part].lane;
    const std::uint64_t order = of->order + 1;
    const std::uint64_t last_sequence = of->times - 1;
    new (reserve(sizeof(cpu_part), nullptr)) cpu_part{
        std::move(of), lane, all.data(), all.data(), all.data() + all.size(), order, 0, last_sequence};
  }

  inline void commit(std::uint64_t cursor);

  [[nodiscard]] bool is_done(std::uint64_t cursor) noexcept {
    if (done_seen.load(std::memory_order_acquire) >= cursor) return true;  // pairs with the store below
    const std::uint64_t now = done.load(std::memory_order_acquire);        // pairs with the scheduler's
    // Goes back at times when two threads store: still a lower bound.
    done_seen.store(now, std::memory_order_release);
    return now >= cursor;
  }

 private:
  void add_chunk(std::size_t least);
};

class cpu_scheduler {
 public:
  /// `threads` of its own, at least one, which begin on these CPUs, in turn after the caller's, and stay
  /// there if they are pinned.
  cpu_scheduler(unsigned threads, std::span<const unsigned> cpus, bool is_pinned);
  ~cpu_scheduler();
  cpu_scheduler(const cpu_scheduler&) = delete;
  cpu_scheduler& operator=(const cpu_scheduler&) = delete;

  cpu_queue& add_queue();
  [[nodiscard]] std::size_t threads() const noexcept { return threads_.size(); }

  /// An idle stream was given something.
  void make_ready(cpu_queue& q) {
    std::uint32_t was = cpu_queue::idle;
    if (q.state.compare_exchange_strong(was, cpu_queue::queued)) list(q);
  }

  /// Blocks until the point is complete; runs ready ops meanwhile. Not from inside an op.
  void wait(cpu_queue& q, std::uint64_t cursor);
  /// Blocks until the point is complete; runs nothing meanwhile.
  static void wait_idly(cpu_queue& q, std::uint64_t cursor);
  /// Runs ready ops until `word` is not `old` any more, and sleeps where there are none. Who changes the
  /// word, with seq_cst, then calls notify().
  void help_while(const std::atomic<std::uint32_t>& word, std::uint32_t old);
  void notify(const std::atomic<std::uint32_t>& word) noexcept;
  /// How long ops take, in ns: an estimate from a few of them.
  [[nodiscard]] std::uint64_t grain() const noexcept { return grain_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t unknown_grain = std::numeric_limits<std::uint64_t>::max();
  struct target {
    cpu_queue* queue;
    std::uint64_t cursor;
    [[nodiscard]] bool is_reached() const noexcept {
      return queue->done.load(std::memory_order_acquire) >= cursor;  // pairs with publish()
    }
  };

  /// Counts the calling thread as one that looks for a stream to run, for a scope.
  struct looker {
    explicit looker(cpu_scheduler& by) noexcept : of(by) {
      of.looking_.fetch_add(1, std::memory_order_relaxed);
    }
    ~looker() { of.looking_.fetch_sub(1, std::memory_order_relaxed); }
    looker(const looker&) = delete;
    looker& operator=(const looker&) = delete;
    cpu_scheduler& of;
  };
  void work(unsigned number);
  /// Makes a queued stream ready.
  void list(cpu_queue& q);
  bool rest(cpu_worker& self);
  void hesitate() const noexcept;
  template <class IsOver>
  cpu_queue* look_for_work(cpu_queue* preferred, IsOver is_over);
  template <class IsOver>
  void sleep_and_help(cpu_waiter& w, cpu_queue* preferred, IsOver is_over);
  template <class Until>
  bool run(cpu_queue& q, unsigned patient, Until until);
  [[nodiscard]] bool stays(const cpu_queue& q, std::uint64_t at) const noexcept;
  bool pass_waits(cpu_queue& q, const cpu_record& r);
  [[nodiscard]] std::uint64_t comes_soon(const cpu_point& on,
                                         std::span<const std::byte* const> reads) const noexcept;
  bool pass_recorded_waits(cpu_queue& q, cpu_part& part, std::uint64_t at);
  /// What follows from how long ops take. Of each so many ops and one more, those that are not followed by a
  /// look at what others did, of submitted ones and of those of a part, and those of a part whose completion
  /// is told without a fence: see publish_soon(). One less than powers of two.
  struct run_pace {
    unsigned untimed;  // ops until the next one is timed
    unsigned skipped_looks = 0;
    unsigned skipped_part_looks = 0;
    unsigned skipped_fences = 0;
  };
  [[nodiscard]] static run_pace pace_of(std::uint64_t length, unsigned untimed) noexcept;
  template <class Op>
  void run_timed(run_pace& pace, Op op);
  bool run_part(cpu_queue& q, const cpu_record& r, std::uint64_t& at, unsigned& left, run_pace& pace,
                bool& is_told);
  bool park(cpu_queue& q, const cpu_point& on);
  void publish(cpu_queue& q, std::uint64_t cursor);
  void publish_soon(cpu_queue& q, std::uint64_t cursor);
  static bool add_waiter(cpu_queue& origin, cpu_waiter& w);
  static void wake_waiters(cpu_queue& origin, std::uint64_t cursor);
  bool find_missed();
  void leave_parked();

  cpu_ready ready_;
  alignas(64) std::atomic<std::uint32_t> watchers_{0};  // threads in help_while() that may sleep
  // Threads that look for a stream to run, and do not sleep.
  alignas(64) std::atomic<std::uint32_t> looking_{0};

  alignas(64) std::atomic<std::uint64_t> grain_{unknown_grain};
  std::mutex queues_mutex_;
  std::vector<std::unique_ptr<cpu_queue>> queues_;
  std::vector<std::thread> threads_;
};

// The op becomes visible to whoever runs the stream. An idle stream is made ready; one that is queued,
// running or parked will be looked at anyway, after its holder gave the state back and looked again.
inline void cpu_queue::commit(std::uint64_t cursor) {
  if (last == nullptr) [[unlikely]]
    reserve(0, [](void*, std::uint64_t) {});
  last->ends_op = 1;
  last = nullptr;
  submitted.store(cursor);
  if (state.load() == idle) home.make_ready(*this);
}

}  // namespace braid::detail
