#include <gtest/gtest.h>

#include <thread>

#include "cuda/support.hpp"

// Which devices a runtime uses, and which of its streams and memory belong to which.

namespace braid::conformance {
namespace {

TEST(cuda_devices, streams_of_several_devices_share_buffers) {
  const auto rt = make({.streams = 4, .devices = {0, 0}});  // one device, taken twice
  std::vector<buffer<int>> all;
  for (std::uint64_t i = 0; i < 4; ++i) {
    all.push_back(rt->make_buffer<int>(1000, "x"));
    cuda_fixture::fill(*rt, all.back(), static_cast<int>(i), stream_id{i});
  }
  for (std::uint64_t i = 1; i < 4; ++i) cuda_fixture::add(*rt, all[0], all[i], stream_id{(i + 1) % 4});
  EXPECT_EQ(rt->read(all[0]).get(), constant(1000, 6));
  EXPECT_EQ(rt->stats().memory.live_blocks, 4U);
  all.clear();
  EXPECT_EQ(rt->stats().memory.live_blocks, 0U);
}

TEST(cuda_devices, a_device_that_is_not_there_is_refused) {
  expect_misuse(misuse::no_device, "numbered from 0", [] { (void)make({.devices = {1000}}); });
}

TEST(cuda_devices, numbers_that_are_none_are_refused) {
  for (const char* wrong : {"first", "1x", "-", "99999999999999999999"}) {
    expect_misuse(misuse::no_device, wrong, [&] { (void)make({.device = wrong}); });
  }
}

// Two devices of the imitated driver, of which none reaches the memory of the other unless that is said.
class two_devices : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_imitated()) GTEST_SKIP() << "imitated devices only: how many there are is set here";
    driver_function<void(int)>("fake_cuda_devices")(2);
  }
  void TearDown() override {
    if (is_imitated()) driver_function<void(int)>("fake_cuda_devices")(1);
  }
  static std::size_t device_of(cuda::runtime& rt, std::uint64_t id) {
    return rt.backend().device_of(rt.engine().stream_of(rt.engine().lane_of(stream_id{id})));
  }
  /// Of the context of the stream, which is current.
  static int device_of_context(native on) {
    void* context = nullptr;
    void* now = nullptr;
    EXPECT_EQ(driver_function<int(native, void**)>("cuStreamGetCtx")(on, &context), 0);
    EXPECT_EQ(driver_function<int(void**)>("cuCtxGetCurrent")(&now), 0);
    EXPECT_EQ(now, context);
    for (const int device : {0, 1}) {
      void* its = nullptr;
      EXPECT_EQ(driver_function<int(void**, int)>("cuDevicePrimaryCtxRetain")(&its, device), 0);
      EXPECT_EQ(driver_function<int(int)>("cuDevicePrimaryCtxRelease_v2")(device), 0);
      if (its == context) return device;
    }
    return -1;
  }
  static int device_of_pointer(const void* p) {
    int ordinal = -1;
    void* values[] = {&ordinal};
    int attributes[] = {9};  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    EXPECT_EQ(driver_function<int(unsigned, int*, void**, std::uint64_t)>("cuPointerGetAttributes")(
                  1, attributes, values, reinterpret_cast<std::uintptr_t>(p)),
              0);
    return ordinal;
  }
};

TEST_F(two_devices, streams_belong_to_devices_by_their_slot) {
  const auto rt = make({.streams = 3, .devices = {0, 1}});
  EXPECT_EQ(device_of(*rt, 4), 1U);  // slot 1
  EXPECT_EQ(device_of(*rt, 3), 0U);  // slot 0
  EXPECT_EQ(device_of(*rt, 2), 0U);
  EXPECT_EQ(device_of(*rt, 1), 1U);
}

TEST_F(two_devices, each_has_memory_and_streams_of_its_own) {
  const auto rt = make({.streams = 4, .devices = {0, 1}});
  std::vector<buffer<int>> all;
  const auto look = [&](std::uint64_t id) {
    all.push_back(rt->make_buffer<int>(std::uint64_t{1} << 20, "x"));
    rt->submit(stream_id{id}, "look", write(all.back()), [&](native on, std::span<int> x) {
      EXPECT_EQ(device_of_context(on), static_cast<int>(id % 2)) << "stream " << id;
      EXPECT_EQ(device_of_pointer(x.data()), static_cast<int>(id % 2)) << "stream " << id;
      test::fill(on, x.data(), x.size(), 1);
    });
  };
  for (std::uint64_t id = 0; id < 4; ++id) look(id);
  for (buffer<int>& x : all) EXPECT_EQ(rt->read(x).get(), constant(x.size(), 1));
  all.clear();
  EXPECT_GT(rt->trim(), 0U);
  look(1);  // new, after all of it was given back
}

