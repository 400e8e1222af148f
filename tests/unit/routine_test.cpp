// What a thread does again and again is not analysed again; and nobody can tell.

#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <random>
#include <thread>

#include "braid/detail/routine.hpp"
#include "support.hpp"

namespace braid {
namespace {

using engine_type = multi_stream<sim::unasked_backend>;
using uses = std::vector<std::pair<unsigned, access>>;
constexpr std::uint64_t size = 64;

multi_stream_options undetermined() {
  auto o = test::options();
  o.deterministic = false;
  return o;
}

/// Ops on a simulated device, whose log is checked in the end: each conflict is in order, and no wait can be
/// dropped.
struct rig {
  explicit rig(unsigned resources = 10, const multi_stream_options& with = undetermined())
      : engine(device.unasked_backend(), with) {
    for (unsigned i = 0; i < resources; ++i) all.push_back(resource::memory(size, "r" + std::to_string(i)));
  }
  ~rig() { check(); }
  rig(const rig&) = delete;
  rig& operator=(const rig&) = delete;

  void op(std::uint64_t stream, const uses& of, const std::function<void()>& inside = {}) {
    std::vector<binding> bindings;
    sim::op work{.label = "op", .touches = {}};
    for (const auto& [r, kind] : of) {
      bindings.emplace_back(all[r], kind);
      work.touches.push_back({r, 0, {0, size}, kind, 0});
    }
    auto guard = engine.resolve(stream_id{stream}, bindings);
    device.launch(guard.current(), std::move(work));
    last_waits = guard.waits().waits;
    if (inside) inside();
  }
  /// Eight ops that read one resource and write one each, and an op that reads those and writes that.
  void fork_join() {
    uses join{{8, access::read_write}};
    for (unsigned i = 0; i < 8; ++i) join.emplace_back(i, access::read);
    op(0, join);
    for (unsigned i = 0; i < 8; ++i) op(i, {{8, access::read}, {i, access::read_write}});
  }
  void pingpong() {
    op(0, {{0, access::read_write}});
    op(1, {{0, access::read_write}});
  }
  std::uint64_t followed() const { return engine.stats().followed; }

  void check() {
    if (is_checked) return;
    is_checked = true;
    device.run_all();
    const auto found = sim::check(device.log());
    EXPECT_GT(found.conflicts_checked, 0U);
    EXPECT_TRUE(found.violations.empty());
    EXPECT_EQ(found.waits, found.minimal_waits);
  }

  sim::device device;
  engine_type engine;
  std::vector<resource> all;
  std::vector<stream_wait> last_waits;
  bool is_checked = false;
};

template <class F>
void on_another_thread(F f) {
  std::thread(std::move(f)).join();
}

TEST(routine, is_followed_in_its_fourth_round_and_waits_as_before) {
  rig r;
  for (int i = 0; i < 3; ++i) r.fork_join();
  EXPECT_EQ(r.followed(), 0U);
  const std::uint64_t before = r.engine.stats().waits_inserted();
  for (int i = 0; i < 50; ++i) r.fork_join();
  const stream_stats after = r.engine.stats();
  EXPECT_GE(after.followed, 45U * 9);
  EXPECT_EQ(after.waits_inserted() - before, 50U * 14);
  EXPECT_EQ(after.ops, 53U * 9);
}

TEST(routine, records_an_event_only_where_another_stream_waits_for_it) {
  rig r;
  for (int i = 0; i < 10; ++i) r.fork_join();
  const std::uint64_t before = r.engine.stats().marks;
  for (int i = 0; i < 10; ++i) r.fork_join();  // begins anew: stats() ended the one before
  const std::uint64_t once = r.engine.stats().marks - before;
  for (int i = 0; i < 110; ++i) r.fork_join();
  const std::uint64_t more = r.engine.stats().marks - before - 2 * once;
  EXPECT_GE(more, 100U * 8);
  EXPECT_LE(more, 100U * 8 + 16);  // in the usual way a stream also marks what it did before it waits
}

TEST(routine, tells_what_its_ops_wait_for) {
  rig r;
  for (int i = 0; i < 10; ++i) r.pingpong();
  const auto waits = r.last_waits;
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].origin, stream_id{0});
  EXPECT_EQ(waits[0].cursor, 10U);
  EXPECT_EQ(waits[0].reached, 10U);
  EXPECT_EQ(waits[0].resource, r.all[0].id());
  EXPECT_EQ(waits[0].why, hazard::read_after_write);
  EXPECT_GT(r.followed(), 0U);
}

