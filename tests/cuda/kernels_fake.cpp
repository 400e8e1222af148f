#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <thread>

#include "backends/drivers.hpp"
#include "kernels.hpp"

namespace braid::test {

namespace {

const detail::vendor_library& library() {
  static const detail::vendor_library it("libcuda.so.1");
  return it;
}

void launch(stream on, const std::function<void()>& work) {
  using launcher = CUresult(CUstream, const std::function<void()>&);
  const CUresult code = library().function<launcher>("fake_cuda_launch")(on, work);
  if (code != CUDA_SUCCESS) throw cuda::error(static_cast<int>(code), "a kernel's launch");
}

}  // namespace

void fill(stream on, int* to, std::size_t n, int value) {
  launch(on, [=] { std::fill_n(to, n, value); });
}
void increment(stream on, int* x, std::size_t n) {
  launch(on, [=] {
    for (std::size_t i = 0; i < n; ++i) ++x[i];
  });
}
void add(stream on, int* to, const int* from, std::size_t n) {
  launch(on, [=] {
    for (std::size_t i = 0; i < n; ++i)
      to[i] = static_cast<int>(static_cast<unsigned>(to[i]) + static_cast<unsigned>(from[i]));
  });
}
void assign(stream on, int* to, const int* from, std::size_t n) {
  launch(on, [=] { std::copy_n(from, n, to); });
}
void accumulate(stream on, int* to, std::size_t n, int amount) {
  launch(on, [=] {
    for (std::size_t i = 0; i < n; ++i) {
      std::atomic_ref<int>(to[i]).fetch_add(amount, std::memory_order_relaxed);
    }
  });
}
void spin(stream on, unsigned microseconds) {
  launch(on, [=] { std::this_thread::sleep_for(std::chrono::microseconds(microseconds)); });
}
void hold(stream on, const std::uint32_t* flag) {
  launch(on, [=] {
    while (std::atomic_ref<const std::uint32_t>(*flag).load() == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
}
void synchronize(stream on) {
  const CUresult code = library().function<decltype(cuStreamSynchronize)>("cuStreamSynchronize")(on);
  if (code != CUDA_SUCCESS) throw cuda::error(static_cast<int>(code), "cuStreamSynchronize");
}
void* make_pinned(std::size_t bytes) {
  // As CUDA's runtime does: the first device is current if there is none.
  CUcontext context = nullptr;
  (void)library().function<CUresult(CUcontext*)>("cuCtxGetCurrent")(&context);
  if (context == nullptr) {
    (void)library().function<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0);
    (void)library().function<CUresult(CUcontext)>("cuCtxSetCurrent")(context);
  }
  void* made = nullptr;
  if (library().function<CUresult(void**, std::size_t, unsigned)>("cuMemHostAlloc")(&made, bytes, 0) !=
      CUDA_SUCCESS)
    throw std::bad_alloc();
  return made;
}
void free_pinned(void* data) {
  (void)library().function<CUresult(void*)>("cuMemFreeHost")(data);
}
void fault(stream on) {
  launch(on, [] { library().function<void()>("fake_cuda_lose")(); });
}

}  // namespace braid::test
