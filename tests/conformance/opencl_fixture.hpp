#pragma once

#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "braid/opencl.hpp"
#include "fixture.hpp"

// OpenCL, on the device that opencl.device chooses: PoCL where there is no other.

namespace braid::conformance {

class opencl_fixture {
 public:
  using runtime = opencl::runtime;
  using queue = cl::CommandQueue;
  template <class T>
  using part = opencl::part<T>;
  using ints = buffer_slice<int>;
  static constexpr bool runs_by_itself = true;
  static constexpr unsigned many(unsigned wanted) { return wanted < 2000 ? wanted : 2000; }
  static constexpr unsigned looks = ~0U;
  enum : unsigned { plain, with_spins, with_svm };
  static std::vector<instance<opencl_fixture>> instances() {
    return {{"opencl", plain}, {"opencl_with_spins", with_spins}, {"opencl_svm", with_svm}};
  }
  static std::vector<known_exception> exceptions() {
    std::vector<known_exception> all{
        {"cancel_keeps_an_op_from_running_that_has_not_begun",
         "a body is called inside submit(): what it enqueued cannot be taken back"}};
    if (has_unified_memory()) return all;
    for (const char* test : {"adopted_memory_keeps_its_content_and_gets_what_ops_write",
                             "adopted_memory_may_be_let_go_after_shutdown", "adopting_memory_that_overlaps",
                             "an_owner_of_adopted_memory_need_not_point_to_anything",
                             "an_owner_of_unused_memory_goes_with_its_buffer",
                             "destroying_the_runtime_finishes_what_was_submitted",
                             "destroying_the_runtime_runs_what_follows_and_what_that_submits",
                             "memory_adopted_again_while_work_on_it_is_in_flight_keeps_its_order",
                             "memory_may_be_adopted_again_after_its_buffer_is_gone",
                             "the_owner_of_adopted_memory_is_kept_until_the_work_is_over",
                             "the_owner_of_adopted_memory_is_kept_while_another_runtime_copies_from_it"}) {
      all.push_back({test, "the device has memory of its own: that of the host cannot be adopted"});
    }
    return all;
  }

  explicit opencl_fixture(unsigned setting = plain) : has_svm_(setting == with_svm) {
    spins_ = setting == with_spins;
  }
  /// Why its tests cannot run here; empty if they can.
  [[nodiscard]] std::string unavailable() const {
    try {
      if (has_svm_ && opencl::device_for("").shared_virtual_memory == "none") {
        return "the device has no shared virtual memory";
      }
      return opencl::device_for("").name.empty() ? "a device without a name" : "";
    } catch (const usage_error& e) {
      return e.what();
    }
  }

  void stand_still() {}
  std::unique_ptr<runtime> make(runtime_options o) {
    o.shared_virtual_memory = has_svm_;
    return std::make_unique<runtime>(complete(std::move(o)));
  }
  void step() { std::this_thread::yield(); }
  template <class... Bindings>
  gate hold(runtime& rt, const Bindings&... bound) {
    cl::UserEvent opened(rt.backend().context());
    rt.submit("hold", bound..., [&](queue& on, const auto&...) {
      const std::vector<cl::Event> behind{opened};
      on.enqueueBarrierWithWaitList(&behind);
    });
    return gate([opened, once = std::make_shared<std::once_flag>()]() mutable {
      std::call_once(*once, [&] { opened.setStatus(CL_COMPLETE); });
    });
  }
  void finish() {}

  static std::vector<int> memory(std::vector<int> values) { return values; }