TEST(routine, knows_at_its_end_what_its_streams_waited_for) {
  rig r;
  for (int i = 0; i < 20; ++i) r.fork_join();
  for (unsigned i = 1; i < 8; ++i) {
    EXPECT_EQ(r.engine.last_synced({0}, {i}), 19U) << i;
    EXPECT_EQ(r.engine.last_synced({i}, {0}), 39U) << i;
    // Through the op that joined all.
    EXPECT_EQ(r.engine.last_synced({i}, {i == 7 ? 1U : 7U}), 19U) << i;
  }
  EXPECT_GT(r.followed(), 0U);
}

// Against clocks that are kept here, op by op, from the waits that the engine tells of.
TEST(routine, knows_after_any_number_of_rounds_what_its_waits_have_taught) {
  constexpr std::uint64_t streams = 7;
  std::uint64_t followed = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    rig r;
    std::vector<std::vector<std::array<std::uint64_t, streams>>> knew(streams);  // by stream and op
    for (auto& each : knew) each.push_back({});
    const auto give = [&](std::uint64_t stream, const uses& of) {
      r.op(stream, of);
      auto now = knew[stream].back();
      for (const stream_wait& w : r.last_waits) {
        const auto& taught = knew[w.origin.value][w.reached];
        for (std::uint64_t i = 0; i < streams; ++i) {
          if (i != stream) now[i] = std::max(now[i], taught[i]);
        }
        now[w.origin.value] = std::max(now[w.origin.value], w.reached);
      }
      knew[stream].push_back(now);
    };
    const unsigned width = 2 + below(streams - 3);
    const auto any_use = [&](unsigned resource) {
      constexpr access kinds[] = {access::read, access::read, access::write, access::read_write};
      return std::pair(resource, kinds[below(4)]);
    };
    // Of these the streams of the routine know something that they do not learn again.
    for (unsigned i = below(20); i > 0; --i) give(below(streams), {any_use(below(10))});
    std::vector<std::pair<std::uint64_t, uses>> round;
    for (unsigned i = 2 + below(14); i > 0; --i) {
      uses of{any_use(below(5))};
      if (below(2) != 0) of.push_back(any_use(5 + below(3)));
      round.emplace_back(below(width), of);
    }
    for (unsigned rounds = 4 + below(40); rounds > 0; --rounds) {
      for (const auto& [stream, of] : round) give(stream, of);
    }
    for (unsigned i = 0, end = below(static_cast<unsigned>(round.size())); i < end; ++i)
      give(round[i].first, round[i].second);
    for (std::uint64_t s = 0; s < streams; ++s) {
      for (std::uint64_t of = 0; of < streams; ++of) {
        if (of == s) continue;
        EXPECT_EQ(r.engine.last_synced({s}, {of}), knew[s].back()[of]) << seed << ": " << s << ", " << of;
      }
    }
    followed += r.followed();
    for (unsigned i = 0; i < 10; ++i) give(below(streams), {any_use(below(10))});  // as the rig checks
  }
  EXPECT_GT(followed, 10'000U);
}

TEST(routine, passes_on_what_a_stream_knew_before_it) {
  for (const unsigned rounds : {7U, 12U, 40U}) {
    rig r;
    r.op(7, {{9, access::write}});
    r.op(0, {{9, access::read}, {0, access::write}});
    // Each stage reads what the one before it made in the round before.
    for (unsigned i = 0; i < rounds; ++i) {
      for (unsigned stage = 6; stage > 0; --stage)
        r.op(stage, {{stage - 1, access::read}, {stage, access::read_write}});
      r.op(0, {{0, access::read_write}});
    }
    EXPECT_EQ(r.engine.last_synced({6}, {7}), 1U) << rounds;
    EXPECT_GT(r.followed(), 0U) << rounds;
  }
}

