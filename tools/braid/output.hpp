#pragma once

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <ostream>
#include <string>
#include <system_error>

namespace braid::tool {

/// Calls `write(std::ostream&)` with the file, or with standard output for "-". Throws std::system_error,
/// with the file's name, if not all of it could be written.
template <class Write>
void write_output(const std::string& path, Write&& write) {
  const auto fail = [&] {
    throw std::system_error(errno, std::generic_category(), "'" + path + "' cannot be written");
  };
  if (path == "-") {
    write(std::cout);
    std::cout.flush();
    if (!std::cout) fail();
    return;
  }
  std::ofstream out(path, std::ios::binary);
  if (!out) fail();
  write(out);
  out.close();
  if (!out) fail();
}

/// Throws now if the file could not be written later. What is there stays.
inline void expect_writable(const std::string& path) {
  if (path.empty() || path == "-") return;
  std::error_code ignored;
  const bool was_there = std::filesystem::exists(path, ignored);
  if (!std::ofstream(path, std::ios::binary | std::ios::app)) {
    throw std::system_error(errno, std::generic_category(), "'" + path + "' cannot be written");
  }
  if (!was_there) std::filesystem::remove(path, ignored);
}

}  // namespace braid::tool
