#pragma once

#include <string>

namespace braid::bench {

/// Returns when no thread of this process has run for a moment. Throws std::runtime_error, with the name of
/// the runtime that was measured last, if some go on.
void wait_until_quiet(const std::string& runtime);

}  // namespace braid::bench
