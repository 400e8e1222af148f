// oneTBB's task_group, ordered by hand. Nothing tracks what tasks read and write: whoever wrote this program
// knew the pattern and made each task start the next, with an atomic counter where several meet. A lower
// bound for runtimes that have to find this out, not a rival of equal use.

#include <oneapi/tbb/task_group.h>
#include <oneapi/tbb/version.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "rival.hpp"
#include "tbb_session.hpp"

namespace braid::bench {
namespace {

cells b;

/// A task of a chain on b[k], followed by those that are left of it.
struct link {
  tbb::task_group* group;
  std::size_t k;
  std::uint64_t left;
  void operator()() const {
    touch_body(b[k].count);
    if (left > 1) group->run(link{group, k, left - 1});
  }
};

class rounds {
 public:
  rounds(tbb::task_group& group, std::uint64_t count) : group_(group), left_(count) {}
  /// One task, then eight; the last of them starts the next round.
  void start() {
    group_.run([this] {
      gather_body(b);
      missing_.store(8, std::memory_order_relaxed);  // run() hands it to the eight
      for (std::size_t k = 0; k < 8; ++k)
        group_.run([this, k] {
          scatter_body(b[8].count, b[k].count);
          if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1 && --left_ > 0) start();
        });
    });
  }

 private:
  tbb::task_group& group_;
  std::uint64_t left_;
  std::atomic<unsigned> missing_{0};
};

void run_by_hand(pattern p, std::uint64_t tasks) {
  tbb::task_group group;
  switch (p) {
    case pattern::chain:
      if (tasks > 0) group.run(link{&group, 0, tasks});
      group.wait();
      break;
    case pattern::chains8:
      for (std::size_t k = 0; k < 8; ++k)
        if (tasks > k) group.run(link{&group, k, (tasks - k + 7) / 8});
      group.wait();
      break;
    case pattern::indep:
      for (std::uint64_t i = 0; i < tasks; ++i) group.run(nothing_body);
      group.wait();
      break;
    case pattern::forkjoin: {
      rounds all(group, tasks / 9);
      if (tasks >= 9) all.start();
      group.wait();
      break;
    }
    case pattern::hostjoin:
      for (std::uint64_t round = 0; round < tasks / 8; ++round) {
        for (std::size_t k = 0; k < 8; ++k) group.run([k] { touch_body(b[k].count); });
        group.wait();
      }
      break;
    case pattern::pingpong:
      for (std::uint64_t i = 0; i < tasks; ++i) {
        group.run([] { touch_body(b[0].count); });
        group.wait();
      }
      break;
  }
}

/// A grid: a counter for each task tells how many others it still has to come after. Who takes it to zero
/// runs the task, one of them at once and others as new tasks.
class counted_grid {
 public:
  explicit counted_grid(const grid& g)
      : grid_(g), missing_(std::make_unique<std::atomic<unsigned>[]>(std::size_t{g.width()} * g.steps())) {
    for (unsigned t = 0; t < g.steps(); ++t)
      for (unsigned x = g.row(t).first; x < g.row(t).end(); ++x)
        missing(t, x).store(orders_before(t, x), std::memory_order_relaxed);  // run() hands it over
  }
  void run() {
    for (unsigned t = 0; t < grid_.steps(); ++t)
      for (unsigned x = grid_.row(t).first; x < grid_.row(t).end(); ++x)
        if (orders_before(t, x) == 0) group_.run([this, t, x] { work(t, x); });
    group_.wait();
  }

 private:
  struct place {
    unsigned t;
    unsigned x;
  };

  unsigned orders_before(unsigned t, unsigned x) const {
    const grid_row& row = grid_.row(t);
    return static_cast<unsigned>(row.after[x].size()) + (row.after_writer[x - row.first] != 0 ? 1U : 0U);
  }
  // The tasks of a column lie side by side: neighbours seldom write the same line.
  std::atomic<unsigned>& missing(unsigned t, unsigned x) {
    return missing_[std::size_t{x} * grid_.steps() + t];
  }
  void work(unsigned t, unsigned x) {
    for (std::optional<place> next = place{t, x}; next;) {
      const place now = *std::exchange(next, std::nullopt);
      grid_.run(now.t, now.x);
      const auto release = [&](unsigned later, unsigned y) {
        if (missing(later, y).fetch_sub(1, std::memory_order_acq_rel) != 1) return;
        if (next) group_.run([this, ready = *next] { work(ready.t, ready.x); });
        next = place{later, y};
      };
      for (const unsigned y : grid_.row(now.t).before[now.x]) release(now.t + 1, y);
      if (now.t + 2 >= grid_.steps()) continue;
      const grid_row& over = grid_.row(now.t + 2);
      if (over.has(now.x) && over.after_writer[now.x - over.first] != 0) release(now.t + 2, now.x);
    }
  }

  const grid& grid_;
  std::unique_ptr<std::atomic<unsigned>[]> missing_;
  tbb::task_group group_;
};

std::optional<tbb_session> session;

const char* version() {
  return TBB_runtime_version();
}

const char* wake(unsigned threads) {
  session.emplace(threads);
  return nullptr;
}

task_run run(pattern p, std::uint64_t tasks) {
  return session->execute([&] { return timed_run(b, [&] { run_by_hand(p, tasks); }); });
}

grid_run run_grid(const grid& g) {
  return session->execute([&] {
    counted_grid counted(g);
    return grid_run{.ns = timed_ns([&] { counted.run(); })};
  });
}

void rest() {
  session.reset();
}

constexpr rival_entry entry{rival_abi, version, wake, run, run_grid, rest};

}  // namespace
}  // namespace braid::bench

const braid::bench::rival_entry* braid_rival() {
  return &braid::bench::entry;
}
