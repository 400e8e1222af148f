#include "braid/detail/recorder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "braid/error.hpp"

namespace braid::detail {
namespace {

constexpr std::uint32_t streams = 6;

struct given {
  std::uint32_t lane;
  std::vector<binding> bound;
};

/// Some of the ops are refused: they bind a resource twice, in conflict.
std::vector<given> random_sequence(std::mt19937& random, const std::vector<resource>& resources) {
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  std::vector<given> ops(1 + below(60));
  for (given& op : ops) {
    op.lane = below(streams);
    for (std::uint32_t i = 1 + below(4); i > 0; --i) {
      const resource& r = resources[below(static_cast<std::uint32_t>(resources.size()))];
      const byte_range part{below(4) * 8, 8 + below(2) * 8};
      switch (below(6)) {
        case 0: op.bound.push_back(read(r)); break;
        case 1: op.bound.push_back(write(r)); break;
        case 2: op.bound.push_back(read_write(r)); break;
        case 3: op.bound.push_back(read(r, part)); break;
        case 4: op.bound.push_back(write(r, part)); break;
        default: op.bound.push_back(accumulate(r, below(2)));
      }
    }
  }
  return ops;
}

/// All that the recorder finds, in words.
std::string analyse(recorder& with, const std::vector<given>& ops) {
  std::string text;
  std::vector<recorder::wait> waits;
  for (const given& op : ops) {
    try {
      const recorded_place at =
          with.add(static_cast<lane_id>(op.lane), stream_id{op.lane + 10U}, op.bound, waits);
      text += fmt::format("op {}.{}\n", at.part, at.index);
    } catch (const usage_error&) {
      text += "refused\n";
    }
  }
  std::vector<std::uint32_t> numbers;
  std::vector<std::uint32_t> firsts;
  const replay_plan plan = with.finish(numbers, waits, firsts);
  for (const auto& w : waits) {
    text += fmt::format("wait {}.{} {} {} {}\n", w.on.part, w.on.index, static_cast<unsigned>(w.why),
                        w.resource, w.binding);
  }
  for (const std::uint32_t n : numbers) text += fmt::format("number {}\n", n);
  for (const std::uint32_t n : firsts) text += fmt::format("first {}\n", n);
  for (const auto& p : plan.parts) {
    text += fmt::format("part {} {} {}:", index_of(p.lane), p.id.value, p.ops);
    for (const std::uint64_t n : p.waits) text += fmt::format(" {}", n);
    for (const std::uint64_t n : p.again) text += fmt::format(" {}", n);
    text += "\n";
  }
  const auto add_uses = [&](const char* what, const std::vector<replay_plan::use>& uses) {
    for (const auto& u : uses) {
      text += fmt::format("{} {}.{} {} {} {}+{} {}\n", what, u.at.part, u.at.index, u.bound.state->id,
                          static_cast<unsigned>(u.bound.kind), u.bound.range.offset, u.bound.range.size,
                          u.is_changed);
    }
  };
  add_uses("first", plan.first);
  add_uses("last", plan.last);
  for (const auto& l : plan.learned) text += fmt::format("learned {} {}.{}\n", l.part, l.of.part, l.of.index);
  return text;
}

TEST(recorder, finds_the_same_in_a_sequence_whatever_it_was_used_for_before) {
  std::mt19937 random(7);
  std::vector<resource> resources;
  for (int i = 0; i < 8; ++i) resources.push_back(resource::token("r"));
  recorder used(streams);
  std::size_t waits = 0;
  for (int i = 0; i < 200; ++i) {
    const std::vector<given> ops = random_sequence(random, resources);
    recorder fresh(streams);
    const std::string expected = analyse(fresh, ops);
    ASSERT_EQ(analyse(used, ops), expected) << "sequence " << i;
    waits += expected.find("wait") != std::string::npos ? 1 : 0;
    ASSERT_TRUE(used.clear());
  }
  EXPECT_GT(waits, 150U);
}

TEST(recorder, is_let_go_after_a_long_sequence) {
  const resource r = resource::token("r");
  const std::vector<given> ops(5000, given{0, {read_write(r)}});
  recorder used(streams);
  (void)analyse(used, ops);
  EXPECT_FALSE(used.clear());

  std::vector<resource> all;
  given wide{0, {}};
  for (int i = 0; i < 20'000; ++i) wide.bound.push_back(read(all.emplace_back(resource::token("r"))));
  recorder of_one_op(streams);
  (void)analyse(of_one_op, {wide});
  EXPECT_FALSE(of_one_op.clear());
}

}  // namespace
}  // namespace braid::detail
