#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace braid::cuda::detail {

/// NVIDIA's library that tells what a device did, opened at run time.
class cupti {
 public:
  /// Null, and the reason, if it is not there or not of the version that this was built for.
  static cupti* open(std::string& reason);

  /// False: it cannot be used with this driver.
  [[nodiscard]] bool begin();
  /// What is done on this thread until pop() belongs to `id`.
  void push(std::uint64_t id) noexcept;
  void pop() noexcept;
  /// Calls `tell(id, start, end)` for each id, with the times of the trace's clock. Returns how many records
  /// CUPTI dropped.
  template <class Tell>
  std::uint64_t end(Tell tell) {
    const found all = stop();
    for (std::size_t i = 0; i < all.count; ++i) tell(all.spans[i].id, all.spans[i].start, all.spans[i].end);
    return all.dropped;
  }

 private:
  struct span {
    std::uint64_t id;
    std::int64_t start;
    std::int64_t end;
  };
  struct found {
    std::unique_ptr<span[]> spans;
    std::size_t count = 0;
    std::uint64_t dropped = 0;
  };
  found stop();
};

}  // namespace braid::cuda::detail
