// oneTBB's flow graph: a continue_node for each task, and an edge for each order that the program wants. The
// program, not the runtime, knows who wrote what last.
//
// A graph must not grow while it runs, so tasks are collected into windows: build, start what has no
// predecessor, wait, take down. All of that is timed. A task that comes again without any edge, as in `indep`
// and in the patterns whose rounds end at the host, needs no new node: its node is made once and started
// again, as a user of a flow graph would do.

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/version.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "rival.hpp"
#include "tbb_session.hpp"

namespace braid::bench {
namespace {

cells b;

using node = tbb::flow::continue_node<tbb::flow::continue_msg>;

/// Tasks whose order is edges.
class windowed_ops {
 public:
  // Of 100 to 100,000 tasks in a window, this size was the fastest: larger ones leave the cache.
  static constexpr std::size_t window = 1000;

  windowed_ops() { nodes_.resize(window); }

  void touch(std::size_t k) {
    node& task = add([k] { touch_body(b[k].count); });
    follow(last_[k], task);
    last_[k] = &task;
  }
  void gather() {
    node& task = add([] { gather_body(b); });
    // b8's last writer comes before the eight, which come before this.
    for (std::size_t k = 0; k < 8; ++k) follow(last_[k], task);
    last_[8] = &task;
  }
  void scatter(std::size_t k) {
    node& task = add([k] { scatter_body(b[8].count, b[k].count); });
    follow(last_[8], task);
    last_[k] = &task;
  }
  void nothing() { add(nothing_body); }
  void wait() {
    for (std::size_t i = 0; i < used_; ++i)
      if (first_[i]) nodes_[i]->try_put({});
    graph_.wait_for_all();
    for (std::size_t i = 0; i < used_; ++i) nodes_[i].reset();
    used_ = 0;
    last_ = {};
  }

 private:
  template <class Body>
  node& add(Body body) {
    if (used_ == window) wait();
    first_[used_] = true;
    return nodes_[used_++].emplace(graph_, [body](const tbb::flow::continue_msg&) { body(); });
  }
  void follow(node* before, node& task) {
    if (before == nullptr) return;
    tbb::flow::make_edge(*before, task);
    first_[used_ - 1] = false;
  }

  tbb::flow::graph graph_;
  std::vector<std::optional<node>> nodes_;
  std::array<bool, window> first_{};
  std::size_t used_ = 0;
  std::array<node*, buffer_count> last_{};
};

/// Tasks without edges: one node for each kind.
class restarting_ops {
 public:
  restarting_ops() {
    for (std::size_t k = 0; k < touches_.size(); ++k)
      touches_[k].emplace(graph_, [k](const tbb::flow::continue_msg&) { touch_body(b[k].count); });
  }
  void nothing() { nothing_.try_put({}); }
  void touch(std::size_t k) { touches_[k]->try_put({}); }
  void wait() { graph_.wait_for_all(); }
  // Not in the patterns that are run this way.
  void gather() {}
  void scatter(std::size_t) {}

 private:
  tbb::flow::graph graph_;
  node nothing_{graph_, [](const tbb::flow::continue_msg&) { nothing_body(); }};
  std::array<std::optional<node>, 8> touches_;
};

template <class Ops>
void run_with(pattern p, std::uint64_t tasks) {
  Ops ops;
  submit_pattern(p, tasks, ops);
}

/// A grid in windows of rows. The graph of a window is run again as long as the rows are the same.
class grid_windows {
 public:
  explicit grid_windows(const grid& g)
      : grid_(g), rows_(std::max<std::size_t>(2, window / g.width())), nodes_(rows_ * g.width()) {}

  void run() {
    for (; begin_ < grid_.steps(); begin_ += built_) {
      if (!is_like_the_last()) build();
      grid_.note_submitted(std::uint64_t{built_} * grid_.width());
      for (node* task : first_) task->try_put({});
      graph_.wait_for_all();
    }
  }

 private:
  static constexpr std::size_t window = windowed_ops::window;

  std::optional<node>& at(unsigned row_of_window, unsigned x) {
    return nodes_[std::size_t{row_of_window} * grid_.width() + x];
  }
  // Of a window's first row it does not matter what it comes after: the window before is over.
  [[nodiscard]] bool is_like_the_last() const {
    if (begin_ == 0 || begin_ + built_ > grid_.steps()) return false;
    const unsigned before = begin_ - built_;
    if (grid_.row(begin_).first != grid_.row(before).first ||
        grid_.row(begin_).width != grid_.row(before).width)
      return false;
    for (unsigned i = 1; i < built_; ++i)
      if (&grid_.row(begin_ + i) != &grid_.row(before + i)) return false;
    return true;
  }
  void build() {
    first_.clear();
    for (auto& each : nodes_) each.reset();
    for (built_ = 0; built_ < rows_ && begin_ + built_ < grid_.steps(); ++built_) {
      const grid_row& row = grid_.row(begin_ + built_);
      for (unsigned x = row.first; x < row.end(); ++x) add(x, row);
    }
  }
  void add(unsigned x, const grid_row& row) {
    node& task = at(built_, x).emplace(
        graph_, [this, i = built_, x](const tbb::flow::continue_msg&) { grid_.run(begin_ + i, x); });
    bool is_first = true;
    const auto follow = [&](node& before) {
      tbb::flow::make_edge(before, task);
      is_first = false;
    };
    if (built_ >= 1)
      for (const unsigned y : row.after[x]) follow(*at(built_ - 1, y));
    if (built_ >= 2 && row.after_writer[x - row.first] != 0) follow(*at(built_ - 2, x));
    if (is_first) first_.push_back(&task);
  }
  const grid& grid_;
  const std::size_t rows_;
  tbb::flow::graph graph_;
  std::vector<std::optional<node>> nodes_;
  std::vector<node*> first_;
  unsigned begin_ = 0;  // the window's first row
  unsigned built_ = 0;  // its rows
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
  const bool edges = p == pattern::chain || p == pattern::chains8 || p == pattern::forkjoin;
  return session->execute([&] {
    return timed_run(b,
                     [&] { edges ? run_with<windowed_ops>(p, tasks) : run_with<restarting_ops>(p, tasks); });
  });
}

grid_run run_grid(const grid& g) {
  return session->execute([&] { return grid_run{.ns = timed_ns([&] { grid_windows(g).run(); })}; });
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
