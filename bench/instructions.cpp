#include "instructions.hpp"

#include <functional>

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

namespace braid::bench {

namespace {

// The child stops itself before and after: what is counted between includes a constant part.
std::optional<std::uint64_t> count_steps(const std::function<void(std::uint64_t)>& calls, std::uint64_t n) {
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    calls(n);  // touches all pages first
    raise(SIGSTOP);
    calls(n);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status)) return std::nullopt;
  std::uint64_t steps = 0;
  for (;;) {
    if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) break;
    if (waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status)) break;
    if (WSTOPSIG(status) == SIGSTOP) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return steps;
    }
    ++steps;
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return std::nullopt;
}

}  // namespace

std::optional<double> instructions_per_call(const std::function<void(std::uint64_t n)>& calls) {
  constexpr std::uint64_t few = 4;
  constexpr std::uint64_t many = 20;
  const auto base = count_steps(calls, few);
  const auto more = count_steps(calls, many);
  if (!base || !more) return std::nullopt;
  return static_cast<double>(*more - *base) / static_cast<double>(many - few);
}

}  // namespace braid::bench
