#include "driver.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>

#include "backends/drivers.hpp"
#include "braid/cuda.hpp"

namespace braid::cuda::detail {

namespace {

[[noreturn]] void fail(const std::string& why) {
  throw usage_error(misuse::no_device, "no CUDA device: " + why +
                                           ". `braid info` shows what is found; braid::cpu::runtime runs "
                                           "the same program on the cores of this machine");
}

struct opened {
  driver_functions functions;
  std::string error;
};

std::atomic<bool> is_child{false};  // of fork(): the driver was opened before

opened open() {
  opened found;
  const braid::detail::vendor_library library("libcuda.so.1");
  if (!library.is_open()) {
    found.error = "no driver (" + library.error() + ")";
    return found;
  }
  // Without memory for it a child is not recognised.
  (void)pthread_atfork(nullptr, nullptr, [] { is_child.store(true, std::memory_order_relaxed); });
  int version = 0;
  if (auto* const get = library.function<CUresult(int*)>("cuDriverGetVersion"); get != nullptr)
    (void)get(&version);
  const auto note_missing = [&](const char* name) {
    if (!found.error.empty()) return;
    found.error = fmt::format("the driver is too old: it is for CUDA {}.{}, and has no {}", version / 1000,
                              version % 1000 / 10, name);
  };
#define BRAID_TEXT_OF(name) #name
#define BRAID_NAME_OF(name) BRAID_TEXT_OF(name)
#define X(name)                                                                                     \
  found.functions.name =                                                                            \
      library.function<std::remove_pointer_t<decltype(found.functions.name)>>(BRAID_NAME_OF(name)); \
  if (found.functions.name == nullptr) note_missing(BRAID_NAME_OF(name));
  BRAID_CUDA_FUNCTIONS(X)
#undef X
#undef BRAID_NAME_OF
#undef BRAID_TEXT_OF
  // For traces; before CUDA 12.8 it had another name.
  for (const char* name : {"cuEventElapsedTime_v2", "cuEventElapsedTime"}) {
    if (found.functions.cuEventElapsedTime == nullptr)
      found.functions.cuEventElapsedTime = library.function<CUresult(float*, CUevent, CUevent)>(name);
  }
  if (found.functions.cuEventElapsedTime == nullptr) note_missing("cuEventElapsedTime");
  if (!found.error.empty()) return found;
  if (const CUresult code = found.functions.cuInit(0); code != CUDA_SUCCESS) {
    const char* name = nullptr;
    (void)found.functions.cuGetErrorName(code, &name);
    found.error = fmt::format("cuInit says {}", name != nullptr ? name : "nothing");
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
    if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr)
      found.error += fmt::format("; CUDA_VISIBLE_DEVICES is '{}'", visible);
  }
  return found;
}

const opened& tried() {
  static const opened it = open();
  return it;
}

}  // namespace

const driver_functions& driver() {
  const opened& it = tried();
  if (!it.error.empty()) [[unlikely]]
    fail(it.error);
  return it.functions;
}

void expect_same_process() {
  if (!is_child.load(std::memory_order_relaxed)) return;
  throw usage_error(
      misuse::forked,
      "CUDA was used before fork() in the parent of this process, and cannot be used here any more: "
      "make the first runtime after fork(), or start the child with exec");
}

std::string text_of(const char* call, CUresult code) {
  const char* name = nullptr;
  const char* text = nullptr;
  (void)driver().cuGetErrorName(code, &name);
  (void)driver().cuGetErrorString(code, &text);
  return fmt::format("{}: {} ({})", call, name != nullptr ? name : std::to_string(code),
                     text != nullptr ? text : "unknown");
}

bool is_lost(CUresult code) noexcept {
  switch (code) {
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_RPC_FAILURE:
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_UNKNOWN: return true;
    default: return false;
  }
}

void throw_error(int code) {
  // The code may come from elsewhere: what it means is told by the driver alone.
  if (!tried().error.empty()) throw error(code, fmt::format("CUDA error {}", code));
  throw error(code, text_of("a call of the driver", static_cast<CUresult>(code)));
}

void expect(const char* call, CUresult code) {
  if (code != CUDA_SUCCESS) [[unlikely]]
    throw error(static_cast<int>(code), text_of(call, code));
}

}  // namespace braid::cuda::detail

namespace braid::cuda {

std::vector<device_info> devices() {
  const auto& cu = detail::driver();
  detail::expect_same_process();
  int count = 0;
  detail::expect("cuDeviceGetCount", cu.cuDeviceGetCount(&count));
  std::vector<device_info> all;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    std::size_t memory = 0;
    int multiprocessors = 0;
    std::string name(256, '\0');
    detail::expect("cuDeviceGet", cu.cuDeviceGet(&device, i));
    detail::expect("cuDeviceGetName",
                   cu.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device));
    detail::expect("cuDeviceTotalMem", cu.cuDeviceTotalMem(&memory, device));
    detail::expect(
        "cuDeviceGetAttribute",
        cu.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    all.push_back({i, name.c_str(), memory, static_cast<unsigned>(multiprocessors)});
  }
  return all;
}

}  // namespace braid::cuda
