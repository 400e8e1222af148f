#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "verify/run.hpp"

namespace braid::verify {
namespace {

RC_GTEST_PROP(program_property, any_program_is_in_order_with_the_fewest_waits, ()) {
  const shape of{.ops = *rc::gen::inRange<std::uint32_t>(1, 120),
                 .streams = *rc::gen::inRange<std::uint32_t>(1, 20),
                 .threads = 1};
  program p = generate(of, *rc::gen::arbitrary<std::uint64_t>());
  p.points = *rc::gen::arbitrary<bool>();
  const outcome o = run(p);
  if (o.failed()) RC_FAIL(describe(o) + to_text(p));
}

RC_GTEST_PROP(program_property, a_deterministic_program_makes_the_same_waits_every_time, ()) {
  program p = generate({.ops = 80, .streams = 6, .threads = 1}, *rc::gen::arbitrary<std::uint64_t>());
  p.deterministic = true;
  p.points = *rc::gen::arbitrary<bool>();
  const outcome first = run(p);
  p.seed = *rc::gen::arbitrary<std::uint64_t>();  // the device runs at another pace and in another order
  const outcome second = run(p);
  RC_ASSERT(first.report.waits == second.report.waits);
  RC_ASSERT(first.report.excess_orderings == second.report.excess_orderings);
}

}  // namespace
}  // namespace braid::verify
