#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "braid/trace.hpp"
#include "cuda/support.hpp"

// What goes wrong: a device that is lost, a child of fork(), no memory, a driver that has gone.

namespace braid::conformance {
namespace {

// In the child: whether all that needs the device says what is wrong, and nothing is got from it.
int look_in_child(std::unique_ptr<cuda::runtime>& rt, buffer<int>& x, future<std::vector<int>>& pending,
                  future<std::vector<int>>& held) {
  int wrong = 0;
  const auto expect_forked = [&](int number, auto&& call) {
    try {
      call();
    } catch (const usage_error& e) {
      if (e.kind() == misuse::forked) return;
    } catch (...) {
      // of something else
    }
    wrong = wrong == 0 ? number : wrong;
  };
  expect_forked(1, [&] { cuda_fixture::increment(*rt, x); });
  expect_forked(2, [&] { rt->synchronize(); });
  expect_forked(3, [&] { rt->wait(x); });
  expect_forked(4, [&] { rt->wait(stream_id{1}); });
  expect_forked(5, [&] { held.wait(); });
  expect_forked(6, [&] { (void)rt->read(x).get(); });
  expect_forked(7, [&] { (void)rt->last_write(x); });
  expect_forked(8, [&] { rt->fill(x, 1); });
  expect_forked(9, [&] { (void)make(); });
  expect_forked(10, [&] { (void)cuda::devices(); });
  std::vector<int> host(64);
  expect_forked(11, [&] { (void)rt->read(x, std::span<int>(host)); });
  expect_forked(12, [&] { rt->write_from(x, std::vector<int>(64)); });
  expect_forked(13, [&] { (void)rt->record([&] { cuda_fixture::increment(*rt, x, stream_id{1}); }); });
  expect_forked(14, [&] { (void)rt->adopt(std::span<int>(host), "host"); });
  expect_forked(15, [&] { (void)rt->backend().adopt(native{nullptr}); });
  expect_forked(16, [&] { (void)rt->stats(); });
  expect_forked(17, [&] { (void)rt->trim(); });
  expect_forked(18, [&] { (void)held.wait_for(std::chrono::milliseconds(1)); });
  x = {};
  pending = {};
  held = {};
  rt.reset();
  return wrong;
}

TEST(cuda_faults, a_forked_child_is_told_so) {
  auto rt = make();
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  cuda_fixture::increment(*rt, x, stream_id{1});
  rt->synchronize();
  auto y = rt->make_buffer<int>(64, zeroed, "y");
  rt->synchronize();
  auto pending = rt->read(x);
  const pinned_ints flag({0});
  rt->submit(stream_id{2}, "held", read_write(y), [&](native on, std::span<int>) {
    test::hold(on, reinterpret_cast<const std::uint32_t*>(flag.data()));
  });
  auto held = rt->read(y);
  const pid_t child = fork();
  if (child == 0) _exit(look_in_child(rt, x, pending, held));
  int status = 0;
  waitpid(child, &status, 0);
  std::atomic_ref<int>(flag[0]).store(1);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the number of the call";
  EXPECT_EQ(pending.get(), constant(64, 1));
  EXPECT_EQ(held.get(), constant(64, 0));
}

TEST(cuda_faults, memory_that_is_refused_is_told_with_the_call_and_its_error) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(std::uint64_t{1} << 44, "too much");
  try {
    rt->fill(x, 1);
    ADD_FAILURE() << "64 TiB were there";
  } catch (const out_of_memory& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << text;
    EXPECT_EQ(text.find("raise the limit"), std::string::npos) << "there is none: " << text;
  }
}

// Each in a process of its own, which is beyond use afterwards.

/// What is thrown, if it is as it should be.
template <class Call>
std::string text_of_loss(Call&& call) {
  try {
    call();
  } catch (const cuda::device_lost& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("not device_lost: ") + e.what();
  }
  return "nothing was thrown";
}

[[noreturn]] void end_child(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::_Exit(0);
}

TEST(cuda_lost_device_DeathTest, every_op_and_every_wait_fails_with_one_error_and_nothing_hangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_child = [] {
    std::string first;
    {
      const auto rt = make();
      auto x = rt->make_buffer<int>(64, zeroed, "x");
      auto y = rt->make_buffer<int>(64, zeroed, "y");
      for (int i = 0; i < 40; ++i)
        rt->submit(stream_id{1}, "long over", read(x), [](native, std::span<const int>) {});
      (void)rt->read(x).get();  // there is a stage now: it needs no new one when the device may be lost
      rt->synchronize();
      const submission culprit = rt->submit(stream_id{1}, "the culprit", read_write(x),
                                            [](native on, std::span<int>) { test::fault(on); });
      auto pending = rt->read(x);
      const std::string error = first = text_of_loss([&] { rt->synchronize(); });
      if (error.find("'the culprit'") == std::string::npos) first = "no label: " + error;
      if (error.find("'long over'") != std::string::npos) first = "not in flight: " + error;
      const auto expect_same = [&](const char* what, auto&& call) {
        if (const std::string text = text_of_loss(call); text != error)
          first = std::string(what) + ": " + text;
      };
      expect_same("a pending read", [&] { (void)pending.get(); });
      for (int i = 0; i < 2; ++i) {
        expect_same("synchronize", [&] { rt->synchronize(); });
        expect_same("wait for a stream", [&] { rt->wait(stream_id{1}); });
        expect_same("wait for a buffer", [&] { rt->wait(x); });
        expect_same("wait for the op", [&] { culprit.wait(); });
      }
      std::thread([&] { expect_same("another thread", [&] { rt->wait(x); }); }).join();
      cuda_fixture::increment(*rt, y, stream_id{2});
      expect_same("a later read", [&] { (void)rt->read(y).get(); });
      auto large = rt->make_buffer<int>(std::uint64_t{1} << 26, "large");
      expect_same("new memory", [&] {
        rt->fill(large, 1);
        rt->wait(large);
      });
      const std::vector<int> host(std::size_t{1} << 24);
      auto written = rt->make_buffer<int>(host.size(), "written");
      expect_same("a stage", [&] { rt->write(written, host).wait(); });
      (void)rt->shutdown(std::chrono::seconds(10));
    }
    end_child(first);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0),
              "^the CUDA device is lost: cu.*in flight: .*'the culprit'");
}

