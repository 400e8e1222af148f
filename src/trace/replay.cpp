#include "trace/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "backends/sim/machine.hpp"
#include "braid/runtime.hpp"

namespace braid::trace {

namespace {

struct place {
  std::uint32_t stream = 0;
  std::uint64_t cursor = 0;  // 0: not submitted yet
};

struct replayed_body {
  sim::machine::time duration;
  place* at;
  void given(std::uint32_t stream, std::uint64_t cursor) const { *at = {stream, cursor}; }
  void operator()(std::span<const view>) const {}
};

/// What a thread of the program does: submits, with the time in between that it took by itself, and waits.
struct action {
  time_ns gap = 0;
  op_index submits = no_op;
  const host_wait* waits = nullptr;
  const block_event* drops = nullptr;
};
struct thread {
  std::uint32_t number = 0;
  std::vector<action> actions;
  std::size_t next = 0;
  time_ns now = 0;
  bool is_waiting = false;
  std::size_t helper = 0;  // the worker that it is while it waits
  std::vector<const place*> for_these;
  std::size_t known = 0;  // of these, the first ones have started
};

template <class Backend>
class player {
 public:
  player(const trace& t, const replay_setting& with, const runtime& of, std::shared_ptr<sim::machine> m)
      : trace_(t),
        with_(with),
        machine_(std::move(m)),
        runtime_(Backend(machine_), options_of(with)),
        places_(t.ops.size()) {
    find_threads(of.number);
    find_resources(of.number);
  }

  prediction play() {
    for (;;) {
      release_waiting();
      thread* first = nullptr;
      for (thread& each : threads_) {
        if (each.is_waiting || each.next == each.actions.size()) continue;
        if (first == nullptr || time_of(each) < time_of(*first)) first = &each;
      }
      const auto start = machine_->next_start();
      if (first == nullptr && !start) break;
      if (start && (first == nullptr || *start <= time_of(*first))) {
        machine_->step();
        continue;
      }
      const action& a = first->actions[first->next];
      first->now = time_of(*first);
      ++first->next;
      machine_->set_now(first->now);
      if (a.waits != nullptr) {
        begin_wait(*first, *a.waits);
      } else if (a.drops != nullptr) {
        buffers_.erase(a.drops->block);
      } else {
        submit(a.submits);
      }
    }
    for (const thread& each : threads_) {
      if (each.is_waiting)
        throw trace_error("the trace cannot be replayed: a thread waits for an op that never runs");
    }
    const stream_stats did = runtime_.stats().streams;
    return {with_, machine_->makespan(), did.waits_inserted(), static_cast<std::uint32_t>(did.streams)};
  }

 private:
  static runtime_options options_of(const replay_setting& with) {
    runtime_options options;
    options.streams = with.streams;
    options.placement =
        with.placed == replay_setting::placing::single ? placement::single : placement::automatic;
    options.deterministic = false;
    options.ops_in_flight = 0;
    options.bytes_in_flight = 0;
    options.memory_limit = 0;
    return options;
  }

  [[nodiscard]] static time_ns time_of(const thread& t) { return t.now + t.actions[t.next].gap; }

  void find_threads(std::uint32_t runtime) {
    struct moment {
      time_ns begin;
      time_ns end;
      op_index submits;
      const host_wait* waits;
      const block_event* drops;
    };
    std::map<std::uint32_t, std::vector<moment>> all;
    for (op_index i = 0; i < trace_.ops.size(); ++i) {
      const op& o = trace_.ops[i];
      if (o.runtime == runtime) all[o.submitter].push_back({o.submit, o.submit, i, nullptr, nullptr});
    }
    for (const host_wait& w : trace_.host_waits) {
      if (all.contains(w.thread)) all[w.thread].push_back({w.begin, w.end, no_op, &w, nullptr});
    }
    for (const block_event& b : trace_.blocks) {
      if (!b.is_taken && b.runtime == runtime && all.contains(b.thread)) {
        all[b.thread].push_back({b.at, b.at, no_op, nullptr, &b});
      }
    }
    for (auto& [number, moments] : all) {
      std::ranges::stable_sort(moments, {}, &moment::begin);
      thread made;
      made.number = number;
      time_ns last = trace_.begin;
      for (const moment& m : moments) {
        made.actions.push_back({std::max<time_ns>(0, m.begin - last), m.submits, m.waits, m.drops});
        last = std::max(last, m.end);
      }
      threads_.push_back(std::move(made));
    }
  }

