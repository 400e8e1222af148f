#include "braid/detail/in_flight.hpp"

#include <utility>

namespace braid::detail {

std::optional<in_flight::op> in_flight::blocking(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const bool over_ops = max_ops_ != 0 && ops_ >= max_ops_;
  const bool over_bytes = max_bytes_ != 0 && ops_ > 0 && (bytes > max_bytes_ || bytes_ > max_bytes_ - bytes);
  // With an empty queue all others are still being given by other threads: they will be entered soon, and
  // waiting for nothing is no use, so this one is let in.
  if ((over_ops || over_bytes) && first_ != queue_.size()) return queue_[first_];
  ++ops_;
  bytes_ += bytes;
  return std::nullopt;
}

void in_flight::done(const op& over) {
  const std::scoped_lock lock(mutex_);
  // Several submitters may have waited for the same one.
  if (first_ == queue_.size() || queue_[first_].lane != over.lane || queue_[first_].cursor != over.cursor)
    return;
  if (++first_ > queue_.size() / 2) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(std::exchange(first_, 0)));
  }
  --ops_;
  bytes_ -= over.bytes;
}

void in_flight::add(const op& entered, bool was_let_in) {
  const std::scoped_lock lock(mutex_);
  if (!was_let_in) ++ops_;
  queue_.push_back(entered);
}

void in_flight::abandon(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  --ops_;
  bytes_ -= bytes;
}

}  // namespace braid::detail