TEST(cuda_lost_device_DeathTest, it_is_no_fault_of_the_body_that_learns_of_it_first) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_child = [] {
    std::string text;
    {
      const auto rt = make();
      auto x = rt->make_buffer<int>(64, zeroed, "x");
      auto y = rt->make_buffer<int>(64, zeroed, "y");
      cuda_fixture::increment(*rt, y, stream_id{2});
      (void)rt->read(y).get();  // there are streams and a stage now
      rt->synchronize();
      rt->submit(stream_id{1}, "the culprit", read_write(x),
                 [](native on, std::span<int>) { test::fault(on); });
      rt->submit(stream_id{2}, "the innocent", read_write(y), [&](native, std::span<int>) {
        test::synchronize(stream_in(*rt, 1));  // throws what the driver says
      });
      text = text_of_loss([&] { (void)rt->read(y).get(); });
      if (text != text_of_loss([&] { rt->synchronize(); })) text = "another one";
    }
    end_child(text);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0),
              "^the CUDA device is lost: .*in flight: .*'the culprit'");
}

// As at the end of a process whose runtime is a static variable.
TEST(cuda_lost_device_DeathTest, a_driver_that_has_gone_is_no_crash) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it goes when it is told to";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_child = [] {
    {
      auto rt = make();
      auto x = rt->make_buffer<int>(64, zeroed, "x");
      for (std::uint64_t i = 0; i < 20; ++i) cuda_fixture::increment(*rt, x, stream_id{i % 3});
      const auto pending = rt->read(x);
      rt->synchronize();
      cuda_fixture::increment(*rt, x, stream_id{1});
      rt->retire(std::make_unique<int>(1), stream_id{1});
      driver_function<void()>("fake_cuda_unload")();
    }
    end_child("it went");
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0), "it went");
}

