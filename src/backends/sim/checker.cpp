// Finds what a log leaves unordered. Written apart from the engine's core, by another method: not clocks but
// the full relation, a set of ops for each op.

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "braid/sim.hpp"

namespace braid::sim {

namespace {

using kind = command::kind;

/// A set of ops.
class op_set {
 public:
  explicit op_set(std::size_t size = 0) : words_((size + 63) / 64) {}
  void add(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  [[nodiscard]] bool has(std::size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void add_all(const op_set& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }

 private:
  std::vector<std::uint64_t> words_;
};

constexpr std::uint64_t no_wait = ~std::uint64_t{0};

/// Which ops come before which, if the wait number `dropped` is left out.
class order {
 public:
  order(const history_log& log, bool trust_completion, std::uint64_t dropped = no_wait)
      : before_(log.ops.size(), op_set(log.ops.size())) {
    const std::size_t size = log.ops.size();
    std::vector<op_set> past(log.streams, op_set(size));
    std::unordered_map<std::uint64_t, op_set> events;
    std::map<std::pair<std::uint32_t, std::uint64_t>, op_set> points;
    op_set host(size);
    for (const command& c : log.commands) {
      switch (c.what) {
        case kind::launch:
          past[c.stream].add_all(host);
          before_[c.subject] = past[c.stream];
          past[c.stream].add(c.subject);
          break;
        case kind::record: events.insert_or_assign(c.subject, past[c.stream]); break;
        case kind::commit: points.insert_or_assign({c.stream, c.subject}, past[c.stream]); break;
        case kind::wait_event:
          if (c.number != dropped) past[c.stream].add_all(events.at(c.subject));
          break;
        case kind::wait_point:
          if (const auto at = points.find({c.origin, c.subject}); at != points.end() && c.number != dropped) {
            past[c.stream].add_all(at->second);
          }
          break;
        case kind::complete_event:
          if (trust_completion) host.add_all(events.at(c.subject));
          break;
        case kind::complete_point:
          if (const auto at = points.find({c.origin, c.subject}); at != points.end() && trust_completion) {
            host.add_all(at->second);
          }
          break;
      }
    }
  }

  [[nodiscard]] bool has(std::size_t first, std::size_t second) const { return before_[second].has(first); }

 private:
  std::vector<op_set> before_;
};

/// All pairs of ops that have to be ordered.
class conflicts {
 public:
  struct pair {
    std::uint32_t first, second;
    std::uint32_t memory;
    byte_range range;
  };

  explicit conflicts(const history_log& log) : of_(log.ops.size(), op_set(log.ops.size())) {
    std::map<std::uint32_t, std::vector<use>> by_memory;
    for (std::uint32_t i = 0; i < log.ops.size(); ++i) {
      for (const touch& t : log.ops[i]) {
        if (t.range.size > 0) by_memory[t.memory].push_back({i, &t});
      }
    }
    for (const auto& [memory, uses] : by_memory) {
      std::vector<std::uint64_t> cuts;
      for (const use& u : uses) {
        cuts.push_back(u.what->range.offset);
        cuts.push_back(u.what->range.end());
      }
      std::sort(cuts.begin(), cuts.end());
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        scan(uses, memory, {cuts[i], cuts[i + 1] - cuts[i]});
      }
    }
  }

  [[nodiscard]] const std::vector<pair>& all() const { return all_; }
  /// Pairs that imply all others: no op between them conflicts with both.
  [[nodiscard]] const std::vector<pair>& nearest() const { return nearest_; }
  [[nodiscard]] bool has(std::size_t first, std::size_t second) const { return of_[second].has(first); }

 private:
  struct use {
    std::uint32_t op;
    const touch* what;
  };
  struct in_place {
    use u;
    std::uint64_t group;
  };

  static bool is_conflict(const in_place& a, const in_place& b) {
    if (a.u.op == b.u.op) return false;
    if (a.u.what->kind == access::read && b.u.what->kind == access::read) return false;
    const bool both_accumulate = a.u.what->kind == access::accumulate && b.u.what->kind == access::accumulate;
    return !(both_accumulate && a.group == b.group && a.u.what->tag == b.u.what->tag);
  }

  // Bytes that all uses either cover or miss.
  void scan(const std::vector<use>& uses, std::uint32_t memory, byte_range range) {
    std::vector<in_place> seen;
    std::uint64_t group = 0;
    for (const use& u : uses) {
      const touch& t = *u.what;
      if (t.range.offset > range.offset || t.range.end() < range.end()) continue;
      const bool new_owner = !seen.empty() && seen.back().u.what->owner != t.owner;
      if (t.kind != access::accumulate || new_owner) ++group;
      const in_place now{u, group};
      std::vector<const in_place*> found;
      for (auto earlier = seen.rbegin(); earlier != seen.rend(); ++earlier) {
        if (!is_conflict(*earlier, now)) continue;
        if (!of_[u.op].has(earlier->u.op)) {
          of_[u.op].add(earlier->u.op);
          all_.push_back({earlier->u.op, u.op, memory, range});
        }
        const bool implied = std::any_of(found.begin(), found.end(),
                                         [&](const in_place* f) { return is_conflict(*earlier, *f); });
        if (!implied) {
          found.push_back(&*earlier);
          nearest_.push_back({earlier->u.op, u.op, memory, range});
        }
      }
      seen.push_back(now);
    }
  }

  std::vector<op_set> of_;
  std::vector<pair> all_;
  std::vector<pair> nearest_;
};

/// For each wait: the op that makes it and the ops of the origin that it reaches, in order.
struct reach {
  std::uint64_t number = 0;
  std::size_t waiting = 0;
  bool has_waiting = false;  // a wait may stand at the end of the log, behind an op that was not given
  std::vector<std::size_t> reached;
};

std::vector<reach> find_reaches(const history_log& log) {
  std::vector<std::vector<std::size_t>> launched(log.streams);
  std::vector<std::vector<std::size_t>> open(log.streams);  // waits since the last launch
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> events;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<std::size_t>> points;
  std::vector<reach> all;
  for (const command& c : log.commands) {
    switch (c.what) {
      case kind::launch:
        for (const std::size_t w : open[c.stream]) {
          all[w].waiting = c.subject;
          all[w].has_waiting = true;
        }
        open[c.stream].clear();
        launched[c.stream].push_back(c.subject);
        break;
      case kind::record: events[c.subject] = launched[c.stream]; break;
      case kind::commit: points[{c.stream, c.subject}] = launched[c.stream]; break;
      case kind::wait_event:
      case kind::wait_point: {
        open[c.stream].push_back(all.size());
        reach& r = all.emplace_back();
        r.number = c.number;
        r.reached = c.what == kind::wait_event ? events[c.subject] : points[{c.origin, c.subject}];
        break;
      }
      default: break;
    }
  }
  return all;
}

}  // namespace

report check(const history_log& log, check_options options) {
  report found;
  const conflicts must(log);
  const order is(log, options.trust_completion);
  found.conflicts_checked = must.all().size();
  found.waits = log.waits;
  for (const conflicts::pair& p : must.all()) {
    if (!is.has(p.first, p.second)) found.violations.push_back({p.first, p.second, p.memory, p.range});
  }
  for (const reach& r : find_reaches(log)) {
    if (!r.has_waiting) continue;
    std::size_t needed = r.reached.size();
    while (needed > 0 && !must.has(r.reached[needed - 1], r.waiting)) --needed;
    if (needed > 0) found.excess_orderings += r.reached.size() - needed;
  }
  if (!options.drop_each_wait || !found.violations.empty()) return found;
  for (std::uint64_t wait = 0; wait < log.waits; ++wait) {
    const order without(log, options.trust_completion, wait);
    const bool matters =
        std::any_of(must.nearest().begin(), must.nearest().end(),
                    [&](const conflicts::pair& p) { return !without.has(p.first, p.second); });
    if (matters) {
      ++found.minimal_waits;
    } else {
      found.superfluous.push_back(wait);
    }
  }
  return found;
}

std::vector<std::uint64_t> waits_open_to(fault f, const history_log& log) {
  std::vector<std::uint64_t> numbers;
  const conflicts must(log);
  for (const reach& r : find_reaches(log)) {
    const bool to_last = r.has_waiting && !r.reached.empty() && must.has(r.reached.back(), r.waiting);
    const bool by_place = f == fault::stale_mark || f == fault::uncommitted_cursor;
    if (r.has_waiting && (!by_place || to_last)) numbers.push_back(r.number);
  }
  return numbers;
}

}  // namespace braid::sim