TEST_F(two_devices, memory_that_is_adopted_is_of_the_device_that_it_was_allocated_on) {
  const auto rt = make({.streams = 4, .devices = {0, 1}});
  constexpr std::size_t bytes = 4096;
  std::uint64_t theirs = 0;
  rt->submit(stream_id{1}, "allocate", [&](native) {
    EXPECT_EQ(driver_function<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2")(&theirs, bytes), 0);
  });
  {
    auto x = rt->adopt(std::span<int>(reinterpret_cast<int*>(theirs), bytes / sizeof(int)), "theirs");
    cuda_fixture::fill(*rt, x, 3, stream_id{3});
    expect_misuse(misuse::unreachable, "'theirs'", [&] { cuda_fixture::increment(*rt, x, stream_id{2}); });
    EXPECT_EQ(rt->read(x).get(), constant(bytes / sizeof(int), 3));
  }
  rt->synchronize();
  EXPECT_EQ(driver_function<int(std::uint64_t)>("cuMemFree_v2")(theirs), 0);
}

TEST_F(two_devices, memory_that_every_device_reaches_is_used_from_each_when_it_is_adopted) {
  const auto rt = make({.streams = 4, .devices = {0, 1}});
  const pinned_ints pinned(constant(64, 0));
  std::uint64_t managed = 0;
  rt->submit(stream_id{1}, "allocate", [&](native) {
    EXPECT_EQ(driver_function<int(std::uint64_t*, std::size_t, unsigned)>("cuMemAllocManaged")(
                  &managed, 64 * sizeof(int), 1),
              0);
  });
  for (int* const data : {pinned.data(), reinterpret_cast<int*>(managed)}) {
    auto x = rt->adopt(std::span<int>(data, 64), "theirs");
    auto y = rt->make_buffer<int>(64, "y");
    cuda_fixture::fill(*rt, x, 3, stream_id{0});
    cuda_fixture::increment(*rt, x, stream_id{1});
    rt->record([&] { cuda_fixture::increment(*rt, x, stream_id{3}); }).replay();
    cuda_fixture::fill(*rt, y, 1, stream_id{1});
    for (int i = 0; i < 3; ++i) cuda_fixture::add(*rt, y, x);  // goes where the other one is
    EXPECT_EQ(rt->read(x).get(), constant(64, 5));
    EXPECT_EQ(rt->read(y).get(), constant(64, 16));
  }
  rt->synchronize();
  EXPECT_EQ(driver_function<int(std::uint64_t)>("cuMemFree_v2")(managed), 0);
}

TEST_F(two_devices, memory_of_the_host_is_written_and_read_without_a_stage_on_each) {
  const auto rt = make({.streams = 4, .devices = {0, 1}});
  for (const std::uint64_t id : {0U, 1U}) {
    auto x = rt->make_buffer<int>(64, "x");
    cuda_fixture::fill(*rt, x, 1, stream_id{id});
    rt->write_from(x, pinned_ints(constant(64, 3)));
    const pinned_ints to(constant(64, 0));
    rt->read(x, std::span<int>(to.data(), to.size())).get();
    EXPECT_EQ(to, constant(64, 3));
  }
  // With streams of one device only for what belongs to the other.
  const auto single = make({.streams = 4, .placement = placement::single, .devices = {0, 1}});
  auto y = single->make_buffer<int>(64, "y");
  cuda_fixture::fill(*single, y, 1, stream_id{1});
  single->write_from(y, pinned_ints(constant(64, 4)));
  EXPECT_EQ(single->read(y).get(), constant(64, 4));
}

TEST_F(two_devices, a_graph_gives_the_streams_of_one_that_has_gone_to_the_same_device) {
  const auto rt = make({.streams = 4, .devices = {0, 1}});
  auto x = rt->make_buffer<int>(64, "x");
  auto y = rt->make_buffer<int>(64, "y");
  cuda_fixture::fill(*rt, x, 0, stream_id{0});
  cuda_fixture::fill(*rt, y, 0, stream_id{1});
  for (const std::uint64_t id : {0U, 1U, 0U, 3U, 2U}) {
    {
      const recording r = rt->record([&] {
        rt->submit(stream_id{id}, "look", read_write(id % 2 == 0 ? x : y),
                   [&](native on, std::span<int> all) {
                     EXPECT_EQ(device_of_context(on), static_cast<int>(id % 2));
                     test::increment(on, all.data(), all.size());
                   });
      });
      EXPECT_TRUE(r.is_graph());
      r.replay();
      rt->synchronize();
    }
    while (rt->stats().streams.reclaimed < rt->stats().streams.retired) std::this_thread::yield();
  }
  EXPECT_EQ(rt->read(x).get(), constant(64, 3));
  EXPECT_EQ(rt->read(y).get(), constant(64, 2));
}

TEST_F(two_devices, ops_that_name_no_stream_go_where_their_data_is) {
  const auto rt = make({.streams = 8, .devices = {0, 1}});
  for (const std::uint64_t device : {0U, 1U}) {
    auto x = rt->make_buffer<int>(64, "x");
    cuda_fixture::fill(*rt, x, 1, stream_id{2 + device});
    for (int i = 0; i < 12; ++i) {
      auto y = rt->make_buffer<int>(64, "y");
      native used = nullptr;
      rt->submit("use", read(x), write(y), [&](native on, std::span<const int> from, std::span<int> to) {
        used = on;
        test::assign(on, to.data(), from.data(), to.size());
      });
      std::size_t found = 9;
      for (std::uint64_t id = 0; id < 8; ++id)
        if (stream_in(*rt, id) == used) found = device_of(*rt, id);
      EXPECT_EQ(found, device);
      EXPECT_EQ(rt->read(y).get(), constant(64, 1));
    }
    const recording r = rt->record([&] {
      for (int i = 0; i < 6; ++i) {
        rt->submit("recorded", read_write(x),
                   [](native on, std::span<int> all) { test::increment(on, all.data(), all.size()); });
      }
    });
    r.replay();
    EXPECT_EQ(rt->read(x).get(), constant(64, 7));
  }
}

TEST_F(two_devices, memory_that_a_device_cannot_reach_is_refused_and_may_be_copied) {
  const auto rt = make({.streams = 4, .devices = {0, 1}});
  auto x = rt->make_buffer<int>(64, "x");
  auto y = rt->make_buffer<int>(64, "y");
  cuda_fixture::fill(*rt, x, 3, stream_id{0});
  expect_misuse(misuse::unreachable, "'x'", [&] { cuda_fixture::increment(*rt, x, stream_id{1}); });
  cuda_fixture::fill(*rt, y, 4, stream_id{1});
  expect_misuse(misuse::unreachable, "'add' on stream 2 uses 'y'",
                [&] { cuda_fixture::add(*rt, x, y, stream_id{2}); });
  expect_misuse(misuse::unreachable, "'y'",
                [&] { (void)rt->record([&] { cuda_fixture::increment(*rt, y, stream_id{0}); }); });
  rt->copy(y, x);
  cuda_fixture::increment(*rt, y, stream_id{3});
  EXPECT_EQ(rt->read(y).get(), constant(64, 4));
  EXPECT_EQ(rt->read(x).get(), constant(64, 3));
}

TEST_F(two_devices, memory_of_a_device_that_can_be_reached_is_used_from_the_other) {
  driver_function<void(bool)>("fake_cuda_peers")(true);
  const auto end =
      detail::at_destruction([]() noexcept { driver_function<void(bool)>("fake_cuda_peers")(false); });
  for (int i = 0; i < 2; ++i) {  // at the second time it is allowed already
    const auto rt = make({.streams = 4, .devices = {0, 1}});
    auto x = rt->make_buffer<int>(64, "x");
    auto y = rt->make_buffer<int>(64, "y");
    cuda_fixture::fill(*rt, x, 3, stream_id{0});
    cuda_fixture::fill(*rt, y, 4, stream_id{1});
    cuda_fixture::add(*rt, x, y, stream_id{1});
    cuda_fixture::add(*rt, y, x, stream_id{2});
    EXPECT_EQ(rt->read(y).get(), constant(64, 11));
  }
}

}  // namespace
}  // namespace braid::conformance
