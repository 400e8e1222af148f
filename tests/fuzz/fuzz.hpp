#pragma once

#include <string_view>

namespace braid::fuzz {

/// What is tried with one input. Each program defines its own.
void run(std::string_view input);

}  // namespace braid::fuzz
