#include "braid/detail/shared_marks.hpp"

#include <algorithm>

namespace braid::detail {

shared_marks::shared_marks(std::span<const op> ops, std::size_t part_count) : of_op(ops.size(), none) {
  struct in_use {
    std::uint32_t number, until;
  };
  std::vector<std::vector<in_use>> of_part(part_count);
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    const op& o = ops[i];
    if (!o.is_awaited) continue;
    auto& mine = of_part[o.part];
    const auto free = std::ranges::find_if(mine, [&](const in_use& m) { return m.until <= i; });
    if (!o.keeps && free != mine.end()) {
      of_op[i] = free->number;
      free->until = o.until;
    } else {
      of_op[i] = static_cast<std::uint32_t>(parts.size());
      parts.push_back(o.part);
      last.push_back(i);
      if (!o.keeps) mine.push_back({of_op[i], o.until});
    }
    last[of_op[i]] = i;
  }
}

}  // namespace braid::detail
