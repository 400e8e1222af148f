#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Grids of tasks after Task Bench (Slaughter et al., SC 2020): `width` columns and `steps` rows. Task (t, x)
/// reads cells that row t-1 wrote and writes its own. Written down once for all runtimes; every task checks
/// that what it reads is what the right task wrote.
namespace braid::bench {

enum class grid_pattern : unsigned {
  trivial,
  no_comm,
  stencil_1d,
  stencil_1d_periodic,
  dom,
  tree,
  fft,
  all_to_all,
  nearest,
  spread,
  random_nearest,
};

struct named_grid_pattern {
  grid_pattern value;
  std::string_view name;
};
inline constexpr std::array grid_patterns{
    named_grid_pattern{grid_pattern::trivial, "trivial"},
    named_grid_pattern{grid_pattern::no_comm, "no_comm"},
    named_grid_pattern{grid_pattern::stencil_1d, "stencil_1d"},
    named_grid_pattern{grid_pattern::stencil_1d_periodic, "stencil_1d_periodic"},
    named_grid_pattern{grid_pattern::dom, "dom"},
    named_grid_pattern{grid_pattern::tree, "tree"},
    named_grid_pattern{grid_pattern::fft, "fft"},
    named_grid_pattern{grid_pattern::all_to_all, "all_to_all"},
    named_grid_pattern{grid_pattern::nearest, "nearest"},
    named_grid_pattern{grid_pattern::spread, "spread"},
    named_grid_pattern{grid_pattern::random_nearest, "random_nearest"}};

enum class grid_kernel : unsigned {
  empty,
  compute,  ///< an iteration is a fused multiply-add on each of 64 accumulators
  memory,  ///< an iteration reads and writes one cache line of a block that does not fit into a core's caches
};

/// The dependency of task (step, column) on (step-1, on).
struct grid_edge {
  unsigned step;
  unsigned column;
  unsigned on;
};

struct grid_options {
  grid_pattern pattern = grid_pattern::stencil_1d;
  unsigned width = 8;
  unsigned steps = 1000;
  unsigned radix = 5;   ///< of nearest, spread and random_nearest
  unsigned period = 2;  ///< of spread
  std::uint64_t seed = 1;
  /// Cells for each row, instead of two rows that are written in turn: then a task overwrites nothing that
  /// others still read.
  bool one_per_row = false;
  grid_kernel kernel = grid_kernel::compute;
  /// A fault for the check of the checks: no runtime is told of this dependency, and the task that is
  /// depended on waits for a while until the other one has run.
  std::optional<grid_edge> dropped{};
  std::chrono::milliseconds patience{50};  ///< how long it waits
};

/// What a task writes: who it is.
struct alignas(64) grid_cell {
  std::uint64_t step;
  std::uint64_t column;
  double value;
  std::array<std::uint64_t, 5> rest;
};
static_assert(sizeof(grid_cell) == 64);

/// For each column of a row some columns of a row beside it, ascending.
class column_lists {
 public:
  column_lists() = default;
  column_lists(unsigned first, const std::vector<std::vector<unsigned>>& lists);
  [[nodiscard]] std::span<const unsigned> operator[](unsigned x) const noexcept {
    const unsigned i = x - first_;
    return {columns_.data() + ends_[i], ends_[i + 1] - ends_[i]};
  }
  bool operator==(const column_lists&) const = default;

 private:
  unsigned first_ = 0;
  std::vector<std::size_t> ends_{0};
  std::vector<unsigned> columns_;
};

/// What the tasks of a row need.
struct grid_row {
  unsigned first = 0;
  unsigned width = 0;
  column_lists inputs;  ///< cells of the row before that a task reads
  column_lists reads;   ///< the same as a runtime is told of it: less a dependency that is dropped
  /// For who orders tasks by hand: all tasks of the row before that have to be over, because they write what
  /// is read here or read what is overwritten here.
  column_lists after;
  column_lists before;  ///< the same from the other side: tasks of the next row that come after this one
  /// Whether a task overwrites what task (t-2, x) wrote and no task read: then it comes after that one.
  std::vector<char> after_writer;

