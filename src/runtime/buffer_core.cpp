#include "braid/detail/buffer_core.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <utility>

namespace braid::detail {

namespace {

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || \
    __has_feature(hwaddress_sanitizer) || __has_feature(thread_sanitizer)
constexpr unsigned most_spare = 0;  // it is to be found who uses one after its end
#else
constexpr unsigned most_spare = 64;
#endif

// Memory of cores that are gone, each with the place of the next one in it. The thread's other variables may
// have buffers that go after this: it stays what it is, and keeps nothing more.
struct spare_cores {
  void* first;
  unsigned room;
};
constinit thread_local spare_cores spare{nullptr, 0};

struct spare_cores_end {
  spare_cores_end() noexcept { spare.room = most_spare; }
  ~spare_cores_end() {
    spare.room = 0;
    while (spare.first != nullptr)
      ::operator delete(std::exchange(spare.first, *static_cast<void**>(spare.first)));
  }
  spare_cores_end(const spare_cores_end&) = delete;
  spare_cores_end& operator=(const spare_cores_end&) = delete;
};

[[gnu::noinline]] void* new_core(std::size_t size) {
  thread_local const spare_cores_end at_end;  // from the first core of the thread on there is room
  (void)at_end;
  return ::operator new(size);
}

}  // namespace

void* buffer_core::operator new(std::size_t size) {
  if (spare.first == nullptr) [[unlikely]]
    return new_core(size);
  ++spare.room;
  return std::exchange(spare.first, *static_cast<void**>(spare.first));
}

void buffer_core::operator delete(void* at) noexcept {
  if (spare.room == 0) return ::operator delete(at);
  --spare.room;
  *static_cast<void**>(at) = std::exchange(spare.first, at);
}

bool buffer_core::is_part_written(byte_range r) {
  if (r.size == 0) return true;
  const std::lock_guard<spin_lock> held(lock);
  for (const byte_range& w : written) {
    if (w.offset <= r.offset && r.end() <= w.end()) return true;
  }
  return is_written.load(std::memory_order_relaxed);
}

void buffer_core::note_part_written(byte_range r) {
  if (r.size == 0) return;
  if (r.size == bytes) {
    is_written.store(true, std::memory_order_release);  // pairs with is_range_written()
    return;
  }
  const std::lock_guard<spin_lock> held(lock);
  auto at =
      std::find_if(written.begin(), written.end(), [&](const byte_range& w) { return w.end() >= r.offset; });
  std::uint64_t begin = r.offset;
  std::uint64_t end = r.end();
  auto last = at;
  for (; last != written.end() && last->offset <= end; ++last) {
    begin = std::min(begin, last->offset);
    end = std::max(end, last->end());
  }
  at = written.erase(at, last);
  if (begin == 0 && end == bytes) {
    written.clear();
    is_written.store(true, std::memory_order_release);  // pairs with is_range_written()
  } else {
    written.insert(at, {begin, end - begin});
  }
}

fill_value::fill_value(const void* value, std::size_t size) : size_(size) {
  if (size > small_.size()) large_ = std::make_unique<std::byte[]>(size);
  std::memcpy(large_ ? large_.get() : small_.data(), value, size);
}

void throw_bad_slice(const buffer_core* core, std::uint64_t first, std::uint64_t count, std::uint64_t size) {
  if (core == nullptr) {
    throw usage_error(misuse::null_resource,
                      "slice() of a null buffer: only a runtime's make_buffer() makes one");
  }
  throw usage_error(misuse::range_outside, "slice(" + std::to_string(first) + ", " + std::to_string(count) +
                                               ") is outside '" + core->name + "', which has " +
                                               std::to_string(size) + " elements");
}

struct adopted_ranges::ranges {
  std::map<const std::byte*, std::uint64_t> by_begin;
};

adopted_ranges::adopted_ranges() : ranges_(std::make_unique<ranges>()) {}
adopted_ranges::~adopted_ranges() = default;

void adopted_ranges::add(const std::byte* begin, std::uint64_t bytes, std::string_view name) {
  if (bytes == 0) return;
  auto& all = ranges_->by_begin;
  auto after = all.upper_bound(begin);
  if (after != all.end() && after->first < begin + bytes) throw_overlapping(name);
  if (after != all.begin()) {
    --after;
    if (after->first == begin || after->first + after->second > begin) throw_overlapping(name);
  }
  all.emplace(begin, bytes);
}

void adopted_ranges::remove(const std::byte* begin, std::uint64_t bytes) noexcept {
  if (bytes != 0) ranges_->by_begin.erase(begin);
}

}  // namespace braid::detail
