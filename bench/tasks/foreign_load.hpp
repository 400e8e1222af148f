#pragma once

#include <chrono>

namespace braid::bench {

/// How much of the machine others used while this process, and children that are over, measured. Counts from
/// its construction.
class foreign_load {
 public:
  foreign_load();
  /// In cores: 1.0 is one core all the time, what the host took from a virtual machine included. Near 0 in a
  /// run to be trusted; negative where the kernel does not tell.
  [[nodiscard]] double cores() const;

 private:
  struct sample {
    std::chrono::duration<double> all;  ///< processor time of all processes
    std::chrono::duration<double> own;
    std::chrono::steady_clock::time_point at;
  };
  static sample take();

  sample start_;
};

}  // namespace braid::bench
