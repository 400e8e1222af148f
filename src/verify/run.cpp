#include "verify/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>

#include "braid/multi_stream.hpp"

namespace braid::verify {

namespace {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// The bytes of all resources, a number each, and what each op read.
struct world {
  explicit world(const program& p) : inputs(p.steps.size()) {
    for (const std::uint64_t size : p.sizes) cells.emplace_back(size);
  }
  std::vector<std::vector<std::uint64_t>> cells;
  std::vector<std::uint64_t> inputs;

  /// The work of the op at `index`: its outputs depend on all of its inputs, and accumulates of one tag
  /// commute.
  void perform(const program& p, std::size_t index) {
    const step& s = p.steps[index];
    std::uint64_t input = index;
    for (const use& u : s.uses) {
      if (u.kind != access::read && u.kind != access::read_write) continue;
      for (std::uint64_t i = u.range.offset; i < u.range.end(); ++i) input = mix(input, cells[u.resource][i]);
    }
    inputs[index] = input;
    for (const use& u : s.uses) {
      for (std::uint64_t i = u.range.offset; i < u.range.end(); ++i) {
        std::uint64_t& cell = cells[u.resource][i];
        const std::uint64_t value = mix(input, i);
        if (u.kind == access::write || u.kind == access::read_write) cell = value;
        if (u.kind == access::accumulate) cell = u.tag % 2 == 0 ? cell + value : cell ^ value;
      }
    }
  }
};

/// Tells when it is destroyed, and whether that was too early.
class witness {
 public:
  struct tally {
    std::atomic<std::uint64_t> made{0}, destroyed{0}, premature{0};
  };
  witness(const sim::device& device, std::optional<std::size_t> after, tally& counts)
      : device_(&device), after_(after), counts_(&counts) {
    ++counts.made;
  }
  witness(witness&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), after_(other.after_), counts_(other.counts_) {}
  witness& operator=(witness&&) = delete;
  ~witness() {
    if (device_ == nullptr) return;
    if (after_ && !device_->has_run(*after_)) ++counts_->premature;
    ++counts_->destroyed;
  }

 private:
  const sim::device* device_;
  std::optional<std::size_t> after_;
  tally* counts_;
};

template <class Backend>
class runner {
 public:
  runner(const program& p, sim::device& device, world& w, witness::tally& counts, Backend backend)
      : program_(p),
        device_(device),
        world_(w),
        counts_(counts),
        engine_(std::move(backend), {.max_streams = p.max_streams,
                                     .special_streams = 1,
                                     .logger = std::make_shared<logger>(),
                                     .marks = p.marks,
                                     .deterministic = p.deterministic,
                                     .ops_in_flight = 0,
                                     .bytes_in_flight = 0}),
        resources_(p.sizes.size()) {
    for (std::size_t r = 0; r < resources_.size(); ++r) {
      resources_[r].handle = resource::memory(p.sizes[r], fmt::format("r{}", r));
    }
  }

  void run_all() {
    if (program_.threads == 1) {
      run_thread(0);
    } else {
      std::vector<std::thread> threads;
      for (std::uint32_t t = 0; t < program_.threads; ++t) {
        threads.emplace_back([this, t] {
          try {
            run_thread(t);
          } catch (const std::exception& e) {
            const std::scoped_lock lock(mutex_);
            if (error_.empty()) error_ = e.what();
          }
        });
      }
      for (std::thread& t : threads) t.join();
    }
    device_.run_all();
    if (!error_.empty()) throw std::runtime_error(error_);
  }

 private:
  struct owned_resource {
    resource handle;
    std::uint32_t owner = 0;
  };

  void run_thread(std::uint32_t thread) {
    std::vector<std::optional<std::size_t>> last(program_.max_streams);  // launched by this thread, by slot
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      const step& s = program_.steps[i];
      if (s.thread != thread) continue;
      const std::size_t slot = s.stream % program_.max_streams;
      switch (s.what) {
        case step::kind::op: last[slot] = submit(i); break;
        case step::kind::retire:
          engine_.retire(witness(device_, last[slot], counts_), stream_id{s.stream});
          break;
        case step::kind::hand_on: {
          owned_resource& r = resources_[s.resource];
          const std::unique_lock lock(handles_);
          r.handle = r.handle.hand_on(fmt::format("r{}'{}", s.resource, ++r.owner));
          break;
        }
        case step::kind::wait: engine_.wait(stream_id{s.stream}); break;
      }
    }
  }

