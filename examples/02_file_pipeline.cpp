// Counts the letters of a file, chunk by chunk: read, lower the case, count, add up. The main thread reads
// the file while the workers are busy with earlier chunks. Memory is bounded twice: a window of futures keeps
// the reader from running ahead, and the pool has a limit.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <braid/cpu.hpp>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::size_t chunk_size = 256 * 1024;
constexpr std::size_t window = 4;  // chunks that are on their way at once
constexpr std::uint64_t limit = 8 << 20;

using counts = std::array<std::uint64_t, 26>;

/// A file of 16 MiB and a bit, gone with the object; knows how many of each letter are in it.
class letters_file {
 public:
  letters_file() : path_((std::filesystem::temp_directory_path() / "braid-letters-XXXXXX").string()) {
    const int made = mkstemp(path_.data());
    if (made < 0) throw std::runtime_error("cannot make a file in " + path_);
    close(made);
    std::ofstream out(path_, std::ios::binary);
    std::string line;
    for (std::uint32_t i = 0, random = 1; i < 16 * 1024 + 5; ++i) {
      line.clear();
      for (int k = 0; k < 1023; ++k) {
        random = random * 1'664'525 + 1'013'904'223;
        const std::uint32_t letter = (random >> 20) % 26;
        line += static_cast<char>(((random >> 10) % 2 == 0 ? 'a' : 'A') + static_cast<int>(letter));
        ++contents[letter];
      }
      out << line << '\n';
    }
    if (!out.flush()) throw std::runtime_error("cannot write to " + path_);
  }
  ~letters_file() { std::filesystem::remove(path_); }
  letters_file(const letters_file&) = delete;
  letters_file& operator=(const letters_file&) = delete;

  [[nodiscard]] std::ifstream open() const { return std::ifstream(path_, std::ios::binary); }
  counts contents{};

 private:
  std::string path_;
};

void lower(std::span<char> text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

void count(std::span<const char> text, std::span<std::uint64_t> found) {
  std::ranges::fill(found, 0);
  for (const char c : text) {
    if (c >= 'a' && c <= 'z') ++found[static_cast<std::size_t>(c - 'a')];
  }
}

}  // namespace

int main() {
  const letters_file file;
  braid::cpu::runtime rt({.memory_limit = limit});

  counts total{};
  std::deque<braid::future<std::vector<std::uint64_t>>> on_the_way;
  const auto add_oldest = [&] {
    const std::vector<std::uint64_t> found = on_the_way.front().get();
    on_the_way.pop_front();
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += found[i];
  };

  std::size_t chunks = 0;
  for (std::ifstream in = file.open(); in; ++chunks) {
    std::vector<char> bytes(chunk_size);
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    bytes.resize(static_cast<std::size_t>(in.gcount()));
    if (bytes.empty()) break;

    const auto text = rt.make_buffer<char>(bytes.size(), "text");
    const auto found = rt.make_buffer<std::uint64_t>(total.size(), "found");
    rt.write_from(text, std::move(bytes));  // keeps the vector instead of copying it
    rt.submit("lower", read_write(text), lower);
    rt.submit("count", read(text), write(found), count);
    on_the_way.push_back(rt.read(found));
    if (on_the_way.size() > window) add_oldest();
  }  // text and found are freed here, while ops still use them: the next owner of the memory comes after
  while (!on_the_way.empty()) add_oldest();

  const braid::memory_usage memory = rt.stats().memory;
  std::cout << chunks << " chunks of at most " << chunk_size << " bytes\n"
            << total[0] << " times a, " << total[25] << " times z\n"
            << "the pool took " << (memory.peak_reserved <= limit ? "no more than" : "MORE THAN")
            << " its limit of " << limit << " bytes\n";
  if (total != file.contents) {
    std::cerr << "wrong: the counts differ from what was written to the file\n";
    return 1;
  }
  return memory.peak_reserved <= limit ? 0 : 1;
}
