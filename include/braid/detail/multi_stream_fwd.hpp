#pragma once

#include "braid/backend.hpp"

namespace braid {

/// Any thread may submit to any stream.
struct thread_safe {
  static constexpr bool synchronised = true;
};
/// The caller sees to it that one thread at a time uses the engine and its resources: no lock is taken.
struct externally_synchronised {
  static constexpr bool synchronised = false;
};

template <event_stream_backend B, class Threading = thread_safe>
class multi_stream;
template <event_stream_backend B, class Threading = thread_safe>
class resolved_streams;

namespace detail {
template <class B>
struct slot;
}

}  // namespace braid