  // The ops of the tests.
  template <class... Args>
  static submission give(runtime& rt, where at, std::string_view label, Args&&... args) {
    return at ? rt.submit(*at, label, std::forward<Args>(args)...)
              : rt.submit(label, std::forward<Args>(args)...);
  }
  static submission fill(runtime& rt, const ints& to, int value, where at = {}) {
    return give(rt, at, "fill", write(to),
                [value](queue& on, const part<int>& x) { run(on, "fill_all", x.size(), x, value); });
  }
  static submission increment(runtime& rt, const ints& x, where at = {}) {
    return give(rt, at, "increment", read_write(x),
                [](queue& on, const part<int>& all) { run(on, "increment_all", all.size(), all); });
  }
  static submission add(runtime& rt, const ints& to, const ints& from, where at = {}) {
    return give(
        rt, at, "add", read_write(to), read(from),
        [](queue& on, const part<int>& x, const part<const int>& y) { run(on, "add_all", x.size(), x, y); });
  }
  static submission assign(runtime& rt, const ints& to, const ints& from, where at = {}) {
    return give(rt, at, "assign", write(to), read(from),
                [](queue& on, const part<int>& x, const part<const int>& y) {
                  run(on, "assign_all", x.size(), x, y);
                });
  }
  static submission accumulate_into(runtime& rt, const ints& to, int amount, std::uint32_t tag = 0,
                                    where at = {}) {
    return give(rt, at, "accumulate", accumulate(to, tag),
                [amount](queue& on, const part<int>& x) { run(on, "accumulate_all", x.size(), x, amount); });
  }
  static submission fail(runtime& rt, std::string_view label, const ints& to, where at = {},
                         std::string text = "broken") {
    return give(rt, at, label, write(to), [text = std::move(text)](queue&, const part<int>&) -> void {
      throw std::runtime_error(text);
    });
  }

 private:
  static bool has_unified_memory() {
    try {
      return opencl::device_for("").has_unified_memory;
    } catch (const usage_error&) {
      return true;  // there is none
    }
  }
  static const opencl::program& kernels() {
    static const opencl::program all(R"(
kernel void fill_all(global int* x, ulong first, int value) { x[first + get_global_id(0)] = value; }
kernel void increment_all(global int* x, ulong first) { x[first + get_global_id(0)]++; }
kernel void add_all(global int* x, ulong first, global const int* y, ulong from) {
  x[first + get_global_id(0)] += y[from + get_global_id(0)];
}
kernel void assign_all(global int* x, ulong first, global const int* y, ulong from) {
  x[first + get_global_id(0)] = y[from + get_global_id(0)];
}
kernel void accumulate_all(global int* x, ulong first, int amount) {
  atomic_add(&x[first + get_global_id(0)], amount);
}
kernel void spin(int rounds) {
  volatile int sum = 0;
  for (int i = 0; i < rounds; ++i) sum += i;
}
)");
    return all;
  }
  template <class T>
  static void set(cl::Kernel& kernel, cl_uint& at, const part<T>& x) {
    if (x.data() != nullptr) {
      kernel.setArg(at++, x.data());
      kernel.setArg(at++, cl_ulong{0});
    } else {
      kernel.setArg(at++, x.buffer());
      kernel.setArg(at++, cl_ulong{x.offset()});
    }
  }
  static void set(cl::Kernel& kernel, cl_uint& at, int value) { kernel.setArg(at++, value); }
  template <class... Args>
  static void run(queue& on, const char* name, std::uint64_t items, const Args&... args) {
    delay(on);
    if (items == 0) return;
    cl::Kernel& kernel = kernels().kernel(on, name);
    cl_uint at = 0;
    (set(kernel, at, args), ...);
    on.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(items));
  }
  /// What nothing orders shall run out of order.
  static void delay(queue& on) {
    if (!spins_) return;
    static thread_local std::minstd_rand random(12);
    if (random() % 4 != 0) return;
    cl::Kernel& spin = kernels().kernel(on, "spin");
    spin.setArg(0, static_cast<int>(random() % 50'000));
    on.enqueueNDRangeKernel(spin, cl::NullRange, cl::NDRange(1));
  }
  static inline std::atomic<bool> spins_{false};
  bool has_svm_;
};

}  // namespace braid::conformance
