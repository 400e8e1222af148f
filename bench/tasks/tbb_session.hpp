#pragma once

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <new>

namespace braid::bench {

/// oneTBB while it is measured, on so many threads: the calling one and workers.
class tbb_session {
 public:
  explicit tbb_session(unsigned threads)
      : control_(tbb::global_control::max_allowed_parallelism, threads), arena_(static_cast<int>(threads)) {}
  /// Joins the workers.
  ~tbb_session() {
    arena_.terminate();
    tbb::finalize(handle_, std::nothrow);
  }
  tbb_session(const tbb_session&) = delete;
  tbb_session& operator=(const tbb_session&) = delete;

  template <class F>
  auto execute(const F& f) {
    return arena_.execute(f);
  }

 private:
  tbb::task_scheduler_handle handle_{tbb::attach{}};
  tbb::global_control control_;
  tbb::task_arena arena_;
};

}  // namespace braid::bench
