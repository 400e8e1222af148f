#include <atomic>

#include "state.hpp"

namespace braid::cuda {

namespace {

/// The driver's type for memory of a device is a number.
void* pointer_of(CUdeviceptr p) noexcept {
  return reinterpret_cast<void*>(p);  // NOLINT(performance-no-int-to-ptr)
}

/// Remembers why there was no memory, for who asks.
class source : public memory_source {
 public:
  source(std::shared_ptr<detail::shared_state> of, std::size_t index)
      : state_(std::move(of)), context_(state_->devices()[index].context) {}
  [[nodiscard]] void* allocate(std::uint64_t bytes) noexcept final {
    const detail::current_context current(context_);
    const detail::relaxed_capture relaxed;
    void* made = nullptr;
    const CUresult code = take(made, bytes);
    code_.store(code, std::memory_order_relaxed);  // for people
    if (code == CUDA_SUCCESS) return made;
    state_->note_lost(call_, code);
    return nullptr;
  }
  void free(void* data, std::uint64_t) noexcept final {
    if (state_->is_orphaned()) return;
    const detail::current_context current(context_);
    const detail::relaxed_capture relaxed;
    give(data);
  }
  [[nodiscard]] std::string last_error() const override {
    const CUresult code = code_.load(std::memory_order_relaxed);
    return code == CUDA_SUCCESS ? std::string() : detail::text_of(call_, code);
  }

 protected:
  virtual CUresult take(void*& made, std::uint64_t bytes) noexcept = 0;
  virtual void give(void* data) noexcept = 0;

  std::shared_ptr<detail::shared_state> state_;
  CUcontext context_;
  const char* call_ = "";  // that takes memory

 private:
  std::atomic<CUresult> code_{CUDA_SUCCESS};
};

class device_source final : public source {
 public:
  device_source(std::shared_ptr<detail::shared_state> of, std::size_t index) : source(std::move(of), index) {
    call_ = "cuMemAlloc";
  }
  [[nodiscard]] const char* name() const noexcept override { return "CUDA device"; }

 private:
  CUresult take(void*& made, std::uint64_t bytes) noexcept override {
    CUdeviceptr p = 0;
    const CUresult code = state_->cu().cuMemAlloc(&p, bytes);
    made = pointer_of(p);
    return code;
  }
  void give(void* data) noexcept override {
    (void)state_->cu().cuMemFree(reinterpret_cast<CUdeviceptr>(data));
  }
};

/// Memory of the host that every device can reach by itself.
class pinned_source final : public source {
 public:
  explicit pinned_source(std::shared_ptr<detail::shared_state> of) : source(std::move(of), 0) {
    call_ = "cuMemHostAlloc";
  }
  [[nodiscard]] const char* name() const noexcept override { return "pinned host"; }

 private:
  CUresult take(void*& made, std::uint64_t bytes) noexcept override {
    return state_->cu().cuMemHostAlloc(&made, bytes, CU_MEMHOSTALLOC_PORTABLE);
  }
  void give(void* data) noexcept override { (void)state_->cu().cuMemFreeHost(data); }
};

class stream_ordered_source final : public source {
 public:
  explicit stream_ordered_source(int ordinal)
      : source(std::make_shared<detail::shared_state>(std::span<const int>(&ordinal, 1), std::vector<int>{},
                                                      false),
               0) {
    call_ = "cuMemAllocAsync";
    const detail::current_context current(context_);
    const detail::relaxed_capture relaxed;
    detail::expect("cuStreamCreateWithPriority",
                   state_->cu().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0));
  }
  ~stream_ordered_source() override {
    if (state_->is_orphaned()) return;
    const detail::relaxed_capture relaxed;
    (void)state_->cu().cuStreamDestroy(stream_);
  }
  [[nodiscard]] const char* name() const noexcept override { return "cuMemAllocAsync"; }

 private:
  // Each call ends when the memory is there, or gone, for every stream.
  CUresult take(void*& made, std::uint64_t bytes) noexcept override {
    CUdeviceptr p = 0;
    if (const CUresult code = state_->cu().cuMemAllocAsync(&p, bytes, stream_); code != CUDA_SUCCESS)
      return code;
    made = pointer_of(p);
    return state_->cu().cuStreamSynchronize(stream_);
  }
  void give(void* data) noexcept override {
    (void)state_->cu().cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(data), stream_);
    (void)state_->cu().cuStreamSynchronize(stream_);
  }

  CUstream stream_ = nullptr;
};

}  // namespace

std::vector<std::shared_ptr<memory_source>> backend::memories() const {
  std::vector<std::shared_ptr<memory_source>> all;
  for (std::size_t i = 0; i < state_->devices().size(); ++i) {
    all.push_back(std::make_shared<device_source>(state_, i));
  }
  return all;
}

std::shared_ptr<memory_source> backend::staging() const {
  return std::make_shared<pinned_source>(state_);
}

std::shared_ptr<memory_source> async_source(int device) {
  return std::make_shared<stream_ordered_source>(device);
}

}  // namespace braid::cuda
