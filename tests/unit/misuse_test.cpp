// Each misuse gives its own exception and leaves the engine as it was.

#include "support.hpp"

namespace braid {
namespace {

using test::give;
using test::options;
using test::telling_backend;

template <class Call>
void expect_misuse(misuse kind, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const usage_error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
  }
}

class misuse_test : public testing::Test {
 protected:
  // Whatever was thrown: the engine goes on.
  void TearDown() override {
    give(engine, {1}, {write(x)});
    EXPECT_EQ(test::waits_of(engine, {2}, {read(x)}), 1U);
  }
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  resource x = resource::memory(100, "x");
};

TEST_F(misuse_test, zero_streams) {
  expect_misuse(misuse::no_streams, [] {
    multi_stream<telling_backend> none{telling_backend{}, options(0)};
  });
}

TEST_F(misuse_test, more_streams_than_are_possible) {
  expect_misuse(misuse::too_many_streams, [] {
    multi_stream<telling_backend> huge{telling_backend{}, options(~std::uint32_t{0})};
  });
}

TEST_F(misuse_test, a_special_stream_that_the_pool_does_not_have) {
  expect_misuse(misuse::unknown_special, [&] { give(engine, stream_id::special(9), {}); });
}

TEST_F(misuse_test, a_null_resource) {
  expect_misuse(misuse::null_resource, [&] { give(engine, {1}, {read(resource())}); });
  expect_misuse(misuse::null_resource, [&] { (void)engine.analyse({1}, {read(resource())}); });
  expect_misuse(misuse::null_resource, [&] { engine.wait(resource()); });
  expect_misuse(misuse::null_resource, [] { resource().hand_on("next"); });
  EXPECT_EQ(engine.cursor({1}), 0U);
}

TEST_F(misuse_test, a_range_outside_the_resource) {
  expect_misuse(misuse::range_outside, [&] { give(engine, {1}, {read(x, {90, 20})}); });
  expect_misuse(misuse::range_outside, [&] { give(engine, {1}, {read(x, {101, 0})}); });
  give(engine, {1}, {read(x, {100, 0})});
  give(engine, {1}, {read(x, {0, 100})});
}

TEST_F(misuse_test, a_range_that_overflows) {
  expect_misuse(misuse::range_overflow, [&] { give(engine, {1}, {write(x, {10, ~std::uint64_t{0}})}); });
  const resource t = resource::token("t");
  give(engine, {1}, {write(t, {~std::uint64_t{0} - 10, 10})});
  expect_misuse(misuse::range_overflow, [&] { give(engine, {1}, {write(t, {~std::uint64_t{0} - 10, 20})}); });
}

TEST_F(misuse_test, one_resource_bound_twice_in_conflict) {
  const auto twice = [&](binding a, binding b) {
    expect_misuse(misuse::conflicting_bindings, [&] { give(engine, {1}, {a, b}); });
    expect_misuse(misuse::conflicting_bindings, [&] { (void)engine.analyse({1}, {a, b}); });
  };
  twice(read(x), write(x));
  twice(write(x), write(x));
  twice(read_write(x, {0, 50}), read(x, {49, 1}));
  twice(accumulate(x, 0), accumulate(x, 1));
  EXPECT_EQ(engine.cursor({1}), 0U);
}

TEST_F(misuse_test, one_resource_bound_twice_in_conflict_also_where_its_stream_alone_used_it) {
  multi_stream<telling_backend, externally_synchronised> without_locks{telling_backend{}, options()};
  const auto twice = [](auto& on, const resource& r) {
    give(on, {1}, {write(r)});
    give(on, {1}, {read(r)});
    for (const auto& [a, b] : {std::pair{read(r), write(r)}, {write(r), read(r)}, {write(r), write(r)}})
      expect_misuse(misuse::conflicting_bindings, [&] { give(on, {1}, {a, b}); });
    give(on, {1}, {read(r), read(r)});
    EXPECT_EQ(on.cursor({1}), 3U);
    // As ever, another stream waits for what was given, and for nothing else.
    EXPECT_EQ(test::waits_of(on, {2}, {write(r)}), 1U);
  };
  twice(engine, x);
  twice(without_locks, resource::memory(100, "y"));
}

TEST_F(misuse_test, one_resource_bound_twice_without_a_conflict_is_fine) {
  give(engine, {1}, {read(x), read(x)});
  give(engine, {1}, {write(x, {0, 50}), read(x, {50, 50})});
  give(engine, {1}, {accumulate(x, 3), accumulate(x, 3)});
  EXPECT_EQ(engine.cursor({1}), 3U);
}

TEST_F(misuse_test, get_of_a_stream_never_used) {
  auto op = engine.resolve(stream_id{1}, {});
  expect_misuse(misuse::unused_stream, [&] { (void)op.get(stream_id{3}); });
  EXPECT_EQ(&op.get(stream_id{1}), &op.current());
}

TEST_F(misuse_test, a_call_inside_a_guard_of_the_same_thread) {
  auto op = engine.resolve(stream_id{1}, {write(x)});
  expect_misuse(misuse::inside_guard, [&] { give(engine, {2}, {}); });
  expect_misuse(misuse::inside_guard, [&] { give(engine, {1}, {}); });
  expect_misuse(misuse::inside_guard, [&] { engine.wait(stream_id{1}); });
  expect_misuse(misuse::inside_guard, [&] { engine.wait(x); });
  expect_misuse(misuse::inside_guard, [&] { engine.wait_all(); });
  expect_misuse(misuse::inside_guard, [&] { (void)engine.analyse({1}, {}); });
  expect_misuse(misuse::inside_guard, [&] { x.hand_on("next"); });
}

TEST_F(misuse_test, guards_of_two_engines_may_nest) {
  multi_stream<telling_backend> other{telling_backend{}, options()};
  const resource y = resource::token("y");
  auto outer = engine.resolve(stream_id{1}, {write(x)});
  auto inner = other.resolve(stream_id{1}, {write(y)});
  expect_misuse(misuse::inside_guard, [&] { give(engine, {2}, {}); });
}

TEST_F(misuse_test, a_resource_of_another_engine) {
  multi_stream<telling_backend> other{telling_backend{}, options()};
  const resource theirs = resource::token("theirs");
  give(other, {1}, {write(theirs)});
  expect_misuse(misuse::foreign_resource, [&] { give(engine, {1}, {read(theirs)}); });
  expect_misuse(misuse::foreign_resource, [&] { (void)engine.analyse({1}, {read(theirs)}); });
}

TEST_F(misuse_test, a_handle_that_outlives_its_engine_is_inert_and_says_so) {
  const resource left = resource::token("left");
  {
    multi_stream<telling_backend> gone{telling_backend{}, options()};
    give(gone, {1}, {write(left)});
    give(gone, {2}, {read(left)});
  }
  try {
    give(engine, {1}, {read(left)});
    FAIL();
  } catch (const usage_error& e) {
    EXPECT_EQ(e.kind(), misuse::foreign_resource);
    EXPECT_NE(std::string(e.what()).find("gone"), std::string::npos);
  }
}

TEST_F(misuse_test, a_handle_whose_memory_has_a_next_owner) {
  give(engine, {1}, {write(x)});
  resource next = x.hand_on("next");
  expect_misuse(misuse::handed_on, [&] { give(engine, {1}, {read(x)}); });
  expect_misuse(misuse::handed_on, [&] { (void)engine.analyse({1}, {read(x)}); });
  expect_misuse(misuse::handed_on, [&] { x.hand_on("again"); });
  x = next;
}

TEST_F(misuse_test, a_second_binding_that_is_wrong_takes_back_the_first) {
  const resource y = resource::memory(10, "y");
  give(engine, {3}, {write(y)});
  give(engine, {2}, {read(y)});
  expect_misuse(misuse::null_resource, [&] { give(engine, {1}, {read(y), read(resource())}); });
  // Stream 1 read nothing: a writer on another stream waits for stream 2 alone.
  EXPECT_EQ(engine.analyse({4}, {write(y)}).waits.size(), 1U);
}

TEST(shutdown, refuses_ops_afterwards) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  give(engine, {1}, {});
  EXPECT_TRUE(engine.shutdown(std::chrono::milliseconds(1000)).complete());
  expect_misuse(misuse::after_shutdown, [&] { give(engine, {1}, {}); });
  expect_misuse(misuse::after_shutdown, [&] { engine.retire(1, {1}); });
  EXPECT_TRUE(engine.shutdown(std::chrono::milliseconds(0)).complete());
}

