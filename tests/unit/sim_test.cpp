// The device and its checker, without an engine: what is told by hand has to be judged right.

#include <algorithm>

#include "support.hpp"

namespace braid::sim {
namespace {

touch writes(std::uint32_t memory = 0, byte_range range = {0, 8}) {
  return {memory, 0, range, access::write, 0};
}
touch reads(std::uint32_t memory = 0, byte_range range = {0, 8}) {
  return {memory, 0, range, access::read, 0};
}
touch adds(std::uint32_t tag, std::uint32_t owner = 0) {
  return {0, owner, {0, 8}, access::accumulate, tag};
}

struct by_hand {
  device d;
  sim::backend b = d.backend();
  sim::stream s1 = b.create_stream();
  sim::stream s2 = b.create_stream();
  void run(sim::stream& s, touch t) { d.launch(s, {.label = "op", .touches = {t}}); }
  [[nodiscard]] report found() const { return check(d.log()); }
};

TEST(checker, sees_two_writes_that_nothing_orders) {
  by_hand h;
  h.run(h.s1, writes());
  h.run(h.s2, writes());
  ASSERT_EQ(h.found().violations.size(), 1U);
  EXPECT_EQ(h.found().violations[0].first, 0U);
  EXPECT_EQ(h.found().violations[0].second, 1U);
}

TEST(checker, accepts_what_an_event_orders_and_calls_the_wait_minimal) {
  by_hand h;
  h.run(h.s1, writes());
  h.b.wait_event(h.s2, h.b.flush(h.s1));
  h.run(h.s2, reads());
  EXPECT_TRUE(h.found().violations.empty());
  EXPECT_EQ(h.found().conflicts_checked, 1U);
  EXPECT_EQ(h.found().waits, 1U);
  EXPECT_EQ(h.found().minimal_waits, 1U);
}

TEST(checker, an_event_recorded_before_the_op_orders_nothing) {
  by_hand h;
  const event early = h.b.flush(h.s1);
  h.run(h.s1, writes());
  h.b.wait_event(h.s2, early);
  h.run(h.s2, reads());
  EXPECT_EQ(h.found().violations.size(), 1U);
}

TEST(checker, a_wait_that_is_not_needed_is_superfluous) {
  by_hand h;
  h.run(h.s1, writes(0));
  h.b.wait_event(h.s2, h.b.flush(h.s1));
  h.run(h.s2, writes(1));
  EXPECT_EQ(h.found().minimal_waits, 0U);
  EXPECT_EQ(h.found().superfluous, (std::vector<std::uint64_t>{0}));
}

TEST(checker, counts_ops_that_a_wait_reached_too_far) {
  by_hand h;
  h.run(h.s1, writes(0));
  h.run(h.s1, writes(1));
  h.run(h.s1, writes(2));
  h.b.wait_event(h.s2, h.b.flush(h.s1));
  h.run(h.s2, reads(0));
  EXPECT_EQ(h.found().excess_orderings, 2U);
}

TEST(checker, order_is_transitive) {
  by_hand h;
  sim::stream s3 = h.b.create_stream();
  h.run(h.s1, writes());
  h.b.wait_event(h.s2, h.b.flush(h.s1));
  h.run(h.s2, reads());
  h.b.wait_event(s3, h.b.flush(h.s2));
  h.run(s3, writes());
  EXPECT_TRUE(h.found().violations.empty());
  EXPECT_EQ(h.found().conflicts_checked, 3U);
}

TEST(checker, disjoint_bytes_and_reads_do_not_conflict) {
  by_hand h;
  h.run(h.s1, writes(0, {0, 4}));
  h.run(h.s2, writes(0, {4, 4}));
  h.run(h.s1, reads(1));
  h.run(h.s2, reads(1));
  EXPECT_EQ(h.found().conflicts_checked, 0U);
}

TEST(checker, one_group_does_not_conflict_but_another_tag_or_owner_does) {
  by_hand same;
  same.run(same.s1, adds(0));
  same.run(same.s2, adds(0));
  EXPECT_EQ(same.found().conflicts_checked, 0U);
  by_hand tags;
  tags.run(tags.s1, adds(0));
  tags.run(tags.s2, adds(1));
  EXPECT_EQ(tags.found().violations.size(), 1U);
  by_hand owners;
  owners.run(owners.s1, adds(0, 0));
  owners.run(owners.s2, adds(0, 1));
  EXPECT_EQ(owners.found().violations.size(), 1U);
}

TEST(checker, a_read_between_ends_the_group) {
  by_hand h;
  h.run(h.s1, adds(0));
  h.run(h.s1, reads());
  h.run(h.s2, adds(0));
  EXPECT_EQ(h.found().violations.size(), 2U);
}

TEST(checker, what_the_host_saw_complete_comes_before_later_launches) {
  by_hand h;
  h.run(h.s1, writes());
  const event e = h.b.flush(h.s1);
  h.b.wait_event_sync(e);
  h.run(h.s2, reads());
  EXPECT_TRUE(check(h.d.log()).violations.empty());
  EXPECT_EQ(check(h.d.log(), {.drop_each_wait = false, .trust_completion = false}).violations.size(), 1U);
}

TEST(device, runs_streams_in_different_legal_orders_by_seed) {
  std::vector<std::string> orders;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    device d({.seed = seed});
    sim::backend b = d.backend();
    sim::stream s1 = b.create_stream();
    sim::stream s2 = b.create_stream();
    std::string order;
    for (const char c : {'a', 'b'})
      d.launch(s1, {.label = "", .touches = {}, .body = [&order, c] { order += c; }});
    for (const char c : {'x', 'y'})
      d.launch(s2, {.label = "", .touches = {}, .body = [&order, c] { order += c; }});
    d.run_all();
    EXPECT_LT(order.find('a'), order.find('b'));
    EXPECT_LT(order.find('x'), order.find('y'));
    orders.push_back(order);
  }
  std::sort(orders.begin(), orders.end());
  EXPECT_GT(std::unique(orders.begin(), orders.end()) - orders.begin(), 2);
}

TEST(device, virtual_time_adds_up_along_waits) {
  device d;
  sim::backend b = d.backend();
  sim::stream s1 = b.create_stream();
  sim::stream s2 = b.create_stream();
  d.launch(s1, {.label = "", .touches = {}, .duration = 5});
  d.launch(s2, {.label = "", .touches = {}, .duration = 2});
  b.wait_event(s2, b.flush(s1));
  d.launch(s2, {.label = "", .touches = {}, .duration = 3});
  d.run_all();
  EXPECT_EQ(d.makespan(), 8U);
}

TEST(device, streams_that_wait_for_each_other_are_reported) {
  device d;
  point_mode_backend b = d.point_backend();
  sim::stream s1 = b.create_stream();
  sim::stream s2 = b.create_stream();
  b.wait_point(s1, s2, 1);
  b.wait_point(s2, s1, 1);
  b.commit_point(s1, 1);
  b.commit_point(s2, 1);
  EXPECT_THROW(d.run_all(), execution_error);
}

TEST(device, a_failed_op_fails_the_next_event_with_its_label) {
  device d;
  sim::backend b = d.backend();
  sim::stream s = b.create_stream();
  d.launch(s, {.label = "gemm", .touches = {}, .body = {}, .fails = true});
  const event e = b.flush(s);
  const event after = b.flush(s);
  try {
    b.wait_event_sync(e);
    FAIL();
  } catch (const execution_error& error) {
    EXPECT_STREQ(error.what(), "'gemm' failed");
  }
  b.wait_event_sync(after);
}

}  // namespace
}  // namespace braid::sim
