// The backend's nth call throws, for every n: the exception arrives, what was handed over stays known, the
// engine goes on, and every conflict is still ordered.

#include <atomic>
#include <optional>
#include <thread>

#include "support.hpp"

namespace braid {
namespace {

template <class Backend>
struct scenario {
  sim::device device;
  multi_stream<Backend> engine;
  std::vector<resource> all;
  std::uint64_t thrown = 0;

  static Backend backend_of(const sim::device& d) {
    if constexpr (point_backend<Backend>) {
      return d.point_backend();
    } else if constexpr (std::is_same_v<Backend, sim::unasked_backend>) {
      return d.unasked_backend();
    } else {
      return d.backend();
    }
  }
  explicit scenario() : engine(backend_of(device), test::options()) {
    for (int i = 0; i < 4; ++i) all.push_back(resource::memory(64, "r"));
  }

  /// Gives the op, again if a call fails; false if it could not be given in two tries.
  void op(std::uint64_t stream, const std::vector<std::pair<int, access>>& uses) {
    for (int attempt = 0; attempt < 3; ++attempt) {
      const std::uint64_t before = engine.cursor({stream});
      try {
        std::vector<binding> bindings;
        sim::op work{.label = "op", .touches = {}};
        for (const auto& [r, kind] : uses) {
          bindings.emplace_back(all[static_cast<std::size_t>(r)], kind);
          work.touches.push_back({static_cast<std::uint32_t>(r), 0, {0, 64}, kind, 0});
        }
        auto guard = engine.resolve(stream_id{stream}, bindings);
        device.launch(guard.current(), std::move(work));
        return;
      } catch (const sim::call_failed&) {
        ++thrown;
        EXPECT_LE(engine.cursor({stream}) - before, 1U);  // 1 if it was the launch that failed
      }
    }
    ADD_FAILURE() << "only one call fails";
  }

