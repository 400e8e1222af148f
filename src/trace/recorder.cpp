#include "trace/recorder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "braid/alignment.hpp"
#include "braid/detail/block.hpp"
#include "braid/detail/lock.hpp"
#include "braid/detail/runtime_base.hpp"
#include "braid/error.hpp"
#include "braid/log.hpp"
#include "braid/settings.hpp"
#include "trace/ring.hpp"

namespace braid::trace {

namespace {

class writer;

// What the threads that record share. Never destroyed: threads may record until the process is gone.
struct registry {
  std::mutex mutex;
  std::vector<writer*> writers;  // of living threads
  std::vector<std::vector<std::uint64_t>> ended;
  std::uint64_t dropped_by_ended = 0;
  std::map<std::uint32_t, detail::traced_runtime> runtimes;
  std::vector<std::uint32_t> gone;  // runtimes that ended while a trace was on
  std::vector<device_tracer> devices;
  std::uint32_t last_runtime = 0;
  std::uint32_t last_thread = 0;
  std::uint64_t buffer_bytes = 0;
  std::int64_t began = 0;
  bool is_on = false;
};
registry& shared() {
  static auto* const all = new registry;
  return *all;
}

// A thread's buffers. Who ends a trace turns it off and then waits until no thread is inside a record; so the
// buffers need no lock.
class writer {
 public:
  writer() {
    registry& all = shared();
    const std::scoped_lock lock(all.mutex);
    number_ = ++all.last_thread;
    all.writers.push_back(this);
  }
  ~writer() {
    registry& all = shared();
    const std::scoped_lock lock(all.mutex);
    std::erase(all.writers, this);
    if (!all.is_on) return;
    for (const auto& each : buffers_) {
      if (each == nullptr) continue;
      all.dropped_by_ended += each->dropped();
      all.ended.push_back(each->read());
    }
  }
  writer(const writer&) = delete;
  writer& operator=(const writer&) = delete;

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }

  // The words of the record that is being made; the first one is set at the end.
  std::vector<std::uint64_t> words;

  void begin() { words.assign(1, 0); }
  void add(std::uint64_t word) { words.push_back(word); }
  void add(std::string_view text) {
    const std::size_t at = words.size();
    words.resize(at + (text.size() + 7) / 8);
    if (!text.empty()) std::memcpy(words.data() + at, text.data(), text.size());
  }
  void write(record_kind kind, std::uint32_t runtime) {
    words[0] =
        words.size() | std::uint64_t{static_cast<std::uint8_t>(kind)} << 32 | std::uint64_t{runtime} << 40;
    // seq_cst, both: either this thread sees that the trace is over, or who ends it sees this thread inside
    is_inside_.store(true);
    if (detail::tracing_on.load()) {
      auto& to = buffers_[kind == record_kind::run ? 1 : 0];
      if (to == nullptr) to = std::make_unique<ring>(shared().buffer_bytes);
      to->write(words);
    }
    is_inside_.store(false, std::memory_order_release);  // pairs with take()
  }

  /// Of a trace that was turned off.
  std::array<std::unique_ptr<ring>, 2> take() noexcept {
    detail::backoff pause;
    while (is_inside_.load()) pause.pause();
    return std::exchange(buffers_, {});
  }

 private:
  std::uint32_t number_;
  // What ops are, and when they ran: apart, because a thread that submits many and then helps to run them
  // would else drop what they are in favour of when they ran.
  std::array<std::unique_ptr<ring>, 2> buffers_;
  std::atomic<bool> is_inside_{false};
};

// A thread that is about to end may still free buffers after its writer is gone: then there is none.
thread_local bool has_ended = false;
writer* own_writer() {
  struct holder {
    writer of;
    ~holder() { has_ended = true; }
  };
  if (has_ended) return nullptr;
  static thread_local holder own;
  return &own.of;
}

// No record is worth an exception in the program: without memory it is left out.
template <class F>
void record(F&& fill) noexcept {
  try {
    if (writer* to = own_writer()) {
      to->begin();
      fill(*to);
    }
  } catch (const std::exception&) {
  }
}

struct file_closer {
  void operator()(std::FILE* f) const noexcept { (void)std::fclose(f); }
};
using file = std::unique_ptr<std::FILE, file_closer>;

file open(const std::filesystem::path& path) {
  file to(std::fopen(path.c_str(), "wb"));
  if (to == nullptr) {
    throw usage_error(misuse::bad_settings,
                      fmt::format("the trace cannot be written to '{}': {}", path.string(),
                                  std::generic_category().message(errno)));
  }
  return to;
}

// Under the registry's lock.
void tell_runtimes(const registry& all, bool is_traced) {
  for (const auto& [number, r] : all.runtimes) {
    if (r.is_traced != nullptr) r.is_traced->store(is_traced, std::memory_order_relaxed);
  }
}

}  // namespace

