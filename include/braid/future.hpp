#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "braid/detail/callback.hpp"
#include "braid/detail/lock.hpp"
#include "braid/detail/retired.hpp"
#include "braid/detail/runtime_base.hpp"
#include "braid/detail/time.hpp"
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

  void wait();
  template <class Clock, class Duration>
  bool wait_until(std::chrono::time_point<Clock, Duration> deadline) {
    runtime_base::expect_outside_body("waiting for a future");
    runtime_base* home = runtime_.get();
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
  void finish() noexcept;

  /// Calls `f` on a braid thread when the state is ready. `f` owns the state.
  template <class F>
  void when_ready(F f) {
    run_when_ready(retired::of(at_destruction<F>(std::move(f))));
  }

  void set_error(std::exception_ptr error) noexcept;
  /// An op that failed; whoever takes the result throws an exception of his own for it.
  void set_failure(failure_ptr why) noexcept;
  /// The value is there.
  void set_ready() noexcept;
  /// Of a state that is ready: an op's failure goes to `next` as it is.
  bool pass_failure_on(future_state_base& next) noexcept;

 protected:
  ~future_state_base();
  void rethrow() const;

 private:
  static constexpr std::uint32_t pending = 0, ready = 1;
  void run_when_ready(retired task);
  void post(retired task) noexcept;

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
    set_ready();
  }
  /// Of a state that is ready; once.
  stored<T> take() {
    rethrow();
    return std::move(*value_);  // NOLINT(bugprone-unchecked-optional-access): ready, and no error
  }
  /// Where an op puts the value before it calls set_ready().
  stored<T>& prepare() { return value_.emplace(); }

 private:
  std::optional<stored<T>> value_;
};

/// Where a read puts its bytes. What it puts there is the value of the state.
struct read_result {
  std::shared_ptr<future_state_base> state;
  void (*take_into)(future_state_base& state, void* to, std::span<const std::byte> data);
  void* to = nullptr;

  void take(std::span<const std::byte> data) const { take_into(*state, to, data); }
};

template <class T>
void take_vector(future_state_base& state, void*, std::span<const std::byte> data) {
  const auto* first = reinterpret_cast<const T*>(data.data());
  static_cast<future_state<std::vector<T>>&>(state).prepare().assign(first, first + data.size() / sizeof(T));
}
void take_bytes(future_state_base& state, void* to, std::span<const std::byte> data);

[[noreturn]] void throw_empty_future();

}  // namespace detail

/// What future::wait_for() found: compares with, and becomes, std::future_status; see detail/time.hpp.
class wait_status {
 public:
  explicit wait_status(bool is_ready) noexcept : is_ready_(is_ready) {}
  template <class Status>
    requires requires { Status::ready, Status::timeout; }
  operator Status() const noexcept {
    return is_ready_ ? Status::ready : Status::timeout;
  }
  template <class Status>
    requires requires { Status::ready, Status::timeout; }
  friend bool operator==(wait_status a, Status b) noexcept {
    return static_cast<Status>(a) == b;
  }

 private:
  bool is_ready_;
};

template <class T>
class [[nodiscard]] future {
 public:
  /// A future of nothing: using it throws.
  future() noexcept = default;
  explicit future(std::shared_ptr<detail::future_state<T>> state) noexcept : state_(std::move(state)) {}

  [[nodiscard]] bool valid() const noexcept { return state_ != nullptr; }
  [[nodiscard]] bool is_ready() const { return expect().is_ready(); }

  /// Blocks until the result is there; runs ready ops meanwhile. Throws usage_error inside a body, also if
  /// the result is there. If the wait itself fails while the op runs on, that is thrown, and the result comes
  /// later.
  void wait() const { expect().wait(); }
  /// Blocks until then or until the time is over; runs no ops.
  template <class Rep, class Period>
  wait_status wait_for(std::chrono::duration<Rep, Period> time) const {
    return wait_until(detail::deadline_in(time));
  }
  template <class Clock, class Duration>
  wait_status wait_until(std::chrono::time_point<Clock, Duration> deadline) const {
    return wait_status(expect().wait_until(deadline));
  }

  /// The result, or what went wrong, as an exception. Once.
  T get() {
    wait();
    return take();
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
      T await_resume() { return held.take(); }
    };
    return awaiter{std::move(*this)};
  }

 private:
  T take() {
    const auto state = std::exchange(state_, nullptr);
    if constexpr (std::is_void_v<T>) {
      (void)state->take();
    } else {
      return state->take();
    }
  }
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
    detail::throw_empty_future();
  }

  std::shared_ptr<detail::future_state<T>> state_;
};

}  // namespace braid