  void run() {
    op(1, {{0, access::write}, {1, access::write}});
    op(2, {{2, access::write}});
    op(3, {{0, access::read}, {2, access::read}, {3, access::write}});
    op(4, {{0, access::read}, {3, access::read_write}});
    op(1, {{0, access::write}, {2, access::read}});
    op(2, {{1, access::accumulate}});
    op(3, {{1, access::accumulate}});
    op(5, {{0, access::read}, {1, access::read}, {2, access::read}, {3, access::read}});
    op(1,
       {{0, access::read_write}, {1, access::read_write}, {2, access::read_write}, {3, access::read_write}});
  }
};

template <class Backend>
class failing_backend : public testing::Test {};
using backends = testing::Types<sim::backend, sim::unasked_backend, sim::point_mode_backend>;
TYPED_TEST_SUITE(failing_backend, backends);

TYPED_TEST(failing_backend, each_call_in_turn_and_every_conflict_stays_ordered) {
  std::uint64_t total = 0;
  {
    scenario<TypeParam> clean;
    clean.device.fail_call(std::nullopt);
    clean.run();
    total = clean.device.calls();
    EXPECT_EQ(clean.thrown, 0U);
  }
  ASSERT_GT(total, 20U);
  for (std::uint64_t n = 0; n < total; ++n) {
    scenario<TypeParam> s;
    s.device.fail_call(n);
    s.run();
    s.device.fail_call(std::nullopt);
    // A commit that fails happens in a destructor: it is logged and counted, not thrown.
    EXPECT_EQ(s.thrown + s.engine.stats().errors, 1U) << "call " << n;
    if (s.engine.stats().errors == 0) {
      s.device.run_all();
      EXPECT_TRUE(
          sim::check(s.device.log(), {.drop_each_wait = false, .trust_completion = false}).violations.empty())
          << "call " << n;
    }
  }
}

// The reader that was not given did not come after the write: whoever comes after that reader's stream has to
// wait for the write as well.
TYPED_TEST(failing_backend, a_reader_that_could_not_wait_does_not_stand_for_the_write_before_it) {
  for (std::uint64_t call = 0; call < 4; ++call) {
    sim::device device;
    multi_stream<TypeParam> engine{scenario<TypeParam>::backend_of(device), test::options()};
    const resource x = resource::memory(64, "x");
    const auto give = [&](std::uint64_t stream, access kind) {
      auto op = engine.resolve(stream_id{stream}, {binding(x, kind)});
      device.launch(op.current(), {.label = "op", .touches = {{0, 0, {0, 64}, kind, 0}}});
    };
    give(1, access::write);
    test::give(engine, {2}, {});
    device.fail_call(call);
    try {
      auto op = engine.resolve({2}, {read(x)});
    } catch (const sim::call_failed&) {
    }
    device.fail_call(std::nullopt);
    if (engine.stats().errors != 0) continue;  // it was the commit: the device does not know of that op
    give(3, access::write);
    EXPECT_EQ(engine.last_synced({3}, {1}), 1U) << "call " << call;
    EXPECT_TRUE(
        sim::check(device.log(), {.drop_each_wait = false, .trust_completion = false}).violations.empty())
        << "call " << call;
  }
}

TEST(failing_backend, waits_that_were_handed_over_before_the_failure_stay_known) {
  sim::device device;
  multi_stream<sim::backend> engine{device.backend(), test::options()};
  const resource x = resource::token("x");
  const resource y = resource::token("y");
  test::give(engine, {1}, {write(x)});
  test::give(engine, {2}, {write(y)});
  test::give(engine, {3}, {});
  // Calls for the next op: early mark of stream 3, mark of 1, wait, mark of 2, wait. The last one fails.
  device.fail_call(4);
  EXPECT_THROW(test::give(engine, {3}, {read(x), read(y)}), sim::call_failed);
  EXPECT_EQ(engine.cursor({3}), 1U);
  EXPECT_EQ(engine.last_synced({3}, {1}), 1U);
  EXPECT_EQ(engine.last_synced({3}, {2}), 0U);
  EXPECT_EQ(test::waits_of(engine, {3}, {read(x), read(y)}), 1U);
}

TEST(failing_backend, a_stream_that_could_not_be_made_is_made_at_the_next_try) {
  sim::device device;
  multi_stream<sim::backend> engine{device.backend(), test::options()};
  device.fail_call(0);
  EXPECT_THROW(test::give(engine, {1}, {}), sim::call_failed);
  EXPECT_EQ(engine.cursor({1}), 0U);
  test::give(engine, {1}, {});
  EXPECT_EQ(engine.cursor({1}), 1U);
}

TEST(failing_backend, an_object_whose_event_could_not_be_recorded_goes_when_its_op_is_over) {
  for (const bool is_run : {true, false}) {
    std::atomic<bool> is_gone{false};
    sim::device device;
    {
      multi_stream<sim::backend> engine{device.backend(), test::options()};
      {
        auto op = engine.resolve(stream_id{1}, {});
        device.launch(op.current(), {.label = "op", .touches = {}});
      }
      device.fail_call(0);
      engine.retire(std::shared_ptr<void>(nullptr,
                                          [&](void*) {
                                            EXPECT_TRUE(device.has_run(0));
                                            is_gone = true;
                                          }),
                    {1});
      EXPECT_EQ(engine.stats().errors, 1U);
      if (is_run) {
        while (!is_gone) device.run_all();  // without another submit
      }
    }
    EXPECT_TRUE(is_gone);
  }
}

// The question of the retire thread fails, which says nothing of the op.
TEST(failing_backend, a_question_that_fails_does_not_say_that_the_work_is_over) {
  std::atomic<bool> is_gone{false};
  sim::device device;
  multi_stream<sim::backend> engine{device.backend(), test::options()};
  const resource x = resource::memory(64, "x");
  {
    auto op = engine.resolve(stream_id{1}, {write(x)});
    device.launch(op.current(), {.label = "write", .touches = {{0, 0, {0, 64}, access::write, 0}}});
  }
  engine.retire(std::shared_ptr<void>(nullptr, [&](void*) { is_gone = true; }), {1});
  device.fail_call(0);
  while (engine.stats().errors == 0) std::this_thread::yield();
  device.fail_call(std::nullopt);
  EXPECT_FALSE(is_gone);
  {
    auto op = engine.resolve(stream_id{2}, {read(x)});
    EXPECT_EQ(op.waits().waits.size(), 1U);
    device.launch(op.current(), {.label = "read", .touches = {{0, 0, {0, 64}, access::read, 0}}});
  }
  device.run_all();
  EXPECT_TRUE(sim::check(device.log()).violations.empty());
  while (!is_gone) device.run_all();
}

struct broken_backend : test::telling_backend {
  event flush(stream&) { throw std::runtime_error("device lost"); }
};

TEST(failing_backend, an_engine_on_a_device_that_is_lost_can_be_destroyed) {
  multi_stream<broken_backend> engine{broken_backend{}, test::options()};
  const resource x = resource::token("x");
  test::give(engine, {1}, {write(x)});
  EXPECT_THROW(test::give(engine, {2}, {read(x)}), std::runtime_error);
  EXPECT_THROW(engine.wait_all(), std::runtime_error);
  EXPECT_FALSE(engine.shutdown(std::chrono::milliseconds(1)).complete());
}

}  // namespace
}  // namespace braid
