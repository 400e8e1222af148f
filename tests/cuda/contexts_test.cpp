#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "cuda/support.hpp"

// What a call leaves current on the thread that makes it: the context that was, or, where there was none,
// that of a device of the runtime or none.

namespace braid::conformance {
namespace {

// Two devices of the imitated driver: the runtime has the first, the program uses the second.
class contexts : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_imitated()) GTEST_SKIP() << "imitated devices only: how many there are is set here";
    driver_function<void(int)>("fake_cuda_devices")(2);
    ours_ = primary(0);
    theirs_ = primary(1);
    before_ = current();
  }
  void TearDown() override {
    if (!is_imitated()) return;
    make_current(before_);
    EXPECT_EQ(driver_function<int(int)>("cuDevicePrimaryCtxRelease_v2")(0), 0);
    EXPECT_EQ(driver_function<int(int)>("cuDevicePrimaryCtxRelease_v2")(1), 0);
    driver_function<void(int)>("fake_cuda_devices")(1);
  }
  static void* primary(int device) {
    void* context = nullptr;
    EXPECT_EQ(driver_function<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device), 0);
    return context;
  }
  static void* current() {
    void* context = nullptr;
    EXPECT_EQ(driver_function<int(void**)>("cuCtxGetCurrent")(&context), 0);
    return context;
  }
  static void make_current(void* context) {
    EXPECT_EQ(driver_function<int(void*)>("cuCtxSetCurrent")(context), 0);
  }

  /// With this one current calls, and looks what is afterwards.
  template <class Call>
  void expect_left_alone(void* context, const char* what, Call&& call) {
    make_current(context);
    call();
    void* const now = current();
    if (context != nullptr) {
      EXPECT_EQ(now, context) << what;
    } else {
      EXPECT_TRUE(now == nullptr || now == ours_) << what;
    }
  }
  /// Whether a body has its device.
  auto increments() {
    return [this](native on, std::span<int> all) {
      EXPECT_EQ(current(), ours_);
      test::increment(on, all.data(), all.size());
    };
  }
  void expect_every_call_leaves_alone(void* context);

  void* ours_ = nullptr;
  void* theirs_ = nullptr;

 private:
  void* before_ = nullptr;
};

void contexts::expect_every_call_leaves_alone(void* context) {
  const auto in = [&](const char* what, auto&& call) { expect_left_alone(context, what, call); };
  auto* const allocations = driver_function<int()>("fake_cuda_living_memory");
  const int before = allocations();
  std::unique_ptr<cuda::runtime> rt;
  std::unique_ptr<cuda::runtime> other;
  buffer<int> x;
  buffer<int> y;
  buffer<int> z;
  in("making a runtime", [&] { rt = make({.devices = {0}}); });
  in("making another", [&] { other = make({.devices = {0}}); });
  in("a buffer of zeros", [&] { x = rt->make_buffer<int>(64, zeroed, "x"); });
  in("fill", [&] { rt->fill(y = rt->make_buffer<int>(64, "y"), 0); });
  in("fill in the other", [&] { other->fill(z = other->make_buffer<int>(64, "z"), 5); });
  for (const std::uint64_t id : {1U, 2U, 1U})
    in("submit", [&] { rt->submit(stream_id{id}, "increment", read_write(x), increments()); });
  in("submit without a stream", [&] { rt->submit("increment", read_write(x), increments()); });
  in("a body that throws", [&] {
    rt->submit("fail", write(y), [](native, std::span<int>) { throw std::runtime_error("broken"); });
  });
  in("read", [&] { EXPECT_EQ(rt->read(x).get(), constant(64, 4)); });
  in("write", [&] { rt->write(y, counting(64)).wait(); });
  {
    std::optional<pinned_ints> host;
    make_current(ours_);
    host.emplace(constant(64, 7));
    in("write without a stage", [&] { rt->write(y, std::span<const int>(*host)).wait(); });
    in("read without a stage", [&] { rt->read(y, std::span<int>(*host)).get(); });
  }
  in("copy", [&] { rt->copy(y, x); });
  in("copy between runtimes", [&] { rt->copy(y, z); });
  in("wait for a buffer", [&] { rt->wait(y); });
  in("wait for a stream", [&] { rt->wait(stream_id{1}); });
  in("synchronize", [&] { rt->synchronize(); });
  in("last_write, last_access and note", [&] {
    const cuda::event written = rt->last_write(x);
    const cuda::event used = rt->last_access(x);
    rt->wait_for(stream_id{3}, used);
    rt->note(read(x), other->last_write(z));
  });
  in("retire", [&] { rt->retire(std::make_unique<int>(1), stream_id{2}); });
  in("adopting streams", [&] {
    rt->adopt(stream_id{5}, rt->backend().adopt(stream_in(*other, 1)));
    rt->submit(stream_id{5}, "increment", read_write(x), increments());
  });
  recording graph;
  in("record", [&] {
    graph = rt->record([&] {
      rt->submit(stream_id{1}, "increment", read_write(x), increments());
      rt->submit(stream_id{2}, "increment", read_write(y), increments());
    });
  });
  EXPECT_TRUE(graph.is_graph());
  in("replay", [&] { graph.replay(2); });
  in("recording what cannot be captured", [&] {
    const recording one_by_one = rt->record([&] {
      rt->submit(stream_id{1}, "waits", read_write(x), [&](native on, std::span<int> all) {
        increments()(on, all);
        test::synchronize(on);
      });
    });
    EXPECT_FALSE(one_by_one.is_graph());
    one_by_one.replay();
  });
  in("memory of the driver", [&] {
    const auto source = cuda::async_source(0);
    void* const data = source->allocate(4096);
    EXPECT_NE(data, nullptr);
    source->free(data, 4096);
  });
  in("a buffer that goes", [&] { y = {}; });
  in("memory that nobody else uses", [&] {
    rt->fill(rt->make_buffer<int>(std::uint64_t{1} << 26, "large"), 1);
    rt->synchronize();
  });
  in("trim", [&] {
    const int held = allocations();
    EXPECT_GT(rt->trim(), 0U);
    EXPECT_LT(allocations(), held);
  });
  in("reading all of it", [&] { EXPECT_EQ(rt->read(x).get(), constant(64, 8)); });
  in("a graph that goes", [&] { graph = {}; });
  in("a runtime that goes", [&] { other.reset(); });
  in("the last runtime that goes", [&] { rt.reset(); });
  EXPECT_EQ(allocations(), before) << "memory was not given back";
}

