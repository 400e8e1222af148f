// Misuse throws at once, with its kind and the name of what was misused, and changes nothing.

#include <algorithm>

#include "suite.hpp"

namespace braid::conformance {
namespace {

template <class F>
struct misuses : suite<F> {
  using suite<F>::suite;
};

BACKEND_TEST(misuses, all_fixtures, zero_streams) {
  expect_misuse(misuse::no_streams, "max_streams is 0", [&] { (void)this->another({.streams = 0}); });
}

BACKEND_TEST(misuses, all_fixtures, more_streams_than_are_possible) {
  expect_misuse(misuse::too_many_streams, "65536", [&] { (void)this->another({.streams = 100'000}); });
}

BACKEND_TEST(misuses, all_fixtures, a_special_stream_that_does_not_exist) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  expect_misuse(misuse::unknown_special, "special 9",
                [&] { TypeParam::fill(rt, x, 1, stream_id::special(9)); });
  expect_misuse(misuse::unknown_special, "special 9", [&] { rt.wait(stream_id::special(9)); });
  TypeParam::fill(rt, x, 1);
  EXPECT_EQ(rt.read(x).get(), constant(4, 1));
}

BACKEND_TEST(misuses, all_fixtures, null_buffers) {
  auto& rt = this->start();
  const buffer<int> none;
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  std::vector<int> to(4);
  const auto refused = [](auto&& call) { expect_misuse(misuse::null_resource, "null", call); };
  refused([&] { TypeParam::fill(rt, none, 1); });
  refused([&] { TypeParam::increment(rt, none); });
  refused([&] { TypeParam::add(rt, x, none); });
  refused([&] { (void)rt.read(none); });
  refused([&] { (void)rt.read(none, std::span<int>(to)); });
  refused([&] { rt.write(none, constant(4, 1)); });
  refused([&] { rt.write(none, {}); });
  refused([&] { rt.write_from(none, constant(4, 1)); });
  refused([&] { rt.fill(none, 1); });
  refused([&] { rt.copy(x, none); });
  refused([&] { rt.copy(none, x); });
  refused([&] { rt.copy(none, none); });
  refused([&] { rt.wait(none); });
  refused([&] { (void)none.slice(0, 0); });
  refused([&] { (void)none.slice(1, 2); });
  refused([&] { (void)rt.adopt(std::span<int>(), "none"); });
  buffer<int> moved_from = x;
  const buffer<int> taken = std::move(moved_from);
  refused([&] { TypeParam::fill(rt, moved_from, 1); });  // NOLINT: that is what is tested
  EXPECT_EQ(rt.read(taken).get(), constant(4, 0));
}

BACKEND_TEST(misuses, all_fixtures, a_buffer_of_another_runtime) {
  auto& rt = this->start();
  auto other = this->another();
  auto theirs = other->template make_buffer<int>(4, zeroed, "theirs");
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  const auto refused = [](auto&& call) { expect_misuse(misuse::foreign_resource, "'theirs'", call); };
  refused([&] { TypeParam::increment(rt, theirs); });
  refused([&] { TypeParam::add(rt, x, theirs); });
  refused([&] { (void)rt.read(theirs); });
  refused([&] { rt.write(theirs, constant(4, 1)); });
  refused([&] { rt.fill(theirs, 1); });
  refused([&] { rt.copy(theirs, x); });
  expect_misuse(misuse::foreign_resource, "call copy() on the runtime that owns the target",
                [&] { rt.copy(theirs, x); });
  expect_misuse(misuse::foreign_resource, "call copy() on the runtime that owns the target",
                [&] { rt.copy(theirs, theirs); });
  refused([&] { rt.wait(theirs); });
  rt.copy(x, theirs);  // copy alone accepts it
  EXPECT_EQ(rt.read(x).get(), constant(4, 0));
}

BACKEND_TEST(misuses, all_fixtures, a_range_outside_its_buffer) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(10, "x");
  const auto refused = [](auto&& call) { expect_misuse(misuse::range_outside, "'x'", call); };
  refused([&] { (void)x.slice(8, 3); });
  refused([&] { (void)x.slice(11, 0); });
  refused([&] { (void)x.slice(0, 11); });
  refused([&] { (void)x.slice(1, ~std::uint64_t{0}); });
  refused([&] { (void)x.slice(~std::uint64_t{0}, 2); });
  refused([&] { (void)x.slice(2, 5).slice(3, 3); });
  refused([&] { (void)x.slice(2, 5).slice(6, 0); });
  EXPECT_EQ(x.slice(10, 0).size(), 0U);
}

BACKEND_TEST(misuses, all_fixtures, the_same_buffer_bound_twice_in_conflict) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(10, zeroed, "x");
  const auto refused = [](auto&& call) { expect_misuse(misuse::conflicting_bindings, "'x'", call); };
  refused([&] { TypeParam::add(rt, x, x); });
  refused([&] { TypeParam::assign(rt, x, x); });
  refused([&] { TypeParam::add(rt, x.slice(0, 6), x.slice(4, 6)); });
  refused([&] { rt.copy(x, x); });
  refused([&] { rt.copy(x.slice(0, 3), x.slice(2, 3)); });
  const std::uint64_t ops = rt.stats().streams.ops;
  TypeParam::add(rt, x.slice(0, 5), x.slice(5, 5));
  EXPECT_EQ(rt.stats().streams.ops, ops + 1);
  EXPECT_EQ(rt.read(x).get(), constant(10, 0));
}

BACKEND_TEST(misuses, all_fixtures, reading_what_nothing_ever_wrote) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(10, "x");
  auto y = rt.template make_buffer<int>(10, zeroed, "y");
  const auto refused = [](auto&& call) { expect_misuse(misuse::never_written, "'x'", call); };
  refused([&] { (void)rt.read(x); });
  refused([&] { TypeParam::increment(rt, x); });
  refused([&] { TypeParam::add(rt, y, x); });
  refused([&] { TypeParam::accumulate_into(rt, x, 1); });
  refused([&] { rt.copy(y, x); });
  TypeParam::fill(rt, x.slice(0, 4), 1);
  TypeParam::fill(rt, x.slice(6, 4), 1);
  refused([&] { (void)rt.read(x); });
  refused([&] { (void)rt.read(x.slice(3, 2)); });
  refused([&] { TypeParam::increment(rt, x.slice(5, 2)); });
  EXPECT_EQ(rt.read(x.slice(6, 4)).get(), constant(4, 1));
  TypeParam::fill(rt, x.slice(4, 2), 1);
  EXPECT_EQ(rt.read(x).get(), constant(10, 1));
  auto other = this->another();
  auto theirs = other->template make_buffer<int>(10, "theirs");
  expect_misuse(misuse::never_written, "'theirs'", [&] { rt.copy(x, theirs); });
}

BACKEND_TEST(misuses, all_fixtures, lengths_that_differ) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(10, zeroed, "x");
  auto y = rt.template make_buffer<int>(9, zeroed, "y");
  std::vector<int> to(9);
  const auto refused = [](auto&& call) { expect_misuse(misuse::bad_size, "'x'", call); };
  refused([&] { rt.write(x, constant(9, 1)); });
  refused([&] { rt.write(x, {}); });
  refused([&] { rt.write_from(x, constant(11, 1)); });
  refused([&] { (void)rt.read(x, std::span<int>(to)); });
  refused([&] { rt.copy(x, y); });
  EXPECT_EQ(rt.read(x).get(), constant(10, 0));
}

BACKEND_TEST(misuses, all_fixtures, a_size_that_does_not_fit_in_64_bits) {
  auto& rt = this->start();
  expect_misuse(misuse::bad_size, "elements",
                [&] { (void)rt.template make_buffer<int>(~std::uint64_t{0}, "x"); });
  expect_misuse(misuse::bad_size, "elements",
                [&] { (void)rt.template make_buffer<double>(std::uint64_t{1} << 61, "x"); });
  auto x = rt.template make_buffer<char>(std::uint64_t{1} << 60, "x");  // possible, but not here
  EXPECT_THROW(rt.fill(x, 'x'), out_of_memory);
}

BACKEND_TEST(misuses, all_fixtures, adopting_memory_that_overlaps) {
  auto& rt = this->start();
  auto mine = TypeParam::memory(constant(100, 0));
  const std::span<int> all(mine);
  auto middle = rt.adopt(all.subspan(40, 20), "middle");
  const auto refused = [&](std::span<int> part) {
    expect_misuse(misuse::overlapping_adopt, "'second'", [&] { (void)rt.adopt(part, "second"); });
  };
  refused(all);
  refused(all.subspan(40, 20));
  refused(all.subspan(45, 5));
  refused(all.subspan(30, 11));
  refused(all.subspan(59, 10));
  auto before = rt.adopt(all.subspan(0, 40), "before");
  auto after = rt.adopt(all.subspan(60, 40), "after");
  auto none = rt.adopt(all.subspan(45, 0), "none");  // of no bytes, which nobody else can have
  auto at_the_begin = rt.adopt(all.subspan(40, 0), "none");
  none = {};
  at_the_begin = {};
  refused(all.subspan(40, 20));
  middle = {};
  auto again = rt.adopt(all.subspan(40, 20), "again");
  TypeParam::fill(rt, again, 1);
  rt.wait(again);
  EXPECT_EQ(mine[40], 1);
}

BACKEND_TEST(misuses, all_fixtures, settings_that_are_wrong) {
  expect_misuse(misuse::bad_settings, "order of reuse", [&] {
    (void)this->another(
        {.reuse = reuse_order{reuse_step::fresh, reuse_step::fresh, reuse_step::fresh, reuse_step::fresh}});
  });
  if constexpr (std::is_same_v<typename TypeParam::runtime, cpu::runtime>) {
    expect_misuse(misuse::bad_settings, "workers", [&] { (void)this->another({.workers = 1'000'000}); });
  }
}

// ---- Bodies that run on the host.

template <class F>
struct host_misuses : suite<F> {
  using suite<F>::suite;
};

BACKEND_TEST(host_misuses, host_fixtures, a_submit_or_a_wait_inside_a_body) {
  this->world.stand_still();
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  auto y = rt.template make_buffer<int>(4, zeroed, "y");
  rt.synchronize();
  const submission earlier = TypeParam::fill(rt, y, 1);
  auto pending = rt.read(y);
  std::vector<int> to(4);
  int checked = 0;
  rt.submit("the body", write(x), read(y), [&](std::span<int> v, std::span<const int>) {
    const auto refused = [&](auto&& call) {
      expect_misuse(misuse::inside_body, "'the body'", call);
      ++checked;
    };
    refused([&] { TypeParam::fill(rt, y, 1); });
    refused([&] { TypeParam::increment(rt, x, stream_id{3}); });
    refused([&] { rt.submit("none", [] {}); });
    refused([&] { (void)rt.read(y); });
    refused([&] { (void)rt.read(y, std::span<int>(to)); });
    refused([&] { rt.write(y, constant(4, 1)); });
    refused([&] { rt.write_from(y, constant(4, 1)); });
    refused([&] { rt.fill(y, 1); });
    refused([&] { rt.copy(y, x); });
    refused([&] { (void)rt.template make_buffer<int>(4, zeroed); });
    refused([&] { rt.wait(y); });
    refused([&] { rt.wait(stream_id{0}); });
    refused([&] { rt.synchronize(); });
    refused([&] { (void)rt.shutdown(std::chrono::milliseconds(0)); });
    refused([&] { earlier.wait(); });
    bindings list;
    refused([&] { rt.submit("list", list, [](std::span<const view>) {}); });
    std::fill(v.begin(), v.end(), checked);
  });
  EXPECT_EQ(rt.read(x).get(), constant(4, 16));
  EXPECT_EQ(pending.get(), constant(4, 1));
}

BACKEND_TEST(host_misuses, host_fixtures, waiting_for_a_future_inside_a_body) {
  this->world.stand_still();
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  auto y = rt.template make_buffer<int>(4, zeroed, "y");
  rt.synchronize();
  future<std::vector<int>> later;
  std::atomic<bool> is_set{!TypeParam::runs_by_itself};
  const auto body = [&](std::span<int>) {
    is_set.wait(false);
    expect_misuse(misuse::inside_body, "'the body'", [&] { later.wait(); });
    expect_misuse(misuse::inside_body, "'the body'", [&] { (void)later.get(); });
    expect_misuse(misuse::inside_body, "'the body'", [&] { (void)later.wait_for(std::chrono::seconds(0)); });
  };
  rt.submit("the body", read_write(x), body);
  later = rt.read(x);  // behind the body
  is_set = true;
  is_set.notify_all();
  EXPECT_EQ(later.get(), constant(4, 0));
}

BACKEND_TEST(host_misuses, host_fixtures, waiting_inside_a_body_for_a_result_that_is_there) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  auto y = rt.template make_buffer<int>(4, "y");
  auto there = rt.read(x);
  there.wait();
  rt.submit("the body", write(y), [&](std::span<int>) {
    expect_misuse(misuse::inside_body, "'the body'", [&] { there.wait(); });
    expect_misuse(misuse::inside_body, "'the body'", [&] { (void)there.get(); });
    expect_misuse(misuse::inside_body, "'the body'", [&] { (void)there.wait_for(std::chrono::seconds(0)); });
  });
  rt.wait(y);
  EXPECT_EQ(there.get(), constant(4, 0));
}

