#include "braid/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <mutex>

#include "braid/error.hpp"
#include "braid/settings.hpp"

namespace braid {

const char* to_string(log_area area) noexcept {
  switch (area) {
    case log_area::streaming: return "streaming";
    case log_area::memory: return "memory";
    case log_area::errors: return "errors";
  }
  return "unknown";
}

const char* to_string(log_level level) noexcept {
  switch (level) {
    case log_level::disabled: return "disabled";
    case log_level::basic: return "basic";
    case log_level::full: return "full";
  }
  return "unknown";
}

struct logger::impl {
  std::unique_ptr<spdlog::logger> text;
  std::mutex mutex;  // of the callback
  sink callback;
};

namespace {

std::unique_ptr<spdlog::logger> open(const std::string& to) {
  spdlog::sink_ptr sink;
  if (to == "stdout") {
    sink = std::make_shared<spdlog::sinks::stdout_sink_mt>();
  } else if (to == "stderr") {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(to);
    } catch (const spdlog::spdlog_ex& e) {
      throw usage_error(misuse::bad_settings, "cannot write the log file '" + to + "': " + e.what() +
                                                  "; log.to is stdout, stderr or a path in a folder that "
                                                  "can be made");
    }
  }
  auto text = std::make_unique<spdlog::logger>("braid", std::move(sink));
  text->set_pattern("%Y-%m-%dT%H:%M:%S.%e [braid] %v");
  text->flush_on(spdlog::level::info);
  return text;
}

}  // namespace

logger::logger() : impl_(std::make_unique<impl>()) {}

logger::logger(const std::string& to) : logger() {
  impl_->text = open(to);
}

logger::logger(sink to) : logger() {
  impl_->callback = std::move(to);
}

logger::~logger() = default;

const std::shared_ptr<logger>& logger::process() {
  static const std::shared_ptr<logger> shared = [] {
    const settings& from = settings::process();
    auto made = std::make_shared<logger>(from.log_to.value);
    made->set_level(log_area::streaming, from.log_streaming.value);
    made->set_level(log_area::memory, from.log_memory.value);
    made->set_level(log_area::errors, from.log_errors.value);
    return made;
  }();
  return shared;
}

void logger::write(log_area area, log_level level, std::string_view text) noexcept {
  if (!is_enabled(area, level)) return;
  try {
    if (impl_->callback) {
      const std::scoped_lock lock(impl_->mutex);
      impl_->callback(area, level, text);
    } else if (impl_->text) {
      impl_->text->info("{}: {}", to_string(area), text);
    }
  } catch (...) {
    // A log may not fail the program that it tells of.
  }
}

}  // namespace braid
