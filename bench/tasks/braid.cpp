// braid itself, by the API that programs use.

#include "rival.hpp"

#if __has_include("braid/cpu.hpp")

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "braid/cpu.hpp"
#include "braid_grid.hpp"

namespace braid::bench {
namespace {

using in = std::span<const std::uint64_t>;
using out = std::span<std::uint64_t>;

class braid_ops {
 public:
  explicit braid_ops(unsigned threads) : rt_({.workers = threads}) {
    for (const char* name : {"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8"})
      b_.push_back(rt_.make_buffer<std::uint64_t>(8, name));
  }
  void nothing() {
    rt_.submit("nothing", [] { nothing_body(); });
  }
  void touch(std::size_t k) {
    rt_.submit("touch", read_write(b_[k]), [](out own) { touch_body(own[0]); });
  }
  void gather() {
    rt_.submit("gather", read(b_[0]), read(b_[1]), read(b_[2]), read(b_[3]), read(b_[4]), read(b_[5]),
               read(b_[6]), read(b_[7]), read_write(b_[8]),
               [](in b0, in b1, in b2, in b3, in b4, in b5, in b6, in b7, out own) {
                 gather_body({b0[0], b1[0], b2[0], b3[0], b4[0], b5[0], b6[0], b7[0]}, own[0]);
               });
  }
  void scatter(std::size_t k) {
    rt_.submit("scatter", read(b_[8]), read_write(b_[k]),
               [](in b8, out own) { scatter_body(b8[0], own[0]); });
  }
  void wait() { rt_.synchronize(); }

  void clear() {
    for (auto& b : b_) rt_.submit("clear", write(b), [](out x) { std::ranges::fill(x, 0U); });
    rt_.synchronize();
  }
  std::uint64_t total(std::size_t k) { return rt_.read(b_[k]).get()[0]; }
  cpu::runtime& runtime() noexcept { return rt_; }

 private:
  // The submitting thread, which runs ops while it waits, and those that are started.
  cpu::runtime rt_;
  std::vector<decltype(rt_.make_buffer<std::uint64_t>(8, "b"))> b_;
};

std::optional<braid_ops> ops;

const char* version() {
  return "braid " BRAID_VERSION;
}

const char* wake(unsigned threads) {
  ops.emplace(threads);
  return nullptr;
}

task_run run(pattern p, std::uint64_t tasks) {
  ops->clear();
  cells unused;
  task_run result = timed_run(unused, [&] { submit_pattern(p, tasks, *ops); });
  for (std::size_t k = 0; k < buffer_count; ++k) result.totals[k] = ops->total(k);
  return result;
}

template <braid_use Use>
grid_run run_grid(const grid& g) {
  return {.ns = run_on_braid(ops->runtime(), g, Use)};
}

// Joins the workers.
void rest() {
  ops.reset();
}

constexpr rival_entry entry{rival_abi, version, wake, run, run_grid<braid_use::record>, rest};
constexpr rival_entry submit_entry{rival_abi, version, wake, nullptr, run_grid<braid_use::submit>, rest};

}  // namespace

const rival_entry* braid_entry() {
  return &entry;
}
const rival_entry* braid_submit_entry() {
  return &submit_entry;
}

}  // namespace braid::bench

#else

const braid::bench::rival_entry* braid::bench::braid_entry() {
  return nullptr;
}
const braid::bench::rival_entry* braid::bench::braid_submit_entry() {
  return nullptr;
}

#endif
