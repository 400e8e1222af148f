#include "trace/analysis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <unordered_map>

#include "braid/alignment.hpp"

namespace braid::trace {

namespace {

/// When all that the wait reaches was over; the beginning of the trace if that is not known.
time_ns end_of(const trace& t, const wait& w) {
  time_ns end = t.begin;
  if (w.on != no_op) end = t.ops[w.on].end;
  if (w.reached_op != no_op) end = std::max(end, t.ops[w.reached_op].end);
  return end;
}

time_ns end_of_waits(const trace& t, const op& o) {
  time_ns end = t.begin;
  for (const wait& w : o.waits) end = std::max(end, end_of(t, w));
  return end;
}

/// The op in front of it on its stream.
op_index before(const trace& t, const op& o) {
  const auto& all = t.streams[o.stream].ops;
  const auto at = std::ranges::lower_bound(all, o.cursor, {}, [&](op_index i) { return t.ops[i].cursor; });
  return at == all.begin() ? no_op : *(at - 1);
}

/// When the op was submitted and first of its stream.
time_ns in_front_at(const trace& t, const op& o) {
  const op_index previous = before(t, o);
  return std::max({t.begin, o.submit, previous != no_op ? t.ops[previous].end : t.begin});
}

}  // namespace

std::string to_text(time_ns time) {
  const double ns = static_cast<double>(time);
  const double size = std::abs(ns);
  if (size < 999.5) return fmt::format("{} ns", time);
  const auto scaled = [](double v, const char* unit) {
    return fmt::format("{:.{}f} {}", v, std::abs(v) < 9.995 ? 2 : (std::abs(v) < 99.95 ? 1 : 0), unit);
  };
  if (size < 999.5e3) return scaled(ns / 1e3, "µs");
  if (size < 999.5e6) return scaled(ns / 1e6, "ms");
  return scaled(ns / 1e9, "s");
}

time_ns ready_at(const trace& t, const op& o) {
  return std::max(in_front_at(t, o), end_of_waits(t, o));
}

std::vector<account> account_streams(const trace& t) {
  std::vector<account> all;
  for (std::uint32_t i = 0; i < t.streams.size(); ++i) {
    account a{.stream = i, .ops = t.streams[i].ops.size()};
    time_ns now = t.begin;
    // Each piece of time goes to the first of: not submitted, waiting for others, waiting for a worker,
    // running.
    const auto spend = [&](time_ns& on, time_ns until) {
      if (until <= now) return;
      on += until - now;
      now = until;
    };
    for (const op_index at : t.streams[i].ops) {
      const op& o = t.ops[at];
      spend(a.idle, std::min(o.submit, o.start));
      spend(a.waiting, std::min(end_of_waits(t, o), o.start));
      spend(a.starved, o.start);
      spend(a.busy, o.end);
    }
    spend(a.idle, t.end);
    all.push_back(a);
  }
  return all;
}

time_ns cost_of(const trace& t, const op& o, const wait& w) {
  if (w.on == no_op) return 0;
  return std::max<time_ns>(0, std::min(end_of(t, w), o.start) - in_front_at(t, o));
}

std::string sentence(const trace& t, const op& o, const wait& w) {
  const time_ns cost = cost_of(t, o, w);
  std::string text = cost > 0
                         ? fmt::format("stream {} waited {} for ", t.streams[o.stream].name, to_text(cost))
                         : fmt::format("stream {} came after ", t.streams[o.stream].name);
  if (w.on != no_op) {
    text += fmt::format("'{}' on stream {}", t.ops[w.on].label, t.streams[t.ops[w.on].stream].name);
  } else {
    text += detail::name_of_op(w.origin, w.cursor);
  }
  switch (w.why) {
    case hazard::read_after_write: text += fmt::format(": it reads '{}' that it wrote", w.resource); break;
    case hazard::write_after_read: text += fmt::format(": it writes '{}' that it read", w.resource); break;
    case hazard::write_after_write: text += fmt::format(": it writes '{}' that it wrote", w.resource); break;
    case hazard::reuse: text += fmt::format(": '{}' got memory that it used", w.resource); break;
    case hazard::capacity: text += ": the work in flight is limited"; break;
    case hazard::user: text += ": the program asked for it"; break;
  }
  if (w.on != no_op && w.reached_op != no_op && w.reached_op != w.on &&
      t.ops[w.reached_op].end > t.ops[w.on].end) {
    text += fmt::format(" (its event stands behind '{}', {} later)", t.ops[w.reached_op].label,
                        to_text(t.ops[w.reached_op].end - t.ops[w.on].end));
  }
  return text;
}

std::vector<costly_wait> longest_waits(const trace& t, std::size_t most) {
  std::vector<costly_wait> all;
  for (op_index i = 0; i < t.ops.size(); ++i) {
    const op& o = t.ops[i];
    for (std::uint32_t k = 0; k < o.waits.size(); ++k) {
      if (const time_ns cost = cost_of(t, o, o.waits[k]); cost > 0) all.push_back({i, k, cost});
    }
  }
  std::ranges::stable_sort(all, std::greater{}, &costly_wait::cost);
  if (all.size() > most) all.resize(most);
  return all;
}

namespace {

/// How long a thread had no core between two of its waits.
time_ns off_core(const std::vector<const host_wait*>& waits, std::size_t after) {
  if (after + 1 >= waits.size()) return 0;
  const host_wait& from = *waits[after];
  const host_wait& to = *waits[after + 1];
  return std::max<time_ns>(0, (to.begin - from.end) - (to.cpu_begin - from.cpu_end));
}

}  // namespace

// Backwards: what was the last thing that the op had to have? Another op, then the path goes on there; or its
// own submission, then the thread that submitted it was busy, or stood still for an op, where the path goes
// on.
critical_path find_critical_path(const trace& t) {
  critical_path path;
  if (t.ops.empty()) return path;
  std::map<std::uint32_t, std::vector<const host_wait*>> waits;  // by thread, in the order of their ends
  for (const host_wait& w : t.host_waits) waits[w.thread].push_back(&w);
  for (auto& [thread, list] : waits) std::ranges::stable_sort(list, {}, &host_wait::end);
  std::vector<op_index> by_end(t.ops.size());
  for (op_index i = 0; i < t.ops.size(); ++i) by_end[i] = i;
  std::ranges::stable_sort(by_end, {}, [&](op_index i) { return t.ops[i].end; });
  const auto last_over_at = [&](time_ns time) {
    const auto at = std::ranges::upper_bound(by_end, time, {}, [&](op_index i) { return t.ops[i].end; });
    return at == by_end.begin() ? no_op : *(at - 1);
  };
  const auto add = [&](path_step::kind what, op_index on, time_ns begin, time_ns end, time_ns& sum) {
    if (end <= begin) return;
    path.steps.push_back({what, on, begin, end});
    sum += end - begin;
  };

  op_index now = by_end.back();
  time_ns until = t.ops[now].end;
  for (std::size_t steps = 0; now != no_op && steps <= 2 * t.ops.size(); ++steps) {
    const op& o = t.ops[now];
    const time_ns start = std::min(o.start, until);
    add(path_step::kind::op, now, start, until, path.ops);
    op_index last = before(t, o);
    time_ns ready = last != no_op ? t.ops[last].end : t.begin;
    const auto consider = [&](op_index candidate) {
      if (candidate == no_op || t.ops[candidate].end < ready) return;
      last = candidate;
      ready = t.ops[candidate].end;
    };
    for (const wait& w : o.waits) {
      consider(w.on);
      consider(w.reached_op);
    }
    const bool is_late = o.submit > ready || last == no_op;
    if (is_late) ready = std::max(o.submit, t.begin);
    ready = std::min(ready, start);
    add(path_step::kind::worker, now, ready, start, path.worker);
    until = ready;
    if (is_late) {
      // The program's own time, back to the last op that it stood still for.
      last = no_op;
      if (const auto of = waits.find(o.submitter); of != waits.end()) {
        const auto at = std::ranges::upper_bound(of->second, until, {}, &host_wait::end);
        if (at != of->second.begin()) {
          const auto place = static_cast<std::size_t>(at - of->second.begin()) - 1;
          const host_wait& w = *of->second[place];
          last = w.on != no_op ? w.on : last_over_at(w.end);
          // Without a core it waits, as an op does for a worker: in between, and before it went on.
          const time_ns starved = std::min(until - w.end, off_core(of->second, place));
          add(path_step::kind::host, now, w.end + starved, until, path.host);
          until = std::min(until, w.end + starved);
          const time_ns since = last != no_op ? std::min(t.ops[last].end, until) : w.end;
          add(path_step::kind::worker, now, since, until, path.worker);
          until = since;
        }
      }
      if (last == no_op) {
        add(path_step::kind::host, now, t.begin, until, path.host);
        until = t.begin;
      }
      if (last != no_op && t.ops[last].start >= until) last = no_op;  // nothing is gained: broken times
    }
    if (last != no_op && t.ops[last].start >= until && t.ops[last].end > t.ops[last].start) break;
    now = last;
  }
  std::ranges::reverse(path.steps);
  return path;
}

namespace {

bool covers(const byte_range& a, const byte_range& b) {
  return a.offset <= b.offset && b.end() <= a.end();
}

/// When what was done to a resource is over, by range and kind.
class resource_times {
 public:
  /// What the use has to come after.
  [[nodiscard]] time_ns before(const use& u) const {
    time_ns latest = 0;
    for (const entry& e : entries_) {
      const bool commutes =
          e.kind == u.kind && (u.kind == access::read || (u.kind == access::accumulate && e.tag == u.tag));
      if (!commutes && e.range.overlaps(u.range)) latest = std::max(latest, e.over);
    }
    return latest;
  }
  void add(const use& u, time_ns over) {
    constexpr std::size_t most = 256;
    if (u.range.size == 0) return;
    if (u.kind == access::write || u.kind == access::read_write) {
      std::erase_if(entries_, [&](const entry& e) { return covers(u.range, e.range); });
    }
    for (entry& e : entries_) {
      if (e.kind != u.kind || e.tag != u.tag || !(e.range == u.range)) continue;
      e.over = std::max(e.over, over);
      return;
    }
    entries_.push_back({u.range, u.kind, u.tag, over});
    if (entries_.size() > most) coarsen();
  }