template <class Runtime>
task<int> first_of(Runtime& rt, buffer<int> x) {
  const std::vector<int> host = co_await rt.read(x);
  co_return host[0];
}

BACKEND_TEST(host_misuses, host_fixtures, waiting_for_a_task_inside_a_body) {
  this->world.stand_still();
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  rt.synchronize();
  auto there = first_of(rt, x);
  rt.synchronize();
  this->until([&] { return there.is_ready(); });
  std::optional<task<int>> later;
  std::atomic<bool> is_set{!TypeParam::runs_by_itself};
  rt.submit("the body", read_write(x), [&](std::span<int>) {
    is_set.wait(false);
    expect_misuse(misuse::inside_body, "'the body'", [&] { (void)there.get(); });
    expect_misuse(misuse::inside_body, "'the body'", [&] { (void)later->get(); });
  });
  later.emplace(first_of(rt, x));  // behind the body
  is_set = true;
  is_set.notify_all();
  rt.synchronize();
  EXPECT_EQ(there.get(), 0);
  EXPECT_EQ(later->get(), 0);
}

// It does not block: what is there is taken, and what is not there comes on a braid thread.
BACKEND_TEST(host_misuses, host_fixtures, a_coroutine_may_await_inside_a_body_what_is_there) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  auto y = rt.template make_buffer<int>(4, "y");
  auto there = rt.read(x);
  there.wait();
  std::optional<task<int>> begun;
  rt.submit("the body", write(y), [&](std::span<int>) {
    begun.emplace([](future<std::vector<int>> from) -> task<int> {
      const std::vector<int> host = co_await std::move(from);
      co_return host[3];
    }(std::move(there)));
  });
  rt.wait(y);
  EXPECT_EQ(begun->get(), 0);
}

