// Replaces operator new for the whole program with one that counts.

#include "allocations.hpp"

#include <cstdlib>
#include <new>

namespace braid::bench {
namespace {
constinit thread_local std::uint64_t count = 0;

void* allocate(std::size_t size) {
  ++count;
  if (void* p = std::malloc(size != 0 ? size : 1)) return p;
  throw std::bad_alloc();
}
void* allocate(std::size_t size, std::align_val_t align) {
  ++count;
  const auto a = static_cast<std::size_t>(align);
  if (void* p = std::aligned_alloc(a, (size + a - 1) / a * a)) return p;
  throw std::bad_alloc();
}
}  // namespace

std::uint64_t allocations() noexcept {
  return count;
}
}  // namespace braid::bench

void* operator new(std::size_t size) {
  return braid::bench::allocate(size);
}
void* operator new[](std::size_t size) {
  return braid::bench::allocate(size);
}
void* operator new(std::size_t size, std::align_val_t align) {
  return braid::bench::allocate(size, align);
}
void* operator new[](std::size_t size, std::align_val_t align) {
  return braid::bench::allocate(size, align);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete[](void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
