// A library that answers as a CUDA driver with two devices and as an OpenCL loader with one.

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

int device_of_opencl = 0;
int platform_of_opencl = 0;

std::int32_t answer(const char* text, std::size_t size, void* to, std::size_t* needed) {
  const std::size_t length = std::strlen(text) + 1;
  if (needed != nullptr) *needed = length;
  if (to != nullptr && size >= length) std::memcpy(to, text, length);
  return 0;
}

std::int32_t answer(void* one, std::uint32_t size, void** to, std::uint32_t* count) {
  if (count != nullptr) *count = 1;
  if (to != nullptr && size >= 1) to[0] = one;
  return 0;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 12080;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = 100 + ordinal;
  return 0;
}
int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<std::size_t>(size), "card %d", device - 100);
  return 0;
}

std::int32_t clGetPlatformIDs(std::uint32_t size, void** platforms, std::uint32_t* count) {
  return answer(&platform_of_opencl, size, platforms, count);
}
std::int32_t clGetPlatformInfo(void* platform, std::uint32_t, std::size_t size, void* to,
                               std::size_t* needed) {
  return platform == &platform_of_opencl ? answer("a platform", size, to, needed) : -32;
}
std::int32_t clGetDeviceIDs(void* platform, std::uint64_t, std::uint32_t size, void** devices,
                            std::uint32_t* count) {
  return platform == &platform_of_opencl ? answer(&device_of_opencl, size, devices, count) : -32;
}
std::int32_t clGetDeviceInfo(void* device, std::uint32_t, std::size_t size, void* to, std::size_t* needed) {
  return device == &device_of_opencl ? answer("a device", size, to, needed) : -33;
}
}
