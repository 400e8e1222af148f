#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace braid::detail {

/// Any object, kept only to be destroyed. Objects of usual size need no memory of their own.
class retired {
 public:
  retired() noexcept = default;

  template <class T>
  static retired of(T&& object) {
    using type = std::decay_t<T>;
    retired r;
    if constexpr (sizeof(type) <= room && alignof(type) <= alignof(std::max_align_t) &&
                  std::is_nothrow_move_constructible_v<type>) {
      new (r.bytes_) type(std::forward<T>(object));
      r.move_ = [](std::byte* from, std::byte* to) noexcept {
        type* object_in = std::launder(reinterpret_cast<type*>(from));
        if (to != nullptr) new (to) type(std::move(*object_in));
        object_in->~type();
      };
    } else {
      r = of(std::make_unique<type>(std::forward<T>(object)));
    }
    return r;
  }

  retired(retired&& other) noexcept { take(other); }
  retired& operator=(retired&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~retired() { reset(); }

  void reset() noexcept {
    if (const auto move = std::exchange(move_, nullptr)) move(bytes_, nullptr);
  }

 private:
  static constexpr std::size_t room = 48;

  void take(retired& other) noexcept {
    move_ = std::exchange(other.move_, nullptr);
    if (move_ != nullptr) move_(other.bytes_, bytes_);
  }

  alignas(std::max_align_t) std::byte bytes_[room];
  void (*move_)(std::byte* from, std::byte* to) noexcept = nullptr;  // to null: only destroys
};

}  // namespace braid::detail
