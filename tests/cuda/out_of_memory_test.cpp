#include <gtest/gtest.h>

#include <new>
#include <thread>
#include <utility>

#include "cuda/support.hpp"
#include "stress/failing_allocations.hpp"

namespace braid::conformance {
namespace {

// Each allocation of a submit fails in turn, while some data carries an error, which every op has to look at.
TEST(cuda_out_of_memory, a_submit_that_throws_leaves_nothing_locked) {
  for (long which = 1, is_over = 0; is_over == 0; ++which) {
    const auto rt = make({.deterministic = false});
    auto bad = rt->make_buffer<int>(8, zeroed, "bad");
    auto x = rt->make_buffer<int>(8, zeroed, "x");
    auto y = rt->make_buffer<int>(8, zeroed, "y");
    cuda_fixture::fail(*rt, "fails", bad, stream_id{1});
    const auto give = [&] {
      rt->submit(stream_id{0}, "op", read_write(x), read_write(y),
                 [](native on, std::span<int> a, std::span<int> b) {
                   const long rest = std::exchange(failing_allocation, 0);
                   test::increment(on, a.data(), a.size());
                   test::increment(on, b.data(), b.size());
                   failing_allocation = rest;
                 });
    };
    give();
    int given = 1;
    failing_allocation = which;
    try {
      give();
      ++given;
    } catch (const std::bad_alloc&) {
      // so it was not given
    }
    is_over = std::exchange(failing_allocation, 0) != 0 ? 1 : 0;
    give();
    std::thread(give).join();  // hangs if something is locked
    EXPECT_EQ(rt->read(x).get(), constant(8, given + 2)) << "allocation " << which;
    EXPECT_EQ(rt->read(y).get(), constant(8, given + 2)) << "allocation " << which;
    EXPECT_THROW((void)rt->read(bad).get(), op_error);
  }
}

}  // namespace
}  // namespace braid::conformance