  // A resource that was there before the trace began holds something already.
  void find_resources(std::uint32_t runtime) {
    for (const op& o : trace_.ops) {
      if (o.runtime != runtime) continue;
      for (const use& u : o.uses) {
        resource_info& r = resources_[u.resource];
        if (u.range.size == std::numeric_limits<std::uint64_t>::max()) {
          r.is_token = true;
        } else {
          r.bytes = std::max(r.bytes, u.range.end());
        }
      }
    }
    for (const block_event& b : trace_.blocks) {
      const auto found = resources_.find(b.block);
      if (found == resources_.end() || !b.is_taken) continue;
      found->second.is_made = true;
      found->second.bytes = std::max(found->second.bytes, b.bytes);
    }
  }

  buffer<std::byte>& buffer_of(std::uint64_t id) {
    buffer<std::byte>& found = buffers_[id];
    if (found) return found;
    const resource_info& r = resources_[id];
    constexpr std::uint64_t largest = std::uint64_t{1} << 40;
    const std::uint64_t bytes = r.is_token ? 8 : std::clamp<std::uint64_t>(r.bytes, 1, largest);
    if (r.is_made && r.is_written_first) return found = runtime_.template make_buffer<std::byte>(bytes);
    auto* const at = static_cast<std::byte*>(before_.allocate((bytes + 4095) & ~std::uint64_t{4095}));
    return found = runtime_.adopt(std::span(at, bytes));
  }

  void submit(op_index i) {
    const op& o = trace_.ops[i];
    list_.clear();
    for (const use& u : o.uses) {
      if (u.range.size == 0) continue;
      resource_info& r = resources_[u.resource];
      if (!r.is_written_first && !buffers_.contains(u.resource) && u.kind == access::write &&
          u.range.offset == 0 && u.range.size >= r.bytes) {
        r.is_written_first = true;
      }
      const buffer<std::byte>& b = buffer_of(u.resource);
      const std::uint64_t from = r.is_token ? 0 : std::min(u.range.offset, b.size() - 1);
      const std::uint64_t bytes = r.is_token ? b.size() : std::min(u.range.size, b.size() - from);
      add(b.slice(from, bytes), u);
    }
    const auto label = o.label.empty() ? std::string_view("op") : std::string_view(o.label);
    const replayed_body body{o.end - o.start, &places_[i]};
    try {
      switch (with_.placed) {
        case replay_setting::placing::recorded: runtime_.submit(o.id, label, list_, body); break;
        case replay_setting::placing::per_thread:
          runtime_.submit(stream_id{o.submitter}, label, list_, body);
          break;
        case replay_setting::placing::automatic:
        case replay_setting::placing::single: runtime_.submit(label, list_, body); break;
      }
    } catch (const usage_error& e) {
      throw trace_error(fmt::format("'{}' (op {} of stream {}) cannot be replayed: {}", o.label, o.cursor,
                                    trace_.streams[o.stream].name, e.what()));
    }
  }

  void add(const buffer_slice<std::byte>& part, const use& u) {
    switch (u.kind) {
      case access::read: list_.add(braid::read(part)); break;
      case access::write: list_.add(braid::write(part)); break;
      case access::read_write: list_.add(braid::read_write(part)); break;
      case access::accumulate: list_.add(braid::accumulate(part, u.tag)); break;
    }
  }