TEST_F(contexts, another_device_stays_current_in_every_call) {
  expect_every_call_leaves_alone(theirs_);
}

TEST_F(contexts, no_call_needs_a_device_that_is_current) {
  expect_every_call_leaves_alone(nullptr);
}

TEST_F(contexts, a_graph_that_cannot_be_begun_leaves_alone_what_is_current) {
  const auto rt = make({.devices = {0}});
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  auto y = rt->make_buffer<int>(64, zeroed, "y");
  auto* const fail = driver_function<bool(const char*, int, int)>("fake_cuda_fail");
  const auto use_both = [&] {
    rt->submit(stream_id{1}, "increment", read_write(x), increments());
    rt->submit(stream_id{2}, "increment", read_write(y), increments());
  };
  use_both();
  rt->synchronize();
  constexpr int out_of_memory = 2;
  for (const char* const call :
       {"cuStreamBeginCapture", "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"}) {
    expect_left_alone(theirs_, call, [&] {
      fail(call, 0, out_of_memory);
      const recording one_by_one = rt->record(use_both);
      EXPECT_TRUE(fail(nullptr, 0, 0)) << call;
      EXPECT_FALSE(one_by_one.is_graph()) << call;
    });
  }
  EXPECT_EQ(rt->read(x).get(), constant(64, 1));
}

TEST_F(contexts, the_default_stream_that_is_adopted_is_that_of_the_runtime_whatever_is_current) {
  const auto rt = make({.devices = {0}});
  make_current(ours_);
  rt->adopt(stream_id{1}, rt->backend().adopt(native{nullptr}));
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  for (void* const context : {theirs_, static_cast<void*>(nullptr)}) {
    expect_left_alone(context, "submit", [&] {
      rt->submit(stream_id{1}, "increment", read_write(x), increments());
      rt->submit(stream_id{2}, "increment", read_write(x), increments());
      rt->submit(stream_id{1}, "increment", read_write(x), increments());
    });
  }
  make_current(theirs_);
  expect_misuse(misuse::no_device, "does not use", [&] { (void)rt->backend().adopt(native{nullptr}); });
  EXPECT_EQ(rt->read(x).get(), constant(64, 6));
}

}  // namespace
}  // namespace braid::conformance
