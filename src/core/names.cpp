#include <atomic>

#include "braid/access.hpp"
#include "braid/hazard.hpp"
#include "braid/stream_id.hpp"

namespace braid {

stream_id stream_id::current() noexcept {
  static std::atomic<std::uint64_t> next{0};
  thread_local const stream_id own{next.fetch_add(1, std::memory_order_relaxed)};  // only unique
  return own;
}

std::string to_string(stream_id id) {
  return id.is_special() ? "special " + std::to_string(id.special_index()) : std::to_string(id.value);
}

const char* to_string(access kind) noexcept {
  switch (kind) {
    case access::read: return "read";
    case access::write: return "write";
    case access::read_write: return "read_write";
    case access::accumulate: return "accumulate";
  }
  return "unknown";
}

const char* to_string(hazard why) noexcept {
  switch (why) {
    case hazard::read_after_write: return "RAW";
    case hazard::write_after_read: return "WAR";
    case hazard::write_after_write: return "WAW";
    case hazard::reuse: return "reuse";
    case hazard::capacity: return "capacity";
    case hazard::user: return "user";
  }
  return "unknown";
}

}  // namespace braid
