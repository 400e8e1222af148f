#include <sys/mman.h>

#include <algorithm>
#include <map>

#include "state.hpp"

namespace braid::opencl {

namespace {

constexpr std::uint64_t page = 4096;

/// Remembers why there was no memory, for who asks.
class source : public memory_source {
 public:
  explicit source(std::shared_ptr<detail::shared_state> of) : state_(std::move(of)) {}
  [[nodiscard]] std::uint64_t alignment() const noexcept override {
    return std::clamp<std::uint64_t>(state_->device().info().slice_alignment, 64, page);
  }
  [[nodiscard]] std::string last_error() const override {
    const std::scoped_lock lock(mutex_);
    return error_;
  }

 protected:
  /// Whether it went well.
  bool note(const char* call, cl_int code) noexcept {
    try {
      note_error(code == CL_SUCCESS ? "" : detail::text_of(call, code));
    } catch (const std::bad_alloc&) {
      note_error({});
    }
    return code == CL_SUCCESS;
  }
  void note_error(std::string text) noexcept {
    const std::scoped_lock lock(mutex_);
    error_ = std::move(text);
  }
  std::shared_ptr<detail::shared_state> state_;

 private:
  mutable std::mutex mutex_;
  std::string error_;
};

/// Buffers of OpenCL. The addresses that stand for them are reserved, and nothing can be read or written
/// there.
class buffer_source final : public source {
 public:
  using source::source;
  [[nodiscard]] void* allocate(std::uint64_t bytes) noexcept override {
    void* base = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    cl_int code = CL_SUCCESS;
    const cl_mem made = clCreateBuffer(state_->device().native(), CL_MEM_READ_WRITE, bytes, nullptr, &code);
    if (note("clCreateBuffer", code)) {
      try {
        if (is_placed(made)) {
          state_->device().add(base, bytes, {.buffer = made});
          return base;
        }
      } catch (const std::exception& e) {  // no queue, or no memory of the host
        note_error(e.what());
      }
      (void)clReleaseMemObject(made);
    }
    (void)munmap(base, bytes);
    return nullptr;
  }
  void free(void* data, std::uint64_t bytes) noexcept override {
    if (!state_->is_orphaned()) {
      const cl_mem buffer = state_->device().find(data, bytes).buffer;
      state_->device().remove(data, buffer);
      state_->forget_views(data, bytes);
      (void)clReleaseMemObject(buffer);
    }
    (void)munmap(data, bytes);  // last: another thread may get the address at once
  }
  [[nodiscard]] const char* name() const noexcept override { return "OpenCL device"; }

