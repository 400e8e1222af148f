#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace braid::detail {

template <class Signature>
class callback;

/// What std::function is, without the fourteen thousand lines of <functional>, which every program that
/// includes braid would compile; nvcc does so three times. Copies share what is called.
template <class R, class... Args>
class callback<R(Args...)> {
 public:
  callback() noexcept = default;
  callback(std::nullptr_t) noexcept {}
  template <class F>
    requires(!std::is_same_v<F, callback> && std::is_invocable_r_v<R, F&, Args...>)
  callback(F f) : held_(std::make_shared<holder<F>>(std::move(f))) {}

  explicit operator bool() const noexcept { return held_ != nullptr; }
  R operator()(Args... args) const { return held_->call(std::forward<Args>(args)...); }

 private:
  struct any {
    virtual ~any() = default;
    virtual R call(Args... args) = 0;
  };
  template <class F>
  struct holder final : any {
    explicit holder(F&& moved) : f(std::move(moved)) {}
    R call(Args... args) override { return f(std::forward<Args>(args)...); }
    F f;
  };

  std::shared_ptr<any> held_;
};

}  // namespace braid::detail
