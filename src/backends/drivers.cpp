#include "drivers.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>

namespace braid::detail {

namespace {

std::string counted(std::size_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string listed(const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format(": {}", fmt::join(names, ", "));
}

// As in cuda.h.
using cu_init = int(unsigned);
using cu_get_int = int(int*);
using cu_device_get = int(int*, int);
using cu_device_get_name = int(char*, int, int);
using cu_get_error_name = int(int, const char**);

std::string cuda_error(const vendor_library& cuda, const char* call, int code) {
  const char* name = nullptr;
  if (auto* get = cuda.function<cu_get_error_name>("cuGetErrorName"); get != nullptr) get(code, &name);
  return fmt::format("{} says {}", call, name != nullptr ? name : std::to_string(code));
}

// As in CL/cl.h.
using cl_get_platforms = std::int32_t(std::uint32_t, void**, std::uint32_t*);
using cl_get_devices = std::int32_t(void*, std::uint64_t, std::uint32_t, void**, std::uint32_t*);
using cl_get_info = std::int32_t(void*, std::uint32_t, std::size_t, void*, std::size_t*);
constexpr std::uint32_t cl_platform_name = 0x0902;
constexpr std::uint32_t cl_device_name = 0x102B;
constexpr std::uint64_t cl_device_type_all = 0xFFFFFFFF;
constexpr std::int32_t cl_platform_not_found = -1001;

std::string cl_text(cl_get_info* get, void* of, std::uint32_t what) {
  std::size_t size = 0;
  if (get(of, what, 0, nullptr, &size) != 0 || size == 0) return "unnamed";
  std::string text(size, '\0');
  if (get(of, what, size, text.data(), nullptr) != 0) return "unnamed";
  text.resize(size - 1);  // the final zero
  return text;
}

}  // namespace

vendor_library::vendor_library(const char* file) : handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  // POSIX does not promise it, glibc does: each thread has its own text.
  const char* why = dlerror();  // NOLINT(concurrency-mt-unsafe)
  error_ = why != nullptr ? why : file;
}

void* vendor_library::symbol(const char* name) const noexcept {
  return handle_ != nullptr ? dlsym(handle_, name) : nullptr;
}

driver probe_cuda(const char* library) {
  driver found;
  const vendor_library cuda(library);
  if (!cuda.is_open()) {
    found.text = fmt::format("no CUDA driver: {}", cuda.error());
    return found;
  }
  auto* const init = cuda.function<cu_init>("cuInit");
  auto* const version = cuda.function<cu_get_int>("cuDriverGetVersion");
  auto* const count = cuda.function<cu_get_int>("cuDeviceGetCount");
  auto* const device = cuda.function<cu_device_get>("cuDeviceGet");
  auto* const name = cuda.function<cu_device_get_name>("cuDeviceGetName");
  if (init == nullptr || version == nullptr || count == nullptr || device == nullptr || name == nullptr) {
    found.text = fmt::format("{} was opened but is no CUDA driver", library);
    return found;
  }
  found.opened = true;
  if (const int code = init(0); code != 0) {
    found.text = fmt::format("{} was opened, but {}", library, cuda_error(cuda, "cuInit", code));
    return found;
  }
  int devices = 0;
  if (const int code = count(&devices); code != 0) {
    found.text = fmt::format("{} was opened, but {}", library, cuda_error(cuda, "cuDeviceGetCount", code));
    return found;
  }
  for (int i = 0; i < devices; ++i) {
    int handle = 0;
    std::array<char, 256> text{};
    const bool named =
        device(&handle, i) == 0 && name(text.data(), static_cast<int>(text.size()) - 1, handle) == 0;
    found.devices.emplace_back(named ? text.data() : "unnamed");
  }
  int number = 0;
  version(&number);
  found.text = fmt::format("a driver for CUDA {}.{} with {}{}", number / 1000, number % 1000 / 10,
                           counted(found.devices.size(), "device"), listed(found.devices));
  return found;
}

driver probe_opencl(const char* library) {
  driver found;
  const vendor_library opencl(library);
  if (!opencl.is_open()) {
    found.text = fmt::format("no OpenCL loader: {}", opencl.error());
    return found;
  }
  auto* const platforms = opencl.function<cl_get_platforms>("clGetPlatformIDs");
  auto* const platform_info = opencl.function<cl_get_info>("clGetPlatformInfo");
  auto* const devices = opencl.function<cl_get_devices>("clGetDeviceIDs");
  auto* const device_info = opencl.function<cl_get_info>("clGetDeviceInfo");
  if (platforms == nullptr || platform_info == nullptr || devices == nullptr || device_info == nullptr) {
    found.text = fmt::format("{} was opened but is no OpenCL loader", library);
    return found;
  }
  found.opened = true;
  std::uint32_t count = 0;
  const std::int32_t code = platforms(0, nullptr, &count);
  if (code != 0 && code != cl_platform_not_found) {
    found.text = fmt::format("{} was opened, but clGetPlatformIDs says {}", library, code);
    return found;
  }
  std::vector<void*> handles(count);
  if (count == 0 || platforms(count, handles.data(), nullptr) != 0) {
    found.text = fmt::format("{} was opened and knows no platform", library);
    return found;
  }
  for (void* platform : handles) {
    const std::string platform_name = cl_text(platform_info, platform, cl_platform_name);
    std::uint32_t n = 0;
    if (devices(platform, cl_device_type_all, 0, nullptr, &n) != 0 || n == 0) continue;
    std::vector<void*> ids(n);
    if (devices(platform, cl_device_type_all, n, ids.data(), nullptr) != 0) continue;
    for (void* id : ids) {
      found.devices.push_back(
          fmt::format("{} ({})", cl_text(device_info, id, cl_device_name), platform_name));
    }
  }
  found.text = fmt::format("{} with {}{}", counted(count, "platform"),
                           counted(found.devices.size(), "device"), listed(found.devices));
  return found;
}

}  // namespace braid::detail
