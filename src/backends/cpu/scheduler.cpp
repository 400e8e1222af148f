#include <algorithm>
#include <chrono>

#include "braid/detail/cores.hpp"
#include "braid/detail/cpu_queue.hpp"

namespace braid::detail {

namespace {

constexpr std::size_t first_chunk = 1024;  // ten thousand streams take ten megabytes
constexpr std::size_t usual_chunk = std::size_t{32} * 1024;
constexpr unsigned turn = 256;       // ops that a stream runs before others get their turn, or one is timed
constexpr unsigned one_run_in = 16;  // begins with an op that is timed, and all do while none was
constexpr unsigned ops_while_it_changes = 8;  // from one that is timed to the next
constexpr unsigned small_batch = 48;          // fewer ops than this that came meanwhile are left to gather
constexpr std::chrono::nanoseconds hesitation{3'000};
constexpr std::uint64_t short_op = 500;       // ns
constexpr std::uint64_t middling_op = 1'000;  // ns: of these a line that is far away is still a good part
constexpr std::uint64_t longer_op = 4'000;    // ns: and of these it can be seen
constexpr unsigned looks_before_parking = 64;
constexpr unsigned looks_beside_others = 4;  // which the thread could run instead
constexpr unsigned looks_before_leaving = 250;
constexpr unsigned looks_until_a_store_is_seen = 16;
constexpr unsigned looks_before_sleep = 4'000;
constexpr unsigned looks_of_a_waiting_thread = 2'000;

cpu_chunk* make_chunk(std::size_t size) {
  auto* c = static_cast<cpu_chunk*>(::operator new(size, std::align_val_t{64}));
  return new (c) cpu_chunk{nullptr, size};
}
void free_chunk(cpu_chunk* c) noexcept {
  if (c != nullptr) ::operator delete(c, std::align_val_t{64});
}
std::byte* begin_of(cpu_chunk* c) noexcept {
  return reinterpret_cast<std::byte*>(c) + 64;
}

}  // namespace

// ---- A stream.

cpu_queue::cpu_queue(cpu_scheduler& by) : home(by) {
  head_chunk = tail_chunk = make_chunk(first_chunk);
  head = tail = begin_of(tail_chunk);
  tail_end = reinterpret_cast<std::byte*>(tail_chunk) + tail_chunk->size;
  parking.stream = this;
}

cpu_queue::~cpu_queue() {
  // All was run, but for pieces of an op that was never committed: their payloads are lost with it.
  for (cpu_chunk* c = head_chunk; c != nullptr;) free_chunk(std::exchange(c, c->next));
  free_chunk(spare.load());
}

void cpu_queue::add_chunk(std::size_t least) {
  cpu_chunk* made = spare.exchange(nullptr, std::memory_order_acquire);  // pairs with the runner's release
  if (made != nullptr && made->size < least + 64) {
    free_chunk(made);
    made = nullptr;
  }
  if (!last_of) last_of = std::make_unique<std::uint64_t[]>(most_chunks);
  if (made == nullptr) made = make_chunk(std::max(usual_chunk, least + 64));
  made->next = nullptr;
  tail_chunk->next = made;
  new (tail) cpu_record{nullptr, 0, 0, 0};
  tail_chunk = made;
  tail = begin_of(made);
  tail_end = reinterpret_cast<std::byte*>(made) + made->size;
  const std::size_t at = chunks_left++ % most_chunks;
  // relaxed: bounds; the ops that they name were committed
  room_after.store(last_of[at], std::memory_order_relaxed);
  last_of[at] = submitted.load(std::memory_order_relaxed);
  half_after.store(last_of[(at + most_chunks / 2) % most_chunks], std::memory_order_relaxed);
}

// Short ops had better gather, unless many are there already: see hesitate().
void cpu_scheduler::list(cpu_queue& q) {
  // relaxed: a hint
  q.has_many =
      q.submitted.load(std::memory_order_relaxed) - q.done.load(std::memory_order_relaxed) >= small_batch;
  ready_.push(q, !q.has_many && grain() < short_op);
}

// ---- Running.

namespace {

/// Of each so many ops and one more the last one is followed by a look, as is the last one of a turn. How
/// many come before that one.
constexpr unsigned ops_before_look(unsigned left, unsigned skipped) noexcept {
  return (left - (skipped & 1)) & skipped;
}

}  // namespace

// One op in some is timed; another one soon, if the estimate changes.
template <class Op>
void cpu_scheduler::run_timed(run_pace& pace, Op op) {
  const auto begin = std::chrono::steady_clock::now();
  op();
  const auto took = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count());
  const std::uint64_t before = grain_.load(std::memory_order_relaxed);
  // An op that was interrupted tells little: the estimate grows slowly and falls fast.
  const std::uint64_t after =
      before == unknown_grain ? took : (before + std::min(took, 2 * before + 100)) / 2;
  const bool has_changed = after > before + before / 8 || after + after / 8 < before;
  // relaxed: an estimate; written only when it matters, because submitters read it
  if (has_changed) grain_.store(after, std::memory_order_relaxed);
  pace = pace_of(after, has_changed ? ops_while_it_changes : turn);
}

// Where ops are short, to look at what another thread writes takes longer than they do, and so does a fence.
cpu_scheduler::run_pace cpu_scheduler::pace_of(std::uint64_t length, unsigned untimed) noexcept {
  if (length < short_op)
    return {.untimed = untimed, .skipped_looks = 7, .skipped_part_looks = 7, .skipped_fences = 31};
  if (length < middling_op) return {.untimed = untimed, .skipped_part_looks = 3, .skipped_fences = 7};
  if (length < longer_op) return {.untimed = untimed, .skipped_part_looks = 1, .skipped_fences = 3};
  return {.untimed = untimed};
}

// Runs ops of the part that stands at the front, until the caller has to look after something else: behind
// the op after `last`. Who waits for which op was found when they were recorded, and the completion of others
// is told with that of a later one: `is_told` says whether that op's needs to be told no more, for now.
// False: as pass_waits().
bool cpu_scheduler::run_part(cpu_queue& q, const cpu_record& r, std::uint64_t& last, unsigned& left,
                             run_pace& pace, bool& is_told) {
  cpu_part& part = *std::launder(reinterpret_cast<cpu_part*>(q.head + sizeof(cpu_record)));
  // In registers: a body may change any memory, as far as the compiler knows.
  const recorded_op* next = part.next;
  std::uint64_t order = part.order;
  bool is_first = part.sequence == 0;
  bool is_over = false;
  bool is_seen = false;
  std::uint64_t at = last;
  std::uint64_t look_after = at + ops_before_look(left, pace.skipped_part_looks);
  for (;; ++at) {
    const recorded_op& op = *next;
    if (const std::uint32_t waits = (is_first ? op.once : op.again).count;
        waits != 0 && q.next_wait < waits) {
      part.next = next;
      if (!pass_recorded_waits(q, part, at)) return false;
      q.next_wait = 0;
    }
    const op_rank rank(part.lane, order + op.number);
    if (pace.untimed == 0) [[unlikely]] {
      run_timed(pace, [&] { op.frame->run(at + 1, rank, nullptr); });
    } else {
      op.frame->run(at + 1, rank, nullptr);
    }
    is_seen = op.is_awaited || (op.is_last && part.sequence == part.last_sequence);
    if (++next == part.end) {
      next = part.begin;
      is_over = part.sequence++ == part.last_sequence;
      if (is_over) look_after = at;
      is_first = false;
      order = part.order += part.of->ops->sequence.size();
    }
    if (at == look_after) break;
    if (is_seen) publish_soon(q, at + 1);
  }
  left -= static_cast<unsigned>(at - last);
  pace.untimed -= std::min(pace.untimed, static_cast<unsigned>(at - last) + 1);
  last = at;
  part.next = next;
  is_told = !is_over && ops_before_look(left, pace.skipped_fences) != 0;
  if (is_told && is_seen) publish_soon(q, at + 1);
  if (is_over) {
    part.~cpu_part();
    q.head += r.size;
  }
  return true;
}

// Runs what the stream holds, in order, until it is empty, parked, has had its turn, or `until` says so. The
// caller holds the state; it is given back. When it has run what was there, it goes on only if at least
// `patient` ops came in the meantime. True: the stream was left with ops to run, parked or after its turn.
template <class Until>
bool cpu_scheduler::run(cpu_queue& q, unsigned patient, Until until) {
  std::uint64_t at = q.done.load(std::memory_order_relaxed);  // changed by the holder of the state alone
  static thread_local unsigned runs = 0;
  const std::uint64_t length = grain();
  run_pace pace = pace_of(length, length == unknown_grain || ++runs % one_run_in == 0 ? 0 : turn);
  unsigned left = turn;
  for (;;) {
    const std::uint64_t limit = q.submitted.load(std::memory_order_acquire);  // pairs with commit()
    while (at < limit) {
      bool is_told = false;
      unsigned looks = pace.skipped_looks;
      for (bool ended = false; !ended;) {
        auto* r = std::launder(reinterpret_cast<cpu_record*>(q.head));
        if (r->run == nullptr) [[unlikely]] {
          if (r->size != 0) {
            if (!run_part(q, *r, at, left, pace, is_told)) return true;  // parked
            looks = pace.skipped_part_looks;
            break;
          }
          cpu_chunk* over = std::exchange(q.head_chunk, q.head_chunk->next);
          q.head = begin_of(q.head_chunk);
          // release: pairs with the submitter's exchange
          if (over->size < usual_chunk) {
            free_chunk(over);
          } else {
            free_chunk(q.spare.exchange(over, std::memory_order_acq_rel));
          }
          continue;
        }
        if (q.next_wait < r->waits && !pass_waits(q, *r)) return true;  // parked: no longer ours
        ended = r->ends_op != 0;
        try {
          void* payload = q.head + sizeof(cpu_record) + r->waits * sizeof(cpu_point);
          if (pace.untimed == 0) [[unlikely]] {
            run_timed(pace, [&] { r->run(payload, at + 1); });
          } else {
            --pace.untimed;
            r->run(payload, at + 1);
          }
        } catch (const std::exception& e) {
          const std::scoped_lock lock(q.failures_mutex);
          q.failures.emplace_back(at + 1, e.what());
          q.has_failed.store(true, std::memory_order_relaxed);  // seen with `done`
        } catch (...) {
          const std::scoped_lock lock(q.failures_mutex);
          q.failures.emplace_back(at + 1, "a body threw something that is not a std::exception");
          q.has_failed.store(true, std::memory_order_relaxed);
        }
        q.head += r->size;
        q.next_wait = 0;
      }
      ++at;
      if (!is_told) publish(q, at);
      const bool is_enough = ops_before_look(left, looks) == 0 && until();
      if (is_enough || --left == 0) [[unlikely]] {
        left = turn;
        if (is_enough || ready_.has_any()) {
          if (is_told) publish(q, at);
          if (at < limit || q.submitted.load(std::memory_order_relaxed) > at) {
            q.state.store(cpu_queue::queued);
            list(q);
            return true;
          }
        }
      }
    }
    const std::uint64_t more = q.submitted.load(std::memory_order_relaxed) - at;
    if (more >= patient || (patient > 1 && stays(q, at))) continue;
    if (more != 0) {  // at the submitter's heels: let it get ahead
      q.state.store(cpu_queue::queued);
      list(q);
      return false;
    }
    q.state.store(cpu_queue::idle);
    if (q.submitted.load() == at) return false;
    // Given something in between, by somebody who may have seen the state before: whoever is first holds it.
    std::uint32_t was = cpu_queue::idle;
    if (!q.state.compare_exchange_strong(was, cpu_queue::running)) return false;
    at = q.done.load(std::memory_order_relaxed);  // another thread may have held the stream in between
    if (until()) {
      q.state.store(cpu_queue::queued);
      list(q);
      return false;
    }
  }
}

// A worker that has run what its stream held stays with it for a while, unless ops are so short that they had
// better gather, or nobody else is there for a stream that is ready: what comes next needs no way through the
// ready list then, which all cores share. True: there is more to run.
bool cpu_scheduler::stays(const cpu_queue& q, std::uint64_t at) const noexcept {
  if (grain() < short_op) return false;
  // Each look takes the cache line from the submitter, who writes to it with every op: not too often.
  for (unsigned look = 0, pause = 1; look < looks_before_leaving; ++look) {
    if (q.submitted.load(std::memory_order_relaxed) != at) return true;
    if (ready_.has_own() || ready_.is_stopped() || (look % 8 == 0 && ready_.has_any())) return false;
    for (unsigned i = 0; i < pause; ++i) relax();
    pause = std::min(pause + 1, 16U);
  }
  return false;
}

void cpu_scheduler::publish(cpu_queue& q, std::uint64_t cursor) {
  q.done.store(cursor);
  if (q.first_awaited.load() <= cursor) [[unlikely]]
    wake_waiters(q, cursor);
}

// Without the order between the two: who begins to wait at this very moment may be missed. It is found with
// the next op that is told in order (run_pace), or when the stream is left; and because that op may be a long
// one, or wait itself for who was missed, a thread that waits or has parked a stream looks again (naps). For
// ops that do not take much longer than the store does when another core has the line.
void cpu_scheduler::publish_soon(cpu_queue& q, std::uint64_t cursor) {
  q.done.store(cursor, std::memory_order_release);  // pairs with the acquires of who waits
  if (q.first_awaited.load(std::memory_order_relaxed) <= cursor) [[unlikely]]
    wake_waiters(q, cursor);
}

// False: the stream is parked, or was woken and belongs to somebody else.
bool cpu_scheduler::pass_waits(cpu_queue& q, const cpu_record& r) {
  const auto* points = std::launder(reinterpret_cast<const cpu_point*>(&r + 1));
  for (; q.next_wait < r.waits; ++q.next_wait) {
    if (comes_soon(points[q.next_wait], {}) < points[q.next_wait].cursor && !park(q, points[q.next_wait]))
      return false;
  }
  return true;
}

// Looks for a while whether the point is complete. Not where nobody runs its stream: unless it is ready, and
// a thread that looks for something to run is about to take it. What is read then is fetched with each look:
// it was written before the point is told, and comes at the same time.
std::uint64_t cpu_scheduler::comes_soon(const cpu_point& on,
                                        std::span<const std::byte* const> reads) const noexcept {
  for (unsigned looks = ready_.has_own() ? looks_beside_others : looks_before_parking;;) {
    for (const std::byte* each : reads) __builtin_prefetch(each);
    const std::uint64_t is = on.origin->done.load(std::memory_order_acquire);  // pairs with publish()
    if (is >= on.cursor) return is;
    const std::uint32_t state = on.origin->state.load(std::memory_order_relaxed);
    const bool is_run = state == cpu_queue::running ||
                        (state == cpu_queue::queued && looking_.load(std::memory_order_relaxed) != 0);
    if (--looks == 0 || !is_run) return is;
    relax();
  }
}

// Likewise, for the next op of a part. `at`: the op that was run last.
bool cpu_scheduler::pass_recorded_waits(cpu_queue& q, cpu_part& part, std::uint64_t at) {
  const cpu_replay& replay = *part.of;
  const recorded_waits& waits = part.waits();
  const std::span<const std::byte* const> reads(replay.ops->reads.data() + part.next->first_read,
                                                part.next->reads);
  for (; q.next_wait < waits.count; ++q.next_wait) {
    const recorded_place& on = replay.ops->waits[waits.first + q.next_wait].on;
    const cpu_point& begin = replay.parts[on.part];
    const cpu_point point{begin.origin, begin.cursor + part.sequence * replay.ops->parts[on.part].size() +
                                            static_cast<std::uint64_t>(on.index)};
    std::uint64_t& seen = part.seen[on.part % 2];
    std::uint32_t& seen_of = part.seen_of[on.part % 2];
    if (seen_of == on.part && seen >= point.cursor) continue;
    const std::uint64_t is = comes_soon(point, reads);
    seen_of = on.part;
    seen = is;
    if (is >= point.cursor) continue;
    publish(q, at);  // what was not told, or only soon
    if (!park(q, point)) return false;
  }
  return true;
}

namespace {

/// Whether the calling thread has parked a stream since it last looked for those that were missed.
constinit thread_local bool has_parked = false;

/// How long to sleep before the next look: ever longer. What was missed is seen in the first one, unless the
/// system itself stands still.
class naps {
 public:
  [[nodiscard]] unsigned next_ms() noexcept { return std::exchange(next_, std::min(2 * next_, 128U)); }

