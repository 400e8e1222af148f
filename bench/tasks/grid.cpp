#include "grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace braid::bench {

namespace {

// ---- The patterns.

struct span_of_row {
  unsigned first;
  unsigned width;
};

span_of_row row_span(const grid_options& g, unsigned t) {
  switch (g.pattern) {
    case grid_pattern::dom: {
      const unsigned first = t + g.width > g.steps ? t + g.width - g.steps : 0;
      return {first, std::min({g.width, t + 1, g.steps - t})};
    }
    case grid_pattern::tree: return {0, t < 31 ? std::min(g.width, 1U << t) : g.width};
    default: return {0, g.width};
  }
}

std::uint64_t mix(std::uint64_t v) {  // splitmix64
  v += 0x9e3779b97f4a7c15U;
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9U;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebU;
  return v ^ (v >> 31);
}

/// Columns of row t-1, before those outside it are left out. Signed: some are beyond the edges.
std::vector<std::int64_t> wanted(const grid_options& g, unsigned step, unsigned column) {
  const std::int64_t x = column;
  const std::int64_t w = g.width;
  const std::int64_t r = g.radix;
  std::vector<std::int64_t> out;
  switch (g.pattern) {
    case grid_pattern::trivial: break;
    case grid_pattern::no_comm: out = {x}; break;
    case grid_pattern::stencil_1d: out = {x - 1, x, x + 1}; break;
    case grid_pattern::stencil_1d_periodic: out = {(x + w - 1) % w, x, (x + 1) % w}; break;
    case grid_pattern::dom: out = {x - 1, x}; break;
    case grid_pattern::tree: out = {x / 2}; break;
    case grid_pattern::fft: {
      const unsigned levels = static_cast<unsigned>(std::bit_width(g.width - 1));
      if (levels == 0) return {x};
      const std::int64_t far = std::int64_t{1} << ((step + levels - 1) % levels);
      out = {x - far, x, x + far};
      break;
    }
    case grid_pattern::all_to_all:
      for (std::int64_t y = 0; y < w; ++y) out.push_back(y);
      break;
    case grid_pattern::nearest:
      for (std::int64_t y = x - r / 2; y <= x + (r - 1) / 2; ++y) out.push_back(y);
      break;
    case grid_pattern::spread:
      for (std::int64_t i = 0; i < r; ++i) out.push_back((x + i * w / r + (i > 0 ? step % g.period : 0)) % w);
      break;
    case grid_pattern::random_nearest:
      for (std::int64_t y = x - r / 2; y <= x + (r - 1) / 2; ++y) {
        const std::uint64_t place =
            (std::uint64_t{step} << 32) ^ (std::uint64_t{column} << 16) ^ static_cast<std::uint64_t>(y + r);
        if (y == x || mix(g.seed ^ mix(place)) % 4 == 0) out.push_back(y);
      }
      break;
  }
  return out;
}

using lists = std::vector<std::vector<unsigned>>;

std::vector<unsigned> inputs_of(const grid_options& g, unsigned t, unsigned x) {
  if (t == 0) return {};
  const span_of_row before = row_span(g, t - 1);
  std::vector<unsigned> out;
  for (const std::int64_t y : wanted(g, t, x)) {
    if (y >= before.first && y < std::int64_t{before.first} + before.width)
      out.push_back(static_cast<unsigned>(y));
  }
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

/// A row before the orders between rows are known.
struct plain_row {
  span_of_row span{};
  lists inputs;
  lists reads;
  lists after;
  std::vector<char> after_writer;
};

plain_row make_row(const grid_options& g, unsigned t) {
  plain_row out{.span = row_span(g, t), .inputs = {}, .reads = {}, .after = {}, .after_writer = {}};
  for (unsigned x = out.span.first; x < out.span.first + out.span.width; ++x) {
    out.inputs.push_back(inputs_of(g, t, x));
    out.reads.push_back(out.inputs.back());
    if (g.dropped && g.dropped->step == t && g.dropped->column == x)
      std::erase(out.reads.back(), g.dropped->on);
  }
  return out;
}

bool contains(const std::vector<unsigned>& list, unsigned x) {
  return std::ranges::binary_search(list, x);
}

/// `row` is number t, `last` number t-1.
void add_order(const grid_options& g, unsigned t, plain_row& row, const plain_row& last) {
  row.after = row.reads;
  row.after_writer.assign(row.span.width, 0);
  if (g.one_per_row || t < 2) return;
  const span_of_row overwritten = row_span(g, t - 2);
  for (unsigned i = 0; i < row.span.width; ++i) {
    const unsigned x = row.span.first + i;
    if (x < overwritten.first || x >= overwritten.first + overwritten.width) continue;
    bool is_read = false;
    for (unsigned k = 0; k < last.span.width; ++k) {
      if (!contains(last.reads[k], x)) continue;
      is_read = true;
      row.after[i].push_back(last.span.first + k);
    }
    std::ranges::sort(row.after[i]);
    row.after[i].erase(std::ranges::unique(row.after[i]).begin(), row.after[i].end());
    row.after_writer[i] = is_read ? 0 : 1;
  }
}

grid_row finish(const plain_row& row, const plain_row* next) {
  lists before(row.span.width);
  if (next != nullptr) {
    for (unsigned k = 0; k < next->span.width; ++k)
      for (const unsigned x : next->after[k]) before[x - row.span.first].push_back(next->span.first + k);
  }
  const unsigned first = row.span.first;
  return {.first = first,
          .width = row.span.width,
          .inputs = column_lists(first, row.inputs),
          .reads = column_lists(first, row.reads),
          .after = column_lists(first, row.after),
          .before = column_lists(first, before),
          .after_writer = row.after_writer};
}

// ---- Counting. Each thread has counters on a cache line of its own, which go to a next thread when it ends.

struct alignas(64) tally {
  std::atomic<std::uint64_t> executed{0};  // written by one thread; relaxed
  std::atomic<std::uint64_t> wrong{0};
};

class tallies {
 public:
  tally* take() {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) return &all_.emplace_back();
    tally* out = free_.back();
    free_.pop_back();
    return out;
  }
  void give(tally* t) {
    const std::scoped_lock lock(mutex_);
    free_.push_back(t);
  }
  template <class F>
  void each(const F& f) {
    const std::scoped_lock lock(mutex_);
    for (tally& t : all_) f(t);
  }

 private:
  std::mutex mutex_;
  std::deque<tally> all_;
  std::vector<tally*> free_;
};

tallies& all_tallies() {
  static auto* all = new tallies;  // outlives every thread
  return *all;
}

struct tally_share {
  tally* own = all_tallies().take();
  tally_share() = default;
  ~tally_share() { all_tallies().give(own); }
  tally_share(const tally_share&) = delete;
  tally_share& operator=(const tally_share&) = delete;
};

constinit thread_local tally* own_tally = nullptr;

[[gnu::noinline]] tally& take_tally() {
  thread_local const tally_share share;
  own_tally = share.own;
  return *own_tally;
}

// ---- Kernels.

constexpr std::size_t accumulators = 64;

// Where the target has fused multiply-adds, the compiler makes them of this.
[[gnu::always_inline]] inline double multiply_and_add(std::uint64_t iterations, double start) {
  double sum[accumulators];
  for (std::size_t i = 0; i < accumulators; ++i) sum[i] = start + static_cast<double>(i);
  for (std::uint64_t n = 0; n < iterations; ++n)
    for (double& s : sum) s = s * 0.999999 + 0.000001;
  double all = 0;
  for (const double s : sum) all += s;
  return all;
}

double compute_plain(std::uint64_t iterations, double start) {
  return multiply_and_add(iterations, start);
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] double compute_fused(std::uint64_t iterations, double start) {
  return multiply_and_add(iterations, start);
}

double compute(std::uint64_t iterations, double start) {
  static const bool is_fused = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return is_fused ? compute_fused(iterations, start) : compute_plain(iterations, start);
}
#else
double compute(std::uint64_t iterations, double start) {
  return compute_plain(iterations, start);
}
#endif

double sweep_memory(std::uint64_t iterations) {
  constexpr std::size_t lines = (std::size_t{8} << 20) / sizeof(grid_cell);
  thread_local std::vector<grid_cell> block(lines);
  thread_local std::size_t at = 0;
  double sum = 0;
  for (std::uint64_t n = 0; n < iterations; ++n) {
    at = at + 1 == lines ? 0 : at + 1;
    sum += (block[at].value += 1);
  }
  return sum;
}

}  // namespace

