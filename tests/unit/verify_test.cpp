// The prover is proved: what it must catch it catches, and its programs survive being written down.

#include <sstream>

#include "support.hpp"
#include "verify/campaign.hpp"
#include "verify/shrink.hpp"

namespace braid::verify {
namespace {

TEST(verify, random_programs_are_in_order_and_every_dropped_wait_is_detected) {
  const auto result = run_campaign(
      {.programs = 60, .of = {.ops = 200, .streams = 8, .threads = 1}, .jobs = 1}, [](std::uint64_t) {});
  EXPECT_FALSE(result.failed()) << (result.first ? to_text(result.first->shrunk) : "");
  const totals t = result.all();
  EXPECT_EQ(t.violations, 0U);
  EXPECT_EQ(t.value_mismatches, 0U);
  EXPECT_GT(t.waits, 1000U);
  EXPECT_EQ(t.waits, t.minimal_waits);
  EXPECT_EQ(t.dropped_waits, t.dropped_waits_detected);
  EXPECT_EQ(result.point.excess_orderings, 0U);
}

TEST(verify, programs_on_64_streams_are_exact_too) {
#ifdef __SANITIZE_THREAD__
  constexpr unsigned programs = 1;  // of one thread, and slow there
#else
  constexpr unsigned programs = 6;
#endif
  const auto result =
      run_campaign({.programs = programs, .of = {.ops = 1000, .streams = 64, .threads = 1}, .jobs = 1},
                   [](std::uint64_t) {});
  EXPECT_FALSE(result.failed()) << (result.first ? describe(result.first->what) : "");
}

TEST(verify, programs_of_four_threads_are_in_order) {
  const auto result =
      run_campaign({.programs = 40, .of = {.ops = 200, .streams = 8, .threads = 4}}, [](std::uint64_t) {});
  EXPECT_FALSE(result.failed()) << (result.first ? describe(result.first->what) : "");
}

class injected_fault : public testing::TestWithParam<sim::fault> {};

TEST_P(injected_fault, is_caught_every_time) {
  const auto result = run_campaign(
      {.programs = 25, .of = {.ops = 100, .streams = 6, .threads = 1}, .inject = GetParam(), .jobs = 1},
      [](std::uint64_t) {});
  EXPECT_TRUE(result.failed());
  EXPECT_GT(result.all().injected, 30U);
  EXPECT_EQ(result.all().caught, result.all().injected);
  EXPECT_LE(result.first->shrunk.steps.size(), 4U) << to_text(result.first->shrunk);
}

INSTANTIATE_TEST_SUITE_P(faults, injected_fault,
                         testing::Values(sim::fault::missing, sim::fault::superfluous, sim::fault::stale_mark,
                                         sim::fault::uncommitted_cursor),
                         [](const auto& each) { return to_string(each.param); });

TEST(verify, a_program_survives_being_written_down) {
  for (const std::uint32_t threads : {1U, 3U}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      program p = generate({.ops = 60, .streams = 5, .threads = threads}, seed);
      p.points = seed % 2 == 0;
      if (seed % 3 == 0) p.inject = sim::fault::stale_mark;
      std::istringstream in(to_text(p));
      EXPECT_EQ(to_text(parse(in, "text")), to_text(p));
    }
  }
}

TEST(verify, a_program_text_that_is_wrong_is_refused_with_its_place) {
  const auto error = [](const std::string& text) {
    std::istringstream in(text);
    try {
      parse(in, "p.txt");
      return std::string("no error");
    } catch (const usage_error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(error("resource r0 8\nop stream 1, read r1[0,8)\n"),
            "p.txt:2:20: expected a whole number up to 0 in 'op stream 1, read r1[0,8)'");
  EXPECT_EQ(error("resource r0 8\nop stream 1, write r0[4,9)\n").substr(0, 11), "p.txt:2:25:");
  EXPECT_EQ(error("op stream 1, write r0[0,0)\n").substr(0, 8), "p.txt:1:");
  EXPECT_EQ(error("mode sometimes\n"),
            "p.txt:1:6: expected one of event, unasked, point in 'mode sometimes'");
  EXPECT_EQ(error("mode point unasked\n").substr(0, 11), "p.txt:1:12:");
  EXPECT_EQ(error("threads 0\n").substr(0, 8), "p.txt:1:");
  EXPECT_EQ(error("jump\n").substr(0, 20), "p.txt:1:1: expected ");
  EXPECT_EQ(error("resource r3 8\n").substr(0, 8), "p.txt:1:");
  EXPECT_EQ(error("# a comment\n\nseed 3  # and one more\n"), "no error");
}

TEST(verify, shrinking_keeps_what_fails_and_drops_the_rest) {
  program p = generate({.ops = 300, .streams = 4, .threads = 1}, 3);
  const auto fails = [](const program& each) {
    std::size_t writes_of_0 = 0;
    for (const step& s : each.steps) {
      for (const use& u : s.uses) writes_of_0 += u.resource == 0 && u.kind == access::write ? 1 : 0;
    }
    return writes_of_0 >= 2;
  };
  ASSERT_TRUE(fails(p));
  const program small = shrink(p, fails);
  EXPECT_TRUE(fails(small));
  EXPECT_LE(small.steps.size(), 2U);
}

}  // namespace
}  // namespace braid::verify
