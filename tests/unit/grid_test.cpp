#include "tasks/grid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "braid/cpu.hpp"
#include "tasks/braid_grid.hpp"

namespace braid::bench {
namespace {

using columns = std::vector<unsigned>;

std::string name_of(grid_pattern p) {
  return std::string(std::ranges::find(grid_patterns, p, &named_grid_pattern::value)->name);
}

std::vector<grid_options> some_grids() {
  std::vector<grid_options> out;
  for (const auto& p : grid_patterns)
    for (const unsigned width : {3U, 5U, 8U, 16U})
      for (const unsigned steps : {1U, 2U, 3U, 7U, 20U})
        for (const bool one_per_row : {false, true}) {
          grid_options o{.pattern = p.value, .width = width, .steps = steps};
          o.one_per_row = one_per_row;
          o.kernel = grid_kernel::empty;
          out.push_back(o);
        }
  return out;
}

/// The rows of a pattern as sets of columns, said once more and more slowly.
bool is_in_row(const grid_options& g, int t, int x) {
  const int w = static_cast<int>(g.width);
  const int steps = static_cast<int>(g.steps);
  int first = 0;
  int count = w;
  if (g.pattern == grid_pattern::dom) {
    first = std::max(0, t + w - steps);
    count = std::min(w, std::min(t + 1, steps - t));
  }
  if (g.pattern == grid_pattern::tree) count = static_cast<int>(std::min<double>(w, std::pow(2, t)));
  return x >= first && x < first + count;
}

/// Whether (t, x) depends on (t-1, y), column by column; random_nearest: whether it may.
bool depends(const grid_options& g, int t, int x, int y) {
  const int w = static_cast<int>(g.width);
  const int r = static_cast<int>(g.radix);
  const auto is_near = [&] { return y >= x - r / 2 && y <= x + (r - 1) / 2; };
  switch (g.pattern) {
    case grid_pattern::trivial: return false;
    case grid_pattern::no_comm: return y == x;
    case grid_pattern::stencil_1d: return std::abs(y - x) <= 1;
    case grid_pattern::stencil_1d_periodic: return std::abs(y - x) <= 1 || std::abs(y - x) == w - 1;
    case grid_pattern::dom: return y == x || y == x - 1;
    case grid_pattern::tree: return y == x / 2;
    case grid_pattern::fft: {
      const int levels = static_cast<int>(std::ceil(std::log2(w)));
      return y == x || std::abs(y - x) == static_cast<int>(std::pow(2, (t + levels - 1) % levels));
    }
    case grid_pattern::all_to_all: return true;
    case grid_pattern::nearest:
    case grid_pattern::random_nearest: return is_near();
    case grid_pattern::spread:
      for (int i = 0; i < r; ++i)
        if (y == (x + i * w / r + (i > 0 ? t % static_cast<int>(g.period) : 0)) % w) return true;
      return false;
  }
  return false;
}

columns list(std::span<const unsigned> of) {
  return {of.begin(), of.end()};
}

TEST(grid, the_rows_and_dependencies_are_those_of_the_table) {
  for (const grid_options& o : some_grids()) {
    SCOPED_TRACE(name_of(o.pattern) + " " + std::to_string(o.width) + " " + std::to_string(o.steps));
    const grid g(o);
    std::uint64_t tasks = 0;
    for (unsigned t = 0; t < o.steps; ++t) {
      for (unsigned x = 0; x < o.width; ++x) {
        ASSERT_EQ(g.row(t).has(x), is_in_row(o, static_cast<int>(t), static_cast<int>(x))) << t << " " << x;
        if (!g.row(t).has(x)) continue;
        ++tasks;
        columns expected;
        for (unsigned y = 0; t > 0 && y < o.width; ++y)
          if (is_in_row(o, static_cast<int>(t) - 1, static_cast<int>(y)) &&
              depends(o, static_cast<int>(t), static_cast<int>(x), static_cast<int>(y)))
            expected.push_back(y);
        if (o.pattern == grid_pattern::random_nearest && t > 0) {
          ASSERT_TRUE(std::ranges::includes(expected, g.row(t).inputs[x]));
          ASSERT_TRUE(std::ranges::binary_search(g.row(t).inputs[x], x));
        } else {
          ASSERT_EQ(list(g.row(t).inputs[x]), expected) << t << " " << x;
        }
        ASSERT_EQ(list(g.row(t).reads[x]), list(g.row(t).inputs[x]));
      }
    }
    ASSERT_EQ(g.tasks(), tasks);
  }
}

TEST(grid, a_quarter_of_the_neighbours_are_random_ones_and_the_seed_decides_which) {
  grid_options o{.pattern = grid_pattern::random_nearest, .width = 64, .steps = 200, .radix = 9};
  const auto others = [&] {
    const grid g(o);
    std::vector<columns> all;
    std::size_t count = 0;
    for (unsigned t = 1; t < o.steps; ++t)
      for (unsigned x = 8; x < 56; ++x) {
        all.push_back(list(g.row(t).inputs[x]));
        count += all.back().size() - 1;
      }
    return std::pair(all, static_cast<double>(count) / (199.0 * 48 * 8));
  };
  const auto [first, share] = others();
  EXPECT_NEAR(share, 0.25, 0.01);
  EXPECT_EQ(others().first, first);
  o.seed = 2;
  EXPECT_NE(others().first, first);
}

/// What overwrites or reads what, by going through all tasks in order.
TEST(grid, a_task_comes_after_who_wrote_its_inputs_and_who_uses_what_it_overwrites) {
  for (const grid_options& o : some_grids()) {
    SCOPED_TRACE(name_of(o.pattern) + " " + std::to_string(o.width) + " " + std::to_string(o.steps));
    const grid g(o);
    using task = std::pair<unsigned, unsigned>;
    struct use {
      std::set<task> writer, readers;
    };
    std::vector<use> cells(std::size_t{g.stored_rows()} * o.width);
    const auto cell = [&](unsigned t, unsigned x) -> use& {
      return cells[std::size_t{t % g.stored_rows()} * o.width + x];
    };
    for (unsigned t = 0; t < o.steps; ++t) {
      const grid_row& row = g.row(t);
      for (unsigned x = row.first; x < row.end(); ++x) {
        std::set<task> expected;
        for (const unsigned y : row.inputs[x]) expected.merge(std::set<task>(cell(t - 1, y).writer));
        const use& own = cell(t, x);
        expected.insert(own.readers.begin(), own.readers.end());
        if (own.readers.empty()) expected.insert(own.writer.begin(), own.writer.end());
        std::set<task> got;
        for (const unsigned y : row.after[x]) got.emplace(t - 1, y);
        if (row.after_writer[x - row.first] != 0) got.emplace(t - 2, x);
        ASSERT_EQ(got, expected) << t << " " << x;
        for (const unsigned y : row.after[x])
          ASSERT_TRUE(std::ranges::binary_search(g.row(t - 1).before[y], x)) << t << " " << x << " " << y;
      }
      for (unsigned x = row.first; x < row.end(); ++x) cell(t, x) = {{{t, x}}, {}};
      for (unsigned x = row.first; x < row.end(); ++x)
        for (const unsigned y : row.inputs[x]) cell(t - 1, y).readers.emplace(t, x);
      if (t + 1 == o.steps) continue;
      for (unsigned x = row.first; x < row.end(); ++x)
        for (const unsigned y : row.before[x])
          ASSERT_TRUE(std::ranges::binary_search(g.row(t + 1).after[y], x)) << t << " " << x << " " << y;
    }
  }
}

TEST(grid, the_widths_that_a_pattern_does_not_have_are_refused) {
  EXPECT_THROW(grid({.pattern = grid_pattern::stencil_1d_periodic, .width = 2}), std::invalid_argument);
  EXPECT_THROW(grid({.width = 0}), std::invalid_argument);
  EXPECT_THROW(grid({.steps = 0}), std::invalid_argument);
  EXPECT_THROW(grid({.radix = 0}), std::invalid_argument);
  EXPECT_THROW(grid({.period = 0}), std::invalid_argument);
  EXPECT_NO_THROW(grid({.pattern = grid_pattern::fft, .width = 1}));
}

/// Runs all tasks as the grid tells a runtime, the task `last` and what comes after it as late as that
/// allows.
grid_check run_delaying(const grid& g, std::pair<unsigned, unsigned> last) {
  std::set<std::pair<unsigned, unsigned>> over;
  const auto is_ready = [&](unsigned t, unsigned x) {
    const grid_row& row = g.row(t);
    return std::ranges::all_of(row.after[x],
                               [&](unsigned y) {
                                 return over.contains({t - 1, y});
                               }) &&
           (row.after_writer[x - row.first] == 0 || over.contains({t - 2, x}));
  };
  g.reset();
  for (const bool is_last_allowed : {false, true}) {
    for (unsigned t = 0; t < g.steps(); ++t)
      for (unsigned x = g.row(t).first; x < g.row(t).end(); ++x) {
        const std::pair task{t, x};
        if (over.contains(task) || (task == last && !is_last_allowed) || !is_ready(t, x)) continue;
        g.run(t, x);
        over.insert(task);
      }
  }
  return g.check();
}

TEST(grid, every_legal_order_is_found_right) {
  for (const grid_options& o : some_grids()) {
    if (o.steps < 3) continue;
    SCOPED_TRACE(name_of(o.pattern) + " " + std::to_string(o.width) + " " + std::to_string(o.steps));
    const grid g(o);
    for (unsigned x = g.row(1).first; x < g.row(1).end(); ++x)
      ASSERT_EQ(describe(run_delaying(g, {1, x}), g), "");
  }
}

TEST(grid, a_missing_dependency_is_caught_for_every_pattern) {
  for (grid_options o : some_grids()) {
    if (o.steps < 7 || !o.one_per_row || o.pattern == grid_pattern::trivial) continue;
    SCOPED_TRACE(name_of(o.pattern) + " " + std::to_string(o.width) + " " + std::to_string(o.steps));
    const grid whole(o);
    constexpr unsigned t = 3;
    for (unsigned x = whole.row(t).first; x < whole.row(t).end(); ++x)
      for (const unsigned y : whole.row(t).inputs[x]) {
        o.dropped = grid_edge{t, x, y};
        const grid g(o);
        const grid_check got = run_delaying(g, {t - 1, y});
        ASSERT_EQ(got.wrong_inputs, 1U) << x << " " << y;
        ASSERT_NE(describe(got, g), "");
      }
  }
}

TEST(grid, who_overwrites_too_early_is_caught) {
  const grid g({.pattern = grid_pattern::stencil_1d, .width = 4, .steps = 3, .kernel = grid_kernel::empty});
  for (unsigned x = 0; x < 4; ++x) g.run(0, x);
  for (unsigned x = 0; x < 3; ++x) g.run(1, x);
  g.run(2, 0);
  g.run(2, 1);
  EXPECT_EQ(g.check().wrong_inputs, 0U);
  g.reset();
  for (unsigned x = 0; x < 4; ++x) g.run(0, x);
  for (unsigned x = 0; x < 2; ++x) g.run(1, x);
  g.run(2, 0);  // (1, 1) has read what this overwrites; (1, 2) and (1, 3) were to read what this does not
  g.run(2, 1);  // before (1, 2), which reads what this overwrites, and which this reads
  EXPECT_EQ(g.check().wrong_inputs, 1U);
}

TEST(grid, a_task_that_runs_twice_or_never_is_caught) {
  const grid g({.pattern = grid_pattern::trivial, .width = 2, .steps = 4, .kernel = grid_kernel::empty});
  const auto run_all_but = [&](unsigned none) {
    g.reset();
    for (unsigned t = 0; t < 4; ++t)
      for (unsigned x = 0; x < 2; ++x)
        if (t * 2 + x != none) g.run(t, x);
  };
  run_all_but(99);
  EXPECT_EQ(describe(g.check(), g), "");
  run_all_but(0);
  EXPECT_EQ(describe(g.check(), g), "7 tasks ran instead of 8");
  run_all_but(7);
  EXPECT_EQ(g.check().wrong_outputs, 1U);
  run_all_but(99);
  g.run(3, 1);
  EXPECT_EQ(describe(g.check(), g), "9 tasks ran instead of 8");
}

TEST(grid, kernels_depend_on_their_length) {
  EXPECT_EQ(run_kernel(grid_kernel::empty, 1000, 5), 5);
  EXPECT_NE(run_kernel(grid_kernel::compute, 10, 5), run_kernel(grid_kernel::compute, 20, 5));
  EXPECT_NE(run_kernel(grid_kernel::memory, 10, 5), run_kernel(grid_kernel::memory, 20, 5));
}

TEST(grid, every_pattern_is_right_on_braid) {
  cpu::runtime rt({.workers = 3});
  for (const grid_options& o : some_grids()) {
    if (o.steps < 7) continue;
    SCOPED_TRACE(name_of(o.pattern) + " " + std::to_string(o.width) + " " + std::to_string(o.steps));
    const grid g(o);
    for (const braid_use use : {braid_use::submit, braid_use::record}) {
      g.reset();
      run_on_braid(rt, g, use);
      ASSERT_EQ(describe(g.check(), g), "");
    }
  }
}

TEST(grid, says_after_how_many_rows_it_repeats) {
  const auto period = [](grid_pattern pattern, bool one_per_row = false) {
    return grid({.pattern = pattern, .steps = 60, .one_per_row = one_per_row}).repeats_after();
  };
  EXPECT_EQ(period(grid_pattern::stencil_1d), 2U);
  EXPECT_EQ(period(grid_pattern::spread), 2U);
  EXPECT_EQ(period(grid_pattern::fft), 6U);  // three strides, two rows of cells
  EXPECT_EQ(period(grid_pattern::random_nearest), 0U);
  EXPECT_EQ(period(grid_pattern::stencil_1d, true), 0U);
}

TEST(grid, rows_that_repeat_are_right_when_they_are_replayed) {
  cpu::runtime rt({.workers = 2});
  for (const auto& [pattern, name] : grid_patterns) {
    SCOPED_TRACE(std::string(name));
    const grid g({.pattern = pattern, .steps = 100});
    for (int i = 0; i < 3; ++i) {
      g.reset();
      run_on_braid(rt, g, braid_use::record);
      ASSERT_EQ(describe(g.check(), g), "");
    }
  }
}

TEST(grid, a_dependency_that_braid_is_not_told_of_is_caught) {
  cpu::runtime rt({.workers = 2});
  grid_options o{.pattern = grid_pattern::stencil_1d, .steps = 4};
  o.one_per_row = true;
  o.dropped = grid_edge{2, 3, 4};
  o.patience = std::chrono::seconds(60);
  const grid g(o);
  run_on_braid(rt, g, braid_use::submit);
  ASSERT_TRUE(g.is_overtaken());  // (1, 4) waits for it, and nothing else does
  EXPECT_EQ(g.check().wrong_inputs, 1U);
}

}  // namespace
}  // namespace braid::bench
