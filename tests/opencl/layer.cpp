#include "layer.hpp"

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <CL/cl_layer.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

namespace {

const cl_icd_dispatch* target = nullptr;
cl_icd_dispatch ours;

struct failing {
  std::string call;
  std::uint64_t nth = 0;
  std::uint64_t count = 0;
  int code = 0;
};

struct state {
  std::mutex mutex;
  std::map<void*, std::pair<std::string, std::int64_t>> objects;  // kind, references
  std::map<std::string, std::uint64_t> calls;
  std::set<void*> dead;  // buffers
  failing fails;
  std::atomic<int> ends_with{0};
};
state& all() {
  static auto* const one = new state;
  return *one;
}

/// Counts the call. Returns the code that it shall fail with, or CL_SUCCESS.
int enter(const char* call) {
  state& s = all();
  const std::scoped_lock lock(s.mutex);
  ++s.calls[call];
  if (s.fails.call != call) return CL_SUCCESS;
  if (s.fails.nth > 0) {
    --s.fails.nth;
    return CL_SUCCESS;
  }
  if (s.fails.count == 0) return CL_SUCCESS;
  --s.fails.count;
  return s.fails.code;
}

template <class Handle>
const char* kind_of() {
  if constexpr (std::is_same_v<Handle, cl_context>) return "context";
  if constexpr (std::is_same_v<Handle, cl_command_queue>) return "queue";
  if constexpr (std::is_same_v<Handle, cl_mem>) return "buffer";
  if constexpr (std::is_same_v<Handle, cl_event>) return "event";
  if constexpr (std::is_same_v<Handle, cl_program>) return "program";
  if constexpr (std::is_same_v<Handle, cl_kernel>) return "kernel";
  return nullptr;
}

template <class Handle>
void add(Handle handle) {
  if (handle == nullptr || kind_of<Handle>() == nullptr) return;
  state& s = all();
  const std::scoped_lock lock(s.mutex);
  s.objects[handle] = {kind_of<Handle>(), 1};
  s.dead.erase(handle);
}

void change(void* handle, std::int64_t by) {
  state& s = all();
  const std::scoped_lock lock(s.mutex);
  const auto found = s.objects.find(handle);
  if (found == s.objects.end()) {
    std::fprintf(stderr, "layer: an object that is not there any more is used\n");
    std::abort();
  }
  found->second.second += by;
  if (found->second.second != 0) return;
  if (found->second.first == "buffer") s.dead.insert(handle);
  s.objects.erase(found);
}

template <class Last>
void take_event(Last last, bool went_well) {
  if constexpr (std::is_same_v<Last, cl_event*>) {
    if (went_well && last != nullptr) add(*last);
  }
}
template <class Last>
void set_code([[maybe_unused]] Last last, [[maybe_unused]] int code) {
  if constexpr (std::is_same_v<Last, cl_int*>) {
    if (last != nullptr) *last = code;
  }
}

template <auto Member, class Function>
struct wrapped;
template <auto Member, class R, class... P>
struct wrapped<Member, R(CL_API_CALL*)(P...)> {
  static inline std::string_view name;
  static R CL_API_CALL call(P... args) {
    if (const int code = enter(name.data()); code != CL_SUCCESS) {
      if constexpr (std::is_same_v<R, cl_int>) {
        return code;
      } else {
        (set_code(args, code), ...);
        return R();
      }
    }
    // Before: somebody else may get the same address right after it.
    if constexpr (sizeof...(P) == 1) {
      if (name.starts_with("clRelease")) (change(args, -1), ...);
    }
    if constexpr (std::is_void_v<R>) {
      (target->*Member)(args...);
    } else {
      R result = (target->*Member)(args...);
      if constexpr (std::is_same_v<R, cl_int>) {
        (take_event(args, result == CL_SUCCESS), ...);
        if constexpr (sizeof...(P) == 1) {
          if (name.starts_with("clRetain")) (change(args, 1), ...);
        }
      } else {
        add(result);
      }
      return result;
    }
  }
};

cl_int CL_API_CALL event_info(cl_event e, cl_event_info what, std::size_t size, void* value,
                              std::size_t* got) {
  if (const int code = enter("clGetEventInfo"); code != CL_SUCCESS) return code;
  const cl_int code = target->clGetEventInfo(e, what, size, value, got);
  if (code == CL_SUCCESS && what == CL_EVENT_COMMAND_EXECUTION_STATUS && value != nullptr) {
    if (const int status = all().ends_with.load(); status != 0) *static_cast<cl_int*>(value) = status;
  }
  return code;
}

cl_int CL_API_CALL wait_for_events(cl_uint count, const cl_event* events) {
  if (const int code = enter("clWaitForEvents"); code != CL_SUCCESS) return code;
  const cl_int code = target->clWaitForEvents(count, events);
  return all().ends_with.load() != 0 ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : code;
}

cl_int CL_API_CALL set_kernel_arg(cl_kernel kernel, cl_uint index, std::size_t size, const void* value) {
  if (const int code = enter("clSetKernelArg"); code != CL_SUCCESS) return code;
  if (size == sizeof(cl_mem) && value != nullptr) {
    void* handle = nullptr;
    std::memcpy(&handle, value, sizeof handle);
    const std::scoped_lock lock(all().mutex);
    if (all().dead.contains(handle)) {
      std::fprintf(stderr, "layer: a buffer that is not there any more is an argument\n");
      std::abort();
    }
  }
  return target->clSetKernelArg(kernel, index, size, value);
}

template <auto Member, class Function>
void wrap(Function& place, const char* name) {
  using made = wrapped<Member, Function>;
  made::name = name;
  place = &made::call;
}

__attribute__((destructor)) void at_the_end() {
  const state& s = all();
  if (std::getenv("BRAID_LAYER_EXPECT_NONE") == nullptr || s.objects.empty()) return;
  std::map<std::string, int> left;
  for (const auto& [handle, object] : s.objects) ++left[object.first];
  for (const auto& [kind, count] : left) {
    std::fprintf(stderr, "layer: left at exit: %d of kind %s\n", count, kind.c_str());
  }
  _exit(86);
}

}  // namespace

