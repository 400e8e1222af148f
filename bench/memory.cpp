#include "memory.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "allocations.hpp"
#include "braid/detail/pool.hpp"
#include "braid/detail/stamp_pool.hpp"
#include "instructions.hpp"
#include "machine.hpp"
#include "median.hpp"

namespace braid::bench {

namespace {

using detail::block;
using detail::lane_id;
using detail::point;

template <class F>
double ns_of(const F& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

/// A pool with one slot for each lane that is used, without an engine: an op is its entry in the history.
class rig {
 public:
  explicit rig(unsigned lanes) {
    for (unsigned i = 0; i < lanes; ++i) {
      slots_.push_back(std::make_unique<slot>());
      slots_[i]->stamps = &arena_->add_pool(static_cast<lane_id>(i), true);
      slots_[i]->now = slots_[i]->stamps->make(detail::clock{});
    }
    detail::pool_options options;
    options.is_complete = [this](const point& p) {  // 64 ops are in flight
      return p.cursor + 64 <= slots_[detail::index_of(p.lane)]->cursor;
    };
    pool_ = std::make_unique<detail::pool>(std::make_shared<system_source>(), std::move(options));
  }
  ~rig() {
    pool_.reset();
    for (auto& s : slots_) s->now->release();
  }
  rig(const rig&) = delete;
  rig& operator=(const rig&) = delete;

  block* take(unsigned lane, std::uint64_t bytes) {
    slot& s = *slots_[lane];
    block* b = pool_->take(static_cast<lane_id>(lane), bytes, [](const point&) { return false; });
    if (b->owner.load(std::memory_order_relaxed) == nullptr) {
      arena_->retain();
      b->owner.store(arena_.get(), std::memory_order_release);
    }
    b->past.write_all(++s.cursor, s.now, static_cast<lane_id>(lane));
    return b;
  }
  void give(block* b) { pool_->give(b); }
  [[nodiscard]] memory_usage usage() const { return pool_->usage(); }

 private:
  struct alignas(64) slot {
    detail::stamp_pool* stamps = nullptr;
    detail::stamp* now = nullptr;
    std::uint64_t cursor = 0;
  };
  detail::arena_handle arena_;
  std::vector<std::unique_ptr<slot>> slots_;
  std::unique_ptr<detail::pool> pool_;
};

nlohmann::json measure_pairs(std::uint64_t bytes, const memory_options& options) {
  constexpr std::uint64_t batch = 100'000;
  rig r(1);
  const auto pairs = [&](std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) r.give(r.take(0, bytes));
  };
  const auto instructions = instructions_per_call(pairs);
  pairs(batch);
  std::vector<double> ns;
  const std::uint64_t before = allocations();
  for (unsigned i = 0; i < options.repetitions; ++i) {
    ns.push_back(ns_of([&] { pairs(batch); }) / static_cast<double>(batch));
  }
  const std::uint64_t made = allocations() - before;
  return {{"name", "pair/" + std::to_string(bytes)},
          {"bytes", bytes},
          {"ns", median(ns)},
          {"instructions", instructions ? nlohmann::json(*instructions) : nlohmann::json(nullptr)},
          {"allocations", static_cast<double>(made) / static_cast<double>(batch * options.repetitions)}};
}

/// CPU time: other programs on the machine do not count.
double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// Each thread on a lane of its own of one pool; what a pair costs the slower one.
nlohmann::json measure_two_threads(const memory_options& options) {
  constexpr std::uint64_t batch = 100'000;
  rig r(2);
  std::vector<double> ns;
  for (unsigned i = 0; i < options.repetitions; ++i) {
    std::barrier start(2);
    const auto work = [&](unsigned lane, double& took) {
      start.arrive_and_wait();
      const double began = thread_ns();
      for (std::uint64_t n = 0; n < batch; ++n) r.give(r.take(lane, 1024));
      took = (thread_ns() - began) / static_cast<double>(batch);
    };
    double one = 0;
    double two = 0;
    std::thread other(work, 1, std::ref(two));
    work(0, one);
    other.join();
    ns.push_back(std::max(one, two));
  }
  return {{"name", "pair/1024/two threads"}, {"ns", median(ns)}};
}

// ---- The random workload

struct step {
  std::uint64_t bytes;  // 0: free the live block `which`, the last one takes its place
  std::uint64_t which;
};

std::vector<step> make_script(std::uint64_t allocations_wanted) {
  constexpr std::uint64_t cap = std::uint64_t{2} << 30;
  std::mt19937_64 random(42);
  std::uniform_int_distribution<std::uint64_t> size(1, std::uint64_t{4} << 20);
  std::bernoulli_distribution allocates(0.73);
  std::vector<step> script;
  std::vector<std::uint64_t> live;
  std::uint64_t bytes = 0;
  for (std::uint64_t made = 0; made < allocations_wanted;) {
    const std::uint64_t next = size(random);
    if (live.empty() || (allocates(random) && bytes + next <= cap)) {
      script.push_back({next, 0});
      live.push_back(next);
      bytes += next;
      ++made;
    } else {
      const std::uint64_t which = random() % live.size();
      script.push_back({0, which});
      bytes -= live[which];
      live[which] = live.back();
      live.pop_back();
    }
  }
  for (; !live.empty(); live.pop_back()) script.push_back({0, live.size() - 1});
  return script;
}

/// The blocks' bytes are not touched: what is measured is the allocator, not the kernel that maps pages.
template <class T, class Take, class Give>
double run_script(const std::vector<step>& script, std::uint64_t pairs, const Take& take, const Give& give) {
  std::vector<T> live;
  live.reserve(script.size());
  return ns_of([&] {
           for (const step& s : script) {
             if (s.bytes != 0) {
               live.push_back(take(s.bytes));
             } else {
               give(live[s.which]);
               live[s.which] = live.back();
               live.pop_back();
             }
           }
         }) /
         static_cast<double>(pairs);
}

nlohmann::json measure_random(const memory_options& options, const std::function<void()>& progress) {
  const std::uint64_t pairs = options.quick ? 10'000 : 100'000;
  const std::vector<step> script = make_script(pairs);
  void* mimalloc = options.with_mimalloc ? dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL) : nullptr;
  using malloc_call = void* (*)(std::size_t);
  using free_call = void (*)(void*);
  malloc_call mi_malloc = nullptr;
  free_call mi_free = nullptr;
  if (mimalloc != nullptr) {
    mi_malloc = reinterpret_cast<malloc_call>(dlsym(mimalloc, "mi_malloc"));
    mi_free = reinterpret_cast<free_call>(dlsym(mimalloc, "mi_free"));
  }
  std::vector<double> braid_ns;
  std::vector<double> malloc_ns;
  std::vector<double> mimalloc_ns;
  rig r(1);
  const auto with = [&](malloc_call take, free_call give) {
    return run_script<void*>(
        script, pairs, [&](std::uint64_t bytes) { return take(bytes); }, give);
  };
  for (unsigned i = 0; i < options.repetitions; ++i) {
    braid_ns.push_back(run_script<block*>(
        script, pairs, [&](std::uint64_t bytes) { return r.take(0, bytes); }, [&](block* b) { r.give(b); }));
    if (options.with_malloc) malloc_ns.push_back(with(std::malloc, std::free));
    if (mi_malloc != nullptr && mi_free != nullptr) mimalloc_ns.push_back(with(mi_malloc, mi_free));
    progress();
  }
  const memory_usage last = r.usage();
  const double ratio = static_cast<double>(last.peak_reserved) / static_cast<double>(last.peak_live);
  nlohmann::json rows = nlohmann::json::array();
  rows.push_back({{"name", "random/braid"},
                  {"ns", median(braid_ns)},
                  {"reserved_ratio", ratio},
                  {"peak_live", last.peak_live},
                  {"peak_reserved", last.peak_reserved}});
  for (unsigned i = 0; i < reuse_step_count; ++i) {
    rows[0][std::string("taken_") + to_string(static_cast<reuse_step>(i))] = last.taken[i];
  }
  if (!malloc_ns.empty()) rows.push_back({{"name", "random/malloc"}, {"ns", median(malloc_ns)}});
  if (!mimalloc_ns.empty()) rows.push_back({{"name", "random/mimalloc"}, {"ns", median(mimalloc_ns)}});
  return rows;
}

}  // namespace

