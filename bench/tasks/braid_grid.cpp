#include "braid_grid.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

namespace braid::bench {

namespace {

/// Cores of a larger machine are of unequal speed at times: with two streams for each, the faster ones take
/// more. Where each task is submitted, what the additional waits cost the one who submits is more.
unsigned streams_for(unsigned workers, braid_use use) {
  return workers > 2 && use == braid_use::record ? 2 * workers : workers;
}

/// A grid: a buffer for each cell, and a stream or two for each worker; each gets a block of columns.
class braid_grid {
 public:
  braid_grid(cpu::runtime& rt, const grid& g, braid_use use)
      : rt_(rt), grid_(g), streams_(std::min(streams_for(rt.backend().workers(), use), g.width())) {
    for (unsigned t = 0; t < g.stored_rows(); ++t)
      for (unsigned x = 0; x < g.width(); ++x)
        cells_.push_back(rt_.adopt(std::span<grid_cell>(&g.cell(t, x), 1), "cell"));
  }
  void run(braid_use use) {
    unsigned t = 0;
    if (const unsigned period = use == braid_use::record ? grid_.repeats_after() : 0; period != 0) {
      submit_row(t++);
      stride_ = period;
      const recording rows = rt_.record([&] {
        for (unsigned i = 0; i < stride_; ++i) submit_row(t + i);
      });
      const unsigned times = (grid_.steps() - t) / stride_;
      rows.replay(times);
      t += times * stride_;
    }
    for (; t < grid_.steps(); ++t) submit_row(t);
    grid_.note_submitted(grid_.tasks());
    rt_.synchronize();
  }

 private:
  using cell_buffer = decltype(std::declval<cpu::runtime&>().adopt(std::span<grid_cell>()));

  cell_buffer* row(unsigned t) {
    return cells_.data() + std::size_t{t % grid_.stored_rows()} * grid_.width();
  }
  [[nodiscard]] stream_id stream_of(unsigned x) const {
    return stream_id{std::uint64_t{x} * streams_ / grid_.width()};
  }
  void submit_row(unsigned t) {
    for (unsigned x = grid_.row(t).first; x < grid_.row(t).end(); ++x) submit(t, x);
  }
  void submit(unsigned t, unsigned x) {
    const std::span<const unsigned> reads = grid_.row(t).reads[x];
    if (!submit_fixed(t, x, reads, std::make_index_sequence<9>{})) submit_list(t, x, reads);
  }
  /// With as many bindings as there are, if there are few.
  template <std::size_t... Count>
  bool submit_fixed(unsigned t, unsigned x, std::span<const unsigned> reads, std::index_sequence<Count...>) {
    return ((reads.size() == Count && (submit_with(t, x, reads, std::make_index_sequence<Count>{}), true)) ||
            ...);
  }
  template <std::size_t... I>
  void submit_with(unsigned t, unsigned x, [[maybe_unused]] std::span<const unsigned> reads,
                   std::index_sequence<I...>) {
    [[maybe_unused]] cell_buffer* last = row(t + grid_.stored_rows() - 1);
    rt_.submit(stream_of(x), "task", read(last[reads[I]])..., write(row(t)[x]),
               [&g = grid_, t, x, stride = stride_](const auto&...) mutable {
                 g.run(t, x);
                 t += stride;  // the next replay's
               });
  }
  void submit_list(unsigned t, unsigned x, std::span<const unsigned> reads) {
    cell_buffer* last = row(t + grid_.stored_rows() - 1);
    list_.clear();
    for (const unsigned y : reads) list_.add(read(last[y]));
    list_.add(write(row(t)[x]));
    rt_.submit(stream_of(x), "task", list_,
               [&g = grid_, t, x, stride = stride_](std::span<const view>) mutable {
                 g.run(t, x);
                 t += stride;
               });
  }

  cpu::runtime& rt_;
  const grid& grid_;
  const unsigned streams_;
  unsigned stride_ = 0;  // rows of a recording
  std::vector<cell_buffer> cells_;
  bindings list_;
};

}  // namespace

double run_on_braid(cpu::runtime& rt, const grid& g, braid_use use) {
  braid_grid all(rt, g, use);
  const auto start = std::chrono::steady_clock::now();
  all.run(use);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace braid::bench