 private:
  unsigned next_ = 1;
};

}  // namespace

// Streams and threads that wait for something that is complete: see publish_soon(). False: nobody waits for
// anything.
bool cpu_scheduler::find_missed() {
  bool is_any = false;
  const std::scoped_lock lock(queues_mutex_);
  for (const auto& q : queues_) {
    const std::uint64_t first = q->first_awaited.load();
    if (first == cpu_queue::nobody) continue;
    is_any = true;
    if (const std::uint64_t done = q->done.load(); first <= done) wake_waiters(*q, done);
  }
  return is_any;
}

// True: the point is complete by now, and the stream still ours.
bool cpu_scheduler::park(cpu_queue& q, const cpu_point& on) {
  has_parked = true;
  q.state.store(cpu_queue::parked, std::memory_order_relaxed);  // the origin's lock orders it
  q.parking.cursor = on.cursor;
  if (add_waiter(*on.origin, q.parking)) return false;
  q.state.store(cpu_queue::running, std::memory_order_relaxed);
  return true;
}

// False: the point is complete. All is decided under the origin's lock, because from then on the waiter may
// be woken, and the origin may be gone.
bool cpu_scheduler::add_waiter(cpu_queue& origin, cpu_waiter& w) {
  const std::lock_guard<spin_lock> lock(origin.waiters_lock);
  const std::uint64_t first = origin.first_awaited.load(std::memory_order_relaxed);
  // seq_cst, also where nothing changes: who completes the point after this sees it and comes for the lock,
  // or this thread sees the point complete
  origin.first_awaited.store(std::min(w.cursor, first));
  if (origin.done.load() >= w.cursor) {
    origin.first_awaited.store(first);
    return false;
  }
  w.next = std::exchange(origin.waiters, &w);
  return true;
}

void cpu_scheduler::wake_waiters(cpu_queue& origin, std::uint64_t cursor) {
  cpu_waiter* woken = nullptr;
  {
    const std::lock_guard<spin_lock> lock(origin.waiters_lock);
    std::uint64_t first = cpu_queue::nobody;
    cpu_waiter** end = &woken;
    for (cpu_waiter** link = &origin.waiters; *link != nullptr;) {
      cpu_waiter* w = *link;
      if (w->cursor > cursor) {
        first = std::min(first, w->cursor);
        link = &w->next;
        continue;
      }
      *link = w->next;
      w->next = nullptr;
      *end = w;
      end = &w->next;
    }
    origin.first_awaited.store(first);
  }
  while (woken != nullptr) {
    cpu_waiter& w = *std::exchange(woken, woken->next);
    if (w.stream != nullptr) {
      w.stream->state.store(cpu_queue::queued, std::memory_order_relaxed);  // the list's lock orders it
      w.stream->home.list(*w.stream);
    } else {
      // After the store the thread may be gone with its waiter; the address alone is used then.
      const std::atomic<std::uint32_t>& word = w.word;
      w.word.store(cpu_waiter::over,
                   std::memory_order_release);  // pairs with the acquires of the waiting thread
      cpu_ready::wake(word);
    }
  }
}

// ---- The threads.

cpu_scheduler::cpu_scheduler(unsigned threads, std::span<const unsigned> cpus, bool is_pinned)
    : ready_(std::max(1U, threads)) {
  threads_.reserve(std::max(1U, threads));
  const unsigned own = cpu_of_this_thread();
  for (unsigned i = 0; i < std::max(1U, threads); ++i) {
    threads_.emplace_back([this, i, is_pinned, cpu = cpu_after(cpus, own, i + 1)] {
      is_pinned ? pin_this_thread(cpu) : begin_on(cpu);
      work(i);
    });
  }
}

cpu_scheduler::~cpu_scheduler() {
  ready_.stop();
  for (std::thread& t : threads_) t.join();
}

cpu_queue& cpu_scheduler::add_queue() {
  const std::scoped_lock lock(queues_mutex_);
  return *queues_.emplace_back(std::make_unique<cpu_queue>(*this));
}

void cpu_scheduler::work(unsigned number) {
  ready_.enter(number);
  cpu_worker& self = ready_.worker(number);
  bool has_backlog = false;  // the last stream was left with work: the submitter is far ahead
  bool was_called = false;
  for (;;) {
    if (!has_backlog && self.given == nullptr && grain() < short_op && (was_called || ready_.has_any()) &&
        !ready_.has_long()) {
      hesitate();
    }
    was_called = false;
    cpu_queue* q = std::exchange(self.given, nullptr);
    if (q == nullptr) q = ready_.take();
    if (q != nullptr) {
      has_backlog = run(*q, small_batch, [] { return false; });
    } else if (!rest(self)) {
      return;
    } else {
      has_backlog = false;
      was_called = true;  // perhaps in vain: then it does not rest at once, to be called for each op
    }
  }
}

// Ops that are shorter than the way from one core to another are not worth having at once: at the heels of
// the submitter both cores want the same cache lines all the time, and a thread that is about to wait for
// them runs them itself. So let some gather, or go.
void cpu_scheduler::hesitate() const noexcept {
  const auto until = std::chrono::steady_clock::now() + hesitation;
  while (std::chrono::steady_clock::now() < until) {
    for (unsigned i = 0; i < 8; ++i) relax();
  }
}

// Until it is called; looks for a while at a word of its own, then sleeps. False: it is over.
bool cpu_scheduler::rest(cpu_worker& self) {
  if (!ready_.rest(self)) return false;
  const auto is_called = [&] {
    return self.word.load(std::memory_order_acquire) == cpu_worker::called;  // pairs with who calls
  };
  {
    const looker counted(*this);
    for (unsigned look = 0, pause = 1; look < looks_before_sleep; ++look) {
      if (is_called()) return true;
      for (unsigned i = 0; i < pause; ++i) relax();
      pause = std::min(pause + 1, 16U);
    }
  }
  std::uint32_t was = cpu_worker::resting;
  if (self.word.compare_exchange_strong(was, cpu_worker::asleep)) {
    for (naps again; !is_called();) {
      if (!has_parked) {
        cpu_ready::sleep(self.word, cpu_worker::asleep);
      } else {
        cpu_ready::nap(self.word, cpu_worker::asleep, again.next_ms());
        if (!is_called()) has_parked = find_missed();
      }
    }
  }
  return true;
}

void cpu_scheduler::wait(cpu_queue& q, std::uint64_t cursor) {
  const target wanted{&q, cursor};
  while (!wanted.is_reached()) {
    if (cpu_queue* ready = look_for_work(&q, [&] { return wanted.is_reached(); })) {
      run(*ready, 1, [&] { return wanted.is_reached(); });
      continue;
    }
    if (wanted.is_reached()) break;
    cpu_waiter w;
    w.cursor = cursor;
    if (add_waiter(q, w)) {
      sleep_and_help(w, &q, [&] {
        return w.word.load(std::memory_order_acquire) == cpu_waiter::over;  // pairs with wake_waiters()
      });
    }
    break;
  }
  leave_parked();
}

// A stream that was parked while the calling thread helped is nobody's to look after from now on.
void cpu_scheduler::leave_parked() {
  if (!has_parked) [[likely]]
    return;
  has_parked = false;
  for (unsigned i = 0; i < looks_until_a_store_is_seen; ++i) relax();
  find_missed();
}

// A stream to run, for which a thread that waits looks for a while. Null: there is none, or it is over.
template <class IsOver>
cpu_queue* cpu_scheduler::look_for_work(cpu_queue* preferred, IsOver is_over) {
  if (cpu_queue* found = ready_.take(preferred)) return found;
  const looker counted(*this);
  for (unsigned look = 0; look < looks_of_a_waiting_thread && !is_over(); ++look) {
    relax();
    if (cpu_queue* found = ready_.take(preferred)) return found;
  }
  return nullptr;
}

// Sleeps until it is over. Called because there is work, it helps, and sleeps again. What it was called for
// may be gone by then, because another thread that takes turns with several streams was quicker: it looks for
// a while, which that thread sees.
template <class IsOver>
void cpu_scheduler::sleep_and_help(cpu_waiter& w, cpu_queue* preferred, IsOver is_over) {
  while (!is_over()) {
    if (ready_.offer_help(w, is_over)) {
      for (naps again; w.word.load(std::memory_order_acquire) == cpu_waiter::asleep;) {  // pairs with who
        cpu_ready::nap(w.word, cpu_waiter::asleep, again.next_ms());                     // calls or wakes it
        if (w.word.load(std::memory_order_relaxed) == cpu_waiter::asleep) find_missed();
      }
      ready_.withdraw_help(w);
      std::uint32_t called = cpu_waiter::called;
      w.word.compare_exchange_strong(called, cpu_waiter::asleep);
    }
    if (cpu_queue* ready = look_for_work(preferred, is_over)) run(*ready, 1, is_over);
  }
}

void cpu_scheduler::wait_idly(cpu_queue& q, std::uint64_t cursor) {
  backoff pause;
  for (unsigned looks = 0; !q.is_done(cursor); ++looks) {
    if (looks < 400) {
      pause.pause();
      continue;
    }
    cpu_waiter w;
    w.cursor = cursor;
    if (!add_waiter(q, w)) break;
    for (naps again; w.word.load(std::memory_order_acquire) == cpu_waiter::asleep;) {  // pairs with
      cpu_ready::nap(w.word, cpu_waiter::asleep, again.next_ms());                     // wake_waiters()
      if (q.done.load() >= cursor) wake_waiters(q, cursor);
    }
  }
}

void cpu_scheduler::help_while(const std::atomic<std::uint32_t>& word, std::uint32_t old) {
  const auto is_over = [&] { return word.load() != old; };  // seq_cst: see below
  while (!is_over()) {
    if (cpu_queue* ready = look_for_work(nullptr, is_over)) {
      run(*ready, 1, is_over);
    } else if (!is_over()) {
      cpu_waiter w;
      w.watched = &word;
      watchers_.fetch_add(1);  // either this thread sees the word changed, or who changes it sees this
      sleep_and_help(w, nullptr, is_over);
      watchers_.fetch_sub(1);
    }
  }
  leave_parked();
}

void cpu_scheduler::notify(const std::atomic<std::uint32_t>& word) noexcept {
  if (watchers_.load() != 0) ready_.notify(word);
}

}  // namespace braid::detail