TEST(cuda_lost_device_DeathTest, a_driver_that_goes_before_a_static_runtime_is_no_crash) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it goes when it is told to";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_child = [] {
    static constexpr char key = 0;
    static const auto last = detail::at_destruction([]() noexcept { std::fprintf(stderr, "it went\n"); });
    static std::optional<cuda::event> outlives_it;
    static const std::unique_ptr<cuda::runtime> rt = make();
    static auto x = rt->make_buffer<int>(64, zeroed, "x");
    static const recording graph = rt->record([&] { cuda_fixture::increment(*rt, x, stream_id{2}); });
    rt->submit(stream_id{0}, "attach", [](native on) {
      // A library's handle, which nobody may destroy without the driver.
      (void)cuda::detail::attachment(
          on, &key, [](native) -> void* { return &x; },
          [](void*) { std::fprintf(stderr, "a handle went too late\n"); });
    });
    for (std::uint64_t i = 0; i < 20; ++i) cuda_fixture::increment(*rt, x, stream_id{i % 3});
    graph.replay();
    rt->retire(std::make_unique<int>(1), stream_id{1});
    outlives_it = rt->last_write(x);
    (void)std::atexit(driver_function<void()>("fake_cuda_unload"));  // comes before what was made until now
    std::exit(0);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0), "^it went\n$");
}

TEST(cuda_lost_device_DeathTest, with_a_driver_that_has_gone_all_is_over) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it goes when it is told to";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_child = [] {
    std::string text = "it is over";
    {
      const auto rt = make();
      auto x = rt->make_buffer<int>(64, zeroed, "x");
      cuda_fixture::increment(*rt, x, stream_id{1});
      rt->synchronize();
      const cuda::event done = rt->last_write(x);
      rt->retire(std::make_unique<int>(1), stream_id{1});
      driver_function<void()>("fake_cuda_unload")();
      try {
        if (!rt->backend().is_complete(done)) text = "it is not over";
        rt->backend().wait_event_sync(done);
      } catch (const std::exception& e) {
        text = e.what();
      }
    }
    end_child(text);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0), "^it is over\n$");
}

TEST(cuda_faults, a_loss_that_a_body_is_the_first_to_learn_of_is_one) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  auto y = rt->make_buffer<int>(64, zeroed, "y");
  rt->synchronize();
  constexpr int illegal_address = 700;
  rt->submit(stream_id{1}, "learns of it", read_write(x),
             [](native, std::span<int>) { throw cuda::error(illegal_address, "what a library says"); });
  const std::string text = text_of_loss([&] { (void)rt->read(x).get(); });
  EXPECT_NE(text.find("the CUDA device is lost: what a library says"), std::string::npos) << text;
  EXPECT_EQ(text_of_loss([&] { rt->wait(y); }), text);
}

TEST(cuda_faults, a_loss_that_an_allocation_is_the_first_to_learn_of_is_one) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it fails when it is told to";
  const auto rt = make();
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  rt->synchronize();
  auto* const fail = driver_function<bool(const char*, int, int)>("fake_cuda_fail");
  constexpr int illegal_address = 700;
  fail("cuMemAlloc", 0, illegal_address);
  const std::string text = text_of_loss([&] {
    auto large = rt->make_buffer<int>(std::uint64_t{1} << 26, "large");
    rt->fill(large, 1);
    rt->wait(large);
  });
  EXPECT_TRUE(fail(nullptr, 0, 0));
  EXPECT_NE(text.find("the CUDA device is lost: cuMemAlloc: CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos)
      << text;
  EXPECT_EQ(text_of_loss([&] { rt->wait(x); }), text);
}

TEST(cuda_faults, an_event_that_could_not_be_recorded_because_of_a_loss_is_not_given_out) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it fails when it is told to";
  auto* const fail = driver_function<bool(const char*, int, int)>("fake_cuda_fail");
  constexpr int illegal_address = 700;
  for (const char* const call : {"cuEventCreate", "cuEventRecord"}) {
    const auto rt = make();
    auto x = rt->make_buffer<int>(64, zeroed, "x");
    rt->synchronize();
    fail(call, 0, illegal_address);
    const std::string text = text_of_loss([&] { (void)rt->last_write(x); });
    EXPECT_TRUE(fail(nullptr, 0, 0)) << call;
    EXPECT_NE(text.find("the CUDA device is lost"), std::string::npos) << call << ": " << text;
  }
}

