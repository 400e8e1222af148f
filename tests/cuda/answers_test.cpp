#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "cuda/support.hpp"

// What a call that fails tells of the work behind it, and what it does not; and what is asked of a driver
// that may not be asked.

namespace braid::conformance {
namespace {

/// Code 900: the driver does not say so of work that failed.
constexpr int capture_unsupported = 900;

/// The imitated driver fails one call, once.
class failing_call {
 public:
  failing_call(const char* call, int code) { set(call, 0, code); }
  ~failing_call() { set(nullptr, 0, 0); }
  failing_call(const failing_call&) = delete;
  failing_call& operator=(const failing_call&) = delete;

 private:
  static void set(const char* call, int skip, int code) {
    (void)driver_function<bool(const char*, int, int)>("fake_cuda_fail")(call, skip, code);
  }
};

TEST(cuda_answers, a_query_that_fails_does_not_say_that_the_work_is_over) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it fails when it is told to";
  const auto rt = make({.deterministic = false});
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  auto z = rt->make_buffer<int>(64, zeroed, "z");
  rt->synchronize();
  std::atomic<bool> is_gone{false};
  const pinned_ints flag({0});
  rt->submit(stream_id{1}, "held", read_write(x), [&](native on, std::span<int> all) {
    test::hold(on, reinterpret_cast<const std::uint32_t*>(flag.data()));
    test::fill(on, all.data(), all.size(), 7);
  });
  {
    const failing_call once("cuEventQuery", capture_unsupported);
    rt->retire(detail::at_destruction([&]() noexcept { is_gone = true; }), stream_id{1});
    while (rt->stats().streams.errors == 0) std::this_thread::yield();
  }
  rt->submit(stream_id{2}, "after", read(x), write(z),
             [](native on, std::span<const int> from, std::span<int> to) {
               test::assign(on, to.data(), from.data(), to.size());
             });
  EXPECT_EQ(rt->stats().streams.waits_for(hazard::read_after_write), 1U);
  EXPECT_FALSE(is_gone);
  std::atomic_ref<int>(flag[0]).store(1);
  EXPECT_EQ(rt->read(z).get(), constant(64, 7));
  while (!is_gone) std::this_thread::yield();
}

TEST(cuda_answers, a_wait_that_fails_does_not_say_that_the_work_is_over) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it fails when it is told to";
  const auto rt = make({.deterministic = false});
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  auto z = rt->make_buffer<int>(64, zeroed, "z");
  rt->synchronize();
  const pinned_ints flag({0});
  rt->submit(stream_id{1}, "held", read_write(x), [&](native on, std::span<int> all) {
    test::hold(on, reinterpret_cast<const std::uint32_t*>(flag.data()));
    test::fill(on, all.data(), all.size(), 7);
  });
  {
    const failing_call once("cuEventSynchronize", capture_unsupported);
    EXPECT_THROW(rt->wait(x), cuda::error);
  }
  rt->submit(stream_id{2}, "after", read(x), write(z),
             [](native on, std::span<const int> from, std::span<int> to) {
               test::assign(on, to.data(), from.data(), to.size());
             });
  EXPECT_EQ(rt->stats().streams.waits_for(hazard::read_after_write), 1U);
  std::atomic_ref<int>(flag[0]).store(1);
  EXPECT_EQ(rt->read(z).get(), constant(64, 7));
  rt->wait(x);
}

TEST(cuda_answers, an_owner_of_noted_memory_stays_while_its_event_cannot_be_asked) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it fails when it is told to";
  const auto rt = make();
  const auto other = make();
  auto& theirs = other->engine().stream_of(other->engine().lane_of(stream_id{0}));
  const pinned_ints mine(constant(8, 0));
  const pinned_ints flag({0});
  std::atomic<bool> is_gone{false};
  {
    auto owner = std::make_shared<detail::at_destruction<std::function<void()>>>([&] { is_gone = true; });
    auto w = rt->adopt(std::span<int>(mine.data(), 8), "w", std::move(owner));
    cuda_fixture::increment(*rt, w, stream_id{1});
    rt->synchronize();
    test::hold(theirs.native(), reinterpret_cast<const std::uint32_t*>(flag.data()));
    rt->note(read(w), other->backend().record(theirs));
  }
  {
    const failing_call once("cuEventQuery", capture_unsupported);
    while (rt->stats().streams.errors == 0) std::this_thread::yield();
  }
  EXPECT_FALSE(is_gone);
  std::atomic_ref<int>(flag[0]).store(1);
  while (!is_gone) std::this_thread::yield();
}