  [[nodiscard]] unsigned end() const noexcept { return first + width; }
  [[nodiscard]] bool has(unsigned x) const noexcept { return x >= first && x < end(); }
  bool operator==(const grid_row&) const = default;
};

/// What became of a run.
struct grid_check {
  std::uint64_t executed = 0;
  std::uint64_t wrong_inputs = 0;   ///< inputs that were not written by the task that had to
  std::uint64_t wrong_outputs = 0;  ///< cells that at the end hold something else than they must
};

/// Made by the harness and handed to every runtime. Modules only read it and call run(): tasks are code of
/// the command itself, the same for all.
class grid {
 public:
  /// Throws std::invalid_argument for a width that the pattern does not have.
  explicit grid(const grid_options& options);

  [[nodiscard]] const grid_options& options() const noexcept { return options_; }
  [[nodiscard]] unsigned width() const noexcept { return options_.width; }
  [[nodiscard]] unsigned steps() const noexcept { return options_.steps; }
  [[nodiscard]] std::uint64_t tasks() const noexcept { return tasks_; }
  [[nodiscard]] const grid_row& row(unsigned t) const noexcept { return shapes_[shape_of_[t]]; }
  /// After how many rows tasks read and write the same cells again, from row 1 on; 0 if they never do.
  [[nodiscard]] unsigned repeats_after() const noexcept { return repeats_after_; }
  /// Rows of cells: 2, or one for each step.
  [[nodiscard]] unsigned stored_rows() const noexcept { return stored_; }
  [[nodiscard]] grid_cell& cell(unsigned t, unsigned x) const noexcept {
    return cells_[std::size_t{t % stored_} * options_.width + x];
  }

  /// Task (t, x). From any thread, when the tasks that it comes after are over.
  void run(unsigned t, unsigned x) const { body_(*this, t, x); }

  /// A runtime that submits tasks calls this when it has submitted all, or all that it ever has at once.
  void note_submitted(std::uint64_t tasks) const {
    if (on_submitted) on_submitted(tasks);
  }
  void (*on_submitted)(std::uint64_t tasks) = nullptr;

  /// The kernel's length. Between runs.
  void set_iterations(std::uint64_t n) noexcept { iterations_ = n; }
  [[nodiscard]] std::uint64_t iterations() const noexcept { return iterations_; }
  /// Tasks of the first row wait until it is opened, or for some seconds at most.
  void set_gate(bool closed) const noexcept { gate_->closed.store(closed, std::memory_order_release); }

  /// Before a run.
  void reset() const;
  /// After a run of all tasks, while none runs.
  [[nodiscard]] grid_check check() const { return check(0, options_.width); }
  /// Of these columns only, where others ran in another process.
  [[nodiscard]] grid_check check(unsigned first, unsigned end) const;
  /// Whether the task of the dropped dependency ran before the one that it depends on.
  [[nodiscard]] bool is_overtaken() const noexcept { return gate_->is_overtaken.load(); }
  /// How many tasks have run since the last reset().
  [[nodiscard]] static std::uint64_t executed();

 private:
  struct gate {
    std::atomic<bool> closed{false};
    std::atomic<bool> dependent_ran{false};
    std::atomic<bool> is_overtaken{false};
  };
  [[nodiscard]] unsigned find_period() const;
  static grid_check take_counts();
  static void execute(const grid& g, unsigned t, unsigned x);
  void hold_up(unsigned t, unsigned x) const;

  grid_options options_;
  unsigned stored_ = 2;
  unsigned repeats_after_ = 0;
  std::uint64_t tasks_ = 0;
  std::uint64_t iterations_ = 0;
  std::vector<grid_row> shapes_;         // rows that are alike are stored once
  std::vector<std::uint32_t> shape_of_;  // by step
  std::unique_ptr<grid_cell[]> cells_;
  std::unique_ptr<gate> gate_ = std::make_unique<gate>();
  void (*body_)(const grid&, unsigned, unsigned) = &execute;
};

/// What is wrong, in words; empty if nothing is.
std::string describe(const grid_check& got, const grid& of);

/// Throws std::invalid_argument if there is none of that name.
grid_pattern pattern_of(const std::string& name);

/// A kernel of some length, as tasks run it.
double run_kernel(grid_kernel kernel, std::uint64_t iterations, double start);

}  // namespace braid::bench
