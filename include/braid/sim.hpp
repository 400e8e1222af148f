#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "braid/access.hpp"
#include "braid/backend.hpp"
#include "braid/detail/runtime_base.hpp"
#include "braid/error.hpp"
#include "braid/memory.hpp"

// A simulated device. It runs streams in virtual time, in any legal order, chosen by a seed; it keeps a log
// of all that it was told; and check() finds, from that log alone, every pair of conflicting accesses that is
// not ordered. It is the model for new backends and the proof of the engine: see `braid verify`.
//
//   sim::device device;
//   multi_stream<sim::backend> ms{device.backend()};
//   { auto op = ms.resolve(stream_id{1}, {write(x)});
//     device.launch(op.current(), {.label = "fill", .touches = {{.memory = 0, .range = {0, 8}, .kind =
//     access::write}}}); }
//   device.run_all();
//   sim::report found = sim::check(device.log());       // found.violations is empty
//
// Any thread may call anything; one lock guards the device. Bodies run under it and may not call the device.

namespace braid::sim {

/// Bytes that an op touches, as the op itself says; the engine's bindings do not reach the device.
struct touch {
  std::uint32_t memory = 0;
  std::uint32_t owner = 0;  ///< accumulates of different owners of the memory do not commute
  byte_range range;
  access kind = access::read;
  std::uint32_t tag = 0;
};

struct op {
  std::string label;
  std::vector<touch> touches;
  std::uint64_t duration = 1;  ///< in units of virtual time
  std::function<void()> body{};
  bool fails = false;  ///< the next event behind it reports an error
};

/// One thing that the device was told, or told the host.
struct command {
  enum class kind : std::uint8_t {
    launch,          // subject: index of the op
    record,          // subject: number of the event
    wait_event,      // subject: number of the event; number: of the wait
    wait_point,      // subject: cursor on stream `origin`; number: of the wait
    commit,          // subject: cursor
    complete_event,  // the host was told that the event is complete; subject: number of the event
    complete_point,  // likewise, for a cursor on stream `origin`
  };
  kind what;
  std::uint32_t stream = 0;
  std::uint32_t origin = 0;
  std::uint64_t subject = 0;
  std::uint64_t number = 0;
};

/// All that a checker may look at.
struct history_log {
  std::vector<command> commands;
  std::vector<std::vector<touch>> ops;  ///< what each launched op touches
  std::vector<std::string> labels;
  std::uint64_t waits = 0;
  std::uint32_t streams = 0;
};

/// A wrong engine, imitated where the device is told things.
enum class fault : std::uint8_t {
  none,
  missing,             ///< the wait is not made
  superfluous,         ///< the wait is made twice
  stale_mark,          ///< the wait is for an event recorded before the needed op
  uncommitted_cursor,  ///< the event stands before the op that its mark claims
};
const char* to_string(fault f) noexcept;

struct device_options {
  std::uint64_t seed = 1;  ///< of the order in which ready streams run
  unsigned progress = 0;   ///< up to so many steps run by themselves at each call
  fault inject = fault::none;
  std::uint64_t inject_at = 0;  ///< the number of the wait that it is injected at
};

/// A call that was made to fail. Not an execution_error: the call failed, not the work.
class call_failed : public std::runtime_error {
 public:
  explicit call_failed(const std::string& text) : std::runtime_error(text) {}
};

class device_state;

class stream {
 public:
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }

 private:
  friend class device_state;
  std::uint32_t index_ = 0;
};

/// Owned by marks; goes back to the device's pool when it is destroyed.
class event {
 public:
  event(event&& other) noexcept = default;
  event& operator=(event&& other) noexcept;
  ~event() { reset(); }

 private:
  friend class device_state;
  event(std::shared_ptr<device_state> home, std::uint64_t number) noexcept
      : home_(std::move(home)), number_(number) {}
  void reset() noexcept;
  std::shared_ptr<device_state> home_;
  std::uint64_t number_;
};

/// The device with events.
class backend {
 public:
  using stream = sim::stream;
  using event = sim::event;
  static constexpr const char* name = "sim";

  explicit backend(std::shared_ptr<device_state> device) noexcept : device_(std::move(device)) {}
  stream create_stream();
  event flush(stream& s);
  void wait_event(stream& s, const event& e);
  void wait_event_sync(const event& e);
  bool is_complete(const event& e);

  /// Asking runs the device on, and bodies may free buffers: a pool may not ask while it holds its lock.
  static constexpr bool runs_bodies_when_asked = true;

