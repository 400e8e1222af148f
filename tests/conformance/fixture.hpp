#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "braid/cpu.hpp"
#include "braid/runtime.hpp"
#include "braid/sim.hpp"

// What the suite knows of a backend. A fixture makes runtimes over it and offers the ops that the tests are
// written in, so that one test runs on all backends: on the CPU and on the simulated device an op's body is
// the work, on others it enqueues it. A new backend gets a fixture here and a place in `all_fixtures`; in
// `host_fixtures` stand those whose bodies run on the host and touch the memory themselves. A fixture may
// have several instances, which share the compiled tests.

namespace braid {

// Compiled once, in fixture.cpp.
extern template class multi_stream<sim::backend>;
extern template class multi_stream<sim::point_mode_backend>;
extern template class basic_runtime<sim::backend>;
extern template class basic_runtime<sim::point_mode_backend>;

}  // namespace braid

namespace braid::conformance {

/// A test that a backend cannot pass, and why. It is run all the same: passing it fails the run.
struct known_exception {
  std::string_view test;
  std::string_view reason;
};

/// One way to set a backend up: a name for reports, and what the fixture makes of the number.
template <class Fixture>
struct instance {
  std::string name;
  unsigned setting = 0;
};

/// Where an op goes: a stream, or wherever the placement says.
using where = std::optional<stream_id>;

/// Keeps ops from going on until it is opened; opens itself at its end.
class gate {
 public:
  gate() = default;
  explicit gate(std::function<void()> opened) : open_(std::move(opened)) {}
  gate(gate&&) noexcept = default;
  gate& operator=(gate&&) = delete;
  ~gate() { open(); }
  void open() {
    if (open_) open_();
  }

 private:
  std::function<void()> open_;
};

/// Nothing from the environment or a file reaches a test.
inline runtime_options complete(runtime_options o) {
  if (!o.streams) o.streams = 8;
  if (!o.workers) o.workers = 2;
  if (!o.pin_workers) o.pin_workers = false;
  if (!o.placement) o.placement = placement::automatic;
  if (!o.deterministic) o.deterministic = false;
  if (!o.marks) o.marks = mark_policy::learned;
  if (!o.ops_in_flight) o.ops_in_flight = 0;
  if (!o.bytes_in_flight) o.bytes_in_flight = 0;
  if (!o.memory_limit) o.memory_limit = 0;
  if (!o.reuse) o.reuse = default_reuse_order;
  if (!o.logger) o.logger = std::make_shared<logger>();
  return o;
}

/// x + y, which begins again at the other end: programs that go on for long get there.
constexpr int sum_of(int x, int y) {
  return static_cast<int>(static_cast<unsigned>(x) + static_cast<unsigned>(y));
}

/// The ops of backends whose bodies are the work.
template <class Runtime>
struct host_ops {
  using runtime = Runtime;
  using ints = buffer_slice<int>;

  /// Memory with these values that is not the runtime's, and that its ops can reach.
  static std::vector<int> memory(std::vector<int> values) { return values; }

  template <class... Args>
  static submission give(runtime& rt, where at, std::string_view label, Args&&... args) {
    return at ? rt.submit(*at, label, std::forward<Args>(args)...)
              : rt.submit(label, std::forward<Args>(args)...);
  }
  static submission fill(runtime& rt, const ints& to, int value, where at = {}) {
    return give(rt, at, "fill", write(to), [value](std::span<int> x) {
      for (int& each : x) each = value;
    });
  }
  static submission increment(runtime& rt, const ints& x, where at = {}) {
    return give(rt, at, "increment", read_write(x), [](std::span<int> all) {
      for (int& each : all) each = sum_of(each, 1);
    });
  }
  /// to += from
  static submission add(runtime& rt, const ints& to, const ints& from, where at = {}) {
    return give(rt, at, "add", read_write(to), read(from), [](std::span<int> x, std::span<const int> y) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = sum_of(x[i], y[i]);
    });
  }
  /// to = from
  static submission assign(runtime& rt, const ints& to, const ints& from, where at = {}) {
    return give(rt, at, "assign", write(to), read(from), [](std::span<int> x, std::span<const int> y) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = y[i];
    });
  }
  /// Adds to each element with atomics.
  static submission accumulate_into(runtime& rt, const ints& to, int amount, std::uint32_t tag = 0,
                                    where at = {}) {
    return give(rt, at, "accumulate", accumulate(to, tag), [amount](std::span<int> x) {
      for (int& each : x) std::atomic_ref<int>(each).fetch_add(amount, std::memory_order_relaxed);
    });
  }
  /// x += value, from memory of the op's own, which may have more elements.
  static submission add_through_scratch(runtime& rt, const ints& x, int value, std::size_t more,
                                        where at = {}) {
    return give(rt, at, "add through scratch", read_write(x), scratch<int>(std::max(x.size(), more)),
                [value](std::span<int> to, std::span<int> from) {
                  std::ranges::fill(from, value);
                  for (std::size_t i = 0; i < to.size(); ++i) to[i] = sum_of(to[i], from[i]);
                });
  }
  /// An op on `to` whose body throws std::runtime_error(`text`).
  static submission fail(runtime& rt, std::string_view label, const ints& to, where at = {},
                         std::string text = "broken") {
    return give(rt, at, label, write(to),
                [text = std::move(text)](std::span<int>) -> void { throw std::runtime_error(text); });
  }
};

/// The simulated device, with events or with points. Several runtimes of one test share it.
template <class Backend>
class sim_fixture : public host_ops<basic_runtime<Backend>> {
 public:
  using runtime = basic_runtime<Backend>;
  static constexpr bool runs_by_itself = false;
  /// A number of ops that this backend gets through, up to `wanted`; the check of its log is quadratic.
  static constexpr unsigned many(unsigned wanted) { return wanted < 400 ? wanted : 400; }
  /// How often a body looks for another that runs at the same time: there is none.
  static constexpr unsigned looks = 1;