TEST(cuda_faults, a_loss_that_a_copy_is_the_first_to_learn_of_leaves_the_other_runtime_as_it_was) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it fails when it is told to";
  auto* const fail = driver_function<bool(const char*, int, int)>("fake_cuda_fail");
  constexpr int illegal_address = 700;
  for (const char* const call : {"cuEventCreate", "cuEventRecord"}) {
    const auto rt = make();
    auto to = rt->make_buffer<int>(64, zeroed, "to");
    const auto other = make();
    auto from = other->make_buffer<int>(64, zeroed, "from");
    rt->synchronize();
    other->synchronize();
    fail(call, 0, illegal_address);
    const std::string text = text_of_loss([&] { rt->copy(to, from); });
    EXPECT_TRUE(fail(nullptr, 0, 0)) << call;
    EXPECT_NE(text.find("the CUDA device is lost"), std::string::npos) << call << ": " << text;
    EXPECT_EQ(text_of_loss([&] { other->wait(from); }), text);
    cuda_fixture::increment(*rt, to);
    EXPECT_EQ(rt->read(to).get(), constant(64, 1)) << call;
  }
}

// Whatever call fails: who writes to the source next does not disturb a copy that was given.
TEST(cuda_faults, a_copy_whose_source_cannot_be_told_of_it_is_over_when_that_is_thrown) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it fails when it is told to";
  auto* const once = driver_function<bool(const char*, int, int)>("fake_cuda_fail");
  auto* const from_then_on = driver_function<bool(const char*, int, int)>("fake_cuda_keep_failing");
  constexpr int out_of_memory = 2;
  int late = 0;  // the copy was made, and an error was thrown
  for (const auto& [call, fail] :
       {std::pair("cuEventCreate", once), std::pair("cuEventRecord", once),
        std::pair("cuEventCreate", from_then_on), std::pair("cuEventRecord", from_then_on)}) {
    bool is_thrown = true;
    for (int skip = 0; is_thrown; ++skip) {
      is_thrown = false;
      const auto rt = make();
      const auto other = make();
      auto from = other->make_buffer<int>(64, "from");
      auto to = rt->make_buffer<int>(64, "to");
      cuda_fixture::fill(*other, from, 1, stream_id{1});
      other->synchronize();
      rt->submit(stream_id{1}, "slow", write(to), [](native on, std::span<int> all) {
        test::spin(on, 10'000);
        test::fill(on, all.data(), all.size(), 5);
      });
      fail(call, skip, out_of_memory);
      try {
        rt->copy(to, from);
      } catch (const cuda::error&) {
        is_thrown = true;
      }
      EXPECT_EQ(fail(nullptr, 0, 0), is_thrown) << call;
      cuda_fixture::fill(*other, from, 9, stream_id{1});
      other->synchronize();
      const std::vector<int> got = rt->read(to).get();
      EXPECT_TRUE(got == constant(64, 1) || (is_thrown && got == constant(64, 5)))
          << got[0] << ", " << call << ' ' << skip;
      late += is_thrown && got == constant(64, 1) ? 1 : 0;
    }
  }
  EXPECT_EQ(late, 4);
}

TEST(cuda_lost_device_DeathTest, ops_whose_labels_are_not_kept_are_counted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_child = [] {
    std::string text;
    {
      const auto rt = make();
      auto x = rt->make_buffer<int>(64, zeroed, "x");
      rt->synchronize();
      for (int i = 0; i < 5000; ++i) (void)detail::label_ref::of("label " + std::to_string(i));
      for (int i = 0; i < 2; ++i) {
        rt->submit(stream_id{1}, "the culprit " + std::to_string(i), read_write(x),
                   [](native on, std::span<int>) { test::fault(on); });
      }
      text = text_of_loss([&] { rt->synchronize(); });
    }
    end_child(text);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0),
              "^the CUDA device is lost: .*in flight: .*2 whose labels are not kept");
}

