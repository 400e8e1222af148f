#pragma once

#include <cstdint>
#include <utility>

#include "braid/alignment.hpp"
#include "braid/detail/multi_stream_fwd.hpp"
#include "braid/detail/slot.hpp"
#include "braid/stream_id.hpp"

namespace braid {

/// The guard of one operation: its stream is aligned, and what is put on current() now is the operation. The
/// destructor commits it. While the guard lives the op's resources cannot be destroyed, the slot is this
/// thread's, and nobody gets past what the op writes; so it should live no longer than the launch. Move-only;
/// stays on the thread that resolved it, and ends before the engine does.
template <event_stream_backend B, class Threading>
class [[nodiscard]] resolved_streams {
 public:
  resolved_streams(resolved_streams&& other) noexcept
      : engine_(std::exchange(other.engine_, nullptr)), slot_(other.slot_) {}
  resolved_streams& operator=(resolved_streams&& other) noexcept {
    if (this != &other) {
      commit();
      engine_ = std::exchange(other.engine_, nullptr);
      slot_ = other.slot_;
    }
    return *this;
  }
  ~resolved_streams() { commit(); }

  /// Which op this is on its slot: 1 for the first.
  [[nodiscard]] std::uint64_t cursor() const noexcept { return slot_->cursor; }
  [[nodiscard]] stream_id id() const noexcept { return slot_->last_id; }

  /// The stream that the op belongs on.
  [[nodiscard]] typename B::stream& current() noexcept { return slot_->stream; }
  /// The stream of another id. Throws usage_error if no op was ever given to it. Work put there is not
  /// tracked, and serialising it with that stream's own ops is the caller's business.
  [[nodiscard]] typename B::stream& get(stream_id id) { return engine_->used_stream(id); }

  /// Destroys the object after this op, on a braid thread.
  template <class T>
  void retire(T&& object) {
    slot_->retiring.push_back(detail::retired::of(std::forward<T>(object)));
    slot_->has_afterwork = true;
  }

  /// Which origins the stream was made to wait for, at which cursor, for which resource and hazard. Valid as
  /// long as the guard.
  [[nodiscard]] const alignment& waits() const { return engine_->waits_of(*slot_); }

 private:
  friend class multi_stream<B, Threading>;
  resolved_streams(multi_stream<B, Threading>* engine, detail::slot<B>* slot) noexcept
      : engine_(engine), slot_(slot) {}
  void commit() noexcept {
    if (engine_ != nullptr) std::exchange(engine_, nullptr)->commit(*slot_);
  }

  multi_stream<B, Threading>* engine_;
  detail::slot<B>* slot_;
};

}  // namespace braid
