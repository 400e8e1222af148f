#include <algorithm>

#include <fmt/format.h>

#include "braid/detail/op_locks.hpp"
#include "braid/detail/stamp_pool.hpp"

namespace braid::detail {

void throw_bad_binding(const binding& b, std::size_t index) {
  if (b.state == nullptr) {
    throw usage_error(misuse::null_resource,
                      fmt::format("binding {} has a null resource: make one with resource::memory() or "
                                  "resource::token()",
                                  index));
  }
  const std::string range = fmt::format("binding {} of '{}' covers {} bytes at {}", index, b.state->name,
                                        b.range.size, b.range.offset);
  if (b.range.end() < b.range.offset) {
    throw usage_error(misuse::range_overflow, range + ": offset + size does not fit in 64 bits");
  }
  throw usage_error(misuse::range_outside, fmt::format("{}, but the resource has {}", range, b.state->size));
}

void throw_not_ours(const resource_state& r) {
  const stamp_arena* owner = r.owner.load(std::memory_order_acquire);
  if (owner != nullptr && !owner->is_open()) {
    throw usage_error(misuse::foreign_resource,
                      fmt::format("'{}' belonged to an engine that is gone: make a new resource", r.name));
  }
  throw usage_error(misuse::foreign_resource,
                    fmt::format("'{}' belongs to another engine: its accesses are ordered there; make one "
                                "resource for each engine",
                                r.name));
}

void throw_handed_on(const resource_state& r) {
  throw usage_error(
      misuse::handed_on,
      fmt::format("the memory of '{}' has a next owner: use the handle that hand_on() returned", r.name));
}

void throw_conflicting(const resource_state& r, std::size_t first, std::size_t second) {
  throw usage_error(
      misuse::conflicting_bindings,
      fmt::format("bindings {} and {} of one op conflict on '{}': bind it once, as read_write, or "
                  "bind ranges that do not overlap",
                  std::min(first, second), std::max(first, second), r.name));
}

}  // namespace braid::detail