// In a child of fork(): what asks the driver for something, told by its name.
class child_calls {
 public:
  template <class Call>
  void expect_none(const char* what, Call&& call) {
    const int before = count_();
    try {
      call();
    } catch (const std::exception&) {
      // a_forked_child_is_told_so looks at what it is told
    }
    if (count_() == before) return;
    std::fprintf(stderr, "it asks the driver: %s\n", what);
    ++wrong_;
  }
  [[noreturn]] void end() const { _exit(wrong_); }

 private:
  int (*count_)() = driver_function<int()>("fake_cuda_calls_in_child");
  int wrong_ = 0;
};

/// Two runtimes and what belongs to them.
struct things {
  std::unique_ptr<cuda::runtime> rt = make();
  std::unique_ptr<cuda::runtime> other = make();
  buffer<int> x = rt->make_buffer<int>(64, zeroed, "x");
  buffer<int> y = other->make_buffer<int>(64, zeroed, "y");
  std::shared_ptr<memory_source> source = cuda::async_source();
  void* block = source->allocate(4096);
  recording graph = rt->record([&] { cuda_fixture::increment(*rt, x, stream_id{1}); });
  future<std::vector<int>> pending = rt->read(x);
  std::optional<cuda::event> written = rt->last_write(x);
  std::optional<cuda::event> of_one_that_has_gone;
  things() {
    {
      const auto gone = make();
      auto z = gone->make_buffer<int>(64, zeroed, "z");
      gone->record([&] { cuda_fixture::increment(*gone, z, stream_id{1}); }).replay();
      of_one_that_has_gone = gone->last_write(z);
    }
    static constexpr char key = 0;
    rt->submit(stream_id{1}, "attach", [](native on) {
      (void)cuda::detail::attachment(
          on, &key, [](native stream) -> void* { return stream; },
          [](void* stream) { test::synchronize(static_cast<native>(stream)); });
    });
    rt->retire(std::make_unique<int>(1), stream_id{1});
    rt->synchronize();
    other->synchronize();
  }
};

/// Calls it in a child, after fork().
template <class Call>
void expect_none_of_a_child(Call&& in_child) {
  const auto all = std::make_unique<things>();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // one that waits for a stream would do so for good
    child_calls calls;
    in_child(*all, calls);
    calls.end();
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "so many asked the driver";
  all->source->free(all->block, 4096);
}

TEST(cuda_faults, what_goes_in_a_forked_child_asks_nothing_of_the_driver) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it counts what a child asks for";
  expect_none_of_a_child([](things& all, child_calls& calls) {
    std::vector<int> host(64);
    calls.expect_none("a read", [&] { (void)all.rt->read(all.x, std::span<int>(host)); });
    calls.expect_none("a write", [&] { all.rt->write_from(all.x, std::vector<int>(64)); });
    calls.expect_none("a recording", [&] {
      (void)all.rt->record([&] { cuda_fixture::increment(*all.rt, all.x, stream_id{6}); });
    });
    calls.expect_none("adopting memory", [&] { (void)all.rt->adopt(std::span<int>(host), "host"); });
    calls.expect_none("adopting a stream", [&] { (void)all.rt->backend().adopt(native{nullptr}); });
    calls.expect_none("statistics", [&] { (void)all.rt->stats(); });
    calls.expect_none("trim", [&] { (void)all.rt->trim(); });
    calls.expect_none("a look at memory", [&] { (void)all.rt->backend().is_reachable(host.data(), 4); });
    calls.expect_none("a handle", [&] {
      (void)cuda::detail::attachment(
          nullptr, &host, [](native) -> void* { return nullptr; }, [](void*) {});
    });
    calls.expect_none("a future", [&] { all.pending = {}; });
    calls.expect_none("an event", [&] { all.written.reset(); });
    calls.expect_none("an event of a runtime that has gone", [&] { all.of_one_that_has_gone.reset(); });
    calls.expect_none("a graph", [&] { all.graph = {}; });
    calls.expect_none("a buffer", [&] { all.x = {}; });
    calls.expect_none("a block of the driver's memory", [&] { all.source->free(all.block, 4096); });
    calls.expect_none("the driver's memory", [&] { all.source.reset(); });
    calls.expect_none("a runtime", [&] { all.rt.reset(); });
    calls.expect_none("a runtime, before what belongs to it", [&] { all.other.reset(); });
    calls.expect_none("a buffer of one that has gone", [&] { all.y = {}; });
  });
}

