// What early marks are for: on a device with events, work is held up hardly more than on one that addresses
// points.

#include <algorithm>
#include <cmath>
#include <random>

#include "support.hpp"

namespace braid {
namespace {

struct task {
  std::uint64_t stream;
  std::vector<std::size_t> reads;
  std::size_t writes;
};

struct graph {
  std::string name;
  std::size_t cells;
  std::vector<task> tasks;
};

constexpr std::size_t width = 8;

graph fork_join() {
  graph g{"fork_join", width + 1, {}};
  g.tasks.push_back({0, {0, 1, 2, 3, 4, 5, 6, 7}, 8});
  for (std::size_t i = 0; i < width; ++i) g.tasks.push_back({i, {8}, i});
  return g;
}

/// Double-buffered rows; task (t, i) reads `inputs(t, i)` of row t - 1.
template <class Inputs>
graph rows(const char* name, std::size_t steps, Inputs&& inputs) {
  graph g{name, 2 * width, {}};
  for (std::size_t t = 0; t < steps; ++t) {
    for (std::size_t i = 0; i < width; ++i) {
      task each{i, {}, t % 2 * width + i};
      for (const std::size_t from : inputs(t, i)) each.reads.push_back((t + 1) % 2 * width + from);
      g.tasks.push_back(std::move(each));
    }
  }
  return g;
}

graph stencil() {
  return rows("stencil_1d", 10, [](std::size_t, std::size_t i) {
    std::vector<std::size_t> from{i};
    if (i > 0) from.push_back(i - 1);
    if (i + 1 < width) from.push_back(i + 1);
    return from;
  });
}

graph fft() {
  return rows("fft", 9, [](std::size_t t, std::size_t i) {
    const std::size_t reach = std::size_t{1} << ((t + 2) % 3);
    std::vector<std::size_t> from{i};
    if (i >= reach) from.push_back(i - reach);
    if (i + reach < width) from.push_back(i + reach);
    return from;
  });
}

graph random_graph(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  graph g{"random", 4 * width, {}};
  for (int i = 0; i < 80; ++i) {
    task each{random() % width, {}, random() % g.cells};
    for (std::uint64_t n = random() % 3; n > 0; --n) {
      const std::size_t from = random() % g.cells;
      if (from != each.writes && std::find(each.reads.begin(), each.reads.end(), from) == each.reads.end()) {
        each.reads.push_back(from);
      }
    }
    g.tasks.push_back(std::move(each));
  }
  return g;
}

/// The virtual time of the repetitions from the sixth on, of 50.
template <class Backend>
std::uint64_t makespan(const graph& g, Backend (*backend_of)(const sim::device&), mark_policy policy) {
  sim::device device;
  auto o = test::options();
  o.marks = policy;
  multi_stream<Backend> engine{backend_of(device), o};
  std::vector<resource> cells;
  for (std::size_t i = 0; i < g.cells; ++i) cells.push_back(resource::memory(64, "cell"));
  std::uint64_t first = 0;
  for (int repetition = 0; repetition < 50; ++repetition) {
    for (const task& t : g.tasks) {
      std::vector<binding> bindings{write(cells[t.writes])};
      for (const std::size_t r : t.reads) bindings.push_back(read(cells[r]));
      auto op = engine.resolve(stream_id{t.stream}, bindings);
      device.launch(op.current(), {.label = "task", .touches = {}});
    }
    if (repetition == 4) {
      device.run_all();
      first = device.makespan();
    }
  }
  device.run_all();
  return device.makespan() - first;
}

sim::backend events(const sim::device& d) {
  return d.backend();
}
sim::point_mode_backend points(const sim::device& d) {
  return d.point_backend();
}

TEST(makespan, early_marks_bring_events_within_a_twentieth_of_points) {
  std::vector<graph> graphs{fork_join(), stencil(), fft()};
  for (std::uint64_t seed = 1; seed <= 25; ++seed) graphs.push_back(random_graph(seed));
  for (const graph& g : graphs) {
    const auto exact = static_cast<double>(makespan(g, points, mark_policy::learned));
    const auto early = static_cast<double>(makespan(g, events, mark_policy::learned));
    const auto late = static_cast<double>(makespan(g, events, mark_policy::lazy));
    std::printf("%-10s points %6.0f  early marks %.3fx  marks at the tail %.3fx\n", g.name.c_str(), exact,
                early / exact, late / exact);
    EXPECT_LE(early, 1.05 * exact) << g.name;
    EXPECT_GE(late, early) << g.name;
  }
}

}  // namespace
}  // namespace braid
