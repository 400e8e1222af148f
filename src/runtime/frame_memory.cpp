#include "runtime/frame_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <new>

namespace braid::detail {

frame_memory::~frame_memory() {
  for (std::byte* each : all_) ::operator delete(each, std::align_val_t{page});
}

void* frame_memory::take(lane_id lane, std::size_t size, std::size_t alignment) {
  constexpr std::size_t most = std::size_t{64} * 1024;
  if (index_of(lane) >= by_lane_.size()) by_lane_.resize(index_of(lane) + 1);
  room& of = by_lane_[index_of(lane)];
  if (of.at == nullptr || static_cast<std::size_t>(of.end - of.at) < size + alignment) {
    const std::size_t bytes = (std::max(of.next, size + alignment) + page - 1) / page * page;
    all_.push_back(nullptr);
    of.at = all_.back() = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{page}));
    of.end = of.at + bytes;
    of.next = std::min(2 * bytes, most);
  }
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(of.at) % alignment;
  std::byte* const at = of.at + (beyond != 0 ? alignment - beyond : 0);
  of.at = at + size;
  return at;
}

}  // namespace braid::detail
