// A libcuda.so.1 that does nothing and says that all went well: what is left of a submit is braid's. Memory
// of the device is memory of the host, which nobody looks at.

#include <cuda.h>

#include <cstdint>
#include <cstdlib>

namespace {

thread_local CUcontext current = nullptr;
const auto the_context = reinterpret_cast<CUcontext>(0x1000);

/// Something that is not null and is never looked into.
template <class Handle>
CUresult make(Handle* made) {
  static std::uintptr_t last = 0x2000;
  *made = reinterpret_cast<Handle>(last += 0x10);
  return CUDA_SUCCESS;
}
CUresult take(CUdeviceptr* made, std::size_t bytes) {
  *made = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  return *made != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult give(CUdeviceptr p) {
  std::free(reinterpret_cast<void*>(p));  // NOLINT(performance-no-int-to-ptr)
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) {
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** name) {
  *name = "CUDA_SUCCESS";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "no error";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  if (length > 0) *name = '\0';
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
  *bytes = std::size_t{1} << 34;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
  *can = 0;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = the_context;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) {
  return CUDA_SUCCESS;
}
CUresult cuCtxGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = *highest = 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream* made, unsigned, int) {
  return make(made);
}
CUresult cuStreamDestroy(CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx(CUstream, CUcontext* context) {
  *context = the_context;
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) {
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* made, unsigned) {
  return make(made);
}
CUresult cuEventDestroy(CUevent) {
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent, CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent) {
  return CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent) {
  return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime(float* ms, CUevent, CUevent) {
  *ms = 0;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* made, std::size_t bytes) {
  return take(made, bytes);
}
CUresult cuMemFree(CUdeviceptr p) {
  return give(p);
}
CUresult cuMemAllocAsync(CUdeviceptr* made, std::size_t bytes, CUstream) {
  return take(made, bytes);
}
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream) {
  return give(p);
}
CUresult cuMemHostAlloc(void** made, std::size_t bytes, unsigned) {
  CUdeviceptr p = 0;
  const CUresult code = take(&p, bytes);
  *made = reinterpret_cast<void*>(p);  // NOLINT(performance-no-int-to-ptr)
  return code;
}
CUresult cuMemFreeHost(void* p) {
  return give(reinterpret_cast<CUdeviceptr>(p));
}
CUresult cuMemcpyAsync(CUdeviceptr, CUdeviceptr, std::size_t, CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr, unsigned char, std::size_t, CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuMemsetD16Async(CUdeviceptr, unsigned short, std::size_t, CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuMemsetD32Async(CUdeviceptr, unsigned, std::size_t, CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuMemsetD2D8Async(CUdeviceptr, std::size_t, unsigned char, std::size_t, std::size_t, CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuMemsetD2D16Async(CUdeviceptr, std::size_t, unsigned short, std::size_t, std::size_t, CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuMemsetD2D32Async(CUdeviceptr, std::size_t, unsigned, std::size_t, std::size_t, CUstream) {
  return CUDA_SUCCESS;
}
CUresult cuPointerGetAttributes(unsigned, CUpointer_attribute*, void**, CUdeviceptr) {
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) {
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture(CUstream, CUstreamCaptureMode) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuStreamEndCapture(CUstream, CUgraph*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec*, CUgraph, unsigned long long) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphLaunch(CUgraphExec, CUstream) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphExecDestroy(CUgraphExec) {
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph) {
  return CUDA_SUCCESS;
}

}  // extern "C"