TEST(cuda_answers, what_no_event_could_be_recorded_for_goes_when_its_op_is_over) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it fails when it is told to";
  for (const char* call : {"cuEventCreate", "cuEventRecord"}) {
    const auto rt = make({.marks = mark_policy::lazy});  // the event for the result is the first
    auto x = rt->make_buffer<int>(64, "x");
    cuda_fixture::fill(*rt, x, 3, stream_id{1});
    const failing_call once(call, 2);
    auto followed = rt->read(x).then([](const std::vector<int>& all) { return all; });
    EXPECT_EQ(followed.get(), constant(64, 3)) << call;
    EXPECT_EQ(rt->stats().streams.errors, 1U) << call;
  }
}

// The program captures its stream after braid's op: nothing is recorded there, not even after a call that
// failed.
TEST(cuda_answers, an_event_of_an_adopted_stream_is_not_recorded_again_in_a_capture) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it fails when it is told to";
  for (const bool is_marked : {true, false}) {
    const auto program = make();
    const auto rt = make();
    const native theirs = stream_in(*program, 0);
    rt->adopt(stream_id{1}, rt->backend().adopt(theirs));
    auto x = rt->make_buffer<int>(64, zeroed, "x");
    cuda_fixture::increment(*rt, x, stream_id{1});
    rt->synchronize();
    const pinned_ints flag({0});
    {
      const failing_call once(is_marked ? nullptr : "cuEventRecord", 2);
      rt->submit(stream_id{1}, "held", read_write(x), [&](native on, std::span<int> all) {
        test::hold(on, reinterpret_cast<const std::uint32_t*>(flag.data()));
        test::increment(on, all.data(), all.size());
      });
    }
    ASSERT_EQ(driver_function<int(native, int)>("cuStreamBeginCapture_v2")(theirs, 2), 0);
    if (is_marked) {
      const failing_call once("cuEventSynchronize", 2);
      EXPECT_THROW(rt->wait(x), cuda::error);
      cuda_fixture::increment(*rt, x, stream_id{2});
    } else {
      expect_misuse(misuse::capturing, "captured", [&] { cuda_fixture::increment(*rt, x, stream_id{2}); });
    }
    int status = -1;
    (void)driver_function<int(native, int*)>("cuStreamIsCapturing")(stream_in(*rt, 2), &status);
    EXPECT_EQ(status, 0) << "braid's stream became a part of the capture";
    void* graph = nullptr;
    EXPECT_EQ(driver_function<int(native, void**)>("cuStreamEndCapture")(theirs, &graph), 0);
    if (graph != nullptr) (void)driver_function<int(void*)>("cuGraphDestroy")(graph);
    std::atomic_ref<int>(flag[0]).store(1);
    EXPECT_EQ(rt->read(x).get(), constant(64, is_marked ? 3 : 2));
  }
}

TEST(cuda_answers, a_result_whose_wait_fails_while_its_op_runs_can_be_asked_for_again) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it fails when it is told to";
  const auto rt = make();
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  EXPECT_EQ(rt->read(x).get(), constant(64, 0));  // the stage of the next read holds these bytes
  const pinned_ints flag({0});
  rt->submit(stream_id{1}, "held", read_write(x), [&](native on, std::span<int> all) {
    test::hold(on, reinterpret_cast<const std::uint32_t*>(flag.data()));
    test::fill(on, all.data(), all.size(), 7);
  });
  auto result = rt->read(x);
  {
    const failing_call once("cuEventSynchronize", capture_unsupported);
    EXPECT_THROW((void)result.get(), cuda::error);
  }
  EXPECT_FALSE(result.is_ready());
  std::atomic_ref<int>(flag[0]).store(1);
  EXPECT_EQ(result.get(), constant(64, 7));
}