/// Its pool holds its lock for as long as it is slow.
class slow_memory final : public memory_source {
 public:
  void* allocate(std::uint64_t bytes) noexcept override {
    for (is_inside = is_slow.load(); is_slow;) std::this_thread::yield();
    return from_->allocate(bytes);
  }
  void free(void* data, std::uint64_t bytes) noexcept override { from_->free(data, bytes); }
  [[nodiscard]] const char* name() const noexcept override { return "slow"; }
  std::atomic<bool> is_slow{false};
  std::atomic<bool> is_inside{false};

 private:
  std::shared_ptr<memory_source> from_ = cuda::backend().memory();
};

TEST(cuda_faults, a_forked_child_hangs_in_no_lock_that_another_thread_held) {
  const auto source = std::make_shared<slow_memory>();
  auto rt = make({.memory = source});
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  auto large = rt->make_buffer<int>(std::uint64_t{1} << 24, "large");
  auto larger = rt->make_buffer<int>(std::uint64_t{1} << 25, "larger");
  rt->synchronize();
  const std::string file = ::testing::TempDir() + "braid_cuda_forked_" + std::to_string(::getpid()) + ".json";
  source->is_slow = true;
  std::thread taking([&] { rt->fill(large, 1); });
  while (!source->is_inside) std::this_thread::yield();
  // A trace that begins asks how much memory there is, under its own lock.
  std::thread tracing_it([&] { const tracing trace(file); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // or it holds the lock in fewer cases
  std::vector<int> host(64);
  const std::vector<std::function<void()>> calls = {
      [&] { (void)rt->stats(); },
      [&] { (void)rt->trim(); },
      [&] { (void)rt->adopt(std::span<int>(host), "host"); },
      [&] { (void)rt->record([&] { rt->fill(larger, 1); }); },
      [&] { (void)rt->read(x, std::span<int>(host)); },
      [&] { rt->write_from(x, std::vector<int>(64)); },
      [&] { rt.reset(); },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const pid_t child = fork();
    if (child == 0) {
      (void)alarm(5);  // ends a child that hangs
      try {
        calls[i]();
      } catch (const std::exception&) {
        // a_forked_child_is_told_so looks at what it is told
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "call " << i << " hung";
  }
  source->is_slow = false;
  taking.join();
  tracing_it.join();
  std::filesystem::remove(file);
}

// In some of the forks the threads have the locks.
TEST(cuda_faults, handles_that_go_in_a_forked_child_take_no_lock) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  cuda_fixture::increment(*rt, x, stream_id{1});
  const native stream = stream_in(*rt, 1);
  std::optional<cuda::event> written = rt->last_write(x);
  std::optional<cuda::stream> adopted = rt->backend().adopt(stream);
  static constexpr char key = 0;
  std::atomic<bool> is_over{false};
  std::thread records([&] {
    auto& on = rt->engine().stream_of(rt->engine().lane_of(stream_id{1}));
    for (int i = 0; i < 100'000 && !is_over; ++i) (void)rt->backend().record(on);
  });
  std::thread asks([&] {
    while (!is_over) {
      (void)cuda::detail::attachment(
          stream, &key, [](native on) -> void* { return on; }, [](void*) {});
    }
  });
  for (int i = 0; i < 200; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      (void)alarm(2);  // ends a child that hangs
      written.reset();
      adopted.reset();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status)) {
      ADD_FAILURE() << "it hung";
      break;
    }
  }
  is_over = true;
  records.join();
  asks.join();
}

}  // namespace
}  // namespace braid::conformance
