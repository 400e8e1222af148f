// Instructions of an op on CUDA that runs no kernel, with a driver that does nothing (idle_driver.cpp): the
// same on every machine, with the same compiler. What a program's loop, the driver's stubs and the body take
// is counted as well.

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "braid/cuda.hpp"
#include "instructions.hpp"
#include "row_inputs.hpp"

namespace braid::bench {

namespace {

constexpr auto nothing = [](auto...) {};

struct world {
  world() {
    for (unsigned i = 0; i <= width; ++i) cells.push_back(made(16));
  }
  [[nodiscard]] buffer<int> made(std::uint64_t count) {
    auto b = rt.make_buffer<int>(count, "cell");
    rt.fill(b, 0);
    return b;
  }
  cuda::runtime rt{runtime_options{.streams = width}};
  std::vector<buffer<int>> cells;
};

/// Gives one round of a program.
using round_of = std::function<void(world&)>;

void chain(world& w) {
  w.rt.submit(stream_id{0}, "kernel", read_write(w.cells[0]), nothing);
}

void swap(world& w) {
  w.rt.submit(stream_id{0}, "swap", read_write(w.cells[0]), read_write(w.cells[1]), nothing);
}

void there_and_back(world& w) {
  w.rt.submit(stream_id{0}, "there", read(w.cells[0]), read_write(w.cells[1]), nothing);
  w.rt.submit(stream_id{0}, "back", read(w.cells[1]), read_write(w.cells[0]), nothing);
}

void pingpong(world& w) {
  for (unsigned i = 0; i < 2; ++i) w.rt.submit(stream_id{i}, "kernel", read_write(w.cells[0]), nothing);
}

void fork_join(world& w) {
  auto& b = w.cells;
  w.rt.submit(stream_id{0}, "join", read(b[0]), read(b[1]), read(b[2]), read(b[3]), read(b[4]), read(b[5]),
              read(b[6]), read(b[7]), read_write(b[8]), nothing);
  for (unsigned k = 0; k < width; ++k)
    w.rt.submit(stream_id{k}, "fork", read(b[8]), read_write(b[k]), nothing);
}

void take_and_free(world& w) {
  const auto x = w.rt.make_buffer<char>(1 << 20, "x");
  w.rt.submit(stream_id{0}, "use", write(x), nothing);
}

/// One row; after 200 of them the program waits and begins again, at random with other inputs.
class rows {
 public:
  explicit rows(row_reads kind) {
    for (std::uint32_t seed = 0; seed < (kind == row_reads::random ? 16U : 1U); ++seed)
      lists_.push_back(row_inputs_of(kind, seed));
  }
  void operator()(world& w) {
    while (cells_.size() < std::size_t{row_steps} * width) cells_.push_back(w.made(16));
    const row_inputs& list = lists_[turn_ % lists_.size()];
    for (unsigned i = 0; i < width; ++i) {
      const from_row& from = list[step_ * width + i];
      const auto to = write(cells_[step_ * width + i]);
      const auto old = [&](std::size_t j) { return read(cells_[(step_ - 1) * width + from.cell[j]]); };
      const stream_id on{i};
      switch (from.count) {
        case 0: w.rt.submit(on, "row", to, nothing); break;
        case 1: w.rt.submit(on, "row", to, old(0), nothing); break;
        case 2: w.rt.submit(on, "row", to, old(0), old(1), nothing); break;
        default: w.rt.submit(on, "row", to, old(0), old(1), old(2), nothing);
      }
    }
    if (++step_ < row_steps) return;
    w.rt.synchronize();
    step_ = 0;
    ++turn_;
  }

 private:
  std::vector<row_inputs> lists_;
  std::vector<buffer<int>> cells_;
  unsigned step_ = 0;
  std::size_t turn_ = 0;
};

struct counted {
  const char* name;
  unsigned ops;  // of a round
  unsigned warm_up;
  double most;  // instructions an op, as built by g++ 12 for a release: 10 % more than was found
  round_of round;
};

}  // namespace

}  // namespace braid::bench

int main(int argc, char** argv) {
  using namespace braid;
  using namespace braid::bench;
  const bool checks = argc == 2 && std::strcmp(argv[1], "--check") == 0;
  const char* const only = argc == 3 && std::strcmp(argv[1], "--run") == 0 ? argv[2] : nullptr;
  if (argc > 1 && !checks && only == nullptr) {
    fmt::print(stderr,
               "usage: cuda_instructions [--check | --run CASE]\n"
               "Instructions of an op on CUDA, with a driver that does nothing.\n"
               "  --check      fails if there are many more than there were\n"
               "  --run CASE   runs 20,000 rounds of one, for a profiler\n");
    return 2;
  }
  constexpr unsigned turns =
      10 * row_steps + 5;  // the first steps of a row have nothing to read, or to wait for
  const counted all[] = {
      {"chain", 1, 2000, 370, chain},
      {"swap", 1, 2000, 380, swap},
      {"x.read, y.read_write and back", 2, 2000, 410, there_and_back},
      {"pingpong", 2, 2000, 440, pingpong},
      {"fork-join, 1 to 8 to 1", 9, 500, 500, fork_join},
      {"rows, none", width, turns, 330, rows(row_reads::none)},
      {"rows, stencil", width, turns, 580, rows(row_reads::stencil)},
      {"rows, butterfly", width, turns, 540, rows(row_reads::butterfly)},
      {"rows, random", width, turns, 2500, rows(row_reads::random)},
      {"take 1 MiB, use it, free it", 1, 2000, 1290, take_and_free},
  };
  if (only != nullptr) {
    for (const counted& c : all) {
      if (std::strcmp(c.name, only) != 0) continue;
      world w;
      for (unsigned i = 0; i < 20'000; ++i) c.round(w);
      return 0;
    }
    fmt::print(stderr, "cuda_instructions: there is no case '{}'\n", only);
    return 2;
  }
  bool is_within = true;
  for (const counted& c : all) {
    // In a child process, where nothing of CUDA was used before.
    std::shared_ptr<world> w;
    const auto found = instructions_per_call([&](std::uint64_t n) {
      if (!w) {
        w = std::make_shared<world>();
        for (unsigned i = 0; i < c.warm_up; ++i) c.round(*w);
      }
      for (; n > 0; --n) c.round(*w);
    });
    if (!found) {
      fmt::print("skipped: a process may not trace its child here\n");
      return 77;
    }
    const double each = *found / c.ops;
    const bool is_too_much = checks && each > c.most;
    is_within = is_within && !is_too_much;
    fmt::print("{:<32}{:>7.0f}{}\n", c.name, each,
               is_too_much ? fmt::format("  more than {:.0f}", c.most) : "");
  }
  return is_within ? 0 : 1;
}
