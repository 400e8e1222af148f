#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "braid/hazard.hpp"
#include "braid/stream_id.hpp"

namespace braid {

/// A binding of an op that another stream's work has to come before.
struct shared_binding {
  stream_id origin;            ///< the stream that did that work
  std::uint64_t cursor = 0;    ///< the op there that is needed
  std::size_t binding = 0;     ///< which of the op's bindings, in the order given
  std::uint64_t resource = 0;  ///< resource::id()
  hazard why{};

  friend bool operator==(const shared_binding&, const shared_binding&) = default;
};

/// A wait that the op's stream was, or would be, told to make.
struct stream_wait {
  stream_id origin;
  std::uint64_t cursor = 0;   ///< the op that is needed
  std::uint64_t reached = 0;  ///< the op that the wait reaches: more than needed where a mark came late
  std::size_t binding = 0;    ///< the binding that needs the newest op of the origin
  std::uint64_t resource = 0;
  hazard why{};

  friend bool operator==(const stream_wait&, const stream_wait&) = default;
};

/// What it takes to align a stream with those that its op's bindings depend on: a value to look at.
struct alignment {
  /// All that the stream did not know to come before, grouped by origin, in the order of the origins' first
  /// use; within an origin in the order of the bindings.
  std::vector<shared_binding> shared;
  /// What is left when each origin is waited for once and waits that others imply are removed. In the same
  /// order, which is the order in which the backend is told.
  std::vector<stream_wait> waits;

  [[nodiscard]] bool empty() const noexcept { return shared.empty(); }
  friend bool operator==(const alignment&, const alignment&) = default;
};

namespace detail {
/// Whether the origin is an access that was noted, or an event that a stream was told to wait for: no stream
/// of the engine.
[[nodiscard]] bool is_foreign(stream_id origin) noexcept;
/// "op 4 of stream 1", or that it was submitted elsewhere.
[[nodiscard]] std::string name_of_op(stream_id origin, std::uint64_t cursor);
constexpr const char* foreign_work = "work submitted elsewhere";
}  // namespace detail

/// "waits for op 4 of stream 1 (RAW, binding 0)", one line a wait.
std::string to_string(const alignment& a);
std::ostream& operator<<(std::ostream& out, const alignment& a);

}  // namespace braid
