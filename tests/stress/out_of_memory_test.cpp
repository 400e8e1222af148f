// Each allocation of a call fails in turn: what was ordered before stays ordered, and nothing stays locked. A
// program of its own, because it replaces operator new.

#include "failing_allocations.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
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

/// Its own allocations do not fail.
struct steady_backend : sim::unasked_backend {
  explicit steady_backend(const sim::device& d) : sim::unasked_backend(d.unasked_backend()) {}
  struct spared {
    long allocation = std::exchange(failing_allocation, 0);
    ~spared() { failing_allocation = allocation; }
  };
  stream create_stream() {
    const spared here;
    return unasked_backend::create_stream();
  }
  event flush(stream& s) {
    const spared here;
    return unasked_backend::flush(s);
  }
  void wait_event(stream& s, const event& e) {
    const spared here;
    unasked_backend::wait_event(s, e);
  }
  void wait_event_sync(const event& e) {
    const spared here;
    unasked_backend::wait_event_sync(e);
  }
  bool is_complete(const event& e) {
    const spared here;
    return unasked_backend::is_complete(e);
  }
};

/// Two streams in turn, in a routine; what its ops do is in the device's log.
struct followed_rounds {
  explicit followed_rounds(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      give(0, {{0, access::read_write}, {2, access::read}});
      give(1, {{0, access::read}, {1, access::read_write}});
    }
  }
  void give(std::uint64_t stream, const std::vector<std::pair<std::uint32_t, access>>& uses) {
    std::vector<binding> bindings;
    sim::op work{.label = "op", .touches = {}};
    for (const auto& [r, kind] : uses) {
      bindings.emplace_back(all[r], kind);
      work.touches.push_back({r, 0, {0, 64}, kind, 0});
    }
    failing_allocation = which;
    try {
      auto guard = engine.resolve(stream_id{stream}, bindings);
      which = std::exchange(failing_allocation, 0);
      device.launch(guard.current(), std::move(work));
    } catch (const std::bad_alloc&) {
      which = std::exchange(failing_allocation, 0);
    }
  }
  long which = 0;  // allocation that is to fail, counted on
  sim::device device;
  multi_stream<steady_backend> engine{steady_backend(device),
                                      {.max_streams = 8,
                                       .special_streams = 0,
                                       .logger = std::make_shared<logger>(),
                                       .marks = mark_policy::learned,
                                       .deterministic = false,
                                       .ops_in_flight = 0,
                                       .bytes_in_flight = 0}};
  std::vector<resource> all{resource::memory(64, "a"), resource::memory(64, "b"), resource::memory(64, "c")};
};

TEST(out_of_memory, a_routine_that_ends_without_it_loses_no_order) {
  for (const long run : {0L, 1L, 2L, 5L}) {
    for (const int rounds : {5, 6, 20}) {
      for (long first = 1; first < 60; ++first) {
        std::thread([&] {  // a thread of its own, so that nothing was found before
          followed_rounds with(rounds);
          ASSERT_GT(with.engine.cursor(stream_id{0}), 0U);
          with.give(0, {{0, access::read_write}, {2, access::read}});  // it ends in the middle of a round
          with.which = first;
          failing_after = run;
          with.give(2, {{1, access::write}});
          with.which = failing_after = 0;
          for (const std::uint32_t r : {0U, 1U, 2U}) with.give(3 + r, {{r, access::write}});
          with.device.run_all();
          EXPECT_TRUE(sim::check(with.device.log(), {.drop_each_wait = false}).violations.empty())
              << first << ", " << run << " more, after " << rounds << " rounds";
        })
            .join();
      }
    }
  }
}

TEST(out_of_memory, what_is_retired_without_it_stays_until_its_op_is_over) {
  for (long which = 1;; ++which) {
    sim::device device;
    std::atomic<bool> is_gone{false};
    bool all_went_well = false;
    {
      multi_stream<steady_backend> engine{
          steady_backend(device),
          {.max_streams = 4, .special_streams = 0, .logger = std::make_shared<logger>()}};
      {
        auto guard = engine.resolve(stream_id{0}, {});
        device.launch(guard.current(), {.label = "op", .touches = {}});
      }
      std::shared_ptr<void> kept(nullptr, [&](void*) {
        EXPECT_TRUE(device.has_run(0)) << "allocation " << which;
        is_gone = true;
      });
      failing_allocation = which;
      try {
        engine.retire(std::move(kept), stream_id{0});
      } catch (const std::bad_alloc&) {
        EXPECT_NE(kept, nullptr);
      }
      all_went_well = std::exchange(failing_allocation, 0) != 0;
      if (kept != nullptr) device.run_all();
    }
    EXPECT_TRUE(is_gone);
    if (all_went_well) return;
  }
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
