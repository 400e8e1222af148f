#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "braid/multi_stream.hpp"
#include "engine.hpp"
#include "machine.hpp"
#include "median.hpp"

namespace braid::bench {

namespace {

/// Does nothing; all work is complete at once, or never.
template <bool Completes>
struct idle_backend {
  struct stream {};
  struct event {};
  stream create_stream() { return {}; }
  event flush(stream&) { return {}; }
  void wait_event(stream&, const event&) {}
  void wait_event_sync(const event&) {}
  bool is_complete(const event&) { return Completes; }
};

constexpr std::size_t rotating = 1024;

std::vector<resource> make_resources(std::size_t count) {
  std::vector<resource> all;
  all.reserve(count);
  for (std::size_t i = 0; i < count; ++i) all.push_back(resource::memory(64, "r"));
  return all;
}

/// An engine with resources, and the next of them to use.
template <class Threading>
struct world {
  explicit world(std::size_t count, std::uint32_t streams = 16)
      : engine({}, {.max_streams = streams,
                    .special_streams = 1,
                    .logger = std::make_shared<logger>(),
                    .marks = mark_policy::learned,
                    .deterministic = false,
                    .ops_in_flight = 0,
                    .bytes_in_flight = 0}),
        resources(make_resources(count)) {}

  std::size_t turn(std::size_t by = 1) {
    const std::size_t at = next;
    next = next + 2 * by > resources.size() ? 0 : next + by;
    return at;
  }
  void pair() {
    const resource& r = resources[turn()];
    { auto op = engine.resolve(stream_id{1}, {write(r)}); }
    { auto op = engine.resolve(stream_id{2}, {read(r)}); }
  }

