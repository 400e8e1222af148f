#include "braid/detail/buffer_core.hpp"
#include "braid/error.hpp"
#include "braid/runtime.hpp"

namespace braid::detail {

void throw_null_buffer() {
  throw usage_error(
      misuse::null_resource,
      "a null handle was bound: only what make_buffer(), adopt() or resource::token() returned can be");
}

void throw_null_memory(std::string_view name) {
  throw usage_error(misuse::null_resource, "adopt() of '" + std::string(name) +
                                               "', whose pointer is null: adopt memory that is there; "
                                               "make_buffer(0) makes a buffer without any");
}

void throw_unreachable(std::string_view label, stream_id stream, const buffer_core& core) {
  throw usage_error(
      misuse::unreachable,
      "op '" + std::string(label) + "' on stream " + to_string(stream) + " uses '" + core.name +
          "', which is in the memory of a device that the stream's device has no access to: name a "
          "stream of that device, or none, or copy() it into a buffer of this one");
}

void throw_foreign_buffer(const buffer_core& core, bool is_closed) {
  if (is_closed) {
    throw usage_error(
        misuse::after_shutdown,
        "'" + core.name + "' belongs to a runtime that was destroyed: its handles do nothing any more");
  }
  throw usage_error(misuse::foreign_resource,
                    "'" + core.name +
                        "' belongs to another runtime: copy() can bring its content "
                        "into a buffer of this one");
}

void throw_foreign_target(const buffer_core& core) {
  if (core.runtime.get() == nullptr) throw_foreign_buffer(core, true);
  throw usage_error(
      misuse::foreign_resource,
      "copy() into '" + core.name +
          "', which belongs to another runtime: call copy() on the runtime that owns the target");
}

void throw_too_often(std::uint64_t times, std::uint64_t ops, std::uint64_t most) {
  throw usage_error(misuse::bad_size, "replay(" + std::to_string(times) + ") of " + std::to_string(ops) +
                                          " ops: at most " + std::to_string(most) +
                                          " ops are given at once; replay it in several calls");
}

void throw_never_written(const buffer_core& core, byte_range range) {
  throw usage_error(
      misuse::never_written,
      "bytes " + std::to_string(range.offset) + " to " + std::to_string(range.end()) + " of '" + core.name +
          "' are read, but nothing was submitted that writes all of them: write() them first, or make "
          "the buffer with make_buffer(n, zeroed)");
}

void throw_too_large(std::uint64_t count, std::uint64_t size) {
  throw usage_error(misuse::bad_size, std::to_string(count) + " elements of " + std::to_string(size) +
                                          " bytes are more than a buffer can hold (2^60 bytes)");
}

void throw_other_length(const char* what, const std::string& name, std::uint64_t has, std::uint64_t given) {
  throw usage_error(misuse::bad_size, std::string(what) + ": '" + name + "' has " + std::to_string(has) +
                                          " elements and the other side has " + std::to_string(given) +
                                          ": use slice() for a part");
}

void throw_overlapping(std::string_view name) {
  throw usage_error(misuse::overlapping_adopt,
                    "adopt() of '" + std::string(name) +
                        "': the memory overlaps memory that is adopted already; use slices of one buffer");
}

}  // namespace braid::detail
