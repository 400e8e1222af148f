#include "verify/shrink.hpp"

#include <algorithm>
#include <functional>

namespace braid::verify {

program shrink(program p, const std::function<bool(const program&)>& fails, unsigned tries) {
  const auto keep_if_failing = [&](program smaller) {
    if (tries == 0) return false;
    --tries;
    if (!fails(smaller)) return false;
    p = std::move(smaller);
    return true;
  };

  // Steps, in pieces of half the program and smaller.
  for (std::size_t piece = std::max<std::size_t>(1, p.steps.size() / 2); piece > 0; piece /= 2) {
    bool again = true;
    while (again) {
      again = false;
      for (std::size_t at = 0; at < p.steps.size();) {
        program smaller = p;
        const auto from = smaller.steps.begin() + static_cast<std::ptrdiff_t>(at);
        const auto to =
            smaller.steps.begin() + static_cast<std::ptrdiff_t>(std::min(at + piece, p.steps.size()));
        smaller.steps.erase(from, to);
        if (keep_if_failing(std::move(smaller))) {
          again = piece == 1;
        } else {
          at += piece;
        }
      }
    }
  }
  // Then single uses.
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    for (std::size_t u = 0; u < p.steps[i].uses.size();) {
      program smaller = p;
      smaller.steps[i].uses.erase(smaller.steps[i].uses.begin() + static_cast<std::ptrdiff_t>(u));
      if (!keep_if_failing(std::move(smaller))) ++u;
    }
  }
  return p;
}

}  // namespace braid::verify
