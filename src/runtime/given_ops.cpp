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
    if (cursor > completed) pending.emplace(cursor, label);
  }
  std::size_t nameless = 0;
  for (const auto& [cursor, label] : pending) {
    if (label == nullptr) {
      ++nameless;
      continue;
    }
    to += fmt::format("{}'{}'", to.empty() ? "" : ", ", label->name());
  }
  if (nameless != 0)
    to += fmt::format("{}{} whose label{} not kept", to.empty() ? "" : ", ", nameless,
                      nameless == 1 ? " is" : "s are");
  if (pending.size() == remembered) to += " and perhaps older ones";
}

}  // namespace braid::detail
