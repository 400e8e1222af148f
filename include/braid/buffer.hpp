#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "braid/access.hpp"
#include "braid/detail/buffer_core.hpp"
#include "braid/resource.hpp"

// Memory that ops read and write, by its elements.
//
//   auto x = rt.make_buffer<double>(n, "x");
//   rt.submit("fill", write(x), [](std::span<double> x) { ... });
//   rt.submit("tail", read_write(x.slice(n / 2, n / 2)), [](std::span<double> t) { ... });
//
// A handle is shared and cheap to copy; any thread may copy, bind and destroy it. Destroying the last one
// frees the memory at once, whatever is still in flight: the next owner's ops come after. A handle that
// outlives its runtime is inert: its use throws.

namespace braid {

/// What can be in a buffer: bytes that may be copied as such.
template <class T>
concept element = std::is_trivially_copyable_v<T> && !std::is_const_v<T>;

template <element T>
class buffer_slice;

template <element T>
class buffer {
 public:
  using value_type = T;

  /// A null handle: binding it throws.
  buffer() noexcept = default;
  explicit buffer(detail::buffer_handle handle) noexcept : handle_(std::move(handle)) {}

  explicit operator bool() const noexcept { return static_cast<bool>(handle_); }
  [[nodiscard]] std::uint64_t size() const noexcept { return handle_ ? handle_->bytes / sizeof(T) : 0; }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return handle_ ? handle_->bytes : 0; }
  [[nodiscard]] std::string name() const { return handle_ ? handle_->name : "null"; }

  /// `count` elements from `first` on. Ops on slices that do not overlap are independent. Throws usage_error
  /// if the buffer ends before.
  [[nodiscard]] buffer_slice<T> slice(std::uint64_t first, std::uint64_t count) const {
    if (!handle_ || first > size() || count > size() - first) {
      detail::throw_bad_slice(handle_.get(), first, count, size());
    }
    return buffer_slice<T>(handle_, first, count);
  }

  [[nodiscard]] const detail::buffer_handle& handle() const noexcept { return handle_; }
  friend bool operator==(const buffer&, const buffer&) noexcept = default;

 private:
  detail::buffer_handle handle_;
};

/// A part of a buffer; keeps it alive.
template <element T>
class buffer_slice {
 public:
  using value_type = T;
  /// All of it.
  buffer_slice(const buffer<T>& all) noexcept : handle_(all.handle()), count_(all.size()) {}
  buffer_slice(detail::buffer_handle of, std::uint64_t first, std::uint64_t count) noexcept
      : handle_(std::move(of)), first_(first), count_(count) {}

  [[nodiscard]] std::uint64_t size() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t first() const noexcept { return first_; }
  [[nodiscard]] buffer_slice slice(std::uint64_t first, std::uint64_t count) const {
    if (!handle_ || first > count_ || count > count_ - first) {
      detail::throw_bad_slice(handle_.get(), first, count, count_);
    }
    return buffer_slice(handle_, first_ + first, count);
  }
  [[nodiscard]] const detail::buffer_handle& handle() const noexcept { return handle_; }

 private:
  detail::buffer_handle handle_;
  std::uint64_t first_ = 0;
  std::uint64_t count_ = 0;
};

namespace detail {

/// A word that was stored by itself just before, and is to be loaded so: a compiler that loads two neighbours
/// at once makes the core wait until both stores have left it, 5 ns each time.
[[nodiscard, gnu::always_inline]] inline std::uint64_t apart(std::uint64_t word) noexcept {
  asm("" : "+r"(word));
  return word;
}

/// A buffer with an access. T is const where the body may only read. Refers to the buffer without owning it.
template <class T, access Kind>
struct buffer_argument {
  using element_type = T;
  static constexpr access kind = Kind;
  buffer_core* core;
  std::uint64_t first;
  std::uint64_t count;
  std::uint32_t tag = 0;

  [[nodiscard]] byte_range range() const noexcept {
    return {apart(first) * sizeof(T), apart(count) * sizeof(T)};
  }
};

/// Memory for one op.
template <class T>
struct scratch_argument {
  using element_type = T;
  static constexpr access kind = access::write;
  std::uint64_t count;
};

template <access Kind, class T>
using element_of = std::conditional_t<Kind == access::read, const T, T>;

/// The same bytes of the buffer.
template <class T, access Kind>
auto as_bytes(const buffer_argument<T, Kind>& a) noexcept {
  return buffer_argument<element_of<Kind, std::byte>, Kind>{a.core, a.first * sizeof(T), a.count * sizeof(T),
                                                            a.tag};
}

template <access Kind, element T>
auto bind_all(const buffer<T>& b, std::uint32_t tag = 0) noexcept {
  return buffer_argument<element_of<Kind, T>, Kind>{b.handle().get(), 0, b.size(), tag};
}
template <access Kind, element T>
auto bind_part(const buffer_slice<T>& s, std::uint32_t tag = 0) noexcept {
  return buffer_argument<element_of<Kind, T>, Kind>{s.handle().get(), s.first(), s.size(), tag};
}

}  // namespace detail

template <element T>
auto read(const buffer<T>& b) noexcept {
  return detail::bind_all<access::read>(b);
}
template <element T>
auto read(const buffer_slice<T>& s) noexcept {
  return detail::bind_part<access::read>(s);
}
/// The old content does not matter, and every element is written.
template <element T>
auto write(const buffer<T>& b) noexcept {
  return detail::bind_all<access::write>(b);
}
template <element T>
auto write(const buffer_slice<T>& s) noexcept {
  return detail::bind_part<access::write>(s);
}
template <element T>
auto read_write(const buffer<T>& b) noexcept {
  return detail::bind_all<access::read_write>(b);
}
template <element T>
auto read_write(const buffer_slice<T>& s) noexcept {
  return detail::bind_part<access::read_write>(s);
}
/// Ops that accumulate with one tag may run at the same time, with atomics for example.
template <element T>
auto accumulate(const buffer<T>& b, std::uint32_t tag = 0) noexcept {
  return detail::bind_all<access::accumulate>(b, tag);
}
template <element T>
auto accumulate(const buffer_slice<T>& s, std::uint32_t tag = 0) noexcept {
  return detail::bind_part<access::accumulate>(s, tag);
}
/// `count` elements for one op alone; what is in them at its beginning is not defined.
template <element T>
detail::scratch_argument<T> scratch(std::uint64_t count) noexcept {
  return {count};
}

}  // namespace braid