TEST(cuda_answers, an_event_of_a_capture_is_refused) {
  const auto other = make();
  const auto rt = make();
  const native theirs = stream_in(*other, 0);
  auto x = rt->make_buffer<int>(4, zeroed, "x");
  rt->synchronize();
  cuda::native_event captured = nullptr;
  ASSERT_EQ(driver_function<int(cuda::native_event*, unsigned)>("cuEventCreate")(&captured, 2), 0);
  ASSERT_EQ(driver_function<int(native, int)>("cuStreamBeginCapture_v2")(theirs, 2), 0);
  ASSERT_EQ(driver_function<int(cuda::native_event, native)>("cuEventRecord")(captured, theirs), 0);
  expect_misuse(misuse::capturing, "captured",
                [&] { rt->wait_for(stream_id{2}, cuda::backend::adopt(captured)); });
  expect_misuse(misuse::capturing, "captured", [&] { rt->note(write(x), cuda::backend::adopt(captured)); });
  cuda_fixture::increment(*rt, x, stream_id{2});
  EXPECT_EQ(rt->read(x).get(), constant(4, 1));
  void* graph = nullptr;
  // To ask for the event ends the capture, too: it is the program that is wrong.
  (void)driver_function<int(native, void**)>("cuStreamEndCapture")(theirs, &graph);
  if (graph != nullptr) (void)driver_function<int(void*)>("cuGraphDestroy")(graph);
  (void)driver_function<int(cuda::native_event)>("cuEventDestroy_v2")(captured);
}

// Each event stands behind its own op, not behind those that were asked for before.
TEST(cuda_answers, an_event_behind_one_buffer_does_not_wait_for_another) {
  const auto rt = make();
  const auto other = make();
  auto a = rt->make_buffer<int>(64, zeroed, "a");
  auto b = rt->make_buffer<int>(64, zeroed, "b");
  rt->synchronize();
  const pinned_ints flag({0});
  rt->submit(stream_id{1}, "held", read_write(a), [&](native on, std::span<int>) {
    test::hold(on, reinterpret_cast<const std::uint32_t*>(flag.data()));
  });
  cuda_fixture::increment(*rt, b, stream_id{2});
  const cuda::event of_a = rt->last_write(a);
  const cuda::event of_b = rt->last_write(b);
  const cuda::event used_b = rt->last_access(b);
  rt->backend().wait_event_sync(of_b);
  rt->backend().wait_event_sync(used_b);
  EXPECT_FALSE(rt->backend().is_complete(of_a));
  auto held = other->make_buffer<int>(64, "held");
  auto free = other->make_buffer<int>(64, "free");
  other->copy(held, a);
  other->copy(free, b);
  EXPECT_EQ(other->read(free).get(), constant(64, 1));
  std::atomic_ref<int>(flag[0]).store(1);
  rt->backend().wait_event_sync(of_a);
  EXPECT_EQ(other->read(held).get(), constant(64, 0));
}

// A resource that ops only read would else remember each of them, with its event.
TEST(cuda_answers, accesses_that_are_noted_leave_no_trace_when_they_are_over) {
  const auto rt = make({.deterministic = false});
  const auto other = make();
  auto& theirs = other->engine().stream_of(other->engine().lane_of(stream_id{0}));
  auto x = rt->make_buffer<int>(4, zeroed, "x");
  for (int i = 0; i < 3000; ++i) {
    rt->note(i % 3 == 0 ? read(x.slice(0, 2)) : read(x.slice(0, 4)), other->backend().record(theirs));
    if (i % 100 == 0) test::synchronize(theirs.native());
  }
  EXPECT_LT(other->backend().events_made(), 500U);
  rt->wait(x);
  cuda_fixture::increment(*rt, x, stream_id{2});
  EXPECT_EQ(rt->stats().streams.waits_for(hazard::write_after_read), 0U);
  EXPECT_EQ(rt->read(x).get(), constant(4, 1));
}

