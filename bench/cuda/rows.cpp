#include <cstdint>
#include <utility>

#include "cases.hpp"
#include "row_inputs.hpp"

namespace braid::bench {

namespace {

constexpr unsigned steps = row_steps;
constexpr double tasks = double{steps} * width;

using cells = std::vector<buffer<int>>;

cells make_cells(world& w) {
  cells made(std::size_t{steps} * width);
  for (auto& c : made) c = w.rt->make_buffer<int>(16, "cell");
  return made;
}

constexpr auto nothing = [](auto...) {};

/// Cell (t, i) is written by task (t, i), in stream i.
void submit_rows(world& w, const char* name, const row_inputs& list, const cells& cell) {
  for (unsigned t = 0; t < steps; ++t) {
    for (unsigned i = 0; i < width; ++i) {
      const from_row& from = list[t * width + i];
      const auto to = write(cell[t * width + i]);
      const auto old = [&](std::size_t j) { return read(cell[(t - 1) * width + from.cell[j]]); };
      const stream_id on{i};
      switch (from.count) {
        case 0: w.rt->submit(on, name, to, nothing); break;
        case 1: w.rt->submit(on, name, to, old(0), nothing); break;
        case 2: w.rt->submit(on, name, to, old(0), old(1), nothing); break;
        default: w.rt->submit(on, name, to, old(0), old(1), old(2), nothing);
      }
    }
  }
}

template <class Give>
double timed_turn(world& w, Give give) {
  const auto begin = clock::now();
  give();
  const double ns = since(begin) / tasks;
  w.rt->synchronize();
  return ns;
}

/// What a program has to call that knows all of it: an event for each task, a wait for each input of another
/// stream.
variant by_hand(world& w, std::shared_ptr<const std::vector<row_inputs>> lists) {
  const auto h = std::make_shared<hand>(w, 2 * width);
  return [&w, h, lists = std::move(lists), turn = std::size_t{0}]() mutable {
    const row_inputs list = (*lists)[turn++ % lists->size()];
    return timed_turn(w, [&] {
      for (unsigned t = 0; t < steps; ++t) {
        for (unsigned i = 0; i < width; ++i) {
          for (const unsigned from : list[t * width + i].cells()) {
            if (from != i) h->wait(i, (t + 1) % 2 * width + from);
          }
          h->record(t % 2 * width + i, i);
        }
      }
    });
  };
}

/// The cells are kept, as in the program of CUDASTF that its figures are of (task_bench): what its tasks read
/// at random is drawn anew in each turn, outside the clock.
bench_case kept_rows(world& w, const char* name, row_reads kind, double most) {
  auto lists = std::make_shared<std::vector<row_inputs>>();
  for (std::uint32_t seed = 0; seed < (kind == row_reads::random ? 64U : 1U); ++seed)
    lists->push_back(row_inputs_of(kind, seed));
  const auto cell = std::make_shared<const cells>(make_cells(w));
  std::map<std::string, variant> variants{{"braid", [&w, name, lists, cell, turn = std::size_t{0}]() mutable {
                                             const row_inputs list = (*lists)[turn++ % lists->size()];
                                             return timed_turn(w, [&] { submit_rows(w, name, list, *cell); });
                                           }}};
  if (kind != row_reads::none) variants.emplace("by_hand", by_hand(w, lists));
  return {name, "no kernels: rows of 8, 200 steps", most, false, std::move(variants), many_turns};
}

/// Each op takes the memory of its cell.
bench_case new_rows(world& w, const char* name, row_reads kind) {
  const auto list = std::make_shared<const row_inputs>(row_inputs_of(kind, 0));
  return {std::string(name) + "_new",
          "no kernels: rows of 8, 200 steps, of cells that are made anew",
          0,
          false,
          {{"braid",
            [&w, name, list] {
              const cells cell = make_cells(w);
              return timed_turn(w, [&] { submit_rows(w, name, *list, cell); });
            }}},
          many_turns};
}

bench_case recorded_rows(world& w, const char* name, row_reads kind) {
  const cells cell = make_cells(w);
  const row_inputs list = row_inputs_of(kind, 0);
  const recording all = w.rt->record([&] { submit_rows(w, name, list, cell); }, {.graph = false});
  return {std::string(name) + "_recorded",
          "no kernels: rows of 8, 200 steps, recorded and replayed op by op",
          0,
          false,
          {{"braid", [&w, all] { return timed_turn(w, [&] { all.replay(); }); }}},
          many_turns};
}

}  // namespace

void add_rows(const std::function<world&()>& fresh, std::vector<bench_case>& to) {
  struct pattern {
    const char* name;
    row_reads kind;
    double most;
  };
  for (const auto& [name, kind, most] : {pattern{"empty_rows_none", row_reads::none, 150},
                                         {"empty_rows_stencil", row_reads::stencil, 900},
                                         {"empty_rows_butterfly", row_reads::butterfly, 700},
                                         {"empty_rows_random", row_reads::random, 900}}) {
    to.push_back(kept_rows(fresh(), name, kind, most));
    to.push_back(new_rows(fresh(), name, kind));
    to.push_back(recorded_rows(fresh(), name, kind));
  }
}

}  // namespace braid::bench