  // What a runtime needs: memory of this machine, and ops that say what they touch.
  template <class F>
  void launch(stream& s, std::uint64_t cursor, F&& f) {
    using frame = std::decay_t<F>;
    auto kept = std::make_shared<frame>(std::forward<F>(f));
    op what{.label = *kept->info(cursor).label, .touches = {}};
    for (const braid::detail::touched& t : kept->held.touches()) what.touches.push_back(touch_of(t));
    what.body = [kept = std::move(kept), cursor]() mutable {
      (*kept)(cursor);
      kept.reset();  // the log outlives the op
    };
    enqueue(s, std::move(what));
  }
  [[nodiscard]] std::shared_ptr<memory_source> memory() const { return std::make_shared<system_source>(); }
  [[nodiscard]] std::shared_ptr<memory_source> staging() const { return memory(); }

 protected:
  static touch touch_of(const braid::detail::touched& t) noexcept;
  void enqueue(stream& s, op what);
  std::shared_ptr<device_state> device_;
};

/// The same, where an event is as dear to ask as to wait for, as on CUDA.
class unasked_backend : public backend {
 public:
  using backend::backend;
  static constexpr bool asks_as_dearly_as_it_waits = true;
};

/// The same device, addressed by points.
class point_mode_backend : public backend {
 public:
  using backend::backend;
  void commit_point(stream& s, std::uint64_t cursor);
  void wait_point(stream& s, const stream& origin, std::uint64_t cursor);
  void wait_point_sync(const stream& s, std::uint64_t cursor);
  bool is_point_complete(const stream& s, std::uint64_t cursor);
};

static_assert(event_stream_backend<backend> && !point_backend<backend>);
static_assert(point_backend<point_mode_backend>);

class device {
 public:
  explicit device(device_options options = {});
  ~device();

  [[nodiscard]] sim::backend backend() const { return sim::backend(state_); }
  [[nodiscard]] sim::unasked_backend unasked_backend() const { return sim::unasked_backend(state_); }
  [[nodiscard]] point_mode_backend point_backend() const { return point_mode_backend(state_); }

  /// Puts an op on the stream, inside the guard of the operation that it belongs to. Returns its place in the
  /// log.
  std::size_t launch(stream& s, op what);

  /// Runs up to `steps` commands, in a legal order chosen by the seed; returns how many it ran.
  std::size_t run(std::size_t steps);
  /// Runs everything. Throws execution_error if streams wait for each other.
  void run_all();
  /// Whether the op at this place of the log has run.
  [[nodiscard]] bool has_run(std::size_t op_index) const;
  /// How many ops were launched.
  [[nodiscard]] std::size_t launched() const;
  /// The virtual time at which the last op so far ended.
  [[nodiscard]] std::uint64_t makespan() const;
  /// What every stream's next command starts after: from here on, times count anew.
  void align_times();

  [[nodiscard]] history_log log() const;
  [[nodiscard]] std::size_t events_alive() const;
  [[nodiscard]] std::size_t events_made() const;  ///< alive at the same time at most: the pool's size

  /// Makes the n-th call from now on fail, counted from 0; none again: nullopt.
  void fail_call(std::optional<std::uint64_t> n);
  /// How many calls were made since.
  [[nodiscard]] std::uint64_t calls() const;

 private:
  std::shared_ptr<device_state> state_;
};

/// Two ops with conflicting accesses that nothing orders.
struct violation {
  std::size_t first = 0;  ///< index of the op that was accepted first
  std::size_t second = 0;
  std::uint32_t memory = 0;
  byte_range range;
};

struct report {
  std::uint64_t conflicts_checked = 0;  ///< pairs of ops
  std::vector<violation> violations;
  std::uint64_t waits = 0;
  std::uint64_t minimal_waits = 0;         ///< waits whose removal alone leaves a conflict unordered
  std::vector<std::uint64_t> superfluous;  ///< the numbers of the others
  std::uint64_t excess_orderings = 0;      ///< ops that waits reached beyond the needed ones
};

struct check_options {
  bool drop_each_wait = true;  ///< find minimal_waits
  bool trust_completion =
      true;  ///< what the host was told to be complete comes before what is launched later
};

/// Checks every conflicting pair of a log.
report check(const history_log& log, check_options options = {});

/// The numbers of the waits at which a fault would matter: all of them for missing and superfluous, those
/// whose event's last op conflicts with the waiting op for the others.
std::vector<std::uint64_t> waits_open_to(fault f, const history_log& log);

}  // namespace braid::sim
