#include "tasks/core_threads.hpp"

#include <sched.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "braid/detail/lock.hpp"
#include "median.hpp"

namespace braid::bench {

namespace {

cpu_set_t set_of(const std::vector<unsigned>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const unsigned cpu : cpus) CPU_SET(cpu, &set);
  return set;
}

void bind(const std::vector<unsigned>& cpus, cpu_limit::of whom) {
  const cpu_set_t set = set_of(cpus);
  if (whom == cpu_limit::of::caller) {
    sched_setaffinity(0, sizeof set, &set);
    return;
  }
  // A thread that ends meanwhile is left out.
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
    sched_setaffinity(std::stoi(each.path().filename().string()), sizeof set, &set);
  }
}

}  // namespace

std::vector<unsigned> allowed_cpus() {
  std::vector<unsigned> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

cpu_limit::cpu_limit(const std::vector<unsigned>& cpus, of whom) : whom_(whom), before_(allowed_cpus()) {
  bind(cpus, whom_);
}

cpu_limit::~cpu_limit() {
  bind(before_, whom_);
}

core_threads::core_threads(unsigned count) : cpus_(allowed_cpus()), own_({cpus_.front()}) {
  for (unsigned i = 1; i < count; ++i) others_.emplace_back([this, i] { work(i, cpus_[i % cpus_.size()]); });
}

core_threads::~core_threads() {
  stop_.store(true);
  round_.fetch_add(1);
  for (std::thread& t : others_) t.join();
}

void core_threads::work(unsigned number, unsigned cpu) {
  bind({cpu}, cpu_limit::of::caller);
  for (unsigned seen = 0;;) {
    ready_.fetch_add(1);
    while (round_.load(std::memory_order_acquire) == seen) detail::relax();  // pairs with run()
    ++seen;
    if (stop_.load()) return;
    (*job_)(number);
    running_.fetch_sub(1);
  }
}

double core_threads::run(const std::function<void(unsigned)>& f) {
  const auto others = static_cast<unsigned>(others_.size());
  while (ready_.load() != others) detail::relax();
  ready_.store(0);
  job_ = &f;
  running_.store(others);
  const auto start = std::chrono::steady_clock::now();
  round_.fetch_add(1);
  f(0);
  while (running_.load() != 0) detail::relax();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

double line_round_trip_ns() {
  if (allowed_cpus().size() < 2) return 0;
  core_threads two(2);
  alignas(64) std::atomic<unsigned> turn{0};
  constexpr unsigned rounds = 2'000;
  std::vector<double> ns;
  for (int repetition = 0; repetition < 9; ++repetition) {
    turn.store(0);
    ns.push_back(two.run([&](unsigned own) {
      for (unsigned i = 0; i < rounds; ++i) {
        while (turn.load(std::memory_order_acquire) != 2 * i + own) detail::relax();
        turn.store(2 * i + own + 1, std::memory_order_release);
      }
    }) / rounds);
  }
  return median(ns);
}

}  // namespace braid::bench
