#include "failing_allocations.hpp"

#include <cstdlib>
#include <new>

thread_local long failing_allocation = 0;
thread_local long failing_after = 0;

namespace {

void* allocate(std::size_t size, std::size_t alignment) {
  if (failing_allocation > 0 && --failing_allocation == 0) {
    if (failing_after > 0) failing_allocation = failing_after-- > 0 ? 1 : 0;
    throw std::bad_alloc();
  }
  void* const made = std::aligned_alloc(alignment, (size / alignment + 1) * alignment);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

}  // namespace

void* operator new(std::size_t size) {
  return allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* at) noexcept {
  std::free(at);
}
void operator delete(void* at, std::size_t) noexcept {
  std::free(at);
}
void operator delete(void* at, std::align_val_t) noexcept {
  std::free(at);
}
void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
  std::free(at);
}