  std::size_t submit(std::size_t index) {
    const step& s = program_.steps[index];
    // As in any program: a handle is not given to a next owner while somebody submits with it.
    const std::shared_lock lock(handles_);
    std::vector<binding> bindings;
    sim::op work{.label = std::to_string(index), .touches = {}};
    for (const use& u : s.uses) {
      const owned_resource& r = resources_[u.resource];
      if (u.range.size == program_.sizes[u.resource]) {
        bindings.emplace_back(r.handle, u.kind, u.tag);  // as a whole: the shorter ways through the engine
      } else {
        bindings.emplace_back(r.handle, u.kind, u.range, u.tag);
      }
      work.touches.push_back({u.resource, r.owner, u.range, u.kind, u.tag});
    }
    work.body = [this, index] { world_.perform(program_, index); };
    auto op = engine_.resolve(stream_id{s.stream}, bindings);
    return device_.launch(op.current(), std::move(work));
  }

  const program& program_;
  sim::device& device_;
  world& world_;
  witness::tally& counts_;
  multi_stream<Backend> engine_;
  std::shared_mutex handles_;
  std::vector<owned_resource> resources_;
  std::mutex mutex_;
  std::string error_;
};

sim::device_options options_for(const program& p) {
  sim::device_options options;
  options.seed = p.seed;
  options.progress = static_cast<unsigned>(mix(p.seed, 7) % 4);
  return options;
}

struct finished {
  sim::history_log log;
  std::uint64_t made = 0, destroyed = 0, premature = 0;
  std::string error;
};

finished execute(const program& p, const sim::device_options& options, world& w) {
  finished f;
  sim::device device(options);
  witness::tally counts;
  try {
    if (p.points) {
      runner<sim::point_mode_backend>(p, device, w, counts, device.point_backend()).run_all();
    } else if (!p.asked) {
      runner<sim::unasked_backend>(p, device, w, counts, device.unasked_backend()).run_all();
    } else {
      runner<sim::backend>(p, device, w, counts, device.backend()).run_all();
    }
  } catch (const std::exception& e) {
    f.error = e.what();
  }
  f.log = device.log();
  f.made = counts.made;
  f.destroyed = counts.destroyed;
  f.premature = counts.premature;
  return f;
}

}  // namespace

outcome run(const program& p) {
  outcome o;
  o.ops = p.ops();
  o.one_thread = p.threads == 1;
  o.points = p.points;
  sim::device_options options = options_for(p);
  if (p.inject != sim::fault::none) {
    world unused(p);
    const auto places = waits_open_to(p.inject, execute(p, options, unused).log);
    if (!places.empty()) {
      options.inject = p.inject;
      options.inject_at = places[mix(p.seed, 11) % places.size()];
      o.injected = true;
    }
  }
  world parallel(p);
  const finished f = execute(p, options, parallel);
  o.error = f.error;
  o.premature = f.premature;
  o.lost = f.made - f.destroyed;
  o.report = sim::check(f.log, {.drop_each_wait = true, .trust_completion = !p.deterministic});

  world sequential(p);
  for (const std::string& label : f.log.labels) sequential.perform(p, std::stoul(label));
  for (std::size_t r = 0; r < parallel.cells.size(); ++r) {
    for (std::size_t i = 0; i < parallel.cells[r].size(); ++i) {
      if (parallel.cells[r][i] != sequential.cells[r][i]) ++o.value_mismatches;
    }
  }
  for (std::size_t i = 0; i < parallel.inputs.size(); ++i) {
    if (parallel.inputs[i] != sequential.inputs[i]) ++o.value_mismatches;
  }
  return o;
}

std::string describe(const outcome& o) {
  std::string text;
  if (!o.error.empty()) text += fmt::format("the engine threw: {}\n", o.error);
  constexpr std::size_t most = 8;
  for (std::size_t i = 0; i < std::min(most, o.report.violations.size()); ++i) {
    const sim::violation& v = o.report.violations[i];
    text += fmt::format("not ordered: launches {} and {} on r{}[{},{})\n", v.first, v.second, v.memory,
                        v.range.offset, v.range.end());
  }
  if (o.report.violations.size() > most) {
    text += fmt::format("... and {} more pairs\n", o.report.violations.size() - most);
  }
  if (o.has_superfluous_waits()) {
    text += fmt::format("{} of {} waits can be dropped without a conflict; the first is wait {}\n",
                        o.report.waits - o.report.minimal_waits, o.report.waits,
                        o.report.superfluous.empty() ? 0 : o.report.superfluous.front());
  }
  if (o.has_excess_at_points()) {
    text += fmt::format("waits for points reach {} ops too far\n", o.report.excess_orderings);
  }
  if (o.value_mismatches != 0) {
    text += fmt::format("{} values differ from the sequential run\n", o.value_mismatches);
  }
  if (o.premature != 0) text += fmt::format("{} retired objects were destroyed too early\n", o.premature);
  if (o.lost != 0) text += fmt::format("{} retired objects were never destroyed\n", o.lost);
  return text;
}

}  // namespace braid::verify
