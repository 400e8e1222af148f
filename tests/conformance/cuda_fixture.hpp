#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "braid/cuda.hpp"
#include "cuda/kernels.hpp"
#include "fixture.hpp"

// CUDA: on a GPU with kernels, and without one with the imitated driver of tests/cuda.

namespace braid::conformance {

/// Memory of the host that the device can reach.
class pinned_ints {
 public:
  explicit pinned_ints(const std::vector<int>& values)
      : data_(static_cast<int*>(test::make_pinned(values.size() * sizeof(int))), &test::free_pinned),
        size_(values.size()) {
    std::copy(values.begin(), values.end(), data_.get());
  }
  [[nodiscard]] int* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] int* begin() const noexcept { return data(); }
  [[nodiscard]] int* end() const noexcept { return data() + size_; }
  int& operator[](std::size_t i) const noexcept { return data()[i]; }
  friend bool operator==(const pinned_ints& a, const std::vector<int>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::unique_ptr<int, void (*)(void*)> data_;
  std::size_t size_;
};

class cuda_fixture {
 public:
  using runtime = cuda::runtime;
  using native = cuda::native_stream;
  using ints = buffer_slice<int>;
  static constexpr bool runs_by_itself = true;
  static constexpr unsigned many(unsigned wanted) { return wanted < 2000 ? wanted : 2000; }
  static constexpr unsigned looks = ~0U;
  enum : unsigned { plain, with_spins };
  static std::vector<instance<cuda_fixture>> instances() {
    return {{"cuda", plain}, {"cuda_with_spins", with_spins}};
  }
  static std::vector<known_exception> exceptions() {
    return {{"cancel_keeps_an_op_from_running_that_has_not_begun",
             "a body is called inside submit(): what it enqueued cannot be taken back"}};
  }

  explicit cuda_fixture(unsigned setting = plain) { spins_ = setting == with_spins; }

  void stand_still() {}
  /// BRAID_TEST_ASYNC_MEMORY: with the driver's own stream-ordered memory, whose misuse tools can see.
  std::unique_ptr<runtime> make(runtime_options o) {
    const bool is_async = std::getenv("BRAID_TEST_ASYNC_MEMORY") != nullptr && !o.memory;
    if (is_async) o.memory = cuda::async_source();
    auto made = std::make_unique<runtime>(complete(std::move(o)));
    // compute-sanitizer lets a wait of the host order only streams that are there by then.
    for (std::uint64_t i = 0; is_async && i < 8; ++i) (void)made->engine().lane_of(stream_id{i});
    if (is_async) (void)made->engine().lane_of(stream_id::special(0));
    return made;
  }
  void step() { std::this_thread::yield(); }
  template <class... Bindings>
  gate hold(runtime& rt, const Bindings&... bound) {
    const std::shared_ptr<std::uint32_t> flag(new (test::make_pinned(sizeof(std::uint32_t))) std::uint32_t(0),
                                              &test::free_pinned);
    flags_.push_back(flag);  // the op looks at it until it is over
    rt.submit("hold", bound..., [&](native on, const auto&...) { test::hold(on, flag.get()); });
    return gate([flag] { std::atomic_ref<std::uint32_t>(*flag).store(1); });
  }
  void finish() {}

  static pinned_ints memory(const std::vector<int>& values) { return pinned_ints(values); }

  // The ops of the tests.
  template <class... Args>
  static submission give(runtime& rt, where at, std::string_view label, Args&&... args) {
    return at ? rt.submit(*at, label, std::forward<Args>(args)...)
              : rt.submit(label, std::forward<Args>(args)...);
  }
  static submission fill(runtime& rt, const ints& to, int value, where at = {}) {
    return give(rt, at, "fill", write(to), [value](native on, std::span<int> x) {
      delay(on);
      test::fill(on, x.data(), x.size(), value);
    });
  }
  static submission increment(runtime& rt, const ints& x, where at = {}) {
    return give(rt, at, "increment", read_write(x), [](native on, std::span<int> all) {
      delay(on);
      test::increment(on, all.data(), all.size());
    });
  }
  static submission add(runtime& rt, const ints& to, const ints& from, where at = {}) {
    return give(rt, at, "add", read_write(to), read(from),
                [](native on, std::span<int> x, std::span<const int> y) {
                  delay(on);
                  test::add(on, x.data(), y.data(), x.size());
                });
  }
  static submission assign(runtime& rt, const ints& to, const ints& from, where at = {}) {
    return give(rt, at, "assign", write(to), read(from),
                [](native on, std::span<int> x, std::span<const int> y) {
                  delay(on);
                  test::assign(on, x.data(), y.data(), x.size());
                });
  }
  static submission accumulate_into(runtime& rt, const ints& to, int amount, std::uint32_t tag = 0,
                                    where at = {}) {
    return give(rt, at, "accumulate", accumulate(to, tag), [amount](native on, std::span<int> x) {
      delay(on);
      test::accumulate(on, x.data(), x.size(), amount);
    });
  }
  static submission add_through_scratch(runtime& rt, const ints& x, int value, std::size_t more,
                                        where at = {}) {
    return give(rt, at, "add through scratch", read_write(x), scratch<int>(std::max(x.size(), more)),
                [value](native on, std::span<int> to, std::span<int> from) {
                  test::fill(on, from.data(), from.size(), value);
                  delay(on);
                  test::add(on, to.data(), from.data(), to.size());
                });
  }
  static submission fail(runtime& rt, std::string_view label, const ints& to, where at = {},
                         std::string text = "broken") {
    return give(rt, at, label, write(to),
                [text = std::move(text)](native, std::span<int>) -> void { throw std::runtime_error(text); });
  }

 private:
  /// What nothing orders shall run out of order.
  static void delay(native on) {
    if (!spins_) return;
    static thread_local std::minstd_rand random(12);
    if (random() % 4 == 0) test::spin(on, static_cast<unsigned>(random() % 100));
  }
  static inline std::atomic<bool> spins_{false};
  std::vector<std::shared_ptr<std::uint32_t>> flags_;
};

using sim_fixtures = fixtures<>;
using host_fixtures = fixtures<>;
using all_fixtures = fixtures<cuda_fixture>;

}  // namespace braid::conformance
