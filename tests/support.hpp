#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "braid/multi_stream.hpp"
#include "braid/sim.hpp"

namespace braid::test {

/// Nothing from the environment or a file reaches a test.
inline multi_stream_options options(std::uint32_t max_streams = 8) {
  return {.max_streams = max_streams,
          .special_streams = 1,
          .logger = std::make_shared<logger>(),
          .marks = mark_policy::learned,
          .deterministic = true,
          .ops_in_flight = 0,
          .bytes_in_flight = 0};
}

/// Tells what it was told, and completes when it is let.
struct telling_backend {
  struct state {
    std::mutex mutex;
    std::vector<std::string> calls;
    std::atomic<std::uint64_t> streams{0}, flushes{0}, waits{0}, queries{0};
    std::atomic<bool> completes{true};
    void note(std::string call) {
      const std::scoped_lock lock(mutex);
      calls.push_back(std::move(call));
    }
  };
  struct stream {
    std::uint64_t number = 0;
  };
  struct event {
    std::uint64_t number = 0;
  };

  std::shared_ptr<state> told = std::make_shared<state>();

  stream create_stream() {
    told->note("create");
    return {told->streams++};
  }
  event flush(stream& s) {
    told->note("flush " + std::to_string(s.number));
    return {told->flushes++};
  }
  void wait_event(stream& s, const event&) {
    told->note("wait " + std::to_string(s.number));
    ++told->waits;
  }
  void wait_event_sync(const event&) {}
  bool is_complete(const event&) {
    ++told->queries;
    return told->completes;
  }
};

template <class Engine>
void give(Engine& engine, stream_id id, std::initializer_list<binding> bindings) {
  auto op = engine.resolve(id, bindings);
}

template <class Engine>
std::size_t waits_of(Engine& engine, stream_id id, std::initializer_list<binding> bindings) {
  auto op = engine.resolve(id, bindings);
  return op.waits().waits.size();
}

}  // namespace braid::test
