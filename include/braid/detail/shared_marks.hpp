#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace braid::detail {

constexpr std::uint32_t most_kept_marks = 8;  // of a slot

/// Which marks the ops of a sequence record that is given again and again. A mark is recorded again, by this
/// op or by another one of its part, when all who wait for it have been told to: so there are few of them,
/// and they stay near.
///
/// An op of the sequence before is not waited for once it has been given again, because what it uses, it uses
/// again: one mark is enough for each op.
struct shared_marks {
  struct op {
    std::uint32_t part;
    bool is_awaited = false;  // others record nothing
    bool keeps = false;       // its mark serves those who come after the sequence: nobody else may have it
    std::uint32_t until = 0;  // the last op of the sequence that waits for it
  };
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  shared_marks() = default;
  shared_marks(std::span<const op> ops, std::size_t part_count);

  std::vector<std::uint32_t> of_op;  // its mark, or none
  std::vector<std::uint32_t> parts;  // of each mark, its part,
  std::vector<std::uint32_t> last;   // and the last op that records it
};

}  // namespace braid::detail
