#include "braid/alignment.hpp"

#include "support.hpp"

namespace braid {
namespace {

using test::give;
using test::options;
using test::telling_backend;

TEST(alignment, a_wait_that_another_wait_brings_along_is_removed) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  give(engine, {1}, {write(x)});
  give(engine, {2}, {read(x), write(y)});
  auto op = engine.resolve(stream_id{3}, {read(x), read(y)});
  EXPECT_EQ(op.waits().shared.size(), 2U);
  ASSERT_EQ(op.waits().waits.size(), 1U);
  EXPECT_EQ(op.waits().waits[0].origin, stream_id{2});
  EXPECT_EQ(engine.stats().elided_implied, 1U);
}

TEST(alignment, of_two_waits_that_bring_each_other_along_one_stays) {
  // Both streams' tails know each other: whichever mark is taken covers the other need.
  multi_stream<telling_backend> engine{telling_backend{}, [] {
                                         auto o = options();
                                         o.marks = mark_policy::lazy;
                                         return o;
                                       }()};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  const resource z = resource::token("z");
  give(engine, {1}, {write(x)});
  give(engine, {2}, {write(y)});
  give(engine, {1}, {read(y)});
  give(engine, {2}, {read(x)});
  auto op = engine.resolve(stream_id{3}, {read(x), read(y), write(z)});
  EXPECT_EQ(op.waits().shared.size(), 2U);
  EXPECT_EQ(op.waits().waits.size(), 1U);
}

TEST(alignment, reads_as_text) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  const resource x = resource::token("x");
  give(engine, {1}, {write(x)});
  EXPECT_EQ(to_string(engine.analyse({2}, {read(x)})),
            "binding 0 needs op 1 of stream 1 (RAW)\nwaits for op 1 of stream 1 (RAW, binding 0)\n");
  EXPECT_EQ(to_string(engine.analyse({1}, {read(x)})), "nothing shared\n");
}

TEST(alignment, says_that_what_was_noted_was_submitted_elsewhere) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  const resource x = resource::token("x");
  engine.note(write(x), {});
  EXPECT_EQ(to_string(engine.analyse({2}, {read(x)})),
            "binding 0 needs work submitted elsewhere (RAW)\n"
            "waits for work submitted elsewhere (RAW, binding 0)\n");
}

}  // namespace
}  // namespace braid
