#include "braid/detail/open_reads.hpp"

#include <algorithm>
#include <mutex>

#include "braid/future.hpp"

namespace braid::detail {

void open_reads::add(const std::shared_ptr<future_state_base>& read) {
  const std::lock_guard<spin_lock> lock(lock_);
  if (reads_.size() >= look_at_) {
    std::erase_if(reads_, [](const std::weak_ptr<future_state_base>& each) {
      const auto state = each.lock();
      return state == nullptr || state->is_ready();
    });
    look_at_ = std::max<std::size_t>(64, 2 * reads_.size());
  }
  reads_.push_back(read);
}

void open_reads::wait() {
  std::vector<std::weak_ptr<future_state_base>> now;
  {
    const std::lock_guard<spin_lock> lock(lock_);
    now = reads_;
  }
  for (const auto& each : now) {
    if (const auto state = each.lock()) state->wait();
  }
}

}  // namespace braid::detail
