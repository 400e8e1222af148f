#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "braid/access.hpp"
#include "braid/detail/callback.hpp"
#include "braid/detail/resource_state.hpp"
#include "braid/detail/retired.hpp"
#include "braid/detail/stamp.hpp"
#include "braid/error.hpp"
#include "braid/log.hpp"

// What all runtimes share, whatever their backend: what became of failed ops, and how handles find their
// runtime.
//
// Poison. An op that fails, or is skipped or cancelled, poisons the bytes that it would have written: the
// failure is noted with the resource, by the op itself, at the moment in which it would have run. Ops whose
// accesses conflict run in the order of their submission, so whoever reads the bytes finds the state that its
// place in that order gives it, and an op that overwrites them heals them for those behind it. The same holds
// across the owners of a block: each owner's first access is a write. While nothing is poisoned, and no op is
// to be cancelled, an op looks at one counter and no more.

namespace braid::detail {

struct buffer_core;

/// One op: its slot's lane and its cursor, in 64 bits. 0 is none.
struct op_point {
  std::uint64_t bits = 0;

  op_point() = default;
  op_point(lane_id lane, std::uint64_t cursor) noexcept
      : bits(std::uint64_t{index_of(lane)} << 48 | (cursor & cursor_mask)) {}
  [[nodiscard]] lane_id lane() const noexcept { return static_cast<lane_id>(bits >> 48); }
  [[nodiscard]] std::uint64_t cursor() const noexcept { return bits & cursor_mask; }
  friend auto operator<=>(const op_point&, const op_point&) = default;

 private:
  static constexpr std::uint64_t cursor_mask = (std::uint64_t{1} << 48) - 1;
};

/// What became of an op that did not do its work. Shared by all that it reached.
struct failure {
  std::string label;
  std::string text;
  std::exception_ptr cause;
  bool is_of_device = false;  // the cause: no op can run any more
  std::uint64_t order = 0;    // of the submission
  std::shared_ptr<logger> log;
  mutable std::atomic<bool> is_known{false};     // somebody was told
  mutable std::atomic<std::uint32_t> places{0};  // pieces of data that carry it

  /// Says it in the log, if nobody was told.
  void report(const char* why_here = "nobody asked") const noexcept;

  [[noreturn]] void raise() const {
    is_known.store(true, std::memory_order_relaxed);
    if (is_of_device) std::rethrow_exception(cause);
    throw op_error(label, text, cause);
  }
};
using failure_ptr = std::shared_ptr<const failure>;

/// What an op is, for whoever has to speak of it.
struct op_info {
  const std::string* label;
  std::uint64_t order;
  op_point point;
};

/// An op's lane, and its place in the order of submission: exact among the ops of one thread and between ops
/// that data connects. In 64 bits.
class op_rank {
 public:
  op_rank() noexcept = default;
  constexpr op_rank(lane_id lane, std::uint64_t order) noexcept : bits_(order << 16 | index_of(lane)) {}
  [[nodiscard]] lane_id lane() const noexcept { return static_cast<lane_id>(bits_ & 0xffff); }
  [[nodiscard]] std::uint64_t order() const noexcept { return bits_ >> 16; }

 private:
  std::uint64_t bits_;
};

/// The order of the last op that this thread submitted.
extern constinit thread_local std::uint64_t last_order;

/// Bytes that an op touches.
struct touched {
  resource_state* state;
  const std::byte* base;  // where its bytes are; null if it has none
  std::uint64_t begin;
  std::uint64_t end;
  access kind;
  std::uint32_t tag;
  bool is_scratch;  // nobody else will see it
};

class runtime_base {
 public:
  explicit runtime_base(std::shared_ptr<logger> log);
  virtual ~runtime_base();
  runtime_base(const runtime_base&) = delete;
  runtime_base& operator=(const runtime_base&) = delete;

  // What handles need of the runtime that made them.
  /// Blocks until the op is over. May run other ops meanwhile.
  virtual void wait_for(op_point op) = 0;
  [[nodiscard]] virtual bool is_over(op_point op) = 0;
  /// Blocks while the word is `old`. May run ops meanwhile.
  virtual void wait_while(const std::atomic<std::uint32_t>& word, std::uint32_t old) = 0;
  /// The word was changed, with seq_cst: wakes who waits for it.
  virtual void notify(std::atomic<std::uint32_t>& word) noexcept = 0;
  /// The object is destroyed soon, on a braid thread.
  virtual void post(retired object) = 0;
  /// The last handle of a buffer is gone.
  virtual void release(buffer_core& dead) noexcept = 0;
  /// Whether an op that was submitted may not have begun.
  [[nodiscard]] virtual bool may_cancel() const noexcept = 0;
  /// Why no op can run on the device any more; null while it works. A body threw `thrown`, which may tell.
  [[nodiscard]] virtual std::exception_ptr device_failure(const std::exception_ptr& thrown) = 0;
  /// The same for runtimes of one type.
  [[nodiscard]] virtual const void* kind() const noexcept = 0;

