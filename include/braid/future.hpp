#pragma once

#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "braid/detail/callback.hpp"
#include "braid/detail/lock.hpp"
#include "braid/detail/retired.hpp"
#include "braid/detail/runtime_base.hpp"
#include "braid/error.hpp"

// A result on the host that comes later.
//
//   std::vector<double> host = rt.read(y).get();              // waits, and runs ready ops meanwhile
//   rt.read(y).then([](std::vector<double> y) { ... });       // on a braid thread
//   std::vector<double> host = co_await rt.read(y);           // the coroutine goes on on a braid thread
//
// get() throws what went wrong: an op_error with the label of the op that failed. What then() is given runs
// on a braid thread, outside of any lock, and may submit; so does what follows a co_await. A future has one
// consumer: get(), then() and co_await take the value out of it.

namespace braid {

template <class T>
class future;

namespace detail {

/// Runs when it is destroyed, unless it was moved from: what a braid thread does with an object is to destroy
/// it.
template <class F>
class at_destruction {
 public:
  explicit at_destruction(F f) : f_(std::move(f)) {}
  at_destruction(at_destruction&& other) noexcept : f_(std::move(other.f_)) { other.armed_ = false; }
  at_destruction& operator=(at_destruction&&) = delete;
  ~at_destruction() {
    if (armed_) f_();
  }

 private:
  F f_;
  bool armed_ = true;
};

struct nothing {};
template <class T>
using stored = std::conditional_t<std::is_void_v<T>, nothing, T>;

class future_state_base {
 public:
  future_state_base(runtime_link runtime, op_point op) noexcept : runtime_(runtime), op_(op) {}

  [[nodiscard]] bool is_ready() const noexcept {
    return word_.load(std::memory_order_acquire) != pending;  // pairs with the release in settle()
  }
  /// The op that brings the result; set before anybody else knows the state.
  void come_from(op_point op) noexcept { op_ = op; }

  void wait() {
    if (is_ready()) return;
    runtime_base& home = runtime_.expect("waiting for a future");
    home.expect_outside_body("waiting for a future");
    if (op_.bits != 0) {
      try {
        home.wait_for(op_);
      } catch (const execution_error&) {
        if (is_finished_.load(std::memory_order_relaxed)) throw;  // else finish() brings the error
      }
    }
    finish();
    if (!is_ready()) home.wait_while(word_, pending);
  }
  template <class Clock, class Duration>
  bool wait_until(std::chrono::time_point<Clock, Duration> deadline) {
    runtime_base* home = runtime_.get();
    if (home != nullptr) home->expect_outside_body("waiting for a future");
    backoff pause;
    while (!is_ready()) {
      if (Clock::now() >= deadline) return false;
      // Lets a simulated device go on; brings the result of one that is over.
      if (home != nullptr && op_.bits != 0 && home->is_over(op_)) finish();
      pause.pause();
    }
    return true;
  }

  /// What makes the state ready when the op is over, where the op itself does not: called once, by whoever
  /// comes first. Set before anybody else knows the state.
  void finish_with(callback<void()> f) noexcept {
    finisher_ = std::move(f);
    is_finished_.store(false, std::memory_order_release);  // pairs with finish()
  }
  void finish() noexcept {
    // acq_rel: who calls it sees it set
    if (!is_finished_.exchange(true, std::memory_order_acq_rel)) std::exchange(finisher_, nullptr)();
  }

  /// Calls `f` on a braid thread when the state is ready. `f` owns the state.
  template <class F>
  void when_ready(F f) {
    retired task = retired::of(at_destruction<F>(std::move(f)));
    {
      const std::lock_guard<spin_lock> lock(lock_);
      if (!is_ready()) {
        waiting_.push_back(std::move(task));
        return;
      }
    }
    post(std::move(task));
  }

  void set_error(std::exception_ptr error) noexcept {
    error_ = std::move(error);
    settle();
  }
  /// An op that failed; whoever takes the result throws an exception of his own for it.
  void set_failure(failure_ptr why) noexcept {
    failure_ = std::move(why);
    settle();
  }
  /// Of a state that is ready: an op's failure goes to `next` as it is.
  bool pass_failure_on(future_state_base& next) noexcept {
    if (!failure_) return false;
    next.set_failure(std::move(failure_));
    return true;
  }

 protected:
  static constexpr std::uint32_t pending = 0, ready = 1;

  void settle() noexcept {
    std::vector<retired> tasks;
    {
      const std::lock_guard<spin_lock> lock(lock_);
      word_.store(ready);  // pairs with is_ready(); seq_cst for notify()
      tasks.swap(waiting_);
    }
    if (runtime_base* home = runtime_.get()) home->notify(word_);
    for (retired& task : tasks) post(std::move(task));
  }
  void post(retired task) noexcept {
    // Without a runtime there is no braid thread: the task runs here, as it is destroyed.
    if (runtime_base* home = runtime_.get()) home->post(std::move(task));
  }