void start_recording(std::uint64_t buffer_bytes) {
  registry& all = shared();
  std::vector<device_tracer> devices;
  {
    const std::scoped_lock lock(all.mutex);
    if (all.is_on) {
      throw usage_error(misuse::bad_settings,
                        "a trace is being recorded already: stop that one first, or unset BRAID_TRACE");
    }
    all.is_on = true;
    all.ended.clear();
    all.dropped_by_ended = 0;
    all.buffer_bytes = buffer_bytes != 0 ? buffer_bytes : settings::process().trace_buffer.value;
    for (auto& [number, r] : all.runtimes) r.live = r.live_bytes ? r.live_bytes() : 0;
    all.began = detail::trace_now();
    devices = all.devices;
  }
  for (const device_tracer& each : devices) each.begin();
  detail::tracing_on.store(true);
  const std::scoped_lock lock(all.mutex);
  tell_runtimes(all, true);
}

recording stop_recording() {
  registry& all = shared();
  recording r;
  std::vector<device_tracer> devices;
  {
    const std::scoped_lock lock(all.mutex);
    devices = all.devices;
  }
  // They record what they know before the trace is off.
  for (const device_tracer& each : devices) {
    const std::string text = each.end();
    if (!text.empty()) r.timing += (r.timing.empty() ? "" : "; ") + text;
  }
  if (r.timing.empty()) r.timing = "the host's clock, around each body";
  detail::tracing_on.store(false);
  const std::scoped_lock lock(all.mutex);
  tell_runtimes(all, false);
  r.began = all.began;
  r.threads = std::exchange(all.ended, {});
  r.dropped = std::exchange(all.dropped_by_ended, 0);
  for (writer* each : all.writers) {
    for (const auto& buffer : each->take()) {
      if (buffer == nullptr) continue;
      r.dropped += buffer->dropped();
      r.threads.push_back(buffer->read());
    }
  }
  r.runtimes = all.runtimes;
  for (const std::uint32_t number : std::exchange(all.gone, {})) all.runtimes.erase(number);
  all.is_on = false;
  return r;
}

void add_device_tracer(const device_tracer& tracer) {
  registry& all = shared();
  bool is_late = false;
  {
    const std::scoped_lock lock(all.mutex);
    all.devices.push_back(tracer);
    is_late = all.is_on;
  }
  if (is_late) tracer.begin();
}

}  // namespace braid::trace

namespace braid {

struct tracing::impl {
  std::filesystem::path path;
  trace::file to;
  bool is_over = false;
  const pid_t process = getpid();
};

// A trace that is refused leaves the file alone.
tracing::tracing(std::filesystem::path to, trace_options options) : impl_(std::make_unique<impl>()) {
  trace::start_recording(options.buffer_bytes);
  try {
    impl_->to = trace::open(to);
  } catch (...) {
    (void)trace::stop_recording();
    throw;
  }
  impl_->path = std::move(to);
}

tracing::~tracing() {
  try {
    (void)stop();
  } catch (const std::exception& e) {
    logger::process()->write(log_area::errors, log_level::basic, e.what());
  }
}

trace_summary tracing::stop() {
  if (std::exchange(impl_->is_over, true)) return {};
  // A child of fork() has neither the threads nor the file to itself: it is the parent's trace.
  if (getpid() != impl_->process) return {};
  const trace::recording all = trace::stop_recording();
  std::string text;
  const trace_summary made = trace::write_events(text, all);
  std::FILE* to = impl_->to.get();
  if (std::fwrite(text.data(), 1, text.size(), to) != text.size() || std::fflush(to) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            "the trace could not be written to '" + impl_->path.string() + "'");
  }
  impl_->to.reset();
  return made;
}

}  // namespace braid

namespace braid::detail {

namespace {

// The trace that BRAID_TRACE asks for: from the first runtime to the end of the process.
void start_from_settings() {
  static const bool started = [] {
    const settings& s = settings::process();
    if (s.trace_to.value.empty()) return false;
    static auto* const whole = new tracing(s.trace_to.value);
    std::atexit([] {
      try {
        (void)whole->stop();
      } catch (const std::exception& e) {
        std::fprintf(stderr, "braid: %s\n", e.what());
      }
    });
    return true;
  }();
  (void)started;
}

}  // namespace

std::uint32_t trace_add_runtime(traced_runtime what) {
  start_from_settings();
  trace::registry& all = trace::shared();
  const std::scoped_lock lock(all.mutex);
  const std::uint32_t number = all.last_runtime = (all.last_runtime + 1) & 0xff'ffff;
  if (tracing_on.load(std::memory_order_relaxed)) what.is_traced->store(true, std::memory_order_relaxed);
  all.runtimes[number] = std::move(what);
  return number;
}

void trace_remove_runtime(std::uint32_t number, bool is_forked) noexcept {
  trace::registry& all = trace::shared();
  std::unique_lock lock(all.mutex, std::defer_lock);
  if (!is_forked) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return;
  }
  if (all.is_on) {
    all.runtimes[number].live_bytes = nullptr;
    all.runtimes[number].is_traced = nullptr;
    all.gone.push_back(number);
  } else {
    all.runtimes.erase(number);
  }
}

