#include "state.hpp"

namespace braid::cuda {

namespace {

/// The driver's type for memory of a device is a number.
void* pointer_of(CUdeviceptr p) noexcept {
  return reinterpret_cast<void*>(p);  // NOLINT(performance-no-int-to-ptr)
}

class device_source final : public memory_source {
 public:
  device_source(std::shared_ptr<detail::shared_state> of, std::size_t index)
      : state_(std::move(of)), context_(state_->devices()[index].context) {}
  [[nodiscard]] void* allocate(std::uint64_t bytes) noexcept override {
    const detail::current_context current(context_);
    const detail::relaxed_capture relaxed;
    CUdeviceptr made = 0;
    return state_->cu().cuMemAlloc(&made, bytes) == CUDA_SUCCESS ? pointer_of(made) : nullptr;
  }
  void free(void* data, std::uint64_t) noexcept override {
    if (state_->is_orphaned()) return;
    const detail::current_context current(context_);
    const detail::relaxed_capture relaxed;
    (void)state_->cu().cuMemFree(reinterpret_cast<CUdeviceptr>(data));
  }
  [[nodiscard]] const char* name() const noexcept override { return "CUDA device"; }

 private:
  std::shared_ptr<detail::shared_state> state_;
  CUcontext context_;
};

/// Memory of the host that every device can reach by itself.
class pinned_source final : public memory_source {
 public:
  explicit pinned_source(std::shared_ptr<detail::shared_state> of) : state_(std::move(of)) {}
  [[nodiscard]] void* allocate(std::uint64_t bytes) noexcept override {
    const detail::current_context current(state_->devices().front().context);
    const detail::relaxed_capture relaxed;
    void* made = nullptr;
    return state_->cu().cuMemHostAlloc(&made, bytes, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS ? made
                                                                                               : nullptr;
  }
  void free(void* data, std::uint64_t) noexcept override {
    if (state_->is_orphaned()) return;
    const detail::current_context current(state_->devices().front().context);
    const detail::relaxed_capture relaxed;
    (void)state_->cu().cuMemFreeHost(data);
  }
  [[nodiscard]] const char* name() const noexcept override { return "pinned host"; }

 private:
  std::shared_ptr<detail::shared_state> state_;
};

class stream_ordered_source final : public memory_source {
 public:
  explicit stream_ordered_source(int ordinal)
      : state_(std::make_shared<detail::shared_state>(std::span<const int>(&ordinal, 1), std::vector<int>{},
                                                      false)),
        context_(state_->devices().front().context) {
    const detail::current_context current(context_);
    detail::expect("cuStreamCreateWithPriority",
                   state_->cu().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0));
  }
  ~stream_ordered_source() override {
    if (!state_->is_orphaned()) (void)state_->cu().cuStreamDestroy(stream_);
  }
  // Each call ends when the memory is there, or gone, for every stream.
  [[nodiscard]] void* allocate(std::uint64_t bytes) noexcept override {
    const detail::current_context current(context_);
    const detail::relaxed_capture relaxed;
    CUdeviceptr made = 0;
    if (state_->cu().cuMemAllocAsync(&made, bytes, stream_) != CUDA_SUCCESS) return nullptr;
    (void)state_->cu().cuStreamSynchronize(stream_);
    return pointer_of(made);
  }
  void free(void* data, std::uint64_t) noexcept override {
    if (state_->is_orphaned()) return;
    const detail::current_context current(context_);
    const detail::relaxed_capture relaxed;
    (void)state_->cu().cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(data), stream_);
    (void)state_->cu().cuStreamSynchronize(stream_);
  }
  [[nodiscard]] const char* name() const noexcept override { return "cuMemAllocAsync"; }

 private:
  std::shared_ptr<detail::shared_state> state_;
  CUcontext context_;
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