BACKEND_TEST(host_misuses, host_fixtures, a_submit_to_another_runtime_inside_a_body) {
  auto& rt = this->start();
  auto other = this->another();
  auto x = rt.template make_buffer<int>(4, "x");
  auto theirs = other->template make_buffer<int>(4, "theirs");
  rt.submit("the body", write(x), [&](std::span<int>) {
    expect_misuse(misuse::inside_body, "'the body'", [&] { TypeParam::fill(*other, theirs, 1); });
  });
  rt.wait(x);
}

BACKEND_TEST(host_misuses, host_fixtures, what_a_body_did_wrong_is_its_error) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, "x");
  rt.submit("the body", write(x), [&](std::span<int>) { rt.synchronize(); });
  expect_failure("the body", "synchronize() inside the body", [&] { rt.wait(x); });
}

BACKEND_TEST(host_misuses, host_fixtures, null_tokens_and_tokens_of_another_runtime) {
  auto& rt = this->start();
  auto other = this->another();
  const resource none;
  const resource theirs = resource::token("theirs");
  other->submit("use", write(theirs), [] {});
  expect_misuse(misuse::null_resource, "null", [&] { rt.submit("use", write(none), [] {}); });
  expect_misuse(misuse::foreign_resource, "'theirs'", [&] { rt.submit("use", write(theirs), [] {}); });
  const resource ours = resource::token("ours");
  expect_misuse(misuse::conflicting_bindings, "'ours'",
                [&] { rt.submit("use", write(ours), read(ours), [] {}); });
  expect_misuse(misuse::range_overflow, "'ours'", [&] {
    rt.submit("use", write(ours, {~std::uint64_t{0} - 10, 20}), [] {});
  });
  rt.submit("use", write(ours), [] {});
  rt.synchronize();
  other.reset();
  expect_misuse(misuse::foreign_resource, "gone", [&] { rt.submit("use", write(theirs), [] {}); });
}