  static std::vector<instance<sim_fixture>> instances() {
    return {{point_backend<Backend> ? "sim_points" : "sim_events"}};
  }
  static std::vector<known_exception> exceptions() {
    return {{"ops_that_accumulate_run_at_the_same_time",
             "the simulated device runs one body at a time, inside the call that steps it"},
            {"ops_on_different_streams_run_at_the_same_time",
             "the simulated device runs one body at a time, inside the call that steps it"}};
  }

  explicit sim_fixture(unsigned = 0) {}

  /// Nothing runs until somebody waits for it. Before the first runtime is made.
  void stand_still() { progress_ = 0; }
  std::unique_ptr<runtime> make(runtime_options o) {
    if (!device_) device_.emplace(sim::device_options{.seed = 7, .progress = progress_});
    if constexpr (point_backend<Backend>) {
      return std::make_unique<runtime>(device_->point_backend(), complete(std::move(o)));
    } else if constexpr (std::is_same_v<Backend, sim::unasked_backend>) {
      return std::make_unique<runtime>(device_->unasked_backend(), complete(std::move(o)));
    } else {
      return std::make_unique<runtime>(device_->backend(), complete(std::move(o)));
    }
  }
  /// The device goes on a little.
  void step() { (void)device_->run(1); }
  /// An op that ends when the gate is opened: what it binds is in use until then. Here the device stands
  /// still anyway until the test waits for something.
  template <class... Bindings>
  gate hold(runtime& rt, const Bindings&... bound) {
    EXPECT_EQ(progress_, 0U) << "stand_still() comes first";
    rt.submit("hold", bound..., [](const auto&...) {});
    return {};
  }
  /// Everything that the device was told, checked by its own rules.
  void finish() {
    if (!device_) return;
    device_->run_all();
    const sim::history_log log = device_->log();
    const sim::report found = sim::check(log, {.drop_each_wait = false, .trust_completion = true});
    for (const sim::violation& v : found.violations) {
      ADD_FAILURE() << "ops " << v.first << " '" << log.labels[v.first] << "' and " << v.second << " '"
                    << log.labels[v.second] << "' are not ordered";
    }
    EXPECT_EQ(device_->events_alive(), 0U);
  }
  [[nodiscard]] sim::device& device() { return *device_; }

 private:
  unsigned progress_ = 3;
  std::optional<sim::device> device_;
};

using sim_events = sim_fixture<sim::backend>;
using sim_unasked = sim_fixture<sim::unasked_backend>;  // in tests/stress: it follows routines
using sim_points = sim_fixture<sim::point_mode_backend>;

class cpu_fixture : public host_ops<cpu::runtime> {
 public:
  using runtime = cpu::runtime;
  static constexpr bool runs_by_itself = true;
#ifdef __SANITIZE_THREAD__
  static constexpr unsigned many(unsigned wanted) { return wanted < 2000 ? wanted : 2000; }  // it is slow
#else
  static constexpr unsigned many(unsigned wanted) { return wanted; }
#endif
  static constexpr unsigned looks = ~0U;
  static std::vector<instance<cpu_fixture>> instances() {
    return {{"cpu_1_worker", 1}, {"cpu_2_workers", 2}, {"cpu_8_workers", 8}};
  }
  static std::vector<known_exception> exceptions() { return {}; }

  explicit cpu_fixture(unsigned workers = 2) : workers_(workers) {}

  void stand_still() {}
  std::unique_ptr<runtime> make(runtime_options o) {
    if (!o.workers) o.workers = workers_;
    return std::make_unique<runtime>(complete(std::move(o)));
  }
  void step() { std::this_thread::yield(); }
  /// Returns when the op has begun, so that no thread of the test comes to run it. One at a time: with one or
  /// two workers it keeps the only thread that they have of their own.
  template <class... Bindings>
  gate hold(runtime& rt, const Bindings&... bound) {
    auto open = std::make_shared<std::atomic<bool>>(false);
    auto begun = std::make_shared<std::atomic<bool>>(false);
    rt.submit("hold", bound..., [open, begun](const auto&...) {
      begun->store(true);
      begun->notify_all();
      open->wait(false);
    });
    begun->wait(false);
    return gate([open] {
      open->store(true);
      open->notify_all();
    });
  }
  void finish() {}

 private:
  unsigned workers_;
};

/// All backends; those whose bodies run on the host and touch the memory themselves.
template <class... Fixtures>
struct fixtures {};

}  // namespace braid::conformance

#ifdef BRAID_CONFORMANCE_CUDA
#include "cuda_fixture.hpp"
#else
#ifdef BRAID_CONFORMANCE_OPENCL
#include "opencl_fixture.hpp"
#endif

namespace braid::conformance {

#if defined __SANITIZE_THREAD__
// One lock guards the simulated device, and tests/stress has its threads; OpenCL's are not told to the
// sanitizer.
using sim_fixtures = fixtures<>;
using host_fixtures = fixtures<cpu_fixture>;
using all_fixtures = host_fixtures;
#elif !defined BRAID_CONFORMANCE_OPENCL
using sim_fixtures = fixtures<sim_events, sim_points>;
using host_fixtures = fixtures<sim_events, sim_points, cpu_fixture>;
using all_fixtures = host_fixtures;
#else
using sim_fixtures = fixtures<sim_events, sim_points>;
using host_fixtures = fixtures<sim_events, sim_points, cpu_fixture>;
using all_fixtures = fixtures<sim_events, sim_points, cpu_fixture, opencl_fixture>;
#endif

}  // namespace braid::conformance
#endif