extern "C" {

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, std::size_t size, void* value,
                                               std::size_t* got) {
  if (what == CL_LAYER_API_VERSION) {
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (value != nullptr && size >= sizeof version) std::memcpy(value, &version, sizeof version);
    if (got != nullptr) *got = sizeof version;
    return CL_SUCCESS;
  }
  static constexpr char name[] = "braid's tests";
  if (value != nullptr && size >= sizeof name) std::memcpy(value, name, sizeof name);
  if (got != nullptr) *got = sizeof name;
  return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch* below, cl_uint* ours_count,
                                            const cl_icd_dispatch** made) {
  if (count < sizeof(cl_icd_dispatch) / sizeof(void*)) return CL_INVALID_VALUE;
  target = below;
  ours = *below;
#define WRAP(call) wrap<&cl_icd_dispatch::call>(ours.call, #call)
  WRAP(clGetPlatformIDs);
  WRAP(clGetDeviceIDs);
  WRAP(clCreateContext);
  WRAP(clRetainContext);
  WRAP(clReleaseContext);
  WRAP(clCreateCommandQueueWithProperties);
  WRAP(clCreateCommandQueue);
  WRAP(clRetainCommandQueue);
  WRAP(clReleaseCommandQueue);
  WRAP(clGetCommandQueueInfo);
  WRAP(clCreateBuffer);
  WRAP(clCreateSubBuffer);
  WRAP(clRetainMemObject);
  WRAP(clReleaseMemObject);
  WRAP(clGetMemObjectInfo);
  WRAP(clSVMAlloc);
  WRAP(clCreateProgramWithSource);
  WRAP(clBuildProgram);
  WRAP(clRetainProgram);
  WRAP(clReleaseProgram);
  WRAP(clCreateKernel);
  WRAP(clRetainKernel);
  WRAP(clReleaseKernel);
  WRAP(clCreateUserEvent);
  WRAP(clRetainEvent);
  WRAP(clReleaseEvent);
  WRAP(clSetEventCallback);
  WRAP(clGetEventProfilingInfo);
  WRAP(clFlush);
  WRAP(clFinish);
  WRAP(clEnqueueReadBuffer);
  WRAP(clEnqueueWriteBuffer);
  WRAP(clEnqueueFillBuffer);
  WRAP(clEnqueueCopyBuffer);
  WRAP(clEnqueueMapBuffer);
  WRAP(clEnqueueMigrateMemObjects);
  WRAP(clEnqueueUnmapMemObject);
  WRAP(clEnqueueNDRangeKernel);
  WRAP(clEnqueueMarkerWithWaitList);
  WRAP(clEnqueueBarrierWithWaitList);
#undef WRAP
  ours.clGetEventInfo = &event_info;
  ours.clSetKernelArg = &set_kernel_arg;
  ours.clWaitForEvents = &wait_for_events;
  *ours_count = sizeof(cl_icd_dispatch) / sizeof(void*);
  *made = &ours;
  return CL_SUCCESS;
}

[[gnu::visibility("default")]] braid_layer_objects braid_layer_alive() {
  state& s = all();
  const std::scoped_lock lock(s.mutex);
  const auto count = [&](const char* kind) {
    std::uint64_t n = 0;
    for (const auto& [handle, object] : s.objects) n += object.first == kind ? 1 : 0;
    return n;
  };
  return {count("context"), count("queue"),   count("buffer"),
          count("event"),   count("program"), count("kernel")};
}

[[gnu::visibility("default")]] std::uint64_t braid_layer_calls(const char* call) {
  state& s = all();
  const std::scoped_lock lock(s.mutex);
  return s.calls[call];
}

[[gnu::visibility("default")]] void braid_layer_fail(const char* call, std::uint64_t nth, std::uint64_t count,
                                                     int code) {
  state& s = all();
  const std::scoped_lock lock(s.mutex);
  s.fails = {call != nullptr ? call : "", nth, count, code};
}

[[gnu::visibility("default")]] void braid_layer_end_with(int status) {
  all().ends_with = status;
}
}