  /// Throws if the calling thread runs the body of an op.
  static void expect_outside_body(const char* what);

  // ---- Of an op whose turn it is.
  [[nodiscard]] bool needs_attention() const noexcept {
    return attention_->load(std::memory_order_relaxed) != 0;  // ordered by what orders the ops
  }
  /// Why the op must not run, or null. Its outputs are poisoned then.
  failure_ptr refuse(const op_info& op, std::span<const touched> uses);
  /// The op ran: what it wrote is good.
  void heal(std::span<const touched> uses);
  /// The op cannot run, because of `why`.
  void pass_on(const op_info& op, std::span<const touched> uses, const failure_ptr& why);
  /// The op's body threw.
  failure_ptr fail(const op_info& op, std::span<const touched> uses, const std::exception_ptr& cause);

  // ---- Of the host.
  /// The failure that the bytes carry, or null.
  [[nodiscard]] failure_ptr failure_of(resource_state& state, std::uint64_t begin, std::uint64_t end);
  /// The failure of one of the last ops that failed, or null.
  [[nodiscard]] failure_ptr failure_of(op_point op);
  /// The op will not run if it has not begun. False: it is over.
  bool cancel(op_point op);
  /// Drops requests that came too late.
  void forget_cancels();
  /// The data dies: failures that nobody was told of are logged.
  void report_unasked(resource_state& state) noexcept;

  [[nodiscard]] std::uint64_t failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t skipped() const noexcept { return skipped_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t cancelled() const noexcept {
    return cancelled_.load(std::memory_order_relaxed);
  }

  /// Of this runtime in traces.
  [[nodiscard]] std::uint32_t trace_number() const noexcept { return trace_number_; }
  /// Whether a trace is recorded. Stands beside what each op looks at anyway.
  [[nodiscard]] bool is_traced() const noexcept {
    return is_traced_.load(std::memory_order_relaxed);  // orders nothing: the edges of a trace are not sharp
  }

 protected:
  std::shared_ptr<logger> log_;
  void enter_traces(std::string backend, std::uint32_t workers, std::uint32_t streams, std::uint32_t width,
                    const char* placement, callback<std::uint64_t()> live_bytes);
  /// `is_forked`: the runtime is of the process that this one was forked from.
  void leave_traces(bool is_forked) noexcept;

 private:
  struct poison;
  void poison_outputs(const op_info& op, std::span<const touched> uses, const failure_ptr& why);
  static poison* poison_of(const resource_state& state) noexcept;

  // Resources that are poisoned, and ops to be cancelled. Shared with the notes on the resources, which may
  // outlive the runtime. Every op looks at it: it has a line of its own, because a runtime often stands on
  // the stack of the thread that submits.
  alignas(64) std::shared_ptr<std::atomic<std::uint32_t>> attention_;
  std::atomic<bool> is_traced_{false};
  std::uint32_t trace_number_ = 0;
  alignas(64) std::mutex mutex_;
  struct op_lists;
  std::unique_ptr<op_lists> lists_;        // under the mutex
  std::atomic<std::uint32_t> cancels_{0};  // how many ops are to be cancelled
  std::atomic<std::uint64_t> failed_{0};
  std::atomic<std::uint64_t> skipped_{0};
  std::atomic<std::uint64_t> cancelled_{0};
};

/// The label of the op whose body this thread runs; null outside. Inside record() it is not null either, so
/// that a submit has one thing to look at.
extern constinit thread_local const std::string* running_body;
/// Whose ops are recorded on this thread; null outside record().
extern constinit thread_local const runtime_base* recording_runtime;
[[nodiscard]] inline bool is_recording() noexcept {
  return recording_runtime != nullptr;
}

/// How a handle finds its runtime, and learns that it is gone. Links are few (as many as runtimes lived at
/// the same time), used again with another number, and never freed: so that a handle is two words and costs
/// no counting.
class runtime_link {
 public:
  runtime_link() noexcept = default;
  static runtime_link open(runtime_base& of);
  void close() noexcept;

  /// Null if the runtime is gone.
  [[nodiscard]] runtime_base* get() const noexcept {
    // acquire: pairs with the release in open()
    if (place_ == nullptr || place_->number.load(std::memory_order_acquire) != number_) return nullptr;
    return place_->runtime.load(std::memory_order_relaxed);
  }
  /// Throws if the runtime is gone.
  [[nodiscard]] runtime_base& expect(const char* what) const;

  friend bool operator==(const runtime_link& x, const runtime_link& y) noexcept {
    return x.number_ == y.number_;
  }

 private:
  struct place {
    std::atomic<std::uint64_t> number{0};
    std::atomic<runtime_base*> runtime{nullptr};
  };
  place* place_ = nullptr;
  std::uint64_t number_ = 0;  // of this runtime alone; 0: none
};

}  // namespace braid::detail
