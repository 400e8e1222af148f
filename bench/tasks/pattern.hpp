#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// What the tasks of a run read and write, written down once for all runtimes. There are nine buffers, b0 to
/// b8; each task adds one to a counter in what it writes.
namespace braid::bench {

enum class pattern : unsigned {
  chain,     ///< each task writes b0: nothing can run at the same time
  chains8,   ///< task i writes b[i % 8]
  indep,     ///< no task touches a buffer
  forkjoin,  ///< rounds: one task reads b0..b7 and writes b8, then eight read b8 and write b0..b7
  hostjoin,  ///< rounds: eight tasks write b0..b7, then the host waits
  pingpong,  ///< rounds: one task writes b0, then the host waits
};

struct named_pattern {
  pattern value;
  std::string_view name;
};
inline constexpr std::array patterns{
    named_pattern{pattern::chain, "chain"},       named_pattern{pattern::chains8, "chains8"},
    named_pattern{pattern::indep, "indep"},       named_pattern{pattern::forkjoin, "forkjoin"},
    named_pattern{pattern::hostjoin, "hostjoin"}, named_pattern{pattern::pingpong, "pingpong"}};

inline constexpr std::size_t buffer_count = 9;

/// The tasks that a run of about `tasks` has: rounds are never cut short.
constexpr std::uint64_t whole_rounds(pattern p, std::uint64_t tasks) {
  switch (p) {
    case pattern::forkjoin: return tasks / 9 * 9;
    case pattern::hostjoin: return tasks / 8 * 8;
    default: return tasks;
  }
}

/// Submits whole_rounds(p, tasks) tasks in order and waits for the last one. `ops` gives the kinds of task in
/// the words of one runtime:
///   nothing()    touches no buffer
///   touch(k)     read_write b[k]
///   gather()     read b0..b7, read_write b8
///   scatter(k)   read b8, read_write b[k]
///   wait()       the host waits for all tasks so far
template <class Ops>
void submit_pattern(pattern p, std::uint64_t tasks, Ops& ops) {
  switch (p) {
    case pattern::chain:
      for (std::uint64_t i = 0; i < tasks; ++i) ops.touch(0);
      ops.wait();
      break;
    case pattern::chains8:
      for (std::uint64_t i = 0; i < tasks; ++i) ops.touch(i % 8);
      ops.wait();
      break;
    case pattern::indep:
      for (std::uint64_t i = 0; i < tasks; ++i) ops.nothing();
      ops.wait();
      break;
    case pattern::forkjoin:
      for (std::uint64_t round = 0; round < tasks / 9; ++round) {
        ops.gather();
        for (std::size_t k = 0; k < 8; ++k) ops.scatter(k);
      }
      ops.wait();
      break;
    case pattern::hostjoin:
      for (std::uint64_t round = 0; round < tasks / 8; ++round) {
        for (std::size_t k = 0; k < 8; ++k) ops.touch(k);
        ops.wait();
      }
      break;
    case pattern::pingpong:
      for (std::uint64_t i = 0; i < tasks; ++i) {
        ops.touch(0);
        ops.wait();
      }
      break;
  }
}

}  // namespace braid::bench
