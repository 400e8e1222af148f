#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "braid/access.hpp"
#include "braid/detail/block.hpp"
#include "braid/detail/lock.hpp"
#include "braid/detail/runtime_base.hpp"
#include "braid/stream_id.hpp"

namespace braid::detail {

/// What a buffer handle refers to. The memory, with its history, is a block of the runtime's pool: taken when
/// the buffer is first written, given back when the last handle goes.
struct buffer_core {
  buffer_core(runtime_link link, std::uint64_t size, std::string_view text)
      : bytes(size), runtime(link), name(text) {}
  buffer_core(const buffer_core&) = delete;
  buffer_core& operator=(const buffer_core&) = delete;
  /// Buffers come and go with each step of a program: a thread keeps the memory of a few for the next ones.
  static void* operator new(std::size_t size);
  static void operator delete(void* at) noexcept;

  std::atomic<block*> memory{nullptr};  // set once, under `lock`; the release store pairs with the acquires
  const std::uint64_t bytes;
  std::atomic<std::uint64_t> last_write{0};  // op_point; hints for the placement, no order hangs on them
  std::atomic<std::uint64_t> last_read{0};
  std::atomic<std::uint64_t> last_order{0};  // of the ops that were given it, as far as is known
  std::atomic<bool> is_written{false};       // all of it
  const runtime_link runtime;
  std::atomic<std::uint32_t> refs{1};
  spin_lock lock;
  std::vector<byte_range> written;  // under `lock`: parts that were written, in order, until all of it is
  std::shared_ptr<void> owner;      // of adopted memory
  std::string name;

  /// Whether all of the range was written by some op.
  [[nodiscard, gnu::always_inline]] bool is_range_written(byte_range r) {
    return is_written.load(std::memory_order_acquire) || is_part_written(r);  // pairs with note_written()
  }
  [[gnu::always_inline]] void note_written(byte_range r) {
    if (!is_written.load(std::memory_order_relaxed)) [[unlikely]]
      note_part_written(r);
  }

  /// Calls `visit(byte_range)` for each part that was written.
  template <class Visit>
  void each_written(Visit visit) {
    if (is_written.load(std::memory_order_acquire)) return visit(byte_range{0, bytes});  // as above
    const std::lock_guard<spin_lock> held(lock);
    for (const byte_range& r : written) visit(r);
  }

 private:
  [[nodiscard]] bool is_part_written(byte_range r);
  void note_part_written(byte_range r);
};

/// A share in a buffer_core.
class buffer_handle {
 public:
  buffer_handle() noexcept = default;
  explicit buffer_handle(buffer_core* adopted) noexcept : core_(adopted) {}
  buffer_handle(const buffer_handle& other) noexcept : core_(other.core_) {
    if (core_ != nullptr) core_->refs.fetch_add(1, std::memory_order_relaxed);  // the caller holds a share
  }
  buffer_handle(buffer_handle&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  buffer_handle& operator=(const buffer_handle& other) noexcept { return *this = buffer_handle(other); }
  buffer_handle& operator=(buffer_handle&& other) noexcept {  // see resource
    buffer_handle taken = std::move(other);
    std::swap(core_, taken.core_);
    return *this;
  }
  ~buffer_handle() {
    // acquire, acq_rel: who frees sees what every other holder did. Of the only handle nobody makes another
    // one while it goes.
    if (core_ != nullptr && (core_->refs.load(std::memory_order_acquire) == 1 ||
                             core_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1))
      free();
  }
  [[nodiscard]] buffer_core* get() const noexcept { return core_; }
  buffer_core* operator->() const noexcept { return core_; }
  explicit operator bool() const noexcept { return core_ != nullptr; }
  friend bool operator==(const buffer_handle&, const buffer_handle&) noexcept = default;

 private:
  void free() noexcept {
    if (runtime_base* home = core_->runtime.get()) home->release(*core_);
    delete core_;
  }
  buffer_core* core_ = nullptr;
};

/// What a buffer is filled with: the bytes of one element.
class fill_value {
 public:
  fill_value(const void* value, std::size_t size);
  [[nodiscard]] const std::byte* data() const noexcept { return large_ ? large_.get() : small_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  std::array<std::byte, 16> small_;
  std::size_t size_;
  std::unique_ptr<std::byte[]> large_;  // null: it is in `small_`
};

[[noreturn]] void throw_null_buffer();
[[noreturn]] void throw_null_memory(std::string_view name);
[[noreturn]] void throw_unreachable(std::string_view label, stream_id stream, const buffer_core& core);
[[noreturn]] void throw_foreign_buffer(const buffer_core& core, bool is_closed);
[[noreturn]] void throw_foreign_target(const buffer_core& core);
[[noreturn]] void throw_too_often(std::uint64_t times, std::uint64_t ops, std::uint64_t most);
[[noreturn]] void throw_never_written(const buffer_core& core, byte_range range);
[[noreturn]] void throw_too_large(std::uint64_t count, std::uint64_t size);
[[noreturn]] void throw_other_length(const char* what, const std::string& name, std::uint64_t has,
                                     std::uint64_t given);
[[noreturn]] void throw_overlapping(std::string_view name);

/// The memory that buffers have adopted, of which none may overlap.
class adopted_ranges {
 public:
  adopted_ranges();
  ~adopted_ranges();
  adopted_ranges(const adopted_ranges&) = delete;
  adopted_ranges& operator=(const adopted_ranges&) = delete;

  /// Throws usage_error if it overlaps another.
  void add(const std::byte* begin, std::uint64_t bytes, std::string_view name);
  void remove(const std::byte* begin, std::uint64_t bytes) noexcept;

 private:
  struct ranges;
  std::unique_ptr<ranges> ranges_;
};
[[noreturn]] void throw_bad_slice(const buffer_core* core, std::uint64_t first, std::uint64_t count,
                                  std::uint64_t size);

}  // namespace braid::detail
