#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "braid/access.hpp"
#include "braid/detail/resource_state.hpp"

// A resource is a thing whose accesses are ordered: memory of so many bytes, or a bare token for anything
// else (a file, a random generator, a library that is not reentrant). A handle is shared and cheap to copy;
// it may be copied, bound and destroyed on any thread. A resource belongs to the first engine that is given
// an op on it; when that engine is gone the handle is inert, and its use throws.

namespace braid {

class resource {
 public:
  /// A null handle: binding it throws.
  resource() noexcept = default;

  /// No memory; any range of it may be bound.
  static resource token(std::string_view name) {
    return make(std::numeric_limits<std::uint64_t>::max(), name);
  }
  /// `bytes` bytes. braid orders the accesses; where the bytes are is the program's business.
  static resource memory(std::uint64_t bytes, std::string_view name) { return make(bytes, name); }

  resource(const resource& other) noexcept : state_(other.state_) {
    if (state_ != nullptr) detail::retain(state_);
  }
  resource(resource&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  // Two, and not one that takes its argument by value: in a template, clang 16 does not destroy that of `x =
  // {}`.
  resource& operator=(const resource& other) noexcept { return *this = resource(other); }
  resource& operator=(resource&& other) noexcept {
    resource taken = std::move(other);
    std::swap(state_, taken.state_);
    return *this;
  }
  ~resource() {
    if (state_ != nullptr) detail::release(state_);
  }

  explicit operator bool() const noexcept { return state_ != nullptr; }
  [[nodiscard]] std::uint64_t size() const noexcept { return state_ != nullptr ? state_->size : 0; }
  [[nodiscard]] const std::string& name() const noexcept;
  /// A number that no other resource of this process has or had; 0 for a null handle.
  [[nodiscard]] std::uint64_t id() const noexcept { return state_ != nullptr ? state_->id : 0; }

  /// Gives the memory to a next owner: a new resource of the same size that carries this one's history on,
  /// so that its ops run after all that was done here, for the reason `hazard::reuse`. Never blocks on a
  /// device. Throws usage_error for a null handle, on the second call, and inside a guard of this thread
  /// that uses this resource. From then on binding this handle throws.
  resource hand_on(std::string_view name);

  /// One more handle of a resource that some handle keeps alive.
  static resource share(detail::resource_state* state) noexcept {
    detail::retain(state);
    return resource(state);
  }

  friend bool operator==(const resource&, const resource&) noexcept = default;

 private:
  friend struct binding;
  explicit resource(detail::resource_state* state) noexcept : state_(state) {}
  static resource make(std::uint64_t bytes, std::string_view name);

  detail::resource_state* state_ = nullptr;
};

/// A resource with an access: what an operation says of itself. Refers to the resource without owning it;
/// the handle has to live until the op is resolved, and a guard keeps it alive from then on.
struct binding {
  binding(const resource& r, access how, std::uint32_t group = 0) noexcept
      : state(r.state_), range{0, r.size()}, tag(group), kind(how), whole(range.size != 0) {}
  binding(const resource& r, access how, byte_range part, std::uint32_t group = 0) noexcept
      : state(r.state_), range(part), tag(group), kind(how), whole(false) {}

  binding(detail::resource_state* of, access how, byte_range part, bool all, std::uint32_t group = 0) noexcept
      : state(of), range(part), tag(group), kind(how), whole(all) {}

  detail::resource_state* state;
  byte_range range;
  std::uint32_t tag;  ///< tells accumulate groups apart
  access kind;
  bool whole;  ///< the range is all of the resource, and not empty
};

inline binding read(const resource& r) noexcept {
  return {r, access::read};
}
inline binding read(const resource& r, byte_range range) noexcept {
  return {r, access::read, range};
}
inline binding write(const resource& r) noexcept {
  return {r, access::write};
}
inline binding write(const resource& r, byte_range range) noexcept {
  return {r, access::write, range};
}
inline binding read_write(const resource& r) noexcept {
  return {r, access::read_write};
}
inline binding read_write(const resource& r, byte_range range) noexcept {
  return {r, access::read_write, range};
}
/// Ops that accumulate with one tag may run at the same time: they are ordered against readers, writers and
/// other tags, not against each other.
inline binding accumulate(const resource& r, std::uint32_t tag = 0) noexcept {
  return {r, access::accumulate, tag};
}
inline binding accumulate(const resource& r, byte_range range, std::uint32_t tag = 0) noexcept {
  return {r, access::accumulate, range, tag};
}

}  // namespace braid