  multi_stream<idle_backend<true>, Threading> engine;
  std::vector<resource> resources;
  std::size_t next = 0;
};

/// Bindings in groups of `each`, ready to be passed.
std::vector<binding> bindings_of(const std::vector<resource>& resources, access kind) {
  std::vector<binding> all;
  for (const resource& r : resources) all.emplace_back(r, kind);
  return all;
}

template <class Threading>
engine_case own(const std::string& prefix, std::size_t bindings) {
  return {
      .name = fmt::format("{}resolve/own/{}", prefix, bindings), .make = [bindings] {
        auto w = std::make_shared<world<Threading>>(rotating);
        auto bound = std::make_shared<std::vector<binding>>(bindings_of(w->resources, access::read_write));
        for (const binding& b : *bound) auto op = w->engine.resolve(stream_id{1}, {b});
        return [w, bound, bindings](std::uint64_t n) {
          for (; n > 0; --n) {
            auto op = w->engine.resolve(stream_id{1}, std::span(bound->data() + w->turn(bindings), bindings));
          }
        };
      }};
}

template <class Threading>
engine_case known(const std::string& prefix, std::size_t bindings) {
  return {.name = fmt::format("{}resolve/known/{}", prefix, bindings), .make = [bindings] {
            auto w = std::make_shared<world<Threading>>(rotating);
            auto bound = std::make_shared<std::vector<binding>>(bindings_of(w->resources, access::read));
            for (const resource& r : w->resources) auto op = w->engine.resolve(stream_id{1}, {write(r)});
            for (int round = 0; round < 2; ++round) {
              for (const binding& b : *bound) auto op = w->engine.resolve(stream_id{2}, {b});
            }
            return [w, bound, bindings](std::uint64_t n) {
              for (; n > 0; --n) {
                auto op =
                    w->engine.resolve(stream_id{2}, std::span(bound->data() + w->turn(bindings), bindings));
              }
            };
          }};
}

template <class Threading>
engine_case pair(const std::string& name, std::size_t resources, std::uint64_t ops_before,
                 std::uint32_t streams) {
  return {.name = name, .make = [resources, ops_before, streams] {
            auto w = std::make_shared<world<Threading>>(resources, std::max(16U, streams));
            for (std::uint32_t s = 0; s < streams; ++s) auto op = w->engine.resolve(stream_id{s}, {});
            // Each resource was produced and consumed before, and the marks' lists are full.
            for (std::size_t i = 0; i < 4 * std::max<std::size_t>(resources, 16); ++i) w->pair();
            for (std::uint64_t i = 0; i < ops_before; i += 2) w->pair();
            return [w](std::uint64_t n) {
              for (; n > 0; --n) w->pair();
            };
          }};
}

template <class Threading>
engine_case fan_in(const std::string& prefix, std::size_t width) {
  return {.name = fmt::format("{}fan_in/{}", prefix, width),
          .make =
              [width] {
                auto w = std::make_shared<world<Threading>>(rotating);
                auto reads = std::make_shared<std::vector<binding>>(bindings_of(w->resources, access::read));
                const auto body = [w, reads, width](std::uint64_t n) {
                  for (; n > 0; --n) {
                    const std::size_t at = w->turn(width);
                    for (std::size_t i = 0; i < width; ++i) {
                      auto op = w->engine.resolve(stream_id{i + 1}, {write(w->resources[at + i])});
                    }
                    auto op = w->engine.resolve(stream_id{0}, std::span(reads->data() + at, width));
                  }
                };
                body(4 * rotating / width);
                return body;
              },
          .batch = 4'000};
}

/// Each op reads what the stream before its own wrote last, and writes on: every stream waits for another
/// one.
engine_case ring(std::uint32_t streams) {
  return {.name = fmt::format("ring/streams/{}", streams), .make = [streams] {
            auto w = std::make_shared<world<thread_safe>>(streams, std::max(16U, streams));
            auto at = std::make_shared<std::uint32_t>(0);
            const auto body = [w, at, streams](std::uint64_t n) {
              for (; n > 0; --n) {
                const std::uint32_t own = *at;
                *at = own + 1 == streams ? 0 : own + 1;
                const resource& before = w->resources[own == 0 ? streams - 1 : own - 1];
                if (streams == 1) {
                  auto op = w->engine.resolve(stream_id{own}, {read_write(before)});
                } else {
                  auto op = w->engine.resolve(stream_id{own}, {read(before), write(w->resources[own])});
                }
              }
            };
            body(4ULL * streams);
            return body;
          }};
}

template <class Threading>
void add_common(std::vector<engine_case>& all, const std::string& prefix) {
  for (const std::size_t n : {0U, 1U, 3U, 8U}) all.push_back(own<Threading>(prefix, n));
  for (const std::size_t n : {1U, 3U, 8U}) all.push_back(known<Threading>(prefix, n));
  all.push_back(pair<Threading>(prefix + "pair", rotating, 0, 0));
  all.push_back(fan_in<Threading>(prefix, 8));
}

using clock_type = std::chrono::steady_clock;

double ns_since(clock_type::time_point start, std::uint64_t ops) {
  return std::chrono::duration<double, std::nano>(clock_type::now() - start).count() /
         static_cast<double>(ops);
}

/// Two threads at once; returns the mean of their times for an op.
double run_two(const std::function<void(unsigned thread, std::uint64_t n)>& work, std::uint64_t n) {
  std::barrier start(2);
  double ns[2] = {};
  const auto one = [&](unsigned thread) {
    start.arrive_and_wait();
    const auto begin = clock_type::now();
    work(thread, n);
    ns[thread] = ns_since(begin, n);
  };
  std::thread other([&] { one(1); });
  one(0);
  other.join();
  return (ns[0] + ns[1]) / 2;
}

}  // namespace

std::vector<engine_case> engine_cases(const engine_options& options) {
  std::vector<engine_case> all;
  add_common<thread_safe>(all, "");
  add_common<externally_synchronised>(all, "external/");
  for (const std::uint64_t n : {1'000U, 100'000U, 10'000'000U}) {
    if (options.quick && n > 100'000) continue;
    all.push_back(pair<thread_safe>(fmt::format("pair/ops/{}", n), 64, n, 0));
  }
  for (const std::size_t n : {10U, 1'000U, 1'000'000U}) {
    if (options.quick && n > 1'000) continue;
    all.push_back(pair<thread_safe>(fmt::format("pair/resources/{}", n), n, 0, 0));
  }
  for (const std::uint32_t n : {8U, 128U, 10'000U}) {
    all.push_back(pair<thread_safe>(fmt::format("pair/streams/{}", n), rotating, 0, n));
  }
  for (std::uint32_t n = 1; n <= 1024; n *= 2) all.push_back(ring(n));
  return all;
}

nlohmann::json measure_two_threads(const engine_options& options) {
  world<thread_safe> together(2 * rotating);
  std::unique_ptr<world<thread_safe>> apart[2] = {std::make_unique<world<thread_safe>>(rotating),
                                                  std::make_unique<world<thread_safe>>(rotating)};
  world<thread_safe> shared(1);
  { auto op = shared.engine.resolve(stream_id{0}, {write(shared.resources[0])}); }

  const auto on_one_engine = [&](unsigned thread, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      const resource& r = together.resources[thread * rotating + i % rotating];
      auto op = together.engine.resolve(stream_id{thread}, {read_write(r)});
    }
  };
  const auto on_two_engines = [&](unsigned thread, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      auto op = apart[thread]->engine.resolve(stream_id{thread},
                                              {read_write(apart[thread]->resources[i % rotating])});
    }
  };
  const auto reading = [&](unsigned thread, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      auto op = shared.engine.resolve(stream_id{thread + 1}, {read(shared.resources[0])});
    }
  };
  const std::uint64_t n = options.quick ? 100'000 : 400'000;
  std::vector<double> one;
  std::vector<double> two;
  std::vector<double> read_only;
  for (unsigned r = 0; r <= options.repetitions; ++r) {
    one.push_back(run_two(on_one_engine, n));
    two.push_back(run_two(on_two_engines, n));
    read_only.push_back(run_two(reading, n));
  }
  return {{"one_engine_ns", median(one)},
          {"two_engines_ns", median(two)},
          {"ratio", median(two) / median(one)},
          {"shared_read_ns", median(read_only)}};
}

nlohmann::json measure_memory(const engine_options& options) {
  constexpr double mib = 1024.0 * 1024.0;
  const std::uint64_t many = options.quick ? 1'000'000 : 10'000'000;
  nlohmann::json out;
  {
    world<thread_safe> w(rotating);
    for (std::uint64_t i = 0; i < 5'000; ++i) w.pair();
    out["after_1e4_mib"] = static_cast<double>(resident_bytes()) / mib;
    for (std::uint64_t i = 0; i < many / 2; ++i) w.pair();
    out["after_many_mib"] = static_cast<double>(resident_bytes()) / mib;
    out["many"] = many;
  }
  {
    const std::uint64_t before = resident_bytes();
    multi_stream<idle_backend<false>> engine({},
                                             {.max_streams = 10'000, .logger = std::make_shared<logger>()});
    const std::vector<resource> resources = make_resources(10'000);
    std::mt19937_64 random(1);
    for (std::uint64_t i = 0; i < many / 10; ++i) {
      const std::size_t from = random() % resources.size();
      const std::size_t to = random() % resources.size();
      if (from == to) continue;
      auto op = engine.resolve(stream_id{random() % 10'000}, {read(resources[from]), write(resources[to])});
    }
    out["streams_10000_mib"] = static_cast<double>(resident_bytes() - before) / mib;
  }
  return out;
}

}  // namespace braid::bench
