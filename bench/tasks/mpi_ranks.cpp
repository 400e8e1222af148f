// Ranks of OpenMPI that run grids: the columns are divided in blocks, one for each rank. Messages are the
// only order: a rank posts the receives of a row before it runs the row before, and sends each cell as soon
// as it is written, once to each rank that needs it.
//
// Started by the harness under mpirun. Rank 0 reads a request from standard input and prints an answer, again
// and again until the input ends.

#include <mpi.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core_threads.hpp"
#include "mpi_request.hpp"

namespace {

using braid::bench::grid;
using braid::bench::grid_check;
using braid::bench::grid_row;

class rank_of_grid {
 public:
  rank_of_grid(const grid& g, int rank, int ranks)
      : grid_(g), rank_(static_cast<unsigned>(rank)), ranks_(static_cast<unsigned>(ranks)) {
    for (unsigned t = 1; t < g.steps(); ++t)
      if (const grid_row& row = g.row(t); !plans_.contains(&row)) plans_.emplace(&row, plan_of(row));
  }

  void run() {
    for (unsigned t = 0; t < grid_.steps(); ++t) {
      finish(receives_[t % 2]);
      finish(sends_[t % 2]);  // of two rows ago: this row may write those cells
      const plan* next = t + 1 < grid_.steps() ? &plans_.at(&grid_.row(t + 1)) : nullptr;
      if (next != nullptr)
        for (const auto& [y, from] : next->receives)
          MPI_Irecv(&grid_.cell(t, y), sizeof(braid::bench::grid_cell), MPI_BYTE, from, static_cast<int>(y),
                    MPI_COMM_WORLD, &receives_[(t + 1) % 2].emplace_back());
      const grid_row& row = grid_.row(t);
      const unsigned end = std::min(end_of(rank_), row.end());
      std::size_t sent = 0;
      for (unsigned x = std::max(first_of(rank_), row.first); x < end; ++x) {
        grid_.run(t, x);
        for (; next != nullptr && sent < next->sends.size() && next->sends[sent].first == x; ++sent)
          MPI_Isend(&grid_.cell(t, x), sizeof(braid::bench::grid_cell), MPI_BYTE, next->sends[sent].second,
                    static_cast<int>(x), MPI_COMM_WORLD, &sends_[t % 2].emplace_back());
      }
    }
    finish(sends_[0]);
    finish(sends_[1]);
  }

  [[nodiscard]] grid_check check() const { return grid_.check(first_of(rank_), end_of(rank_)); }

 private:
  using column_and_rank = std::pair<unsigned, int>;
  struct plan {
    std::vector<column_and_rank> receives;  // of the row before, from others
    std::vector<column_and_rank> sends;     // of the row before, to others; by column
  };

  [[nodiscard]] unsigned first_of(unsigned rank) const { return rank * grid_.width() / ranks_; }
  [[nodiscard]] unsigned end_of(unsigned rank) const { return first_of(rank + 1); }
  [[nodiscard]] unsigned owner(unsigned x) const {
    unsigned rank = 0;
    while (x >= end_of(rank)) ++rank;
    return rank;
  }
  [[nodiscard]] plan plan_of(const grid_row& row) const {
    plan out;
    for (unsigned x = row.first; x < row.end(); ++x) {
      const unsigned by = owner(x);
      for (const unsigned y : row.reads[x]) {
        const unsigned from = owner(y);
        if (by == rank_ && from != rank_) out.receives.emplace_back(y, static_cast<int>(from));
        if (by != rank_ && from == rank_) out.sends.emplace_back(y, static_cast<int>(by));
      }
    }
    for (auto* list : {&out.receives, &out.sends}) {
      std::ranges::sort(*list);
      list->erase(std::ranges::unique(*list).begin(), list->end());
    }
    return out;
  }
  static void finish(std::vector<MPI_Request>& of) {
    MPI_Waitall(static_cast<int>(of.size()), of.data(), MPI_STATUSES_IGNORE);
    of.clear();
  }

  const grid& grid_;
  const unsigned rank_;
  const unsigned ranks_;
  std::map<const grid_row*, plan> plans_;
  std::vector<MPI_Request> receives_[2];
  std::vector<MPI_Request> sends_[2];
};

/// The next line of rank 0's input, on all ranks; empty at its end.
std::string next_line(int rank) {
  std::string line;
  if (rank == 0) std::getline(std::cin, line);
  auto size = static_cast<int>(line.size());
  MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
  line.resize(static_cast<std::size_t>(size));
  MPI_Bcast(line.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD);
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto cpus = braid::bench::allowed_cpus();
  const braid::bench::cpu_limit pinned({cpus[static_cast<std::size_t>(rank) % cpus.size()]});
  if (rank == 0) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(library, &length);
    const std::string text(library, static_cast<std::size_t>(length));
    std::cout << text.substr(0, text.find(',')) << std::endl;
  }
  std::unique_ptr<grid> kept;  // the same grid is asked for many times
  std::string kept_for;
  for (std::string line = next_line(rank); !line.empty(); line = next_line(rank)) {
    braid::bench::mpi_request request;
    std::istringstream(line) >> request;
    std::ostringstream key;
    key << braid::bench::mpi_request{request.options, 0};
    if (kept_for != key.str()) kept = std::make_unique<grid>(request.options);
    kept_for = key.str();
    kept->set_iterations(request.iterations);
    kept->reset();
    rank_of_grid part(*kept, rank, ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    part.run();
    MPI_Barrier(MPI_COMM_WORLD);
    braid::bench::mpi_answer answer{.ns = (MPI_Wtime() - start) * 1e9, .check = {}};
    const grid_check own = part.check();
    const std::uint64_t mine[] = {own.executed, own.wrong_inputs, own.wrong_outputs};
    std::uint64_t all[3] = {};
    MPI_Reduce(mine, all, 3, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    answer.check = {all[0], all[1], all[2]};
    if (rank == 0) std::cout << answer << std::endl;
  }
  MPI_Finalize();
  return 0;
}