TEST(routine, begins_again_as_soon_after_something_else) {
  rig r;
  for (int turn = 1; turn <= 20; ++turn) {
    r.op(0, {{8, access::write}});
    for (int i = 0; i < 100; ++i) r.op(0, {{0, access::read_write}});
    r.op(0, {{0, access::read}, {8, access::write}});
  }
  EXPECT_GE(r.followed(), 20U * 95);
}

// The other thread writes what the routine has read in its last round and will read again, and it is over
// before that.
TEST(routine, that_ends_at_once_hides_no_write_of_another_thread) {
  const std::pair<std::uint64_t, uses> round[] = {{0, {{9, access::read}, {1, access::read_write}}},
                                                  {1, {{1, access::read}, {2, access::read_write}}},
                                                  {0, {{8, access::read}, {0, access::read_write}}}};
  for (unsigned total = 8; total < 14; ++total) {
    for (unsigned place = 5; place < total; ++place) {
      for (unsigned first = 0; first < 3; ++first) {
        SCOPED_TRACE(std::to_string(total) + ", " + std::to_string(place) + ", " + std::to_string(first));
        rig r;
        r.op(0, {{9, access::write}, {8, access::write}});
        for (unsigned i = 0; i < total; ++i) {
          if (i == place) {
            on_another_thread([&] {
              r.op(2, {{9, access::write}});
              r.op(2, {{8, access::write}});
            });
          }
          const auto& [stream, of] = round[(first + i) % 3];
          r.op(stream, of);
        }
        r.op(4, {{3, access::write}});
        r.op(3, {{9, access::write}});
        r.op(3, {{8, access::write}});
      }
    }
  }
}

TEST(routine, of_a_retired_object_is_over_when_its_engine_is) {
  resource outlives = resource::memory(size, "x");
  sim::device device;
  struct last_words {
    last_words(engine_type& e, const resource& r) : engine(&e), used(&r) {}
    last_words(last_words&& other) noexcept
        : engine(std::exchange(other.engine, nullptr)), used(other.used) {}
    last_words& operator=(last_words&&) = delete;
    ~last_words() {
      for (unsigned i = 0; engine != nullptr && i < 80; ++i)
        (void)engine->resolve(stream_id{i % 2}, {read_write(*used)});
    }
    engine_type* engine;
    const resource* used;
  };
  {
    engine_type engine(device.unasked_backend(), undetermined());
    (void)engine.resolve(stream_id{0}, {write(outlives)});
    engine.retire(last_words(engine, outlives), stream_id{0});
    device.run_all();
  }
  // Who looks for routines of this resource finds none whose engine has gone.
  outlives = {};
  detail::end_all_routines();
}

TEST(routine, may_be_long) {
  rig r(400);
  const auto round = [&] {
    for (unsigned t = 0; t < 50; ++t) {
      for (unsigned i = 0; i < 8; ++i) {
        uses of{{t * 8 + i, access::write}};
        for (unsigned from = i == 0 ? 0 : i - 1; t > 0 && from < std::min(i + 2, 8U); ++from)
          of.emplace_back((t - 1) * 8 + from, access::read);
        r.op(i, of);
      }
    }
  };
  for (int i = 0; i < 4; ++i) round();
  const stream_stats before = r.engine.stats();
  EXPECT_GE(before.followed, 350U);
  for (int i = 0; i < 6; ++i) round();
  const stream_stats after = r.engine.stats();
  EXPECT_EQ(after.waits_inserted() - before.waits_inserted(), 6 * 49 * 14U);
  r.device.run_all();
  const auto found = sim::check(r.device.log(), {.drop_each_wait = false});
  EXPECT_TRUE(found.violations.empty());
  r.is_checked = true;  // to drop each of 7,000 waits takes too long
}