TEST(cuda_answers, copies_between_runtimes_make_no_more_and_more_events) {
  const auto rt = make({.deterministic = false});
  const auto other = make({.deterministic = false});
  auto from = other->make_buffer<int>(16, zeroed, "from");
  auto to = rt->make_buffer<int>(16, "to");
  cuda_fixture::increment(*other, from);
  for (int i = 0; i < 1000; ++i) {
    rt->copy(to, from);
    if (i % 50 == 0) rt->synchronize();
  }
  EXPECT_LT(rt->backend().events_made() + other->backend().events_made(), 400U);
  EXPECT_EQ(rt->read(to).get(), constant(16, 1));
}

TEST(cuda_answers, a_copy_from_a_runtime_whose_device_is_lost_is_refused_and_the_target_goes_on) {
  const auto rt = make();
  auto to = rt->make_buffer<int>(16, zeroed, "to");
  {
    const auto other = make();
    auto from = other->make_buffer<int>(16, zeroed, "from");
    other->synchronize();
    other->submit("says so", read(from), [](native, std::span<const int>) {
      throw cuda::error(700, "an illegal address");  // what the driver would say
    });
    EXPECT_THROW((void)rt->copy(to, from), cuda::device_lost);
    EXPECT_THROW((void)other->copy(from, to), cuda::device_lost);
  }
  cuda_fixture::increment(*rt, to);
  EXPECT_EQ(rt->read(to).get(), constant(16, 1));
}

// The pool's lock is held by another thread when the process forks.
TEST(cuda_answers, a_child_of_fork_takes_no_lock_and_asks_the_driver_for_nothing) {
  class slow_source final : public memory_source {
   public:
    void* allocate(std::uint64_t bytes) noexcept override {
      if (is_slow) {
        is_inside = true;
        while (is_slow) std::this_thread::yield();
      }
      return from_->allocate(bytes);
    }
    void free(void* data, std::uint64_t bytes) noexcept override { from_->free(data, bytes); }
    [[nodiscard]] const char* name() const noexcept override { return "slow"; }
    std::atomic<bool> is_slow{false};
    std::atomic<bool> is_inside{false};

   private:
    std::shared_ptr<memory_source> from_ = cuda::backend().memory();
  };
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it counts who asks";
  const auto source = std::make_shared<slow_source>();
  auto rt = make({.memory = source});
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  const pinned_ints mine(constant(8, 0));
  auto adopted = rt->adopt(std::span<int>(mine.data(), 8), "mine", std::make_shared<int>(1));
  cuda_fixture::increment(*rt, x, stream_id{1});
  cuda_fixture::increment(*rt, adopted, stream_id{1});
  rt->synchronize();
  source->is_slow = true;
  std::thread taking([&] {
    auto large = rt->make_buffer<int>(std::uint64_t{1} << 24, "large");
    rt->fill(large, 1);
  });
  while (!source->is_inside) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    (void)alarm(20);  // ends a child that hangs
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
    auto fresh = rt->make_buffer<int>(64, "fresh");
    expect_forked(1, [&] { rt->fill(fresh, 1); });
    expect_forked(2, [&] { (void)rt->read(x); });
    expect_forked(3, [&] { rt->write(x, constant(64, 1)); });
    expect_forked(4, [&] { rt->retire(std::make_shared<int>(1), stream_id{1}); });
    expect_forked(5, [&] { (void)rt->last_access(x); });
    expect_forked(6, [&] { (void)rt->backend().record(rt->engine().stream_of(detail::lane_id{0})); });
    expect_forked(7, [&] { rt->wait(x); });
    x = {};
    adopted = {};
    rt.reset();
    if (wrong == 0 && driver_function<int()>("fake_cuda_calls_in_child")() != 0) wrong = 100;
    _exit(wrong);
  }
  source->is_slow = false;
  int status = 0;
  waitpid(child, &status, 0);
  taking.join();
  EXPECT_TRUE(WIFEXITED(status)) << "it hung";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the number of the call; 100: the driver was asked";
}