  void rethrow() const {
    if (failure_) failure_->raise();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
  failure_ptr failure_;
  std::atomic<std::uint32_t> word_{pending};
  std::atomic<bool> is_finished_{true};
  callback<void()> finisher_;
  runtime_link runtime_;
  op_point op_;
  spin_lock lock_;
  std::vector<retired> waiting_;

  template <class T>
  friend class braid::future;
};

template <class T>
class future_state final : public future_state_base {
 public:
  using future_state_base::future_state_base;

  template <class... Args>
  void set_value(Args&&... args) {
    value_.emplace(std::forward<Args>(args)...);
    settle();
  }
  /// Of a state that is ready; once.
  stored<T> take() {
    rethrow();
    return std::move(*value_);  // NOLINT(bugprone-unchecked-optional-access): ready, and no error
  }
  /// Where an op puts the value before it calls set_ready().
  stored<T>& prepare() { return value_.emplace(); }
  void set_ready() noexcept { settle(); }

 private:
  std::optional<stored<T>> value_;
};

}  // namespace detail

template <class T>
class [[nodiscard]] future {
 public:
  /// A future of nothing: using it throws.
  future() noexcept = default;
  explicit future(std::shared_ptr<detail::future_state<T>> state) noexcept : state_(std::move(state)) {}

  [[nodiscard]] bool valid() const noexcept { return state_ != nullptr; }
  [[nodiscard]] bool is_ready() const { return expect().is_ready(); }

  /// Blocks until the result is there; runs ready ops meanwhile. Throws usage_error inside a body.
  void wait() const { expect().wait(); }
  /// Blocks until then or until the time is over; runs no ops.
  template <class Rep, class Period>
  std::future_status wait_for(std::chrono::duration<Rep, Period> time) const {
    return wait_until(std::chrono::steady_clock::now() + time);
  }
  template <class Clock, class Duration>
  std::future_status wait_until(std::chrono::time_point<Clock, Duration> deadline) const {
    return expect().wait_until(deadline) ? std::future_status::ready : std::future_status::timeout;
  }

  /// The result, or what went wrong, as an exception. Once.
  T get() {
    wait();
    const auto state = std::exchange(state_, nullptr);
    if constexpr (std::is_void_v<T>) {
      (void)state->take();
    } else {
      return state->take();
    }
  }

  /// Calls `f` with the value, on a braid thread; the future of what it returns. An error passes by `f`.
  template <class F>
  auto then(F f) {
    detail::future_state<T>& state = expect();
    using result = typename decltype(result_of<F>())::type;
    auto to = std::make_shared<detail::future_state<result>>(state.runtime_, detail::op_point{});
    auto from = std::exchange(state_, nullptr);
    state.when_ready([from = std::move(from), to, f = std::move(f)]() mutable noexcept {
      if (from->pass_failure_on(*to)) return;
      try {
        if constexpr (std::is_void_v<T>) {
          (void)from->take();
          settle_with(*to, [&]() -> decltype(auto) { return f(); });
        } else {
          auto value = from->take();
          settle_with(*to, [&]() -> decltype(auto) { return f(std::move(value)); });
        }
      } catch (...) {
        to->set_error(std::current_exception());
      }
    });
    return future<result>(std::move(to));
  }

  /// For co_await. The coroutine goes on on a braid thread.
  auto operator co_await() && {
    (void)expect();
    struct awaiter {
      future held;
      bool await_ready() const noexcept { return held.state_->is_ready(); }
      void await_suspend(std::coroutine_handle<> caller) {
        held.state_->when_ready([caller]() noexcept { caller.resume(); });
      }
      T await_resume() { return held.get(); }
    };
    return awaiter{std::move(*this)};
  }

 private:
  template <class R>
  struct tag {
    using type = R;
  };
  template <class F>
  static auto result_of() {
    if constexpr (std::is_void_v<T>) {
      return tag<std::invoke_result_t<F&>>{};
    } else {
      return tag<std::invoke_result_t<F&, T>>{};
    }
  }
  template <class State, class Call>
  static void settle_with(State& to, Call&& call) {
    if constexpr (std::is_void_v<std::invoke_result_t<Call&>>) {
      call();
      to.set_value();
    } else {
      to.set_value(call());
    }
  }
  detail::future_state<T>& expect() const {
    if (state_ != nullptr) return *state_;
    throw usage_error(
        misuse::null_resource,
        "this future holds no result: it is empty, or get(), then() or co_await took the result");
  }

  std::shared_ptr<detail::future_state<T>> state_;
};

}  // namespace braid
