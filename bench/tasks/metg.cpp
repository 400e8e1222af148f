// METG(50 %), after Task Bench: the shortest tasks with which a runtime still reaches half of the peak rate,
// in iterations a second, that the same kernel reaches on the same cores without any runtime, at whatever
// length it is the highest. Kernels are halved until the efficiency falls below one half; between the last
// two lengths it is interpolated, both axes logarithmic. A task's duration is the time of all cores divided
// by the tasks, what the runtime takes included.

#include "tasks/metg.hpp"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "machine.hpp"
#include "median.hpp"
#include "tasks/core_threads.hpp"
#include "tasks/foreign_load.hpp"
#include "tasks/harness.hpp"
#include "tasks/load.hpp"
#include "tasks/quiet.hpp"
#include "tasks/watchdog.hpp"

namespace braid::bench {

namespace {

constexpr std::array kernel_names{std::pair{grid_kernel::compute, "compute"},
                                  std::pair{grid_kernel::memory, "memory"}};

double to_us(double ns) {
  return ns / 1e3;
}

/// Kernels have 2^k iterations.
constexpr unsigned longest_kernel = 20;

/// A run with kernels of some length.
struct measured {
  double kernel_ns;   ///< of one kernel, where nothing else is done
  double task_ns;     ///< the time of all cores, divided by the tasks
  double efficiency;  ///< iterations a second, of the most that the cores do where nothing else is done
};
using sweep = std::map<unsigned, measured>;  // by k

struct metg_value {
  double task_ns;
  double kernel_ns;
};

/// Walks from long kernels to short ones, to the first that falls below one half.
std::optional<metg_value> metg_of(const sweep& of) {
  const measured* above = nullptr;
  for (auto it = of.rbegin(); it != of.rend(); ++it) {
    const measured& m = it->second;
    if (m.efficiency >= 0.5) {
      above = &m;
      continue;
    }
    if (above == nullptr) continue;  // a longer one will do
    const double part = std::log(above->efficiency / 0.5) / std::log(above->efficiency / m.efficiency);
    const auto between = [&](double a, double b) { return std::exp(std::log(a) + part * std::log(b / a)); };
    return metg_value{between(above->task_ns, m.task_ns), between(above->kernel_ns, m.kernel_ns)};
  }
  if (above == nullptr) return std::nullopt;
  return metg_value{above->task_ns, above->kernel_ns};  // even the shortest kernel is long enough
}

struct spread_of {
  double middle, least, most;
};
std::optional<spread_of> spread(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  const auto [least, most] = std::ranges::minmax(values);
  return spread_of{median(values), least, most};
}
void put(nlohmann::json& to, const std::string& name, const std::vector<double>& values) {
  const auto s = spread(values);
  to[name] = s ? nlohmann::json(s->middle) : nlohmann::json(nullptr);
  to[name + "_min"] = s ? nlohmann::json(s->least) : nlohmann::json(nullptr);
  to[name + "_max"] = s ? nlohmann::json(s->most) : nlohmann::json(nullptr);
}

/// Of one pattern on one runtime.
struct series {
  std::vector<double> metg_us;
  std::map<unsigned, double> metg_in;  ///< by the round, of which each runtime has one turn at most
  std::vector<double> kernel_us;
  std::vector<double> ns_per_task;
  std::map<unsigned, std::vector<measured>> curve;
  unsigned turns = 0;
  unsigned start = 11;  ///< where the next repetition begins to look
  std::optional<double> bytes_per_task;
  std::uint64_t in_flight = 0;
};

/// Memory in use, by what malloc has given out and by what is resident.
struct memory_sample {
  std::int64_t allocated;
  std::int64_t resident;
};
memory_sample take_memory_sample() {
  const auto info = mallinfo2();
  return {static_cast<std::int64_t>(info.uordblks + info.hblkhd),
          static_cast<std::int64_t>(resident_bytes())};
}
/// What was there when a runtime had submitted what it can have in flight.
struct held_tasks {
  std::uint64_t in_flight = 0;
  memory_sample then{};
};
held_tasks held;
const grid* held_grid = nullptr;
void note_held(std::uint64_t submitted) {
  const std::uint64_t executed = grid::executed();
  const std::uint64_t in_flight = submitted > executed ? submitted - executed : 0;
  if (in_flight > held.in_flight) held = {in_flight, take_memory_sample()};
  held_grid->set_gate(false);
}

class metg_bench {
 public:
  metg_bench(const metg_options& options, std::function<void(std::uint64_t, std::uint64_t)> progress)
      : options_(options),
        cpus_(allowed_cpus()),
        workers_(options.workers != 0 ? options.workers : static_cast<unsigned>(cpus_.size())),
        runtimes_(load_task_runtimes(task_runtime_use::grids, options.runtimes)),
        progress_(std::move(progress)),
        dog_("bench metg", options.step_limit) {
    if (workers_ > cpus_.size())
      throw std::invalid_argument(
          fmt::format("{} workers are more than the {} cores of this process", workers_, cpus_.size()));
    for (const std::string& name : options.patterns) {
      grids_.emplace(name, std::make_unique<grid>(grid_of(name, options.kernel)));
      empty_grids_.emplace(name, std::make_unique<grid>(grid_of(name, grid_kernel::empty)));
    }
    for (unsigned w = 1; w < workers_; w *= 2) worker_counts_.push_back(w);
    worker_counts_.push_back(workers_);
  }