TEST(shutdown, says_what_is_stuck_and_lets_the_engine_go_on) {
  telling_backend backend;
  backend.told->completes = false;
  multi_stream<telling_backend> engine{backend, options()};
  give(engine, {3}, {});
  give(engine, {3}, {});
  engine.retire(1, {3});
  const shutdown_report report = engine.shutdown(std::chrono::milliseconds(5));
  EXPECT_FALSE(report.complete());
  ASSERT_EQ(report.stuck.size(), 1U);
  EXPECT_EQ(report.stuck[0].id, stream_id{3});
  EXPECT_EQ(report.stuck[0].cursor, 2U);
  EXPECT_EQ(report.stuck[0].completed, 0U);
  EXPECT_EQ(report.objects_pending, 1U);
  give(engine, {3}, {});
  backend.told->completes = true;
  EXPECT_TRUE(engine.shutdown(std::chrono::milliseconds(5000)).complete());
}

TEST(shutdown, with_the_longest_timeout_waits_until_all_is_over) {
  struct slow_backend : telling_backend {
    bool is_complete(const event&) { return told->queries++ > 2; }
  };
  multi_stream<slow_backend> engine{slow_backend{}, options()};
  give(engine, {3}, {});
  EXPECT_TRUE(engine.shutdown(std::chrono::milliseconds::max()).complete());
}

}  // namespace
}  // namespace braid