 private:
  struct entry {
    byte_range range;
    access kind;
    std::uint32_t tag;
    time_ns over;
  };
  // As one write of everything: what follows may seem to come later than it has to.
  void coarsen() {
    entry all = entries_.front();
    all.kind = access::write;
    for (const entry& e : entries_) {
      const std::uint64_t end = std::max(all.range.end(), e.range.end());
      all.range.offset = std::min(all.range.offset, e.range.offset);
      all.range.size = end - all.range.offset;
      all.over = std::max(all.over, e.over);
    }
    entries_.assign(1, all);
  }
  std::vector<entry> entries_;
};

time_ns longest_chain(const trace& t, bool in_streams) {
  std::unordered_map<std::uint64_t, resource_times> resources;
  std::vector<time_ns> streams(t.streams.size(), 0);
  std::vector<time_ns> over(t.ops.size(), 0);
  time_ns longest = 0;
  for (op_index i = 0; i < t.ops.size(); ++i) {
    const op& o = t.ops[i];
    time_ns start = in_streams ? streams[o.stream] : 0;
    for (const use& u : o.uses) start = std::max(start, resources[u.resource].before(u));
    for (const wait& w : o.waits) {
      if (in_streams && w.on != no_op && w.on < i) start = std::max(start, over[w.on]);
    }
    over[i] = start + (o.end - o.start);
    for (const use& u : o.uses) resources[u.resource].add(u, over[i]);
    streams[o.stream] = over[i];
    longest = std::max(longest, over[i]);
  }
  return longest;
}

}  // namespace

bounds find_bounds(const trace& t) {
  bounds b;
  std::map<std::uint32_t, time_ns> work;
  for (const op& o : t.ops) {
    b.work += o.end - o.start;
    work[o.runtime] += o.end - o.start;
  }
  for (const runtime& r : t.runtimes) {
    if (r.workers != 0 && work.contains(r.number))
      b.workers = std::max(b.workers, work[r.number] / r.workers);
  }
  b.dependencies = longest_chain(t, false);
  b.streams = longest_chain(t, true);
  return b;
}

}  // namespace braid::trace