  void begin_wait(thread& t, const host_wait& w) {
    t.for_these.clear();
    t.known = 0;
    if (w.on != no_op) {
      t.for_these.push_back(&places_[w.on]);
    } else {
      for (const place& p : places_) {
        if (p.cursor != 0) t.for_these.push_back(&p);
      }
    }
    t.is_waiting = true;
    if (machine_->workers() != 0) t.helper = machine_->add_worker();
  }

  // Threads whose ops are over go on, when the op that they helped with is over as well.
  void release_waiting() {
    for (thread& t : threads_) {
      if (!t.is_waiting) continue;
      for (; t.known < t.for_these.size(); ++t.known) {
        const place& p = *t.for_these[t.known];
        if (p.cursor == 0) continue;  // submitted by nobody: a trace that was cut
        const auto end = machine_->end_of(p.stream, p.cursor);
        if (!end) break;
        t.now = std::max(t.now, *end);
      }
      if (t.known < t.for_these.size()) continue;
      const auto next = machine_->next_start();
      if (next && *next < t.now) continue;
      t.is_waiting = false;
      if (machine_->workers() != 0) t.now = std::max(t.now, machine_->remove_worker(t.helper));
    }
  }

  struct resource_info {
    std::uint64_t bytes = 0;
    bool is_token = false;
    bool is_made = false;           // while the trace was recorded
    bool is_written_first = false;  // all of it, by its first op
  };

  const trace& trace_;
  const replay_setting with_;
  std::shared_ptr<sim::machine> machine_;
  std::unordered_map<std::uint64_t, resource_info> resources_;
  basic_runtime<Backend> runtime_;
  std::unordered_map<std::uint64_t, buffer<std::byte>> buffers_;
  sim::imagined_source before_{std::uintptr_t{1} << 45};  // of what was there before the trace began
  std::vector<place> places_;
  std::vector<thread> threads_;
  bindings list_;
};

}  // namespace

const char* to_string(replay_setting::placing p) noexcept {
  switch (p) {
    case replay_setting::placing::recorded: return "recorded";
    case replay_setting::placing::automatic: return "automatic";
    case replay_setting::placing::per_thread: return "per_thread";
    case replay_setting::placing::single: return "single";
  }
  return "unknown";
}

std::uint32_t main_runtime(const trace& t) {
  std::map<std::uint32_t, std::size_t> ops;
  for (const op& o : t.ops) ++ops[o.runtime];
  const auto most = std::ranges::max_element(ops, {}, [](const auto& each) { return each.second; });
  return most != ops.end() ? most->first : 0;
}

prediction replay(const trace& t, const replay_setting& with) {
  const std::uint32_t number = main_runtime(t);
  const auto of = std::ranges::find(t.runtimes, number, &runtime::number);
  if (of == t.runtimes.end()) throw trace_error("the trace does not say what its ops ran on");
  const std::uint32_t workers = of->workers == 0 ? 0 : (with.workers != 0 ? with.workers : of->workers);
  auto machine = std::make_shared<sim::machine>(workers);
  if (of->backend == "cpu") return player<sim::machine_backend<true>>(t, with, *of, machine).play();
  return player<sim::machine_backend<false>>(t, with, *of, machine).play();
}

bool names_streams(const trace& t) {
  return std::ranges::any_of(t.ops, &op::is_named);
}

replay_setting own_setting(const trace& t) {
  replay_setting own;
  const std::uint32_t number = main_runtime(t);
  for (const runtime& r : t.runtimes) {
    if (r.number == number) own.streams = std::max(1U, r.streams);
  }
  own.placed = replay_setting::placing::recorded;
  return own;
}

std::size_t recommend(const std::vector<prediction>& all, const prediction& own) {
  const auto best = std::ranges::min_element(all, {}, &prediction::makespan);
  if (best == all.end() || best->makespan > own.makespan - own.makespan / 50) return all.size();
  auto chosen = best;
  for (auto each = all.begin(); each != all.end(); ++each) {
    if (each->makespan > best->makespan + best->makespan / 200) continue;
    if (each->with.streams < chosen->with.streams) chosen = each;
  }
  return static_cast<std::size_t>(chosen - all.begin());
}

}  // namespace braid::trace
