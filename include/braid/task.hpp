#pragma once

#include <coroutine>
#include <exception>
#include <memory>
#include <utility>

#include "braid/detail/lock.hpp"
#include "braid/future.hpp"

namespace braid {

/// A coroutine that awaits futures. It starts at once, on the thread that calls it, and goes on on a braid
/// thread after each co_await. get() blocks until it has returned and gives what it returned or threw; one
/// task can await another. A task that is dropped runs on to its end.
///
///   braid::task<double> norm(braid::cpu::runtime& rt, braid::buffer<double> x) {
///     std::vector<double> host = co_await rt.read(x);
///     co_return std::inner_product(...);
///   }
template <class T>
class [[nodiscard]] task {
  using state = detail::future_state<T>;

  struct promise_base {
    std::shared_ptr<state> result = std::make_shared<state>(detail::runtime_link{}, detail::op_point{});
    task get_return_object() { return task(result); }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void unhandled_exception() noexcept { result->set_error(std::current_exception()); }
  };
  struct promise_of_value : promise_base {
    template <class U>
    void return_value(U&& value) {
      this->result->set_value(std::forward<U>(value));
    }
  };
  struct promise_of_nothing : promise_base {
    void return_void() { this->result->set_value(); }
  };

 public:
  struct promise_type : std::conditional_t<std::is_void_v<T>, promise_of_nothing, promise_of_value> {};

  [[nodiscard]] bool is_ready() const { return expect().is_ready(); }
  /// Blocks until the coroutine is over. Once. Throws usage_error inside a body.
  T get() {
    detail::runtime_base::expect_outside_body("waiting for a task");
    detail::backoff pause;
    while (!expect().is_ready()) pause.pause();
    const auto taken = std::exchange(result_, nullptr);
    if constexpr (std::is_void_v<T>) {
      (void)taken->take();
    } else {
      return taken->take();
    }
  }
  auto operator co_await() && {
    (void)expect();
    return future<T>(std::move(result_)).operator co_await();
  }

 private:
  state& expect() const {
    if (result_ != nullptr) return *result_;
    throw usage_error(misuse::null_resource, "this task holds no result: get() or co_await took it");
  }
  explicit task(std::shared_ptr<state> result) noexcept : result_(std::move(result)) {}
  std::shared_ptr<state> result_;
};

}  // namespace braid