BACKEND_TEST(host_misuses, host_fixtures, misuse_in_bindings_of_a_number_known_at_run_time) {
  auto& rt = this->start();
  auto other = this->another();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  auto fresh = rt.template make_buffer<int>(4, "fresh");
  auto theirs = other->template make_buffer<int>(4, zeroed, "theirs");
  const auto refused = [&](misuse kind, std::string_view named, auto... bound) {
    bindings list;
    (list.add(bound), ...);
    expect_misuse(kind, named, [&] { rt.submit("list", list, [](std::span<const view>) {}); });
  };
  refused(misuse::null_resource, "null", read(buffer<int>()));
  refused(misuse::foreign_resource, "'theirs'", read(x), read(theirs));
  refused(misuse::never_written, "'fresh'", read(fresh));
  refused(misuse::conflicting_bindings, "'x'", read(x), write(x));
  EXPECT_EQ(rt.read(x).get(), constant(4, 0));
}

BACKEND_TEST(host_misuses, host_fixtures, an_empty_slice_conflicts_with_nothing) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(10, zeroed, "x");
  const auto nothing = [](const auto&...) {};
  rt.submit("halo", read_write(x), read(x.slice(4, 0)), nothing);
  rt.submit("halo", read(x.slice(4, 0)), write(x.slice(2, 6)), nothing);
  rt.submit("halo", write(x.slice(2, 6)), read_write(x.slice(3, 0)), accumulate(x.slice(7, 0)), nothing);
  bindings list;
  list.add(read_write(x)).add(read(x.slice(4, 0)));
  rt.submit("list", list, [](std::span<const view>) {});
  auto halo = rt.record([&] { rt.submit("halo", read_write(x), read(x.slice(4, 0)), nothing); });
  halo.replay();
  EXPECT_EQ(rt.read(x).get(), constant(10, 0));
}

BACKEND_TEST(host_misuses, host_fixtures, a_submit_that_throws_leaves_nothing_behind) {
  auto& rt = this->start();
  auto x = rt.template make_buffer<int>(4, zeroed, "x");
  rt.synchronize();
  const std::uint64_t ops = rt.stats().streams.ops;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = held;
  expect_misuse(misuse::conflicting_bindings, "'x'", [&] {
    rt.submit("twice", read(x), write(x), [held = std::move(held)](std::span<const int>, std::span<int>) {});
  });
  EXPECT_TRUE(alive.expired());
  EXPECT_EQ(rt.stats().streams.ops, ops);
  EXPECT_EQ(rt.stats().memory.live, 4 * sizeof(int));
}

}  // namespace
}  // namespace braid::conformance
