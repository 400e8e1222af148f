#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <span>

#include "braid/settings.hpp"
#include "loader.hpp"
#include "state.hpp"

namespace braid::opencl {

// ---- Errors.

std::string name_of(int code) {
  switch (code) {
#define NAME(code) \
  case code: return #code;
    NAME(CL_SUCCESS)
    NAME(CL_DEVICE_NOT_FOUND)
    NAME(CL_DEVICE_NOT_AVAILABLE)
    NAME(CL_COMPILER_NOT_AVAILABLE)
    NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    NAME(CL_OUT_OF_RESOURCES)
    NAME(CL_OUT_OF_HOST_MEMORY)
    NAME(CL_PROFILING_INFO_NOT_AVAILABLE)
    NAME(CL_MEM_COPY_OVERLAP)
    NAME(CL_IMAGE_FORMAT_MISMATCH)
    NAME(CL_IMAGE_FORMAT_NOT_SUPPORTED)
    NAME(CL_BUILD_PROGRAM_FAILURE)
    NAME(CL_MAP_FAILURE)
    NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET)
    NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    NAME(CL_COMPILE_PROGRAM_FAILURE)
    NAME(CL_LINKER_NOT_AVAILABLE)
    NAME(CL_LINK_PROGRAM_FAILURE)
    NAME(CL_DEVICE_PARTITION_FAILED)
    NAME(CL_KERNEL_ARG_INFO_NOT_AVAILABLE)
    NAME(CL_INVALID_VALUE)
    NAME(CL_INVALID_DEVICE_TYPE)
    NAME(CL_INVALID_PLATFORM)
    NAME(CL_INVALID_DEVICE)
    NAME(CL_INVALID_CONTEXT)
    NAME(CL_INVALID_QUEUE_PROPERTIES)
    NAME(CL_INVALID_COMMAND_QUEUE)
    NAME(CL_INVALID_HOST_PTR)
    NAME(CL_INVALID_MEM_OBJECT)
    NAME(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)
    NAME(CL_INVALID_IMAGE_SIZE)
    NAME(CL_INVALID_SAMPLER)
    NAME(CL_INVALID_BINARY)
    NAME(CL_INVALID_BUILD_OPTIONS)
    NAME(CL_INVALID_PROGRAM)
    NAME(CL_INVALID_PROGRAM_EXECUTABLE)
    NAME(CL_INVALID_KERNEL_NAME)
    NAME(CL_INVALID_KERNEL_DEFINITION)
    NAME(CL_INVALID_KERNEL)
    NAME(CL_INVALID_ARG_INDEX)
    NAME(CL_INVALID_ARG_VALUE)
    NAME(CL_INVALID_ARG_SIZE)
    NAME(CL_INVALID_KERNEL_ARGS)
    NAME(CL_INVALID_WORK_DIMENSION)
    NAME(CL_INVALID_WORK_GROUP_SIZE)
    NAME(CL_INVALID_WORK_ITEM_SIZE)
    NAME(CL_INVALID_GLOBAL_OFFSET)
    NAME(CL_INVALID_EVENT_WAIT_LIST)
    NAME(CL_INVALID_EVENT)
    NAME(CL_INVALID_OPERATION)
    NAME(CL_INVALID_GL_OBJECT)
    NAME(CL_INVALID_BUFFER_SIZE)
    NAME(CL_INVALID_MIP_LEVEL)
    NAME(CL_INVALID_GLOBAL_WORK_SIZE)
    NAME(CL_INVALID_PROPERTY)
    NAME(CL_INVALID_IMAGE_DESCRIPTOR)
    NAME(CL_INVALID_COMPILER_OPTIONS)
    NAME(CL_INVALID_LINKER_OPTIONS)
    NAME(CL_INVALID_DEVICE_PARTITION_COUNT)
    NAME(CL_INVALID_PIPE_SIZE)
    NAME(CL_INVALID_DEVICE_QUEUE)
    NAME(CL_INVALID_SPEC_ID)
    NAME(CL_MAX_SIZE_RESTRICTION_EXCEEDED)
    NAME(CL_PLATFORM_NOT_FOUND_KHR)
#undef NAME
    default: return std::to_string(code);
  }
}

void check(int code, const char* call) {
  detail::expect(call, code);
}

namespace detail {

std::string text_of(const char* call, cl_int code) {
  return fmt::format("{}: {}", call, name_of(code));
}

error error_of(int code, const char* call) {
  return {code, text_of(call, code)};
}

void expect(const char* call, cl_int code) {
  if (code != CL_SUCCESS) [[unlikely]]
    throw error_of(code, call);
}

}  // namespace detail

// ---- Devices.