TEST(routine, ends_with_any_other_op_at_any_place) {
  for (unsigned place = 0; place < 9; ++place) {
    rig r;
    for (int i = 0; i < 10; ++i) r.fork_join();
    unsigned left = place;
    const auto some = [&](std::uint64_t stream, const uses& of) {
      if (left == 0) return;
      --left;
      r.op(stream, of);
    };
    uses join{{8, access::read_write}};
    for (unsigned i = 0; i < 8; ++i) join.emplace_back(i, access::read);
    some(0, join);
    for (unsigned i = 0; i < 8; ++i) some(i, {{8, access::read}, {i, access::read_write}});
    r.op(3, {{8, access::read}, {5, access::write}});
    for (int i = 0; i < 3; ++i) r.fork_join();
    EXPECT_GT(r.followed(), 0U);
  }
}

TEST(routine, ends_when_another_thread_comes_for_what_it_writes) {
  rig r;
  for (int i = 0; i < 10; ++i) r.fork_join();
  on_another_thread([&] { r.op(5, {{3, access::write}, {8, access::read}}); });
  for (int i = 0; i < 10; ++i) r.fork_join();
  EXPECT_GT(r.followed(), 0U);
}

TEST(routine, ends_when_another_thread_comes_for_one_of_its_streams) {
  rig r;
  for (int i = 0; i < 10; ++i) r.pingpong();
  on_another_thread([&] { r.op(1, {{9, access::write}}); });
  r.pingpong();
  r.op(2, {{9, access::read}, {0, access::read}});
  EXPECT_GT(r.followed(), 0U);
}

TEST(routine, goes_on_while_others_read_what_it_reads) {
  rig r;
  r.op(7, {{9, access::write}});
  const auto round = [&] {
    r.op(0, {{9, access::read}, {0, access::read_write}});
    r.op(1, {{9, access::read}, {0, access::read_write}});
  };
  for (int i = 0; i < 20; ++i) round();
  on_another_thread([&] { r.op(2, {{9, access::read}, {1, access::write}}); });
  for (int i = 0; i < 20; ++i) round();
  EXPECT_GE(r.followed(), 70U);  // all but the first rounds
}

TEST(routine, ends_when_another_thread_writes_what_it_reads) {
  rig r;
  r.op(7, {{9, access::write}});
  const auto round = [&] {
    r.op(0, {{9, access::read}, {0, access::read_write}});
    r.op(1, {{9, access::read}, {0, access::read_write}});
  };
  for (int i = 0; i < 20; ++i) round();
  on_another_thread([&] { r.op(2, {{9, access::write}}); });
  for (int i = 0; i < 20; ++i) round();
  EXPECT_GT(r.followed(), 0U);
}

TEST(routine, of_a_thread_that_ended_holds_nobody_up) {
  rig r;
  on_another_thread([&] {
    for (int i = 0; i < 20; ++i) r.fork_join();
  });
  r.op(2, {{8, access::write}, {4, access::read}});
  EXPECT_GT(r.followed(), 0U);
}

TEST(routine, is_over_when_its_engine_is) {
  for (int i = 0; i < 3; ++i) {
    rig r;
    for (int k = 0; k < 20; ++k) r.pingpong();
    r.check();
  }
}

TEST(routine, waiting_for_a_resource_waits_for_its_last_round) {
  rig r;
  for (int i = 0; i < 20; ++i) r.pingpong();
  const std::size_t last = r.device.launched() - 1;
  r.engine.wait(r.all[0]);
  EXPECT_TRUE(r.device.has_run(last));
  for (int i = 0; i < 20; ++i) {
    r.pingpong();
    r.engine.wait(r.all[0]);
  }
  EXPECT_GE(r.followed(), 60U);  // and goes on
}

TEST(routine, outlives_a_wait_for_its_streams) {
  rig r;
  for (int i = 0; i < 20; ++i) {
    r.pingpong();
    r.engine.wait({1});
    r.engine.wait_all();
  }
  EXPECT_GE(r.followed(), 30U);
}

TEST(routine, a_resource_may_go_between_its_rounds) {
  rig r;
  for (int i = 0; i < 20; ++i) r.fork_join();
  r.all[3] = {};
  for (int i = 0; i < 3; ++i) r.pingpong();
}

