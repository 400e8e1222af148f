#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "braid/op_label.hpp"

namespace braid::detail {

/// The label of one op. Those of a program are few and kept for good, so that a submit neither copies nor
/// allocates; when a program makes up new ones all the time, the surplus belongs to its op and dies with it.
class label_ref {
 public:
  /// Of the process's labels, or a new one of its own when there are too many.
  static label_ref of(std::string_view text);

  label_ref(label_ref&& other) noexcept : bits_(std::exchange(other.bits_, 0)) {}
  label_ref& operator=(label_ref&&) = delete;
  ~label_ref() {
    if ((bits_ & owned) != 0) delete get();
  }

  [[nodiscard]] op_label* get() const noexcept { return reinterpret_cast<op_label*>(bits_ & ~owned); }
  /// For the engine to learn from; null for a label that dies with its op.
  [[nodiscard]] op_label* lasting() const noexcept { return (bits_ & owned) == 0 ? get() : nullptr; }
  [[nodiscard]] const std::string& name() const noexcept { return get()->name(); }

 private:
  static constexpr std::uintptr_t owned = 1;
  explicit label_ref(std::uintptr_t bits) noexcept : bits_(bits) {}
  static op_label* intern(std::string_view text);
  std::uintptr_t bits_;
};

}  // namespace braid::detail
