// Each allocation of a call fails in turn: what was ordered before stays ordered, and nothing stays locked. A
// program of its own, because it replaces operator new.

#include "failing_allocations.hpp"

#include <gtest/gtest.h>

#include <new>
#include <set>
#include <thread>

#include "braid/multi_stream.hpp"
#include "braid/sim.hpp"

namespace braid {
namespace {

/// Calls `call` with its first, second, ... allocation failing, each after a fresh `prepare`, until one has
/// none that fails. Returns how often it threw.
template <class Prepare, class Call>
unsigned fail_each(Prepare prepare, Call call) {
  unsigned thrown = 0;
  for (long which = 1;; ++which) {
    auto with = prepare();
    bool has_thrown = false;
    failing_allocation = which;
    try {
      call(*with);
    } catch (const std::bad_alloc&) {
      has_thrown = true;
      ++thrown;
    }
    const bool all_went_well = std::exchange(failing_allocation, 0) != 0;
    with->check(has_thrown);
    if (all_went_well) return thrown;
  }
}

multi_stream_options quiet() {
  return {.max_streams = 4,
          .special_streams = 0,
          .logger = std::make_shared<logger>(),
          .marks = mark_policy::lazy,
          .deterministic = true,
          .ops_in_flight = 0,
          .bytes_in_flight = 0};
}

/// A buffer whose first bytes were written one by one, by two streams in turn.
struct written_in_parts {
  explicit written_in_parts(std::uint64_t parts) : count(parts) {
    if (count == 0) give(0, write(x));
    for (std::uint64_t i = 0; i < count; ++i) give(i % 2, write(x, {i, 1}));
  }
  void give(std::uint64_t stream, const binding& b) { (void)engine.resolve(stream_id{stream}, {b}); }
  void check(bool) const {
    std::set<std::uint64_t> needed;
    for (const auto& n : engine.analyse(stream_id{3}, {read(x)}).shared)
      if (n.origin.value < 2) needed.insert(n.origin.value);
    EXPECT_EQ(needed.size(), count == 0 ? 1U : 2U) << "after " << count << " parts";
  }
  std::uint64_t count;
  sim::device device;
  multi_stream<sim::backend> engine{device.backend(), quiet()};
  resource x = resource::memory(1024, "x");
};

TEST(out_of_memory, no_access_is_forgotten_by_a_history_that_cannot_grow) {
  unsigned thrown = 0;
  for (const std::uint64_t parts : {0U, 2U, 3U, 5U, 9U, 17U, 33U, 65U, 128U, 254U, 255U, 256U}) {
    thrown += fail_each([&] { return std::make_unique<written_in_parts>(parts); },
                        [&](written_in_parts& w) {
                          w.give(2, write(w.x, {w.count + 1, 1}));
                        });
  }
  EXPECT_GT(thrown, 12U);
}

TEST(out_of_memory, the_first_op_of_a_thread_leaves_nothing_locked) {
  struct engine_of_threads {
    void check(bool) {
      for (unsigned i = 0; i < 3; ++i) (void)engine.resolve(stream_id{0}, {read_write(x)});  // hangs, or not
    }
    sim::device device;
    multi_stream<sim::unasked_backend> engine{
        device.unasked_backend(),
        {.max_streams = 4, .special_streams = 0, .logger = std::make_shared<logger>()}};
    resource x = resource::memory(1024, "x");
  };
  // A thread of its own each time: what a thread has, it keeps.
  bool is_done = false;
  for (long which = 1; !is_done; ++which) {
    engine_of_threads with;
    std::thread([&] {
      failing_allocation = which;
      for (unsigned i = 0; i < 3; ++i) {
        try {
          (void)with.engine.resolve(stream_id{0}, {read_write(with.x)});
        } catch (const std::bad_alloc&) {
          continue;
        }
      }
      is_done = std::exchange(failing_allocation, 0) != 0;
    }).join();
    with.check(false);
  }
}

}  // namespace
}  // namespace braid
