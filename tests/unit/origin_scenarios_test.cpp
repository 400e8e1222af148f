// What the origin's own tests ask for, in braid's words.

#include "support.hpp"

namespace braid {
namespace {

using test::give;

class origin_scenarios : public testing::Test {
 protected:
  void SetUp() override {
    give(engine, one, {write(mine), write(mine_too)});
    give(engine, two, {write(theirs), write(theirs_too)});
  }
  static std::vector<std::size_t> shared_with(const alignment& a, stream_id origin) {
    std::vector<std::size_t> bindings;
    for (const shared_binding& s : a.shared) {
      if (s.origin == origin) bindings.push_back(s.binding);
    }
    return bindings;
  }
  const stream_id one{1}, two{2};
  multi_stream<test::telling_backend> engine{test::telling_backend{}, test::options(4)};
  resource mine = resource::token("mine"), mine_too = resource::token("mine too");
  resource theirs = resource::token("theirs"), theirs_too = resource::token("theirs too");
};

TEST_F(origin_scenarios, a_binding_of_another_stream_is_shared_and_grouped_by_its_origin) {
  const alignment a = engine.analyse(one, {read(mine), read(theirs)});
  EXPECT_EQ(a.shared.size(), 1U);
  EXPECT_EQ(shared_with(a, two), (std::vector<std::size_t>{1}));
  ASSERT_EQ(a.waits.size(), 1U);
  EXPECT_EQ(a.waits[0].origin, two);
  EXPECT_EQ(a.waits[0].cursor, 1U);
  EXPECT_EQ(a.waits[0].resource, theirs.id());
  EXPECT_EQ(a.waits[0].why, hazard::read_after_write);
}

TEST_F(origin_scenarios, several_bindings_of_one_origin_cost_one_wait) {
  const alignment a = engine.analyse(one, {read(mine), read(theirs), read(mine_too), read(theirs_too)});
  EXPECT_EQ(shared_with(a, two), (std::vector<std::size_t>{1, 3}));
  EXPECT_EQ(a.waits.size(), 1U);
}

TEST_F(origin_scenarios, nothing_is_shared_when_all_bindings_are_the_streams_own) {
  const alignment a = engine.analyse(one, {read(mine), read(mine_too)});
  EXPECT_TRUE(a.empty());
  EXPECT_TRUE(a.waits.empty());
}

TEST_F(origin_scenarios, cursors_and_last_synced_tell_the_state_after_resolves) {
  give(engine, one, {read(mine), read(theirs), read(mine_too)});
  EXPECT_EQ(engine.last_synced(one, two), 1U);
  EXPECT_EQ(engine.cursor(one), 2U);
  EXPECT_EQ(engine.last_synced(two, one), 0U);
  EXPECT_EQ(engine.cursor(two), 1U);
  EXPECT_EQ(engine.cursor(stream_id{3}), 0U);
}

TEST_F(origin_scenarios, analyse_changes_nothing) {
  const alignment before = engine.analyse(one, {read(theirs)});
  EXPECT_EQ(engine.analyse(one, {read(theirs)}), before);
  EXPECT_EQ(engine.cursor(one), 1U);
  EXPECT_EQ(engine.last_synced(one, two), 0U);
  auto op = engine.resolve(one, {read(theirs)});
  EXPECT_EQ(op.waits(), before);
}

TEST_F(origin_scenarios, analyse_of_an_unused_stream_does_not_make_it) {
  EXPECT_EQ(engine.analyse(stream_id{3}, {read(theirs)}).waits.size(), 1U);
  EXPECT_EQ(engine.stats().streams, 2U);
}

}  // namespace
}  // namespace braid
