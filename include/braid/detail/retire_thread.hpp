#pragma once

#include <cstdint>
#include <memory>

#include "braid/detail/retired.hpp"
#include "braid/detail/stamp.hpp"
#include "braid/detail/time.hpp"

namespace braid::detail {

/// Tells the retire thread how far the work is. Called on that thread only.
class gate_keeper {
 public:
  /// Whether what the gate stands for is over; a failure counts as over and is reported here. Never blocks.
  virtual bool is_open(void* gate) noexcept = 0;
  /// The gate is not asked about again.
  virtual void forget(void* gate) noexcept = 0;

 protected:
  gate_keeper() = default;
  ~gate_keeper() = default;
};

/// Destroys retired objects when their gate is open: one queue a lane, so that a slow stream delays only its
/// own; polls, so that it blocks in no driver. The thread starts with the first object and runs the
/// destructors without any lock, so they may submit and retire.
class retire_thread {
 public:
  explicit retire_thread(gate_keeper& keeper);
  ~retire_thread();
  retire_thread(const retire_thread&) = delete;
  retire_thread& operator=(const retire_thread&) = delete;

  /// Never blocks on a device. A null gate is open. If it throws the object and the gate are the caller's.
  void add(lane_id lane, void* gate, retired&& object);

  /// Whether all is destroyed that was added before; waits for that until the deadline.
  bool drain(std::chrono::steady_clock::time_point deadline);
  /// Objects not yet destroyed.
  [[nodiscard]] std::uint64_t pending() const;
  [[nodiscard]] std::uint64_t destroyed() const;

  /// Ends the thread. Objects whose gates are not open are destroyed all the same: call drain() first.
  void stop() noexcept;

 private:
  struct state;
  const std::unique_ptr<state> state_;
};

}  // namespace braid::detail
