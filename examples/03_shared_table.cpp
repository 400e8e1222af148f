// Eight threads compute checksums with one table. The table is written once; after that all only read it, and
// readers do not wait for each other. Each thread submits on its own and never speaks to the others.

#include <array>
#include <atomic>
#include <braid/cpu.hpp>
#include <iostream>
#include <thread>
#include <vector>

namespace {

constexpr unsigned thread_count = 8;
constexpr unsigned messages = 200;
constexpr std::size_t message_size = 4096;

// CRC-32, by the table.
std::uint32_t checksum(std::span<const std::uint32_t> table, std::span<const std::uint8_t> text) {
  std::uint32_t crc = ~0U;
  for (const std::uint8_t byte : text) crc = table[(crc ^ byte) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::uint32_t shifted_out(std::uint32_t crc) {
  for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
  return crc;
}

// The same without a table, to check with.
std::uint32_t slow_checksum(std::span<const std::uint8_t> text) {
  std::uint32_t crc = ~0U;
  for (const std::uint8_t byte : text) crc = shifted_out(crc ^ byte);
  return ~crc;
}

}  // namespace

int main() {
  braid::cpu::runtime rt({.placement = braid::placement::per_thread});
  const auto table = rt.make_buffer<std::uint32_t>(256, "table");
  rt.submit("make table", write(table), [](std::span<std::uint32_t> t) {
    for (std::uint32_t i = 0; i < t.size(); ++i) t[i] = shifted_out(i);
  });

  std::atomic<unsigned> right{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned number = 0; number < thread_count; ++number) {
      threads.emplace_back([&, number] {
        const auto crcs = rt.make_buffer<std::uint32_t>(messages, "crcs");
        std::vector<std::uint32_t> expected;
        for (unsigned m = 0; m < messages; ++m) {
          std::vector<std::uint8_t> text(message_size);
          for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::uint8_t>(number + m * i);
          expected.push_back(slow_checksum(text));
          const auto message = rt.make_buffer<std::uint8_t>(text.size(), "message");
          rt.write(message, text);
          rt.submit("checksum", read(table), read(message), write(crcs.slice(m, 1)),
                    [](std::span<const std::uint32_t> t, std::span<const std::uint8_t> in,
                       std::span<std::uint32_t> crc) { crc[0] = checksum(t, in); });
        }
        const std::vector<std::uint32_t> found = rt.read(crcs).get();
        for (unsigned m = 0; m < messages; ++m) right += found[m] == expected[m] ? 1 : 0;
      });
    }
  }

  const braid::stream_stats did = rt.stats().streams;
  std::cout << right << " of " << thread_count * messages << " checksums are right\n"
            << did.ops << " ops on " << did.streams << " streams\n";
  // At most the first op of each thread waits, for the table; nobody waits because somebody else reads it.
  if (did.waits_for(braid::hazard::read_after_write) > thread_count ||
      did.waits_for(braid::hazard::write_after_read) != 0) {
    std::cerr << "wrong: readers of the table waited for each other\n";
    return 1;
  }
  return right == thread_count * messages ? 0 : 1;
}
