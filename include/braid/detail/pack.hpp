#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace braid::detail {

// What std::tuple is for the arguments of an op, at a fraction of what a tuple costs the compiler.

template <std::size_t, class T>
struct pack_item {
  T value;
};

template <class Indices, class... T>
struct pack_of;

template <std::size_t... I, class... T>
struct pack_of<std::index_sequence<I...>, T...> : pack_item<I, T>... {
  /// Calls `f` with all values.
  template <class F>
  decltype(auto) apply(F&& f) const {
    return f(pack_item<I, T>::value...);
  }
};

template <class... T>
using pack = pack_of<std::index_sequence_for<T...>, T...>;

/// Of a pack of references: the argument at a place, as it was passed.
template <std::size_t I, class T>
[[nodiscard]] constexpr T&& get(const pack_item<I, T>& of) noexcept {
  static_assert(std::is_reference_v<T>);
  return static_cast<T&&>(of.value);
}

}  // namespace braid::detail
