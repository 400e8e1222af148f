#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace braid {

/// Work failed on a device, or a wait for it did. Carries the reason in words.
class execution_error : public std::runtime_error {
 public:
  explicit execution_error(const std::string& reason) : std::runtime_error(reason) {}
};

/// An operation failed or was cancelled: it carries the label of the op that failed, also where somebody else
/// asked, for data that was to come from it.
class op_error : public execution_error {
 public:
  op_error(std::string label, const std::string& reason, std::exception_ptr cause)
      : execution_error(reason), label_(std::move(label)), cause_(std::move(cause)) {}
  [[nodiscard]] const std::string& label() const noexcept { return label_; }
  /// What the op's body threw; null if it was cancelled.
  [[nodiscard]] const std::exception_ptr& cause() const noexcept { return cause_; }

 private:
  std::string label_;
  std::exception_ptr cause_;
};

/// What a program did that it may not do. One value for each kind of misuse, so that tests and callers
/// need not read the text.
enum class misuse {
  no_streams,            ///< a pool of 0 streams
  too_many_streams,      ///< a pool larger than max_slots
  unknown_special,       ///< a special id beyond the special slots of the pool
  unused_stream,         ///< asked for a stream that no operation was ever given to
  null_resource,         ///< a default-constructed or moved-from handle
  foreign_resource,      ///< a handle that belongs to another engine
  handed_on,             ///< a handle whose memory has a next owner
  range_outside,         ///< bytes beyond the end of the resource
  range_overflow,        ///< offset + size does not fit in 64 bits
  conflicting_bindings,  ///< one resource bound twice in conflict in one operation
  inside_guard,          ///< a resolve or a wait while this thread holds a guard of the same engine
  after_shutdown,        ///< use of an engine that was shut down
  inside_body,           ///< a submit or a wait inside the body of an operation
  while_recording,       ///< a wait, or something that cannot be recorded, inside record()
  never_written,         ///< reading bytes that nothing ever wrote
  overlapping_adopt,     ///< adopting memory that was adopted before
  bad_size,              ///< a size that does not fit: of another length, or too large
  used_stream,           ///< adopting a native stream under an id that was used already
  capturing,             ///< a submit to a native stream that is being captured
  forked,                ///< use of a device in a child of the process that opened it
  misaligned,            ///< a slice that begins where a device cannot make a view of it
  unreachable,           ///< memory of a device in an op on another one that has no access to it
  no_device,             ///< a backend without a device, or a device that is not there
  bad_settings,          ///< braid.toml, an environment variable or an option is wrong
};

/// The program used braid wrongly. The text says what was wrong and what would be right; nothing was
/// changed by the call that threw.
class usage_error : public std::invalid_argument {
 public:
  usage_error(misuse kind, const std::string& text) : std::invalid_argument(text), kind_(kind) {}
  [[nodiscard]] misuse kind() const noexcept { return kind_; }

 private:
  misuse kind_;
};

}  // namespace braid
