#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "braid/trace.hpp"
#include "cuda/support.hpp"

// Streams, events and memory that are the program's own.

namespace braid::conformance {
namespace {

TEST(cuda_interop, a_stream_of_the_program_is_adopted) {
  const auto other = make();  // whose stream stands for the program's
  auto& theirs = other->engine().stream_of(other->engine().lane_of(stream_id{3}));
  const auto rt = make();
  rt->adopt(stream_id{5}, rt->backend().adopt(theirs.native()));
  auto x = rt->make_buffer<int>(8, "x");
  rt->submit(stream_id{5}, "fill", write(x), [&](native on, std::span<int> to) {
    EXPECT_EQ(on, theirs.native());
    test::fill(on, to.data(), to.size(), 7);
  });
  cuda_fixture::increment(*rt, x, stream_id{1});
  EXPECT_EQ(rt->read(x).get(), constant(8, 8));
  expect_misuse(misuse::used_stream, "5",
                [&] { rt->adopt(stream_id{5}, rt->backend().adopt(theirs.native())); });
}

TEST(cuda_interop, a_foreign_access_is_noted_and_waited_for) {
  const auto rt = make();
  const auto other = make();
  auto& theirs = other->engine().stream_of(other->engine().lane_of(stream_id{0}));
  auto x = rt->make_buffer<int>(1024, "x");
  int* data = nullptr;
  rt->submit(stream_id{1}, "fill", write(x), [&](native on, std::span<int> to) {
    data = to.data();
    test::spin(on, 2000);
    test::fill(on, to.data(), to.size(), 1);
  });
  // The program's own stream comes after braid's write, and braid's next op after the program's.
  const cuda::event written = rt->last_write(x);
  other->wait_for(stream_id{0}, cuda::backend::adopt(written.native()));
  test::spin(theirs.native(), 2000);
  test::increment(theirs.native(), data, 1024);
  rt->note(read_write(x), other->backend().record(theirs));
  cuda_fixture::increment(*rt, x, stream_id{2});
  EXPECT_EQ(rt->read(x).get(), constant(1024, 3));
}

TEST(cuda_interop, a_stream_waits_for_an_event_of_the_program) {
  const auto rt = make();
  const auto other = make();
  auto& theirs = other->engine().stream_of(other->engine().lane_of(stream_id{0}));
  const pinned_ints shared(constant(4, 0));
  test::spin(theirs.native(), 2000);
  test::fill(theirs.native(), shared.data(), 4, 9);
  const cuda::event done = other->backend().record(theirs);
  rt->wait_for(stream_id{2}, done);
  auto x = rt->make_buffer<int>(4, "x");
  rt->submit(stream_id{2}, "take", write(x),
             [&](native on, std::span<int> to) { test::assign(on, to.data(), shared.data(), 4); });
  EXPECT_EQ(rt->read(x).get(), constant(4, 9));
}

TEST(cuda_interop, an_event_may_outlive_its_runtime) {
  auto rt = make();
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  const auto waiting = make();
  cuda::event written = rt->last_write(x);
  x = {};
  rt.reset();
  waiting->wait_for(stream_id{0}, written);
  waiting->synchronize();
  EXPECT_TRUE(waiting->backend().is_complete(written));
}

TEST(cuda_interop, a_stream_keeps_its_handles_when_a_runtime_that_adopted_it_goes) {
  static constexpr char key = 0;
  static int made;
  made = 0;
  const auto make_one = [](native) -> void* { return &++made; };
  const auto rt = make();
  native const stream = rt->engine().stream_of(rt->engine().lane_of(stream_id{0})).native();
  {
    const auto other = make();
    other->adopt(stream_id{1}, other->backend().adopt(stream));
  }
  EXPECT_NE(cuda::detail::attachment(stream, &key, make_one, [](void*) {}), nullptr);
  EXPECT_EQ(made, 1);
}

/// A handle of a library, as a stream has them.
struct attached_one {
  static inline int made = 0;
  static inline int alive = 0;
  static constexpr char key = 0;
  static void* of(native on) {
    return cuda::detail::attachment(
        on, &key,
        [](native) -> void* {
          ++made;
          ++alive;
          return &alive;
        },
        [](void*) { --alive; });
  }
};

TEST(cuda_interop, a_handle_is_shared_by_runtimes_that_adopted_its_stream_and_goes_with_the_last) {
  attached_one::made = attached_one::alive = 0;
  const auto theirs = make();  // there is a context
  native stream = nullptr;
  ASSERT_EQ(driver_function<int(native*, unsigned, int)>("cuStreamCreateWithPriority")(&stream, 1, 0), 0);
  auto first = make();
  auto second = make();
  for (cuda::runtime* const rt : {first.get(), second.get()})
    rt->adopt(stream_id{1}, rt->backend().adopt(stream));
  first->submit(stream_id{1}, "make it", [](native on) { (void)attached_one::of(on); });
  EXPECT_EQ(attached_one::made, 1);
  second->submit(stream_id{1}, "use it", [&](native on) {
    (void)attached_one::of(on);
    std::thread([&] { first.reset(); }).join();  // elsewhere in the program
    EXPECT_EQ(attached_one::alive, 1);
  });
  EXPECT_EQ(attached_one::made, 1);
  second.reset();
  EXPECT_EQ(attached_one::alive, 0);
  EXPECT_EQ(driver_function<int(native)>("cuStreamDestroy_v2")(stream), 0);
}

/// Captures what is put on a stream, as a program does.
class capture {
 public:
  explicit capture(native of) : of_(of) {
    EXPECT_EQ(driver_function<int(native, int)>("cuStreamBeginCapture_v2")(of_, 0), 0);
  }
  ~capture() {
    if (!is_over_) (void)end();  // the test has failed
  }
  capture(const capture&) = delete;
  capture& operator=(const capture&) = delete;
  /// Whether nobody disturbed it.
  bool end() {
    void* graph = nullptr;
    is_over_ = true;
    const int code = driver_function<int(native, void**)>("cuStreamEndCapture")(of_, &graph);
    if (graph != nullptr) (void)driver_function<int(void*)>("cuGraphDestroy")(graph);
    return code == 0;
  }

