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

namespace {

int tried = 0;

bool try_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  ++tried;
  try {
    braid::fuzz::run(text);
    return true;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), e.what());
    return false;
  }
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