double run_kernel(grid_kernel kernel, std::uint64_t iterations, double start) {
  switch (kernel) {
    case grid_kernel::empty: return start;
    case grid_kernel::compute: return compute(iterations, start);
    case grid_kernel::memory: return sweep_memory(iterations);
  }
  return start;
}

column_lists::column_lists(unsigned first, const lists& of) : first_(first) {
  for (const auto& list : of) {
    columns_.insert(columns_.end(), list.begin(), list.end());
    ends_.push_back(columns_.size());
  }
}

grid::grid(const grid_options& options) : options_(options) {
  const auto need = [](bool holds, const std::string& what) {
    if (!holds) throw std::invalid_argument(what);
  };
  need(options.width >= 1 && options.width <= 65'536,
       fmt::format("the width of a grid is 1 to 65536, not {}", options.width));
  need(options.steps >= 1, "a grid has at least one step");
  need(options.radix >= 1, "the radix of a pattern is at least 1");
  need(options.period >= 1, "the period of a pattern is at least 1");
  need(options.pattern != grid_pattern::stencil_1d_periodic || options.width >= 3,
       fmt::format("stencil_1d_periodic needs a width of at least 3, not {}", options.width));

  if (options.one_per_row) stored_ = options.steps;
  plain_row row = make_row(options, 0);
  add_order(options, 0, row, {});
  for (unsigned t = 0; t < options.steps; ++t) {
    plain_row next;
    if (t + 1 < options.steps) {
      next = make_row(options, t + 1);
      add_order(options, t + 1, next, row);
    }
    grid_row made = finish(row, t + 1 < options.steps ? &next : nullptr);
    tasks_ += made.width;
    const auto found = std::ranges::find(shapes_, made);
    shape_of_.push_back(static_cast<std::uint32_t>(found - shapes_.begin()));
    if (found == shapes_.end()) shapes_.push_back(std::move(made));
    row = std::move(next);
  }
  repeats_after_ = find_period();
  cells_ = std::make_unique<grid_cell[]>(std::size_t{stored_} * options.width);
  reset();
}

