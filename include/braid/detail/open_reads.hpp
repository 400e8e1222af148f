#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "braid/detail/lock.hpp"

namespace braid::detail {

class future_state_base;

/// The reads whose results may still stand in stages, for who needs a stage where there is no memory for
/// another one. Any thread may call it.
class open_reads {
 public:
  /// Of a read that has been given; it is forgotten some time after it is over.
  void add(const std::shared_ptr<future_state_base>& read);
  /// Waits for those that there are now, after which they have given their stages back.
  void wait();

 private:
  spin_lock lock_;
  std::vector<std::weak_ptr<future_state_base>> reads_;
  std::size_t look_at_ = 64;  // when there are so many, those that are over are forgotten
};

}  // namespace braid::detail
