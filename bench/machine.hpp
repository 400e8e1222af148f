#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

namespace braid::bench {

/// What the numbers were measured on: CPU model, cores of this process, compiler.
nlohmann::json machine();

/// Resident memory of this process, in bytes.
std::uint64_t resident_bytes();

}  // namespace braid::bench
