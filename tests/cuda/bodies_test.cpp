#include <gtest/gtest.h>

#include <stdexcept>

#include "cuda/support.hpp"

// Bindings and bodies of every kind: what the suites of backends test whose bodies are the work.

namespace braid::conformance {
namespace {

TEST(cuda_bodies, scratch_is_memory_for_one_op) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(100, "x");
  for (int i = 0; i < 50; ++i) {
    rt->submit(stream_id{static_cast<std::uint64_t>(i) % 4}, "through scratch", write(x), scratch<int>(100),
               scratch<double>(7),
               [i](native on, std::span<int> to, std::span<int> some, std::span<double> few) {
                 EXPECT_EQ(few.size(), 7U);
                 test::fill(on, some.data(), some.size(), i);
                 test::assign(on, to.data(), some.data(), to.size());
               });
  }
  EXPECT_EQ(rt->read(x).get(), constant(100, 49));
  rt->submit("none", scratch<int>(0), [](native, std::span<int> none) { EXPECT_TRUE(none.empty()); });
  rt->synchronize();
  EXPECT_EQ(rt->stats().memory.live, 100 * sizeof(int));
}

// The flag stands for what the token does.
TEST(cuda_bodies, a_token_orders_ops_that_share_nothing_else) {
  const auto rt = make();
  const resource done = resource::token("done");
  auto x = rt->make_buffer<int>(64, zeroed, "x");
  int* data = nullptr;
  rt->submit("find", read_write(x), [&](native, std::span<int> all) { data = all.data(); });
  rt->synchronize();
  for (std::uint64_t i = 0; i < 40; ++i) {
    rt->submit(stream_id{i % 4}, "past braid", read_write(done), [&](native on) {
      if (i % 5 == 0) test::spin(on, 200);
      test::increment(on, data, 64);
    });
  }
  rt->submit(stream_id{7}, "both", read(done), read_write(x),
             [](native on, std::span<int> all) { test::increment(on, all.data(), all.size()); });
  EXPECT_EQ(rt->read(x).get(), constant(64, 41));
}

TEST(cuda_bodies, bindings_may_be_of_a_number_known_at_run_time) {
  const auto rt = make();
  for (const std::size_t count : {0U, 1U, 3U, 40U}) {
    std::vector<buffer<int>> all;
    auto sum = rt->make_buffer<int>(4, zeroed, "sum");
    bindings list;
    list.add(read_write(sum));
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(rt->make_buffer<int>(8));
      cuda_fixture::fill(*rt, all.back(), static_cast<int>(i), stream_id{i});
      list.add(read(all.back().slice(4, 4)));
    }
    rt->submit("sum", list, [](native on, std::span<const view> each) {
      const auto to = each[0].as<int>();
      for (const view& v : each.subspan(1)) test::add(on, to.data(), v.as<const int>().data(), to.size());
    });
    for (const auto& each : all) cuda_fixture::fill(*rt, each, -1);
    const int n = static_cast<int>(count);
    EXPECT_EQ(rt->read(sum).get(), constant(4, n * (n - 1) / 2));
  }
}

TEST(cuda_bodies, a_submit_or_a_wait_inside_one_is_refused) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(4, zeroed, "x");
  auto y = rt->make_buffer<int>(4, zeroed, "y");
  rt->synchronize();
  int checked = 0;
  rt->submit("the body", read_write(x), [&](native, std::span<int>) {
    const auto refused = [&](auto&& call) {
      expect_misuse(misuse::inside_body, "'the body'", call);
      ++checked;
    };
    refused([&] { cuda_fixture::increment(*rt, y); });
    refused([&] { cuda_fixture::increment(*rt, y, stream_id{3}); });
    refused([&] { rt->submit("scratch", scratch<int>(4), [](native, std::span<int>) {}); });
    refused([&] { (void)rt->read(y); });
    refused([&] { rt->write(y, constant(4, 1)); });
    refused([&] { rt->fill(y, 1); });
    refused([&] { rt->copy(y, x); });
    refused([&] { rt->wait(y); });
    refused([&] { rt->synchronize(); });
    refused([&] { (void)rt->last_write(y); });
    refused([&] { (void)rt->last_access(y); });
  });
  EXPECT_EQ(checked, 11);
  EXPECT_EQ(rt->read(x).get(), constant(4, 0));
}

TEST(cuda_bodies, one_may_throw_what_is_no_exception) {
  const auto rt = make();
  auto x = rt->make_buffer<int>(8, "x");
  rt->submit("culprit", write(x), [](native, std::span<int>) -> void { throw 42; });
  try {
    (void)rt->read(x).get();
    FAIL();
  } catch (const op_error& e) {
    EXPECT_EQ(e.label(), "culprit");
    EXPECT_THROW(std::rethrow_exception(e.cause()), int);
  }
  rt->submit("culprit with scratch", write(x), scratch<int>(4),
             [](native, std::span<int>, std::span<int>) -> void { throw std::runtime_error("broken"); });
  EXPECT_THROW((void)rt->read(x).get(), op_error);
  cuda_fixture::fill(*rt, x, 1);
  EXPECT_EQ(rt->read(x).get(), constant(8, 1));
}

// What a thread has noted of its ops, to find what repeats itself, goes with the memory.
TEST(cuda_bodies, a_buffer_may_outlive_the_runtime_whose_ops_repeat_themselves) {
  for (int submits = 1; submits < 9; ++submits) {
    buffer<int> kept;
    {
      const auto rt = make({.deterministic = false});
      kept = rt->make_buffer<int>(8, "kept");
      for (int i = 0; i < submits; ++i)
        rt->submit(stream_id{0}, "op", write(kept), [](native, std::span<int>) {});
    }
    const auto next = make({.deterministic = false});
    auto x = next->make_buffer<int>(8, "x");
    next->submit(stream_id{0}, "op", write(x), [](native, std::span<int>) {});
    next->synchronize();
  }
}

TEST(cuda_bodies, what_a_call_of_the_driver_says_is_checked) {
  enum class result : int { good = 0, bad = 1 };  // as a CUresult, for which there is no cudaGetErrorString
  cuda::check(result::good);
  try {
    cuda::check(result::bad);
    FAIL();
  } catch (const cuda::error& e) {
    EXPECT_EQ(e.code(), 1);
    EXPECT_NE(std::string(e.what()).find("a call of the driver: CUDA_ERROR"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace braid::conformance