  nlohmann::json run() {
    const std::uint64_t turns = runtimes_.size() * (options_.repetitions + 1ULL);
    if (options_.memory) steps_ += runtimes_.size();
    if (options_.metg || options_.empty) steps_ += turns * options_.patterns.size();
    if (options_.scaling) steps_ += turns * worker_counts_.size();
    const foreign_load others;
    if (options_.memory) measure_memory();
    keep_freed_pages();
    if (options_.metg || options_.empty) measure_grids();
    if (options_.scaling) measure_scaling();
    nlohmann::json out = report();
    out["foreign_load"] = others.cores();
    return out;
  }

 private:
  /// What a run frees, the next one finds, whatever the runtime: else some would meet new pages each time,
  /// depending on what lies behind their memory.
  static void keep_freed_pages() {
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
  }

  grid_options grid_of(const std::string& name, grid_kernel kernel) const {
    return {.pattern = pattern_of(name),
            .width = options_.width,
            .steps = options_.steps,
            .radix = options_.radix,
            .period = options_.period,
            .one_per_row = options_.one_per_row,
            .kernel = kernel};
  }

  /// Calls `f` while the runtime is awake, on so many cores.
  template <class F>
  void with_runtime(task_runtime& r, unsigned workers, const F& f) {
    if (r.entry == nullptr) return;
    const cpu_limit limit({cpus_.begin(), cpus_.begin() + workers}, cpu_limit::of::process);
    dog_.begin("the start of " + r.name);
    if (const char* reason = r.entry->wake(workers + (r.idle_submitter ? 1 : 0))) {
      r.reason = reason;
      r.entry = nullptr;
      return;
    }
    f();
    dog_.begin("the end of " + r.name);
    r.entry->rest();
    wait_until_quiet(r.name);
  }

  /// The ns of a run, which is checked.
  double run_once(const task_runtime& r, const std::string& pattern, const grid& g) {
    dog_.begin(fmt::format("{} on {}", pattern, r.name));
    g.reset();
    const grid_run got = r.entry->run_grid(g);
    const std::string wrong = describe(got.check ? *got.check : g.check(), g);
    if (!wrong.empty()) throw wrong_total(fmt::format("{} on {}: {}", pattern, r.name, wrong));
    return got.ns;
  }

  /// Of short runs the median of some: a moment in which the machine does something else is as long.
  double run_often(const task_runtime& r, const std::string& pattern, const grid& g, double short_run = 5e6,
                   std::size_t most = 5) {
    std::vector<double> ns{run_once(r, pattern, g)};
    while (ns.front() < short_run && ns.size() < most) ns.push_back(run_once(r, pattern, g));
    return median(ns);
  }