TEST(routine, a_resource_may_go_inside_an_op) {
  for (const access kind : {access::read, access::write}) {
    rig r;
    const auto round = [&](const std::function<void()>& inside = {}) {
      r.op(0, {{0, access::read_write}, {2, access::read}});
      r.op(1, {{0, access::read_write}, {1, kind}}, inside);
    };
    for (int i = 0; i < 10; ++i) round();
    round([&] { r.all[1] = {}; });
    r.op(2, {{0, access::read_write}, {2, access::write}});
  }
}

TEST(routine, a_resource_may_go_while_a_round_is_taken_down) {
  rig r;
  for (int i = 0; i < 30; ++i) {
    // Memory of a resource that went is often the next one's: the ops look the same.
    r.all[1] = resource::memory(size, "short");
    r.op(0, {{0, access::read_write}});
    auto guard = r.engine.resolve(stream_id{1}, {read_write(r.all[1])});
  }
}

TEST(routine, a_resource_may_be_handed_on_between_its_rounds) {
  rig r;
  for (int i = 0; i < 10; ++i) r.pingpong();
  const resource next = r.all[0].hand_on("next");
  auto op = r.engine.resolve(stream_id{2}, {write(next)});
  ASSERT_EQ(op.waits().waits.size(), 1U);
  EXPECT_EQ(op.waits().waits[0].origin, stream_id{1});
  EXPECT_EQ(op.waits().waits[0].cursor, 10U);
  r.is_checked = true;  // an op without work is not in the log
}

TEST(routine, comes_after_an_access_that_is_not_braids) {
  rig r;
  const auto round = [&] {
    r.op(0, {{1, access::read}, {0, access::read_write}});
    r.op(1, {{1, access::read}, {0, access::read_write}});
  };
  for (int i = 0; i < 10; ++i) round();
  auto backend = r.device.unasked_backend();
  auto foreign = backend.create_stream();
  r.engine.note(write(r.all[1]), backend.flush(foreign));
  const std::uint64_t before = r.engine.stats().waits_inserted();
  round();
  EXPECT_EQ(r.engine.stats().waits_inserted() - before, 3U);  // each for the other, and one for the access
  r.is_checked = true;                                        // the checker knows nothing of the access
}

