#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "braid/detail/trace_hooks.hpp"
#include "braid/trace.hpp"

namespace braid::trace {

/// What a record is about; in the first word, above the size.
enum class record_kind : std::uint8_t { op, run, take, give, host_wait };

/// All that was recorded, thread by thread, as words; writer.cpp takes it apart.
struct recording {
  std::vector<std::vector<std::uint64_t>> threads;
  std::map<std::uint32_t, detail::traced_runtime> runtimes;
  std::uint64_t dropped = 0;
  std::int64_t began = 0;  ///< trace_now()
  std::string timing;      ///< what the times of a device's ops were taken with, and what that cost
};

/// From here on everything is recorded. 0 bytes: those of the settings. Throws usage_error if it is already.
void start_recording(std::uint64_t buffer_bytes = 0);
recording stop_recording();

/// Called when a trace begins, and before it is taken apart: a backend whose device runs ops by itself brings
/// their times. The text says what they were taken with.
struct device_tracer {
  std::function<void()> begin;
  std::function<std::string()> end;
};
void add_device_tracer(const device_tracer& tracer);

/// From the first word of a record.
struct record_head {
  std::uint32_t words;
  record_kind kind;
  std::uint32_t runtime;

  static record_head of(std::uint64_t word) noexcept {
    return {static_cast<std::uint32_t>(word), static_cast<record_kind>(word >> 32 & 0xff),
            static_cast<std::uint32_t>(word >> 40)};
  }
};

/// Writes the file's text. Returns what is in it.
trace_summary write_events(std::string& out, const recording& r);

}  // namespace braid::trace