void trace_op(const traced_op& op, std::span<const binding> uses, std::span<const stream_wait> waits,
              lane_id (*lane_of)(void* engine, stream_id id), void* engine) noexcept {
  trace::record([&](trace::writer& to) {
    to.add(std::uint64_t{index_of(op.lane)} << 32 | to.number());
    to.add(op.stream.value);
    to.add(op.cursor);
    to.add(static_cast<std::uint64_t>(op.submitted));
    to.add(std::uint64_t{op.label.size()} << 32 | uses.size());
    to.add(std::uint64_t{op.is_named ? 1U : 0U} << 32 | waits.size());
    to.add(op.label);
    for (const binding& b : uses) {
      to.add(b.state->id);
      to.add(b.range.offset);
      to.add(b.range.size);
      to.add(std::uint64_t{b.tag} << 32 | static_cast<std::uint64_t>(b.kind));
      to.add(b.state->name.size());
      to.add(b.state->name);
    }
    for (const stream_wait& w : waits) {
      const lane_id lane = is_foreign(w.origin) ? first_foreign_lane : lane_of(engine, w.origin);
      to.add(w.origin.value);
      to.add(std::uint64_t{index_of(lane)} << 32 | static_cast<std::uint64_t>(w.why));
      to.add(w.cursor);
      to.add(w.reached);
      to.add(w.binding);
    }
    to.write(trace::record_kind::op, op.runtime);
  });
}

namespace {

void add_run(std::uint32_t runtime, lane_id lane, std::uint64_t cursor, std::int64_t start, std::int64_t end,
             traced_outcome became, bool is_device) noexcept {
  trace::record([&](trace::writer& to) {
    to.add(std::uint64_t{index_of(lane)} << 32 | (is_device ? 0 : to.number()));
    to.add(cursor);
    to.add(static_cast<std::uint64_t>(start));
    to.add(static_cast<std::uint64_t>(end));
    to.add(static_cast<std::uint64_t>(became));
    to.write(trace::record_kind::run, runtime);
  });
}

}  // namespace

void trace_run(std::uint32_t runtime, lane_id lane, std::uint64_t cursor, std::int64_t start,
               std::int64_t end, traced_outcome became) noexcept {
  add_run(runtime, lane, cursor, start, end, became, false);
}

void trace_device_run(std::uint32_t runtime, lane_id lane, std::uint64_t cursor, std::int64_t start,
                      std::int64_t end) noexcept {
  add_run(runtime, lane, cursor, start, end, traced_outcome::done, true);
}

void trace_take(std::uint32_t runtime, const block& taken, std::string_view name) noexcept {
  trace::record([&](trace::writer& to) {
    to.add(static_cast<std::uint64_t>(trace_now()));
    to.add(taken.id);
    to.add(taken.size);
    to.add(to.number());
    to.add(std::uint64_t{index_of(taken.lane)} << 32 | static_cast<std::uint64_t>(taken.taken_as));
    to.add(name.size());
    to.add(name);
    to.write(trace::record_kind::take, runtime);
  });
}

void trace_give(std::uint32_t runtime, const block& given) noexcept {
  trace::record([&](trace::writer& to) {
    to.add(static_cast<std::uint64_t>(trace_now()));
    to.add(given.id);
    to.add(given.size);
    to.add(to.number());
    to.write(trace::record_kind::give, runtime);
  });
}

std::int64_t trace_thread_time() noexcept {
  std::timespec now{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void trace_host_wait(std::uint32_t runtime, op_point on, std::int64_t begin,
                     std::int64_t thread_time) noexcept {
  const std::int64_t end = trace_now();
  trace::record([&](trace::writer& to) {
    to.add(to.number());
    to.add(on.bits);
    to.add(static_cast<std::uint64_t>(begin));
    to.add(static_cast<std::uint64_t>(end));
    to.add(static_cast<std::uint64_t>(thread_time));
    to.add(static_cast<std::uint64_t>(trace_thread_time()));
    to.write(trace::record_kind::host_wait, runtime);
  });
}

}  // namespace braid::detail
