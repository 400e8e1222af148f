#include "braid/memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

namespace braid {

const char* to_string(reuse_step step) noexcept {
  switch (step) {
    case reuse_step::ordered: return "ordered";
    case reuse_step::complete: return "complete";
    case reuse_step::fresh: return "fresh";
    case reuse_step::waited: return "waited";
  }
  return "?";
}

memory_usage& memory_usage::operator+=(const memory_usage& other) {
  for (const auto field : {&memory_usage::live, &memory_usage::padding, &memory_usage::reserved,
                           &memory_usage::free, &memory_usage::pending, &memory_usage::peak_live,
                           &memory_usage::peak_reserved, &memory_usage::limit, &memory_usage::live_blocks}) {
    this->*field += other.*field;
  }
  for (unsigned i = 0; i < reuse_step_count; ++i) taken[i] += other.taken[i];
  streams.insert(streams.end(), other.streams.begin(), other.streams.end());
  return *this;
}

std::string to_string(const memory_usage& u) {
  std::string text = fmt::format(
      "live {} in {} blocks (padding {}), reserved {}, free {}, pending {}, peak live {}, peak reserved {}, "
      "limit {}; taken:",
      u.live, u.live_blocks, u.padding, u.reserved, u.free, u.pending, u.peak_live, u.peak_reserved,
      u.limit == 0 ? "none" : std::to_string(u.limit));
  for (unsigned i = 0; i < reuse_step_count; ++i) {
    text += fmt::format(" {} {}", to_string(static_cast<reuse_step>(i)), u.taken[i]);
  }
  for (const memory_usage::of_stream& s : u.streams) {
    text += fmt::format("; {}: live {}, cached {}, pending {}", s.name, s.live, s.cached, s.pending);
  }
  return text;
}

out_of_memory::out_of_memory(std::uint64_t asked, const char* source, memory_usage usage,
                             const std::string& why)
    : std::runtime_error(
          fmt::format("no room for {} bytes in '{}'{}: free buffers, or wait for work in flight{} ({})",
                      asked, source, why.empty() ? "" : fmt::format(" ({})", why),
                      usage.limit != 0 ? ", or raise the limit" : "", to_string(usage))),
      asked_(asked),
      usage_(std::move(usage)) {}

void* system_source::allocate(std::uint64_t bytes) noexcept {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  if (huge_pages_) (void)madvise(data, bytes, MADV_HUGEPAGE);  // advice: as good without
  return data;
}

void system_source::free(void* data, std::uint64_t bytes) noexcept {
  (void)munmap(data, bytes);
}

}  // namespace braid
