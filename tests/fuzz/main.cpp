// With libFuzzer (option BRAID_FUZZERS, clang) inputs are made up; without it the files that are named, or
// those in the folders that are named, are tried one after the other.

#include "fuzz.hpp"

#if BRAID_FUZZER

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  braid::fuzz::run({reinterpret_cast<const char*>(data), size});
  return 0;
}

#else

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace {

int tried = 0;

bool try_input(std::string_view text, const std::string& name) {
  ++tried;
  try {
    braid::fuzz::run(text);
    return true;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), e.what());
    return false;
  }
}

// A file of many inputs, as pack.py makes it: each is its size, a newline and its bytes.
bool try_packed(const std::string& all, const std::string& name) {
  bool good = true;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t line = all.find('\n', at);
    const std::size_t size = std::stoul(all.substr(at, line - at));
    good = try_input(std::string_view(all).substr(line + 1, size), name + ", byte " + std::to_string(at)) &&
           good;
    at = line + 1 + size;
  }
  return good;
}

bool try_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  return path.extension() == ".packed" ? try_packed(text, path.string()) : try_input(text, path.string());
}

}  // namespace

int main(int argc, char** argv) {
  bool good = argc > 1;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      good = try_file(argv[i]) && good;
      continue;
    }
    for (const auto& each : std::filesystem::directory_iterator(argv[i]))
      good = try_file(each.path()) && good;
  }
  std::printf("%d inputs\n", tried);
  return good && tried != 0 ? 0 : 1;
}

#endif