 private:
  // A driver may leave it to the first command to find a place for a buffer. NVIDIA's (580) does not do that
  // right where sub-buffers of one buffer are first used on several queues at the same time: kernels then
  // read something else than others wrote.
  bool is_placed(cl_mem made) {
    const cl_command_queue on = state_->service_queue();
    const cl_int code = clEnqueueMigrateMemObjects(on, 1, &made, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0,
                                                   nullptr, nullptr);
    return note("clEnqueueMigrateMemObjects", code) && note("clFinish", clFinish(on));
  }
};

/// Shared virtual memory, with buffers around it for who wants buffers.
class shared_source final : public source {
 public:
  using source::source;
  [[nodiscard]] void* allocate(std::uint64_t bytes) noexcept override {
    void* base = clSVMAlloc(state_->device().native(), CL_MEM_READ_WRITE, bytes, 0);
    if (!note("clSVMAlloc", base != nullptr ? CL_SUCCESS : CL_MEM_OBJECT_ALLOCATION_FAILURE)) return nullptr;
    cl_int code = CL_SUCCESS;
    const cl_mem made = clCreateBuffer(state_->device().native(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                       bytes, base, &code);
    if (note("clCreateBuffer", code)) {
      try {
        state_->device().add(base, bytes, {.buffer = made, .is_pointer = true});
        return base;
      } catch (const std::bad_alloc&) {
        (void)clReleaseMemObject(made);
      }
    }
    clSVMFree(state_->device().native(), base);
    return nullptr;
  }
  void free(void* data, std::uint64_t bytes) noexcept override {
    if (state_->is_orphaned()) return;
    const cl_mem buffer = state_->device().find(data, bytes).buffer;
    state_->device().remove(data, buffer);
    state_->forget_views(data, bytes);
    (void)clReleaseMemObject(buffer);
    clSVMFree(state_->device().native(), data);
  }
  [[nodiscard]] const char* name() const noexcept override { return "OpenCL shared virtual"; }
};

/// Memory of the host that the device reaches best: buffers there, mapped for as long as they live.
class pinned_source final : public source {
 public:
  using source::source;
  [[nodiscard]] void* allocate(std::uint64_t bytes) noexcept override {
    try {
      cl_int code = CL_SUCCESS;
      const cl_mem made = clCreateBuffer(state_->device().native(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                         bytes + page, nullptr, &code);
      if (!note("clCreateBuffer", code)) return nullptr;
      void* const at = mapped(made, bytes + page);
      if (at == nullptr) {
        (void)clReleaseMemObject(made);
        return nullptr;
      }
      const auto misplaced = reinterpret_cast<std::uintptr_t>(at) % page;
      void* data = static_cast<std::byte*>(at) + (misplaced == 0 ? 0 : page - misplaced);
      mapped_[data] = {made, at};
      return data;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  void free(void* data, std::uint64_t) noexcept override {
    if (state_->is_orphaned()) return;
    const auto found = mapped_.find(data);
    const auto [buffer, at] = found->second;
    mapped_.erase(found);
    (void)clEnqueueUnmapMemObject(state_->service_queue(), buffer, at, 0, nullptr, nullptr);
    (void)clFinish(state_->service_queue());
    (void)clReleaseMemObject(buffer);
  }
  [[nodiscard]] const char* name() const noexcept override { return "OpenCL pinned host"; }

 private:
  /// Null if it cannot be.
  void* mapped(cl_mem buffer, std::uint64_t bytes) {
    try {
      cl_int code = CL_SUCCESS;
      void* at = clEnqueueMapBuffer(state_->service_queue(), buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                    bytes, 0, nullptr, nullptr, &code);
      return note("clEnqueueMapBuffer", code) ? at : nullptr;
    } catch (const error& e) {
      note_error(e.what());
      return nullptr;
    }
  }
  struct mapping {
    cl_mem buffer;
    void* at;
  };
  std::map<void*, mapping> mapped_;
};

}  // namespace

std::shared_ptr<memory_source> backend::memory() const {
  if (state_->has_svm()) return std::make_shared<shared_source>(state_);
  return std::make_shared<buffer_source>(state_);
}

std::shared_ptr<memory_source> backend::staging() const {
  return std::make_shared<pinned_source>(state_);
}

bool backend::is_reachable(const void* p, std::uint64_t) const noexcept {
  return p != nullptr && state_->device().info().has_unified_memory;
}

namespace {

/// A buffer that stands at an address for a while.
class standing {
 public:
  /// Takes the buffer over. `reserved`: so much of the address space, which belongs to nobody else.
  standing(std::shared_ptr<detail::shared_state> of, void* base, std::uint64_t bytes, cl_mem buffer,
           std::uint64_t reserved)
      : state_(std::move(of)), base_(base), bytes_(bytes), buffer_(buffer), reserved_(reserved) {
    state_->device().add(base_, bytes_, {.buffer = buffer_, .is_lent = reserved == 0});
  }
  ~standing() {
    if (!state_->is_orphaned()) {
      state_->device().remove(base_, buffer_);
      state_->forget_views(base_, bytes_);
      (void)clReleaseMemObject(buffer_);
    }
    if (reserved_ != 0) (void)munmap(base_, reserved_);  // last: another thread may get the address at once
  }
  standing(const standing&) = delete;
  standing& operator=(const standing&) = delete;

 private:
  std::shared_ptr<detail::shared_state> state_;
  void* base_;
  std::uint64_t bytes_;
  cl_mem buffer_;
  std::uint64_t reserved_;
};

}  // namespace

std::shared_ptr<void> backend::reach(void* data, std::uint64_t bytes) const {
  const detail::found_memory known = state_->device().find(data, bytes);
  if (bytes == 0 || (known.buffer != nullptr && !known.is_lent)) return nullptr;  // of adopt(cl::Buffer)
  if (!state_->device().info().has_unified_memory) {
    throw usage_error(misuse::foreign_resource,
                      "memory of the host cannot be adopted on " + state_->device().info().name +
                          ", which has its own: adopt a cl::Buffer, or write() it into a buffer");
  }
  cl_int code = CL_SUCCESS;
  const cl_mem made =
      clCreateBuffer(state_->device().native(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, data, &code);
  detail::expect("clCreateBuffer", code);
  return std::make_shared<standing>(state_, data, bytes, made, 0);
}

std::shared_ptr<void> backend::adopt_buffer(cl_mem buffer, std::uint64_t& bytes) const {
  std::size_t size = 0;
  cl_context of = nullptr;
  cl_mem parent = nullptr;
  detail::expect("clGetMemObjectInfo", clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof size, &size, nullptr));
  detail::expect("clGetMemObjectInfo",
                 clGetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof(cl_context), &of, nullptr));
  detail::expect("clGetMemObjectInfo",
                 clGetMemObjectInfo(buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(cl_mem), &parent, nullptr));
  if (of != native_context() || parent != nullptr) {
    throw usage_error(misuse::foreign_resource,
                      parent != nullptr ? "a sub-buffer cannot be adopted: adopt the whole buffer"
                                        : "a buffer of another context cannot be adopted: make it with the "
                                          "context of the runtime's backend");
  }
  const std::uint64_t reserved = (size + page - 1) / page * page;
  void* base = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  detail::expect("clRetainMemObject", clRetainMemObject(buffer));
  bytes = size;
  auto held = std::make_shared<standing>(state_, base, size, buffer, reserved);
  return {std::move(held), base};
}

}  // namespace braid::opencl