// Each in a process of its own, which is beyond use afterwards.

std::string text_of_loss(auto&& call) {
  try {
    call();
  } catch (const cuda::device_lost& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("not device_lost: ") + e.what();
  }
  return "nothing was thrown";
}

TEST(cuda_lost_device_DeathTest, a_source_of_memory_that_meets_it_first_is_not_out_of_memory) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it is lost when it is told to";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_child = [] {
    std::string text;
    {
      const auto rt = make({.deterministic = false, .memory = cuda::async_source()});
      rt->submit(stream_id{0}, "makes the stream", [](native) {});
      rt->synchronize();
      driver_function<void()>("fake_cuda_lose")();
      auto first =
          rt->make_buffer<int>(64, "first");  // there is no block yet whose history would be asked for
      text = text_of_loss([&] { rt->fill(first, 1); });
    }
    std::fprintf(stderr, "%s\n", text.c_str());
    std::_Exit(0);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0), "^the CUDA device is lost");
}

// Which codes tell of a loss the driver's documentation does not say of all.
TEST(cuda_lost_device_DeathTest, with_any_code_nothing_hangs) {
  if (!is_imitated()) GTEST_SKIP() << "the imitated driver only: it is lost when it is told to";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int code : {46, 201, 220, 400, 802, 806}) {
    const auto in_child = [&] {
      std::string text;
      {
        const auto rt = make();
        auto x = rt->make_buffer<int>(64, zeroed, "x");
        rt->synchronize();
        static std::uint32_t flag = 0;  // what was given to the stream runs on here
        rt->submit(stream_id{1}, "the culprit", read_write(x),
                   [](native on, std::span<int>) { test::hold(on, &flag); });
        auto held = rt->read(x);
        rt->retire(std::make_shared<int>(1), stream_id{1});
        driver_function<void(int)>("fake_cuda_lose_as")(code);
        text = text_of_loss([&] { rt->synchronize(); });
        const std::string of_read = text_of_loss([&] { (void)held.get(); });
        if (of_read != text) text += ", but of the read: " + of_read;
        std::atomic_ref<std::uint32_t>(flag).store(1);
      }
      std::fprintf(stderr, "%s\n", text.c_str());
      std::_Exit(0);
    };
    EXPECT_EXIT(in_child(), testing::ExitedWithCode(0),
                "^the CUDA device is lost[^,]*in flight: 'the culprit', 'read'\n$")
        << code;
  }
}

TEST(cuda_lost_device_DeathTest, a_library_that_meets_it_first_has_a_code_of_its_own) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_child = [] {
    std::string text;
    {
      const auto rt = make();
      auto x = rt->make_buffer<int>(64, zeroed, "x");
      auto y = rt->make_buffer<int>(64, zeroed, "y");
      rt->submit(stream_id{1}, "over long ago", read(y), [](native, std::span<const int>) {});
      cuda_fixture::increment(*rt, y, stream_id{2});  // comes after it, and is waited for
      (void)rt->read(y).get();
      rt->wait(y);
      rt->submit(stream_id{1}, "the culprit", read_write(x), [](native on, std::span<int>) {
        test::fault(on);
        test::spin(on, 10);
      });
      try {
        test::synchronize(stream_in(*rt, 1));
      } catch (const cuda::error&) {
        // so it has happened
      }
      rt->submit(stream_id{2}, "gemm", read_write(y),
                 [](native, std::span<int>) { throw std::runtime_error("CUBLAS_STATUS_EXECUTION_FAILED"); });
      text = text_of_loss([&] { (void)rt->read(y).get(); });
    }
    std::fprintf(stderr, "%s\n", text.c_str());
    std::_Exit(text.find("'over long ago'") == std::string::npos ? 0 : 1);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0),
              "^the CUDA device is lost: .*in flight: .*'the culprit'");
}

}  // namespace
}  // namespace braid::conformance
