#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "cuda/support.hpp"

// What goes wrong: a device that is lost, a child of fork(), no memory, a driver that has gone.

namespace braid::conformance {
namespace {

// In the child: whether all that needs the device says what is wrong, and nothing is got from it.
int look_in_child(std::unique_ptr<cuda::runtime>& rt, buffer<int>& x, future<std::vector<int>>& pending) {
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
  expect_forked(5, [&] { (void)pending.get(); });
  expect_forked(6, [&] { (void)rt->read(x).get(); });
  expect_forked(7, [&] { (void)rt->last_write(x); });
  expect_forked(8, [&] { rt->fill(x, 1); });
  expect_forked(9, [&] { (void)make(); });
  expect_forked(10, [&] { (void)cuda::devices(); });
  x = {};
  pending = {};
  rt.reset();
  return wrong;
}

TEST(cuda_faults, a_forked_child_is_told_so) {
  auto rt = make();
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  cuda_fixture::increment(*rt, x, stream_id{1});
  rt->synchronize();
  auto pending = rt->read(x);
  const pid_t child = fork();
  if (child == 0) _exit(look_in_child(rt, x, pending));
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the number of the call";
  EXPECT_EQ(pending.get(), constant(64, 1));
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

}  // namespace
}  // namespace braid::conformance