  /// The ns that one kernel takes while all cores run such kernels and nothing else.
  double kernel_ns(core_threads& cores, std::uint64_t iterations) const {
    const auto run = [&](std::uint64_t times) {
      return cores.run([&](unsigned thread) {
        double kept = thread;
        for (std::uint64_t i = 0; i < times; ++i) kept = run_kernel(options_.kernel, iterations, kept);
        volatile double sink = kept;
        (void)sink;
      });
    };
    const auto best_run = [&](std::uint64_t times) {
      double best = run(times);
      for (int i = 0; i < 2; ++i) best = std::min(best, run(times));
      return best;
    };
    const double one = std::max(1.0, best_run(2) / 2);
    const auto times = static_cast<std::uint64_t>(std::clamp(300e3 / one, 2.0, 20'000.0));
    return best_run(times) / static_cast<double>(times);
  }

  /// By k.
  std::vector<double> kernels_on(unsigned workers) const {
    const cpu_limit limit({cpus_.begin(), cpus_.begin() + workers});
    core_threads cores(workers);
    std::vector<double> ns;
    for (unsigned k = 0; k <= longest_kernel; ++k) ns.push_back(kernel_ns(cores, std::uint64_t{1} << k));
    return ns;
  }

  // ---- METG and empty kernels.

  // In each repetition all runtimes have a turn, one after the other; those whose turns are short have more
  // of them, in rounds again, until each has had its time. The machine changes its speed within seconds: so
  // all that are of a kind meet it in all of its states.
  void measure_grids() {
    for (unsigned repetition = 0; repetition <= options_.repetitions; ++repetition) {
      std::vector<double> spent(runtimes_.size());
      bool is_over = false;
      for (unsigned round = 0; !is_over; ++round) {
        is_over = true;
        ++rounds_;
        dog_.begin("the way of a cache line");
        round_trips_.push_back(line_round_trip_ns());
        for (std::size_t i = 0; i < runtimes_.size(); ++i) {
          const double longest = repetition > 0 ? options_.turns_s : 0;
          if (round > 0 && (spent[i] * (round + 1) / round > longest || runtimes_[i].entry == nullptr))
            continue;
          spent[i] += take_turn(runtimes_[i], repetition > 0, round == 0);
          is_over = false;
        }
      }
    }
  }

  /// All patterns on one runtime, each measured beside the kernels by themselves. Returns the seconds.
  double take_turn(task_runtime& r, bool is_kept, bool is_counted) {
    const auto begin = std::chrono::steady_clock::now();
    dog_.begin("the kernels by themselves");
    const std::vector<double> kernels = options_.metg ? kernels_on(workers_) : std::vector<double>{};
    std::size_t measured_patterns = 0;
    const auto count = [&] {
      ++measured_patterns;
      if (is_counted) step();
    };
    with_runtime(r, workers_, [&] {
      for (const std::string& name : options_.patterns) {
        measure_pattern(r, name, kernels, is_kept);
        count();
      }
    });
    while (measured_patterns < options_.patterns.size()) count();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  // The first repetition meets cold caches and pages, and does not know where to look: dropped, for everyone.
  void measure_pattern(const task_runtime& r, const std::string& name, const std::vector<double>& kernels,
                       bool is_kept) {
    series& s = taken_[{name, r.name}];
    const grid& empty = *empty_grids_.at(name);
    run_once(r, name, empty);  // the threads are new: let them find their pace
    if (options_.empty) {
      const double ns = run_once(r, name, empty) / static_cast<double>(empty.tasks());
      if (is_kept) s.ns_per_task.push_back(ns);
    }
    // On one core of several the plain loop is at most at one half.
    if (!options_.metg || (r.name == "sequential" && workers_ > 1)) return;
    const sweep found = sweep_lengths(r, name, kernels, s.start);
    const auto metg = metg_of(found);
    for (const auto& [k, m] : found)
      if (m.efficiency >= 0.5) {
        s.start = k;
        break;
      }
    if (!is_kept) return;
    ++s.turns;
    for (const auto& [k, m] : found) s.curve[k].push_back(m);
    if (!metg) return;
    s.metg_us.push_back(to_us(metg->task_ns));
    s.metg_in[rounds_] = s.metg_us.back();
    s.kernel_us.push_back(to_us(metg->kernel_ns));
  }

  /// Kernels from where the efficiency is well above one half to where it is well below.
  sweep sweep_lengths(const task_runtime& r, const std::string& name, const std::vector<double>& kernels,
                      unsigned start) {
    grid& g = *grids_.at(name);
    sweep out;
    const auto tasks = static_cast<double>(g.tasks());
    double least = kernels.front();  // ns an iteration, at the peak rate
    for (unsigned k = 1; k < kernels.size(); ++k) least = std::min(least, std::ldexp(kernels[k], -int(k)));
    const auto measure = [&](unsigned k) {
      g.set_iterations(std::uint64_t{1} << k);
      const double task_ns = run_often(r, name, g) * workers_ / tasks;
      out[k] = {kernels[k], task_ns, std::ldexp(least, int(k)) / task_ns};
      return out[k];
    };
    const auto is_too_long = [&](const measured& shorter) {
      return 2 * shorter.task_ns * tasks / workers_ > options_.longest_run_s * 1e9;
    };
    measured last = measure(start);
    for (unsigned k = start; last.efficiency < 0.7 && k < longest_kernel;) {
      if (is_too_long(last)) break;
      // One above the half is enough where a run takes long.
      if (last.efficiency >= 0.5 && last.task_ns * tasks > 2e8) break;
      last = measure(++k);
    }
    last = out[start];
    for (unsigned k = start; last.efficiency >= 0.3 && k > 0;) {
      if (last.efficiency < 0.5 && last.task_ns * tasks > 2e8) break;
      last = measure(--k);
    }
    return out;
  }

  // ---- Memory.

  // In a runtime that was just started: what it keeps for later is new then.
  void measure_memory() {
    for (task_runtime& r : runtimes_) {
      // What is ordered by hand has no tasks that wait for their turn.
      if (!r.lower_bound)
        with_runtime(r, workers_, [&] {
          const std::string& name = options_.patterns.front();
          grid& g = *empty_grids_.at(name);
          g.reset();
          g.set_gate(true);
          g.on_submitted = note_held;
          held = {};
          held_grid = &g;
          dog_.begin(fmt::format("{} on {}, held back", name, r.name));
          const memory_sample before = take_memory_sample();
          r.entry->run_grid(g);
          g.on_submitted = nullptr;
          g.set_gate(false);
          if (held.in_flight < 500) return;  // it has no tasks, or runs them at once
          series& s = taken_[{name, r.name}];
          s.in_flight = held.in_flight;
          s.bytes_per_task = static_cast<double>(std::max(held.then.allocated - before.allocated,
                                                          held.then.resident - before.resident)) /
                             static_cast<double>(held.in_flight);
        });
      step();
    }
  }

  // ---- Scaling.

  struct scaling_key {
    double task_us;
    std::string runtime;  // empty: kernels without any order
    unsigned workers;
    auto operator<=>(const scaling_key&) const = default;
  };

  void measure_scaling() {
    scaling_width_ = std::max(options_.width, 4 * workers_);
    const std::string& name = options_.patterns.front();
    const double ns_per_iteration =
        kernels_on(1).at(longest_kernel) / static_cast<double>(std::uint64_t{1} << longest_kernel);
    struct length {
      double us;
      std::uint64_t iterations;
      std::unique_ptr<grid> of;
    };
    std::vector<length> lengths;
    for (const double us : options_.scaling_us) {
      grid_options o = grid_of(name, options_.kernel);
      o.width = scaling_width_;
      // About a tenth of a second on one core.
      o.steps =
          static_cast<unsigned>(std::clamp(1e5 / (us * o.width), 20.0, static_cast<double>(options_.steps)));
      const auto iterations = static_cast<std::uint64_t>(std::max(1.0, us * 1e3 / ns_per_iteration));
      lengths.push_back({us, iterations, std::make_unique<grid>(o)});
      lengths.back().of->set_iterations(iterations);
    }
    for (unsigned repetition = 0; repetition <= options_.repetitions; ++repetition) {
      // From all cores down: oneTBB never takes more than a multiple of what it finds when it is first used.
      for (const unsigned workers : worker_counts_ | std::views::reverse) {
        dog_.begin("the kernels by themselves");
        for (const length& l : lengths) {
          const cpu_limit limit({cpus_.begin(), cpus_.begin() + workers});
          core_threads cores(workers);
          const double ns = kernel_ns(cores, l.iterations) * static_cast<double>(l.of->tasks()) / workers;
          if (repetition > 0) scaling_[{l.us, "", workers}].push_back(ns);
        }
        for (task_runtime& r : runtimes_) {
          with_runtime(r, workers, [&] {
            for (const length& l : lengths) {
              run_once(r, name, *l.of);
              const double ns = run_often(r, name, *l.of, 20e6, 15);
              if (repetition > 0) scaling_[{l.us, r.name, workers}].push_back(ns);
            }
          });
          step();
        }
      }
    }
  }

  nlohmann::json scaling_report() const {
    nlohmann::json out = nlohmann::json::array();
    for (const auto& [key, values] : scaling_) {
      const double ns = median(values);
      const double alone = median(scaling_.at({key.task_us, key.runtime, 1}));
      const double kernels = median(scaling_.at({key.task_us, "", key.workers}));
      // In each repetition all have their turns within seconds of each other.
      nlohmann::json of_braid;
      if (const auto braid = scaling_.find({key.task_us, "braid", key.workers}); braid != scaling_.end()) {
        std::vector<double> ratios;
        for (std::size_t i = 0; i < std::min(values.size(), braid->second.size()); ++i)
          ratios.push_back(values[i] / braid->second[i]);
        of_braid = median(ratios);
      }
      out.push_back({{"pattern", options_.patterns.front()},
                     {"runtime", key.runtime.empty() ? "independent kernels" : key.runtime},
                     {"width", scaling_width_},
                     {"workers", key.workers},
                     {"task_us", key.task_us},
                     {"seconds", ns / 1e9},
                     {"of_braid", of_braid},
                     {"speedup", alone / ns},
                     {"efficiency", kernels / ns}});
    }
    return out;
  }

  // ---- The report.

  nlohmann::json result(const std::string& pattern, const std::string& runtime, const series& s) const {
    nlohmann::json out = {
        {"pattern", pattern}, {"runtime", runtime}, {"width", options_.width}, {"workers", workers_}};
    // Where it is found in some repetitions only, it is beyond what was tried.
    const bool is_found = 2 * s.metg_us.size() > s.turns;
    put(out, "metg_us", is_found ? s.metg_us : std::vector<double>{});
    out["turns"] = s.turns;
    out["kernel_us"] = is_found ? nlohmann::json(median(s.kernel_us)) : nlohmann::json(nullptr);
    put(out, "ns_per_task", s.ns_per_task);
    out["bytes_per_task"] = s.bytes_per_task ? nlohmann::json(*s.bytes_per_task) : nlohmann::json(nullptr);
    out["tasks_in_flight"] = s.bytes_per_task ? nlohmann::json(s.in_flight) : nlohmann::json(nullptr);
    out["curve"] = nlohmann::json::array();
    for (const auto& [k, all] : s.curve) {
      const auto middle = [&](double measured::*of) {
        std::vector<double> values;
        for (const measured& m : all) values.push_back(m.*of);
        return median(values);
      };
      out["curve"].push_back({{"task_us", to_us(middle(&measured::task_ns))},
                              {"kernel_us", to_us(middle(&measured::kernel_ns))},
                              {"efficiency", middle(&measured::efficiency)}});
    }
    return out;
  }

  /// The median of the ratios in rounds that both had a turn in: what is compared ran within a second or so.
  [[nodiscard]] nlohmann::json ratio(const std::string& pattern, const std::string& a,
                                     const std::string& b) const {
    const auto of_a = taken_.find({pattern, a});
    const auto of_b = taken_.find({pattern, b});
    if (of_a == taken_.end() || of_b == taken_.end()) return nullptr;
    std::vector<double> ratios;
    for (const auto& [round, metg] : of_a->second.metg_in)
      if (const auto other = of_b->second.metg_in.find(round); other != of_b->second.metg_in.end())
        ratios.push_back(metg / other->second);
    return ratios.empty() ? nlohmann::json(nullptr) : nlohmann::json(median(ratios));
  }

  nlohmann::json ratios_of(const nlohmann::json& results, const std::string& pattern) const {
    std::string best;
    double least = 0;
    for (const task_runtime& r : runtimes_) {
      if (r.lower_bound || r.name.starts_with("braid")) continue;
      for (const auto& found : results) {
        if (found["pattern"] != pattern || found["runtime"] != r.name || found["metg_us"].is_null()) continue;
        if (!best.empty() && least <= found["metg_us"].get<double>()) continue;
        best = r.name;
        least = found["metg_us"];
      }
    }
    return {{"pattern", pattern},
            {"braid_to_threads", ratio(pattern, "braid", "threads")},
            {"braid_to_task_group", ratio(pattern, "braid", "tbb_task_group")},
            {"best_tracking", best.empty() ? nlohmann::json(nullptr) : nlohmann::json(best)},
            {"braid_to_best", ratio(pattern, "braid", best)}};
  }

  nlohmann::json report() const {
    nlohmann::json out = {{"results", nlohmann::json::array()},
                          {"ratios", nlohmann::json::array()},
                          {"scaling", scaling_report()},
                          {"unavailable", nlohmann::json::array()},
                          {"versions", nlohmann::json::object()},
                          {"machine", machine()},
                          {"line_round_trip_ns", nullptr},
                          {"repetitions", options_.repetitions},
                          {"steps", options_.steps},
                          {"radix", options_.radix},
                          {"period", options_.period},
                          {"outputs", options_.one_per_row ? "one per row" : "double-buffered"},
                          {"kernel", options_.kernel == grid_kernel::memory ? "memory" : "compute"}};
    if (!round_trips_.empty()) out["line_round_trip_ns"] = median(round_trips_);
    for (const std::string& pattern : options_.patterns) {
      for (const task_runtime& r : runtimes_)
        if (const auto found = taken_.find({pattern, r.name}); r.entry != nullptr && found != taken_.end())
          out["results"].push_back(result(pattern, r.name, found->second));
      out["ratios"].push_back(ratios_of(out["results"], pattern));
    }
    for (const task_runtime& r : runtimes_) {
      if (r.entry != nullptr)
        out["versions"][r.name] = r.entry->version();
      else
        out["unavailable"].push_back({{"runtime", r.name}, {"reason", r.reason}});
    }
    return out;
  }

  void step() { progress_(++done_, steps_); }

  const metg_options& options_;
  std::vector<unsigned> cpus_;
  unsigned workers_;
  std::vector<unsigned> worker_counts_;
  std::vector<task_runtime> runtimes_;
  std::function<void(std::uint64_t, std::uint64_t)> progress_;
  watchdog dog_;
  std::map<std::string, std::unique_ptr<grid>> grids_;
  std::map<std::string, std::unique_ptr<grid>> empty_grids_;
  std::map<std::pair<std::string, std::string>, series> taken_;  // (pattern, runtime)
  std::map<scaling_key, std::vector<double>> scaling_;
  unsigned scaling_width_ = 0;
  unsigned rounds_ = 0;
  std::vector<double> round_trips_;
  std::uint64_t steps_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace

std::vector<std::string> grid_pattern_names() {
  std::vector<std::string> names;
  for (const named_grid_pattern& p : grid_patterns) names.emplace_back(p.name);
  return names;
}

std::vector<std::string> grid_kernel_names() {
  std::vector<std::string> names;
  for (const auto& [kernel, name] : kernel_names) names.emplace_back(name);
  return names;
}

nlohmann::json run_metg_bench(const metg_options& options,
                              const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  return metg_bench(options, progress).run();
}

}  // namespace braid::bench