unsigned grid::find_period() const {
  const auto is_like = [&](unsigned a, unsigned b) {
    const grid_row& x = row(a);
    const grid_row& y = row(b);
    return &x == &y || (x.first == y.first && x.width == y.width && x.reads == y.reads);
  };
  for (unsigned period = stored_; period <= steps() / 2; period += stored_) {
    unsigned t = 1;
    while (t + period < steps() && is_like(t, t + period)) ++t;
    if (t + period == steps()) return period;
  }
  return 0;
}

void grid::reset() const {
  const grid_cell untouched{.step = ~std::uint64_t{0}, .column = ~std::uint64_t{0}, .value = 0, .rest = {}};
  std::fill_n(cells_.get(), std::size_t{stored_} * options_.width, untouched);
  gate_->dependent_ran.store(false);
  gate_->is_overtaken.store(false);
  (void)take_counts();
}

void grid::execute(const grid& g, unsigned t, unsigned x) {
  if (t == 0 || g.options_.dropped) [[unlikely]]
    g.hold_up(t, x);
  std::uint64_t wrong = 0;
  for (const unsigned y : g.row(t).inputs[x]) {
    const grid_cell& in = g.cell(t - 1, y);
    wrong += in.step != t - 1 || in.column != y ? 1U : 0U;
  }
  const double value = run_kernel(g.options_.kernel, g.iterations_, static_cast<double>(x));
  grid_cell& own = g.cell(t, x);
  own.step = t;
  own.column = x;
  own.value = value;
  tally& counts = own_tally != nullptr ? *own_tally : take_tally();
  counts.executed.store(counts.executed.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (wrong != 0) [[unlikely]]
    counts.wrong.store(counts.wrong.load(std::memory_order_relaxed) + wrong, std::memory_order_relaxed);
  if (g.options_.dropped && g.options_.dropped->step == t && g.options_.dropped->column == x)
    g.gate_->dependent_ran.store(true, std::memory_order_release);  // pairs with hold_up()
}

// Whoever waits here gives up in the end: a runtime that submits no more while this task waits must not hang.
void grid::hold_up(unsigned t, unsigned x) const {
  using namespace std::chrono_literals;
  const auto wait = [](std::chrono::milliseconds limit, const auto& is_over) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (!is_over() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(20us);
  };
  if (t == 0) wait(2s, [&] { return !gate_->closed.load(std::memory_order_acquire); });
  if (options_.dropped && options_.dropped->step == t + 1 && options_.dropped->on == x) {
    wait(options_.patience, [&] { return gate_->dependent_ran.load(std::memory_order_acquire); });
    gate_->is_overtaken.store(gate_->dependent_ran.load());
  }
}

std::uint64_t grid::executed() {
  std::uint64_t sum = 0;
  all_tallies().each([&](const tally& t) { sum += t.executed.load(std::memory_order_relaxed); });
  return sum;
}

grid_check grid::take_counts() {
  grid_check out;
  all_tallies().each([&](tally& t) {
    out.executed += t.executed.exchange(0);
    out.wrong_inputs += t.wrong.exchange(0);
  });
  return out;
}

grid_check grid::check(unsigned first, unsigned end) const {
  grid_check out = take_counts();
  for (unsigned x = first; x < end; ++x) {
    std::vector<std::uint64_t> last(stored_, ~std::uint64_t{0});  // the step that writes each cell last
    for (unsigned t = 0; t < options_.steps; ++t)
      if (row(t).has(x)) last[t % stored_] = t;
    for (unsigned i = 0; i < stored_; ++i) {
      if (last[i] == ~std::uint64_t{0}) continue;
      const grid_cell& got = cell(i, x);
      out.wrong_outputs += got.step == last[i] && got.column == x ? 0U : 1U;
    }
  }
  return out;
}

grid_pattern pattern_of(const std::string& name) {
  const auto* found = std::ranges::find(grid_patterns, name, &named_grid_pattern::name);
  if (found == grid_patterns.end()) throw std::invalid_argument("there is no pattern '" + name + "'");
  return found->value;
}

std::string describe(const grid_check& got, const grid& of) {
  if (got.executed != of.tasks()) return fmt::format("{} tasks ran instead of {}", got.executed, of.tasks());
  if (got.wrong_inputs != 0)
    return fmt::format("{} inputs were not there when their tasks ran", got.wrong_inputs);
  if (got.wrong_outputs != 0) return fmt::format("{} outputs are wrong", got.wrong_outputs);
  return "";
}

}  // namespace braid::bench