TEST(routine, what_is_retired_inside_goes_after_its_op) {
  struct gone {
    explicit gone(std::atomic<int>& c) : count(&c) {}
    gone(gone&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
    gone& operator=(gone&&) = delete;
    ~gone() {
      if (count != nullptr) ++*count;
    }
    std::atomic<int>* count;
  };
  std::atomic<int> count{0};
  {
    rig r;
    for (int i = 0; i < 20; ++i) {
      r.op(0, {{0, access::read_write}});
      auto guard = r.engine.resolve(stream_id{1}, {read_write(r.all[0])});
      guard.retire(gone(count));
    }
    r.is_checked = true;  // ops without work are not in the log
    EXPECT_GT(r.followed(), 0U);
  }
  EXPECT_EQ(count, 20);
}

TEST(routine, ends_when_its_waits_are_to_be_told) {
  auto with = undetermined();
  std::atomic<int> lines{0};
  with.logger = std::make_shared<logger>([&](log_area, log_level, std::string_view) { ++lines; });
  rig r(10, with);
  for (int i = 0; i < 10; ++i) r.pingpong();
  EXPECT_EQ(lines, 0);
  with.logger->set_level(log_area::streaming, log_level::basic);
  for (int i = 0; i < 10; ++i) r.pingpong();
  EXPECT_EQ(lines, 20);
  EXPECT_GT(r.followed(), 0U);
}

TEST(routine, is_not_followed_where_completion_may_not_be_consulted) {
  rig r(10, test::options());
  for (int i = 0; i < 20; ++i) r.fork_join();
  EXPECT_EQ(r.followed(), 0U);
}

TEST(routine, a_call_that_fails_ends_it_and_nothing_is_lost) {
  std::uint64_t calls = 0;
  for (std::uint64_t n = 0; n == 0 || n < calls; ++n) {
    rig r;
    for (int i = 0; i < 6; ++i) r.fork_join();
    r.device.fail_call(n);
    for (int i = 0; i < 3; ++i) {
      uses join{{8, access::read_write}};
      for (unsigned k = 0; k < 8; ++k) join.emplace_back(k, access::read);
      const auto again = [&](std::uint64_t stream, const uses& of) {
        const std::size_t before = r.device.launched();
        try {
          r.op(stream, of);
        } catch (const sim::call_failed&) {
          if (r.device.launched() == before) r.op(stream, of);
        }
      };
      again(0, join);
      for (unsigned k = 0; k < 8; ++k) again(k, {{8, access::read}, {k, access::read_write}});
    }
    calls = std::max(calls, r.device.calls());
    r.device.fail_call(std::nullopt);
    r.device.run_all();
    EXPECT_TRUE(sim::check(r.device.log()).violations.empty()) << n;
    r.is_checked = true;  // a wait that is made again after a failure may be one too many
  }
  EXPECT_GT(calls, 60U);
}

TEST(routine, threads_with_routines_and_a_common_resource_stay_in_order) {
  rig r(10);
  r.op(7, {{9, access::write}});
  std::latch start(4);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (unsigned i = 0; i < 300; ++i) {
        std::vector<binding> bindings{read(r.all[9]), read_write(r.all[t])};
        sim::op work{
            .label = "op",
            .touches = {{9, 0, {0, size}, access::read, 0}, {t, 0, {0, size}, access::read_write, 0}}};
        if (i % 100 == 99 && t == 0) {
          bindings = {write(r.all[9])};
          work.touches = {{9, 0, {0, size}, access::write, 0}};
        }
        auto guard = r.engine.resolve(stream_id{2 * t + i % 2}, bindings);
        r.device.launch(guard.current(), std::move(work));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  r.device.run_all();
  EXPECT_TRUE(sim::check(r.device.log(), {.drop_each_wait = false}).violations.empty());
  r.is_checked = true;
  EXPECT_GT(r.followed(), 0U);
}

TEST(routine, is_followed_on_with_each_of_several_engines_in_turn) {
  rig a;
  rig b;
  for (int i = 0; i < 10; ++i) a.pingpong();
  for (int i = 0; i < 10; ++i) b.fork_join();
  for (int turn = 0; turn < 5; ++turn) {
    for (int i = 0; i < 10; ++i) a.pingpong();
    for (int i = 0; i < 10; ++i) b.fork_join();
  }
  EXPECT_GE(a.followed(), 110U);
  EXPECT_GE(b.followed(), 55U * 9);
}

TEST(routine, may_be_left_to_an_object_that_goes_with_its_thread) {
  rig r;
  struct last_words {
    ~last_words() {
      for (int i = 0; i < 20; ++i) of->pingpong();
    }
    rig* of = nullptr;
  };
  on_another_thread([&] {
    thread_local last_words at_the_end;  // goes after what the thread keeps of routines, which comes later
    at_the_end.of = &r;
    for (int i = 0; i < 20; ++i) r.pingpong();
  });
  EXPECT_GT(r.followed(), 0U);
}

TEST(routine, two_threads_may_end_each_others_from_inside_their_ops) {
  for (int repetition = 0; repetition < 20; ++repetition) {
    rig r;
    std::latch both_inside(2);
    const auto follow = [&](unsigned own) {
      const auto round = [&](const std::function<void()>& inside = {}) {
        std::vector<binding> bindings{read_write(r.all[own]), read(r.all[4 + own])};
        (void)r.engine.resolve(stream_id{own}, bindings);
        bindings = {read_write(r.all[own])};
        const auto guard = r.engine.resolve(stream_id{own}, bindings);
        if (inside) inside();
      };
      for (int i = 0; i < 10; ++i) round();
      round([&] {
        both_inside.arrive_and_wait();
        r.all[4 + (1 - own)] = {};
      });
    };
    std::thread other(follow, 1);
    follow(0);
    other.join();
    EXPECT_GT(r.followed(), 0U);
    r.is_checked = true;  // ops without work are not in the log
  }
}

// One writes while the other looks whether it can begin: at a time that differs from turn to turn. The more
// is read the longer that takes.
TEST(routine, no_write_slips_in_while_it_begins) {
  constexpr unsigned many = 1000;
  constexpr unsigned each = 16;
  for (unsigned turn = 0; turn < 400; ++turn) {
    sim::device device;
    engine_type engine(device.unasked_backend(), undetermined());
    std::vector<resource> all;
    for (unsigned i = 0; i <= many + 1; ++i) all.push_back(resource::memory(size, "r"));
    const auto write_one = [&](unsigned which) {
      auto guard = engine.resolve(stream_id{1}, {write(all[which])});
      device.launch(guard.current(),
                    {.label = "write", .touches = {{which, 0, {0, size}, access::write, 0}}});
    };
    std::atomic<bool> is_about_to_begin{false};
    std::thread writer([&] {
      write_one(many);
      while (!is_about_to_begin) {
      }
      for (unsigned i = turn * 37 % 4000; i > 0; --i) detail::relax();
      write_one(0);
    });
    const auto round = [&] {
      for (unsigned i = 0; i < many; i += each) {
        std::vector<binding> bindings{read_write(all[many + 1])};
        sim::op work{.label = "op", .touches = {{many + 1, 0, {0, size}, access::read_write, 0}}};
        for (unsigned k = i; k < std::min(i + each, many); ++k) {
          bindings.push_back(read(all[k]));
          work.touches.push_back({k, 0, {0, size}, access::read, 0});
        }
        auto guard = engine.resolve(stream_id{0}, bindings);
        device.launch(guard.current(), std::move(work));
      }
    };
    for (int i = 0; i < 3; ++i) round();
    is_about_to_begin = true;
    for (int i = 0; i < 2; ++i) round();
    writer.join();
    device.run_all();
    ASSERT_TRUE(sim::check(device.log(), {.drop_each_wait = false}).violations.empty()) << "turn " << turn;
  }
}

// The one keeps y, which none of its open ops uses, and waits for x; the other has x and waits for y.
TEST(routine, keeps_nothing_from_others_while_its_thread_is_in_another_engine) {
  const std::function<void(rig&)> uses_of_x[] = {
      [](rig& a) { (void)a.engine.resolve(stream_id{2}, {write(a.all[0])}); },
      [](rig& a) { a.engine.wait(a.all[0]); },
      [](rig& a) { (void)a.engine.analyse(stream_id{2}, {write(a.all[0])}); },
      [](rig& a) {
        auto backend = a.device.unasked_backend();
        auto foreign = backend.create_stream();
        a.engine.note(write(a.all[0]), backend.flush(foreign));
      },
      [](rig& a) { (void)a.all[0].hand_on("next"); },
  };
  for (const auto& use_x : uses_of_x) {
    rig a;
    rig b;
    std::latch both_inside(2);
    std::thread other([&] {
      const auto has_x = a.engine.resolve(stream_id{0}, {write(a.all[0])});
      both_inside.arrive_and_wait();
      (void)b.engine.resolve(stream_id{3}, {write(b.all[1])});
    });
    on_another_thread([&] {
      for (int i = 0; i < 10; ++i) {
        (void)b.engine.resolve(stream_id{0}, {write(b.all[0])});
        (void)b.engine.resolve(stream_id{1}, {write(b.all[1])});
      }
      const auto inside = b.engine.resolve(stream_id{0}, {write(b.all[0])});
      both_inside.arrive_and_wait();
      use_x(a);
    });
    other.join();
    EXPECT_GT(b.followed(), 0U);
    a.is_checked = b.is_checked = true;  // ops without work are not in the log
  }
}

// ---- What is waited for in a round.

TEST(routine_plan, a_chain_on_one_stream_waits_for_nothing) {
  detail::routine_plan plan;
  ASSERT_TRUE(plan.analyse(
      {{.part = 0, .rank = 1, .uses = {{0, access::read_write}}, .shared = {}, .waits = {}}}, 1, 1));
  EXPECT_TRUE(plan.ops[0].waits.empty());
  EXPECT_FALSE(plan.ops[0].is_awaited);
}

TEST(routine_plan, two_streams_in_turn_wait_for_each_other_and_one_of_them_for_the_round_before) {
  detail::routine_plan plan;
  const std::vector<detail::routine_plan::use> x{{0, access::read_write}};
  ASSERT_TRUE(plan.analyse({{.part = 0, .rank = 1, .uses = x, .shared = {}, .waits = {}},
                            {.part = 1, .rank = 1, .uses = x, .shared = {}, .waits = {}}},
                           2, 1));
  ASSERT_EQ(plan.ops[0].waits.size(), 1U);
  EXPECT_EQ(plan.ops[0].waits[0].op, 1U);
  EXPECT_EQ(plan.ops[0].waits[0].back, 1U);
  ASSERT_EQ(plan.ops[1].waits.size(), 1U);
  EXPECT_EQ(plan.ops[1].waits[0].op, 0U);
  EXPECT_EQ(plan.ops[1].waits[0].back, 0U);
  EXPECT_TRUE(plan.ops[1].is_awaited_later);
  EXPECT_FALSE(plan.ops[0].is_awaited_later);
}

TEST(routine_plan, records_a_mark_again_when_all_who_wait_for_it_have_been_told_to) {
  detail::routine_plan plan;
  std::vector<detail::routine_plan::op> ops;
  // Stream 0 writes x, stream 1 reads it; ten times in a round, each time another x; and the first one again.
  for (std::uint32_t i = 0; i < 10; ++i) {
    ops.push_back({.part = 0, .rank = i + 1, .uses = {{i, access::write}}, .shared = {}, .waits = {}});
    ops.push_back({.part = 1, .rank = i + 1, .uses = {{i, access::read}}, .shared = {}, .waits = {}});
  }
  ops.push_back({.part = 1, .rank = 11, .uses = {{0, access::read}}, .shared = {}, .waits = {}});
  ASSERT_TRUE(plan.analyse(ops, 2, 10));
  for (std::uint32_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(plan.ops[2 * i].is_awaited);
    EXPECT_EQ(plan.ops[2 * i].mark, plan.ops[0].mark);
    EXPECT_EQ(plan.ops[2 * i + 1].waits.size(), 1U);
  }
  // Its last reader is waited for in the next round, and by then others have been recorded.
  EXPECT_TRUE(plan.ops[20].is_awaited_later);
  EXPECT_EQ(plan.marks, (std::vector<std::uint32_t>{0, 1}));
  // What it knew: all of stream 0.
  EXPECT_EQ(plan.ops[20].knew, (std::vector<std::int64_t>{0, detail::routine_plan::never}));
}

TEST(routine_plan, what_another_wait_brings_along_is_implied) {
  detail::routine_plan plan;
  // 0 writes x; 1 reads x and writes y; 2 reads both.
  ASSERT_TRUE(plan.analyse(
      {{.part = 0, .rank = 1, .uses = {{0, access::write}}, .shared = {}, .waits = {}},
       {.part = 1, .rank = 1, .uses = {{0, access::read}, {1, access::write}}, .shared = {}, .waits = {}},
       {.part = 2, .rank = 1, .uses = {{0, access::read}, {1, access::read}}, .shared = {}, .waits = {}}},
      3, 2));
  ASSERT_EQ(plan.ops[2].waits.size(), 2U);
  EXPECT_TRUE(plan.ops[2].waits[0].is_implied);
  EXPECT_FALSE(plan.ops[2].waits[1].is_implied);
  // The writer of the next round waits for the last reader, which came after the other one.
  ASSERT_EQ(plan.ops[0].waits.size(), 2U);
  EXPECT_TRUE(plan.ops[0].waits[0].is_implied);
  EXPECT_EQ(plan.ops[0].waits[1].op, 2U);
}

}  // namespace
}  // namespace braid
