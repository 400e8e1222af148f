#include "braid/detail/given_ops.hpp"

#include <fmt/format.h>

#include <map>

namespace braid::detail {

void given_ops::add_names(std::string& to) const {
  // Where the ring is full, its oldest stands behind its newest.
  const std::uint64_t completed = completed_.load(std::memory_order_relaxed);
  std::map<std::uint64_t, const op_label*> pending;
  for (const given& each : last_) {
    const std::uint64_t cursor = each.cursor.load(std::memory_order_relaxed);
    const op_label* label = each.label.load(std::memory_order_relaxed);
    if (cursor > completed && label != nullptr) pending.emplace(cursor, label);
  }
  for (const auto& [cursor, label] : pending) {
    to += fmt::format("{}'{}'", to.empty() ? "" : ", ", label->name());
  }
  if (pending.size() == remembered) to += " and perhaps older ones";
}

}  // namespace braid::detail
