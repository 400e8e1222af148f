#pragma once

#include <cuda.h>

#include <string>

// The functions of libcuda.so.1, which is opened at run time.

namespace braid::cuda::detail {

// clang-format off
#define BRAID_CUDA_FUNCTIONS(X) \
  X(cuInit) X(cuGetErrorName) X(cuGetErrorString) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) \
  X(cuDeviceTotalMem) X(cuDeviceGetAttribute) X(cuDeviceCanAccessPeer) X(cuDevicePrimaryCtxRetain) \
  X(cuDevicePrimaryCtxRelease) X(cuCtxGetCurrent) X(cuCtxSetCurrent) X(cuCtxEnablePeerAccess) \
  X(cuCtxGetStreamPriorityRange) X(cuStreamCreateWithPriority) X(cuStreamDestroy) X(cuStreamGetCtx) \
  X(cuStreamIsCapturing) X(cuStreamQuery) X(cuStreamWaitEvent) X(cuStreamSynchronize) X(cuEventCreate) X(cuEventDestroy) \
  X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) X(cuMemAlloc) X(cuMemFree) X(cuMemAllocAsync) \
  X(cuMemFreeAsync) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemcpyAsync) X(cuMemsetD8Async) \
  X(cuMemsetD16Async) X(cuMemsetD32Async) X(cuMemsetD2D8Async) X(cuMemsetD2D16Async) \
  X(cuMemsetD2D32Async) X(cuPointerGetAttributes) X(cuThreadExchangeStreamCaptureMode) \
  X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy) \
  X(cuGraphDestroy)
// clang-format on

// Names with a version are macros of cuda.h: both the member and its users see them expanded.
struct driver_functions {
#define X(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): it is declared
  BRAID_CUDA_FUNCTIONS(X)
  X(cuEventElapsedTime)
#undef X
};

/// Opens and starts the driver at the first call. Throws usage_error(no_device) with the reason.
const driver_functions& driver();

/// Throws usage_error(forked) in a child of the process that opened it.
void expect_same_process();

/// "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
std::string text_of(const char* call, CUresult code);

/// Whether the context is beyond use after this code: every later call gives it, too.
bool is_lost(CUresult code) noexcept;

/// Throws cuda::error unless the call went well.
void expect(const char* call, CUresult code);

/// Calls on this thread do not disturb a capture that is under way elsewhere, nor are they refused for one.
class relaxed_capture {
 public:
  relaxed_capture() noexcept : mode_(CU_STREAM_CAPTURE_MODE_RELAXED) { exchange(); }
  ~relaxed_capture() { exchange(); }
  relaxed_capture(const relaxed_capture&) = delete;
  relaxed_capture& operator=(const relaxed_capture&) = delete;

 private:
  void exchange() noexcept { (void)driver().cuThreadExchangeStreamCaptureMode(&mode_); }
  CUstreamCaptureMode mode_;
};

}  // namespace braid::cuda::detail