namespace {

[[noreturn]] void fail(const std::string& why) {
  throw usage_error(misuse::no_device, "no OpenCL device: " + why +
                                           ". `braid info` shows what is found; braid::cpu::runtime runs the "
                                           "same program on the cores of this machine");
}

template <class T>
T value_of(cl_device_id device, cl_device_info what, T otherwise) {
  T value = otherwise;
  return clGetDeviceInfo(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : otherwise;
}

template <class Id, class What>
std::string text_of(cl_int(CL_API_CALL* get)(Id, What, std::size_t, void*, std::size_t*), Id of, What what) {
  std::size_t size = 0;
  if (get(of, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string text(size, '\0');
  if (get(of, what, size, text.data(), nullptr) != CL_SUCCESS) return {};
  text.resize(size - 1);  // the final zero
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::string kind_of(cl_device_id device) {
  const auto type = value_of<cl_device_type>(device, CL_DEVICE_TYPE, 0);
  if ((type & CL_DEVICE_TYPE_GPU) != 0) return "GPU";
  if ((type & CL_DEVICE_TYPE_CPU) != 0) return "CPU";
  return (type & CL_DEVICE_TYPE_ACCELERATOR) != 0 ? "accelerator" : "other";
}

std::string svm_of(cl_device_id device) {
  const auto has = value_of<cl_device_svm_capabilities>(device, CL_DEVICE_SVM_CAPABILITIES, 0);
  if ((has & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0) {
    return (has & CL_DEVICE_SVM_ATOMICS) != 0 ? "fine, with atomics" : "fine";
  }
  return (has & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0 ? "coarse" : "none";
}

device_info info_of(cl_platform_id platform, cl_device_id device, int ordinal) {
  device_info of;
  of.ordinal = ordinal;
  of.name = text_of(&clGetDeviceInfo, device, cl_device_info{CL_DEVICE_NAME});
  of.platform = text_of(&clGetPlatformInfo, platform, cl_platform_info{CL_PLATFORM_NAME});
  of.version = text_of(&clGetDeviceInfo, device, cl_device_info{CL_DEVICE_VERSION});
  of.driver = text_of(&clGetDeviceInfo, device, cl_device_info{CL_DRIVER_VERSION});
  of.kind = kind_of(device);
  of.memory = value_of<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE, 0);
  of.largest_allocation = value_of<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 0);
  of.compute_units = value_of<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS, 0);
  // In bits; a power of two.
  of.slice_alignment =
      std::bit_ceil(std::max(1U, value_of<cl_uint>(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 8) / 8));
  of.has_unified_memory = value_of<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY, CL_FALSE) != CL_FALSE;
  of.has_doubles = value_of<cl_device_fp_config>(device, CL_DEVICE_DOUBLE_FP_CONFIG, 0) != 0;
  of.has_profiling = (value_of<cl_command_queue_properties>(device, CL_DEVICE_QUEUE_PROPERTIES, 0) &
                      CL_QUEUE_PROFILING_ENABLE) != 0;
  of.shared_virtual_memory = svm_of(device);
  return of;
}

std::vector<detail::device_entry> entries() {
  if (!detail::loader().is_open()) fail("no loader (" + detail::loader().error() + ")");
  cl_uint count = 0;
  if (const cl_int code = clGetPlatformIDs(0, nullptr, &count);
      code != CL_SUCCESS && code != CL_PLATFORM_NOT_FOUND_KHR) {
    fail(detail::text_of("clGetPlatformIDs", code));
  }
  std::vector<cl_platform_id> platforms(count);
  if (count != 0) detail::expect("clGetPlatformIDs", clGetPlatformIDs(count, platforms.data(), nullptr));
  std::vector<detail::device_entry> all;
  std::string broken;  // a platform that is does not keep others from being used
  for (cl_platform_id platform : platforms) {
    cl_uint n = 0;
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &n);
    std::vector<cl_device_id> devices(code == CL_SUCCESS ? n : 0);
    if (!devices.empty()) code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, n, devices.data(), nullptr);
    if (code != CL_SUCCESS && code != CL_DEVICE_NOT_FOUND) {
      broken = detail::text_of("clGetDeviceIDs", code);
      continue;
    }
    for (cl_device_id device : devices) {
      all.push_back({platform, device, info_of(platform, device, static_cast<int>(all.size()))});
    }
  }
  if (all.empty()) {
    if (!broken.empty()) fail(broken);
    fail(platforms.empty() ? "the loader knows no platform; PoCL (pocl-opencl-icd) is one for every machine"
                           : "the platforms have no device");
  }
  return all;
}

bool contains(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

std::string list_of(std::span<const detail::device_entry> all) {
  std::string text;
  for (const detail::device_entry& each : all) {
    text += fmt::format("{}{}: {} ({}, {})", text.empty() ? "" : "; ", each.info.ordinal, each.info.name,
                        each.info.kind, each.info.platform);
  }
  return text;
}

}  // namespace

namespace detail {

device_entry entry_for(std::string_view choice) {
  const std::vector<device_entry> all = entries();
  const std::string& setting = settings::process().opencl_device.value;
  const std::string_view wanted = choice.empty() ? setting : choice;
  if (wanted.empty()) {
    const auto gpu = std::ranges::find(all, "GPU", [](const device_entry& e) { return e.info.kind; });
    return gpu != all.end() ? *gpu : all.front();
  }
  std::size_t number = 0;
  const auto [end, problem] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  const bool is_number = problem == std::errc{} && end == wanted.data() + wanted.size();
  const auto found = std::ranges::find_if(all, [&](const device_entry& e) {
    return is_number ? static_cast<std::size_t>(e.info.ordinal) == number
                     : contains(e.info.name, wanted) || contains(e.info.platform, wanted) ||
                           contains(e.info.kind, wanted) || contains(e.info.version, wanted);
  });
  if (found != all.end()) return *found;
  throw usage_error(misuse::no_device,
                    fmt::format("there is no OpenCL device '{}'{}; there are {}", wanted,
                                choice.empty() ? " as opencl.device says" : "", list_of(all)));
}

}  // namespace detail

std::vector<device_info> devices() {
  std::vector<device_info> all;
  for (detail::device_entry& each : entries()) all.push_back(std::move(each.info));
  return all;
}

device_info device_for(std::string_view choice) {
  return detail::entry_for(choice).info;
}

}  // namespace braid::opencl