 private:
  native of_;
  bool is_over_ = false;
};

TEST(cuda_interop, a_submit_to_a_stream_that_is_captured_is_refused) {
  const auto other = make();
  const auto rt = make();
  const native theirs = stream_in(*other, 0);
  rt->adopt(stream_id{1}, rt->backend().adopt(theirs));
  auto x = rt->make_buffer<int>(4, zeroed, "x");
  rt->synchronize();
  capture of(theirs);
  expect_misuse(misuse::capturing, "captured", [&] { cuda_fixture::increment(*rt, x, stream_id{1}); });
  const cuda::event done = rt->last_write(x);
  expect_misuse(misuse::capturing, "captured", [&] { rt->wait_for(stream_id{1}, done); });
  cuda_fixture::increment(*rt, x, stream_id{2});  // others go on, also with new memory, and are asked
  auto y = rt->make_buffer<int>(std::uint64_t{1} << 22, zeroed, "y");
  EXPECT_EQ(rt->read(x).get(), constant(4, 1));
  rt->wait(y);
  EXPECT_TRUE(of.end());
  cuda_fixture::increment(*rt, x, stream_id{1});
  EXPECT_EQ(rt->read(x).get(), constant(4, 2));
}

/// Everything that a program does with a runtime, while somebody captures.
void use_in_every_way(cuda::runtime& rt, cuda::runtime& other) {
  auto x = rt.make_buffer<int>(64, zeroed, "x");
  auto y = rt.make_buffer<int>(64, "y");
  auto z = other.make_buffer<int>(64, zeroed, "z");
  for (std::uint64_t i = 0; i < 8; ++i) cuda_fixture::increment(rt, x, stream_id{i});  // some are new
  rt.copy(y, x);
  other.copy(z, y);
  bool is_gone = false;
  rt.retire(detail::at_destruction([&]() noexcept { is_gone = true; }), stream_id{3});
  rt.wait_for(stream_id{2}, other.last_access(z));
  rt.note(read(y), other.last_write(z));
  rt.wait(y);
  rt.wait(stream_id{1});
  EXPECT_EQ(other.read(z).get(), constant(64, 8));
  const std::vector<int> much = counting(1 << 20);
  auto large = rt.make_buffer<int>(much.size(), "large");  // with a stage, which is new too
  rt.write(large, much).wait();
  EXPECT_EQ(rt.read(large).get(), much);
  large = {};
  rt.synchronize();
  while (rt.stats().streams.reclaimed < rt.stats().streams.retired) std::this_thread::yield();
  EXPECT_TRUE(is_gone);
  EXPECT_GT(rt.trim(), 0U);
  static constexpr char key = 0;  // as of a library's handle, which has memory
  rt.submit(stream_id{4}, "attach", [](native on) {
    const auto make_one = [](native) -> void* {
      void* made = nullptr;
      EXPECT_EQ(driver_function<int(void**, std::size_t)>("cuMemAlloc_v2")(&made, 4096), 0);
      return made;
    };
    const auto destroy = [](void* made) { EXPECT_EQ(driver_function<int(void*)>("cuMemFree_v2")(made), 0); };
    EXPECT_NE(cuda::detail::attachment(on, &key, make_one, destroy), nullptr);
  });
  const recording graph = rt.record([&] {
    cuda_fixture::increment(rt, x, stream_id{1});
    cuda_fixture::add(rt, y, x, stream_id{2});
  });
  EXPECT_TRUE(graph.is_graph());
  graph.replay(2);
  EXPECT_EQ(rt.read(y).get(), constant(64, 8 + 9 + 10));
  const recording one_by_one = rt.record([&] { cuda_fixture::fail(rt, "broken", x); });
  EXPECT_FALSE(one_by_one.is_graph());
}

TEST(cuda_interop, a_capture_elsewhere_is_disturbed_by_nothing) {
  const auto program = make();  // whose streams stand for the program's
  const auto rt = make();
  const auto other = make();
  const native theirs = stream_in(*program, 0);
  program->synchronize();
  const std::string file = ::testing::TempDir() + "braid_cuda_beside_" + std::to_string(::getpid()) + ".json";
  const auto use = [&] {
    use_in_every_way(*rt, *other);
    const auto another = make();
    use_in_every_way(*another, *rt);
    auto x = rt->make_buffer<int>(64, zeroed, "x");
    tracing trace(file);  // by events where there is no CUPTI
    cuda_fixture::increment(*rt, x, stream_id{1});
    rt->wait(x);
    trace.stop();
    const auto source = cuda::async_source();
    void* const block = source->allocate(4096);
    EXPECT_NE(block, nullptr);
    source->free(block, 4096);
  };
  {
    capture of(theirs);  // of this thread
    use();
    EXPECT_TRUE(of.end());
  }
  {
    capture of(theirs);  // of another one
    std::thread(use).join();
    EXPECT_TRUE(of.end());
  }
  {
    auto x = rt->make_buffer<int>(64, zeroed, "x");
    tracing trace(file);
    cuda_fixture::increment(*rt, x, stream_id{1});
    rt->synchronize();
    capture of(theirs);  // only the end of a trace
    std::thread([&] { trace.stop(); }).join();
    EXPECT_TRUE(of.end());
  }
  std::filesystem::remove(file);
  EXPECT_EQ(rt->stats().streams.errors + other->stats().streams.errors, 0U);
}

TEST(cuda_interop, an_event_or_a_copy_on_the_special_stream_is_refused_while_that_is_captured) {
  const auto program = make();
  const auto rt = make();
  const auto other = make();
  const native theirs = stream_in(*program, 0);
  rt->adopt(stream_id::special(0), rt->backend().adopt(theirs));
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  auto y = rt->make_buffer<int>(64, zeroed, "y");
  auto z = other->make_buffer<int>(64, zeroed, "z");
  cuda_fixture::increment(*rt, x, stream_id{2});
  cuda_fixture::increment(*rt, y, stream_id{2});  // the other is not the last one of its stream
  rt->synchronize();
  capture of(theirs);
  expect_misuse(misuse::capturing, "captured", [&] { (void)rt->last_write(x); });
  expect_misuse(misuse::capturing, "captured", [&] { (void)rt->last_access(x); });
  expect_misuse(misuse::capturing, "captured", [&] { other->copy(z, x); });
  EXPECT_TRUE(of.end());
  const cuda::event written = rt->last_write(x);
  rt->backend().wait_event_sync(written);
  other->copy(z, x);
  EXPECT_EQ(other->read(z).get(), constant(64, 1));
}

// It is what the tests above stand on.
TEST(cuda_interop, a_call_that_a_capture_would_not_notice_ends_it) {
  const auto program = make();
  auto* const query = driver_function<int(cuda::native_event)>("cuEventQuery");
  const native theirs = stream_in(*program, 0);
  const cuda::event done =
      program->backend().record(program->engine().stream_of(program->engine().lane_of(stream_id{1})));
  test::synchronize(stream_in(*program, 1));
  constexpr int capture_unsupported = 900;
  capture of(theirs);
  EXPECT_EQ(query(done.native()), capture_unsupported);
  EXPECT_FALSE(of.end());
  capture again(theirs);
  std::thread([&] { EXPECT_EQ(query(done.native()), capture_unsupported); }).join();
  EXPECT_FALSE(again.end());
  EXPECT_EQ(query(done.native()), 0);
}

// What others need of an adopted stream was recorded when it was submitted.
TEST(cuda_interop, a_capture_is_not_disturbed_by_those_who_need_what_was_before_it) {
  const auto other = make();
  const auto rt = make();
  const native theirs = stream_in(*other, 0);
  rt->adopt(stream_id{1}, rt->backend().adopt(theirs));
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  for (int round = 0; round < 3; ++round) {
    rt->fill(x, 0);
    rt->submit(stream_id{1}, "before the capture", read_write(x), [](native on, std::span<int> all) {
      test::spin(on, 2000);
      test::increment(on, all.data(), all.size());
    });
    bool is_gone = false;
    capture of(theirs);
    cuda_fixture::increment(*rt, x, stream_id{2});
    rt->retire(detail::at_destruction([&]() noexcept { is_gone = true; }), stream_id{1});
    EXPECT_EQ(rt->read(x).get(), constant(64, 2));
    rt->synchronize();
    EXPECT_TRUE(of.end());
    rt->synchronize();
    while (rt->stats().streams.reclaimed < rt->stats().streams.retired) std::this_thread::yield();
    EXPECT_TRUE(is_gone);
  }
  EXPECT_EQ(rt->stats().streams.errors, 0U);
}

TEST(cuda_interop, ops_that_repeat_on_an_adopted_stream_are_refused_in_a_capture_too) {
  const auto other = make();
  const auto rt = make({.deterministic = false});
  const native theirs = stream_in(*other, 0);
  rt->adopt(stream_id{1}, rt->backend().adopt(theirs));
  auto x = rt->make_buffer<int>(4, zeroed, "x");
  const auto again = [&] {
    rt->submit(stream_id{1}, "again", read_write(x),
               [](native on, std::span<int> all) { test::increment(on, all.data(), all.size()); });
  };
  for (int i = 0; i < 500; ++i) again();
  capture of(theirs);
  expect_misuse(misuse::capturing, "captured", again);
  EXPECT_EQ(rt->read(x).get(), constant(4, 500));
  EXPECT_TRUE(of.end());
}

TEST(cuda_interop, the_default_stream_may_be_adopted) {
  const auto rt = make();
  rt->adopt(stream_id{1}, rt->backend().adopt(native{nullptr}));
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  for (int i = 0; i < 50; ++i) {
    cuda_fixture::increment(*rt, x, stream_id{1});
    cuda_fixture::increment(*rt, x, stream_id{2});
  }
  // Of the right device, whatever the thread has used.
  std::thread([&] { cuda_fixture::increment(*rt, x, stream_id{1}); }).join();
  EXPECT_EQ(rt->read(x).get(), constant(64, 101));
  rt->wait(stream_id{1});
}

TEST(cuda_interop, what_cannot_be_adopted_is_refused) {
  const auto rt = make();
  const native per_thread = reinterpret_cast<native>(std::uintptr_t{2});
  expect_misuse(misuse::null_resource, "cudaStreamPerThread", [&] { (void)rt->backend().adopt(per_thread); });
  expect_misuse(misuse::null_resource, "cudaEventRecord",
                [&] { (void)cuda::backend::adopt(cuda::native_event{nullptr}); });
}

TEST(cuda_interop, memory_that_is_registered_in_part_only_goes_through_a_stage) {
  const auto rt = make();
  constexpr std::size_t page = 4096 / sizeof(int);
  std::vector<int> room(5 * page);
  void* aligned = room.data();
  std::size_t left = room.size() * sizeof(int);
  int* const data = static_cast<int*>(std::align(4096, 4 * page * sizeof(int), aligned, left));
  ASSERT_NE(data, nullptr);
  std::span<int> all(data, 4 * page);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int> expected(all.begin(), all.end());
  auto x = rt->make_buffer<int>(all.size(), zeroed, "x");
  rt->synchronize();
  for (const std::size_t first : {std::size_t{0}, 2 * page}) {  // the end is not, or the beginning
    ASSERT_EQ(driver_function<int(void*, std::size_t, unsigned)>("cuMemHostRegister_v2")(
                  data + first, 2 * page * sizeof(int), 0),
              0);
    rt->fill(x, 0);
    rt->write_from(x, std::span<const int>(all));
    EXPECT_EQ(rt->read(x).get(), expected);
    std::ranges::fill(all, 0);
    rt->read(x, all).get();
    EXPECT_TRUE(std::ranges::equal(all, expected));
    rt->synchronize();
    EXPECT_EQ(driver_function<int(void*)>("cuMemHostUnregister")(data + first), 0);
  }
}

template <std::size_t Size>
void fill_at_every_address(cuda::runtime& rt) {
  using value = std::array<char, Size>;
  const pinned_ints room(constant(5000 * Size / sizeof(int), 0));
  auto* const bytes = reinterpret_cast<char*>(room.data());
  value uniform{};
  value mixed{};
  uniform.fill('u');
  for (std::size_t i = 0; i < Size; ++i) mixed[i] = static_cast<char>('a' + i);
  for (std::size_t at = 0; at < 8; ++at) {
    for (const value& each : {uniform, mixed}) {
      const std::span<value> all(reinterpret_cast<value*>(bytes + at), 4990);
      {
        auto x = rt.adopt(all, "x");
        rt.fill(x, each);
        rt.wait(x);
      }
      EXPECT_EQ(std::ranges::count(all, each), 4990) << Size << " bytes at " << at;
      rt.synchronize();
    }
  }
}

TEST(cuda_interop, adopted_memory_may_begin_at_any_address) {
  const auto rt = make();
  fill_at_every_address<2>(*rt);
  fill_at_every_address<4>(*rt);
  fill_at_every_address<8>(*rt);
  fill_at_every_address<12>(*rt);
}

TEST(cuda_interop, who_writes_past_braid_comes_after_all_accesses) {
  const auto rt = make();
  const auto other = make();
  auto& theirs = other->engine().stream_of(other->engine().lane_of(stream_id{0}));
  auto x = rt->make_buffer<int>(1024, "x");
  auto y = rt->make_buffer<int>(1024, "y");
  int* data = nullptr;
  rt->submit(stream_id{1}, "fill", write(x), [&](native on, std::span<int> to) {
    data = to.data();
    test::fill(on, to.data(), to.size(), 1);
  });
  rt->submit(stream_id{2}, "slow reader", read(x), write(y),
             [](native on, std::span<const int> from, std::span<int> to) {
               test::spin(on, 3000);
               test::assign(on, to.data(), from.data(), to.size());
             });
  const cuda::event used = rt->last_access(x);
  other->wait_for(stream_id{0}, cuda::backend::adopt(used.native()));
  test::fill(theirs.native(), data, 1024, 5);
  rt->note(write(x), other->backend().record(theirs));
  EXPECT_EQ(rt->read(y).get(), constant(1024, 1));
  EXPECT_EQ(rt->read(x).get(), constant(1024, 5));
}

}  // namespace
}  // namespace braid::conformance