nlohmann::json run_memory_bench(const memory_options& asked,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  memory_options options = asked;
  if (options.quick) options.repetitions = std::min(options.repetitions, 3U);
  const std::vector<std::uint64_t> sizes = {64, 1024, 16 << 10, 64 << 10, 1 << 20, 8 << 20};
  const std::uint64_t steps = sizes.size() + 1 + options.repetitions;
  std::uint64_t done = 0;
  nlohmann::json out;
  out["machine"] = machine();
  for (const std::uint64_t bytes : sizes) {
    out["benchmarks"].push_back(measure_pairs(bytes, options));
    progress(++done, steps);
  }
  out["benchmarks"].push_back(measure_two_threads(options));
  progress(++done, steps);
  for (nlohmann::json& row : measure_random(options, [&] { progress(++done, steps); })) {
    out["benchmarks"].push_back(std::move(row));
  }
  const bool has_mimalloc =
      std::ranges::any_of(out["benchmarks"], [](const auto& b) { return b["name"] == "random/mimalloc"; });
  out["unavailable"] = nlohmann::json::array();
  if (options.with_mimalloc && !has_mimalloc)
    out["unavailable"].push_back({{"runtime", "mimalloc"}, {"reason", "libmimalloc.so.2 is not installed"}});
  return out;
}

}  // namespace braid::bench
