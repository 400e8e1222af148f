// oneTBB's task_group, ordered by hand. Nothing tracks what tasks read and write: whoever wrote this program
// knew the pattern and made each task start the next, with an atomic counter where several meet. A lower
// bound for runtimes that have to find this out, not a rival of equal use.

#include <oneapi/tbb/task_group.h>
#include <oneapi/tbb/version.h>

#include <atomic>
#include <optional>

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

std::optional<tbb_session> session;

const char* version() {
  return TBB_runtime_version();
}

const char* wake() {
  session.emplace();
  return nullptr;
}

task_run run(pattern p, std::uint64_t tasks) {
  return session->execute([&] { return timed_run(b, [&] { run_by_hand(p, tasks); }); });
}

void rest() {
  session.reset();
}

constexpr rival_entry entry{rival_abi, version, wake, run, rest};

}  // namespace
}  // namespace braid::bench

const braid::bench::rival_entry* braid_rival() {
  return &braid::bench::entry;
}
