#include <atomic>
#include <future>
#include <thread>

#include "support.hpp"

namespace braid {
namespace {

using test::give;
using test::options;
using test::telling_backend;

/// Fulfils a promise when it is destroyed.
class signal {
 public:
  explicit signal(std::promise<std::thread::id>& to) : to_(&to) {}
  signal(signal&& other) noexcept : to_(std::exchange(other.to_, nullptr)) {}
  signal& operator=(signal&&) = delete;
  ~signal() {
    if (to_ != nullptr) to_->set_value(std::this_thread::get_id());
  }

 private:
  std::promise<std::thread::id>* to_;
};

TEST(retire, destroys_after_the_event_on_a_braid_thread_and_without_another_submit) {
  telling_backend backend;
  backend.told->completes = false;
  multi_stream<telling_backend> engine{backend, options()};
  std::promise<std::thread::id> destroyed;
  auto when = destroyed.get_future();
  give(engine, {1}, {});
  engine.retire(signal(destroyed), {1});
  EXPECT_EQ(when.wait_for(std::chrono::milliseconds(0)), std::future_status::timeout);
  backend.told->completes = true;
  EXPECT_NE(when.get(), std::this_thread::get_id());
}

TEST(retire, a_guard_retires_after_its_own_op) {
  sim::device device;
  multi_stream<sim::backend> engine{device.backend(), options()};
  std::promise<std::thread::id> destroyed;
  auto when = destroyed.get_future();
  {
    auto op = engine.resolve(stream_id{1}, {});
    device.launch(op.current(), {.label = "op", .touches = {}});
    op.retire(signal(destroyed));
  }
  EXPECT_EQ(when.wait_for(std::chrono::milliseconds(0)), std::future_status::timeout);
  device.run_all();
  when.get();
  EXPECT_EQ(engine.stats().retired, 1U);
}

/// Its first stream is slow: events there are complete only when they are let.
struct half_slow_backend : telling_backend {
  struct event {
    bool is_slow = false;
  };
  event flush(stream& s) { return {s.number == 0}; }
  void wait_event(stream&, const event&) {}
  void wait_event_sync(const event&) {}
  bool is_complete(const event& e) { return !e.is_slow || told->completes; }
};

TEST(retire, one_slow_stream_delays_no_other_streams_objects) {
  half_slow_backend backend;
  backend.told->completes = false;
  multi_stream<half_slow_backend> engine{backend, options()};
  std::promise<std::thread::id> slow;
  std::promise<std::thread::id> fast;
  auto when_slow = slow.get_future();
  auto when_fast = fast.get_future();
  give(engine, {1}, {});
  give(engine, {2}, {});
  engine.retire(signal(slow), {1});
  engine.retire(signal(fast), {2});
  when_fast.get();  // hangs if the object in front of it held it up
  EXPECT_EQ(when_slow.wait_for(std::chrono::milliseconds(0)), std::future_status::timeout);
  backend.told->completes = true;
  when_slow.get();
}

TEST(retire, destroys_also_when_the_event_fails) {
  sim::device device;
  std::vector<std::string> lines;
  auto o = options();
  o.logger =
      std::make_shared<logger>([&](log_area, log_level, std::string_view text) { lines.emplace_back(text); });
  o.logger->set_level(log_area::errors, log_level::basic);
  std::promise<std::thread::id> destroyed;
  auto when = destroyed.get_future();
  {
    multi_stream<sim::backend> engine{device.backend(), o};
    {
      auto op = engine.resolve(stream_id{1}, {});
      device.launch(op.current(), {.label = "bad op", .touches = {}, .body = {}, .fails = true});
      op.retire(signal(destroyed));
    }
    device.run_all();
    when.get();
    EXPECT_EQ(engine.stats().errors, 1U);
    give(engine, {1}, {});  // reclamation goes on
    std::promise<std::thread::id> second;
    auto when_second = second.get_future();
    engine.retire(signal(second), {1});
    device.run_all();
    when_second.get();
  }
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0], "'bad op' failed");
}

TEST(retire, shutdown_destroys_everything) {
  std::atomic<int> destroyed{0};
  sim::device device;
  {
    multi_stream<sim::backend> engine{device.backend(), options()};
    for (int i = 0; i < 100; ++i) {
      auto op = engine.resolve(stream_id{static_cast<std::uint64_t>(i % 4)}, {});
      device.launch(op.current(), {.label = "op", .touches = {}});
      op.retire(std::shared_ptr<void>(nullptr, [&](void*) { ++destroyed; }));
    }
  }
  EXPECT_EQ(destroyed, 100);
  EXPECT_EQ(device.events_alive(), 0U);
}

TEST(retire, a_retired_destructor_may_submit_and_retire) {
  std::atomic<int> destroyed{0};
  sim::device device;
  {
    multi_stream<sim::backend> engine{device.backend(), options()};
    struct submitter {
      multi_stream<sim::backend>* engine;
      sim::device* device;
      std::atomic<int>* destroyed;
      int left;
      submitter(multi_stream<sim::backend>* e, sim::device* d, std::atomic<int>* n, int l)
          : engine(e), device(d), destroyed(n), left(l) {}
      submitter(submitter&& o) noexcept
          : engine(std::exchange(o.engine, nullptr)),
            device(o.device),
            destroyed(o.destroyed),
            left(o.left) {}
      ~submitter() {
        if (engine == nullptr) return;
        ++*destroyed;
        if (left == 0) return;
        auto op = engine->resolve(stream_id{2}, {});
        device->launch(op.current(), {.label = "again", .touches = {}});
        op.retire(submitter(engine, device, destroyed, left - 1));
      }
    };
    give(engine, {1}, {});
    engine.retire(submitter(&engine, &device, &destroyed, 3), {1});
  }
  EXPECT_EQ(destroyed, 4);
}

TEST(retire, an_object_for_a_stream_never_used_goes_at_once) {
  multi_stream<telling_backend> engine{telling_backend{}, options()};
  std::promise<std::thread::id> destroyed;
  engine.retire(signal(destroyed), {7});
  destroyed.get_future().get();
}

TEST(retire, large_and_throwing_to_move_objects_work) {
  std::atomic<int> destroyed{0};
  {
    multi_stream<telling_backend> engine{telling_backend{}, options()};
    struct large {
      std::array<char, 4096> bytes{};
      std::shared_ptr<void> last;
    };
    engine.retire(large{{}, std::shared_ptr<void>(nullptr, [&](void*) { ++destroyed; })}, {1});
    struct odd {
      std::shared_ptr<void> last;
      explicit odd(std::shared_ptr<void> l) : last(std::move(l)) {}
      odd(const odd& o) noexcept(false) : last(o.last) {}
    };
    engine.retire(odd(std::shared_ptr<void>(nullptr, [&](void*) { ++destroyed; })), {1});
  }
  EXPECT_EQ(destroyed, 2);
}

TEST(retire, works_without_locks_too) {
  std::atomic<int> destroyed{0};
  sim::device device;
  {
    multi_stream<sim::backend, externally_synchronised> engine{device.backend(), options()};
    const resource x = resource::token("x");
    for (int i = 0; i < 200; ++i) {
      auto op = engine.resolve(stream_id{static_cast<std::uint64_t>(i % 3)}, {read_write(x)});
      device.launch(op.current(), {.label = "op", .touches = {}});
      op.retire(std::shared_ptr<void>(nullptr, [&](void*) { ++destroyed; }));
    }
  }
  EXPECT_EQ(destroyed, 200);
}

}  // namespace
}  // namespace braid
