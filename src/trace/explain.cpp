#include "trace/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "braid/alignment.hpp"

namespace braid::trace {

namespace {

double share(time_ns part, time_ns whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

std::string percent(time_ns part, time_ns whole) {
  return fmt::format("{:.1f} %", 100.0 * share(part, whole));
}

std::string backends_of(const trace& t) {
  std::string text;
  for (const runtime& r : t.runtimes) {
    if (!std::ranges::any_of(t.ops, [&](const op& o) { return o.runtime == r.number; })) continue;
    if (!text.empty()) text += "; ";
    text += r.backend;
    if (r.workers != 0) text += fmt::format(", {} worker{}", r.workers, r.workers == 1 ? "" : "s");
  }
  return text;
}

std::string name_of(const trace& t, std::uint32_t stream) {
  const bool has_several =
      std::ranges::any_of(t.streams, [&](const auto& s) { return s.runtime != t.streams[0].runtime; });
  return has_several ? fmt::format("{}:{}", t.streams[stream].runtime, t.streams[stream].name)
                     : t.streams[stream].name;
}

std::array<std::uint64_t, hazard_count> waits_by_hazard(const trace& t) {
  std::array<std::uint64_t, hazard_count> counts{};
  for (const op& o : t.ops) {
    for (const wait& w : o.waits) ++counts[static_cast<unsigned>(w.why)];
  }
  return counts;
}

std::string describe(const trace& t, const path_step& s) {
  const op& o = t.ops[s.op];
  switch (s.what) {
    case path_step::kind::op: return fmt::format("'{}' on stream {}", o.label, name_of(t, o.stream));
    case path_step::kind::worker: return fmt::format("'{}' waits for a worker", o.label);
    case path_step::kind::host: return fmt::format("the program, before it submits '{}'", o.label);
  }
  return {};
}

std::string gain(time_ns from, time_ns to) {
  return to >= from ? "nothing" : fmt::format("{} of it", percent(from - to, from));
}

}  // namespace

explanation explain(const trace& t, std::size_t most_waits) {
  return {account_streams(t), longest_waits(t, most_waits), find_critical_path(t), find_bounds(t),
          violations(t)};
}

std::string to_text(const trace& t, const explanation& e, std::size_t most_steps) {
  std::string out;
  const auto line = [&]<class... Args>(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(out), text, std::forward<Args>(args)...);
    out += '\n';
  };
  if (t.ops.empty()) {
    line("The trace has no ops{}.",
         t.incomplete != 0 ? fmt::format(": {} were not complete", t.incomplete) : "");
    return out;
  }
  const time_ns makespan = t.makespan();
  const auto hazards = waits_by_hazard(t);
  line("{} ops on {} streams ({}) took {}.", t.ops.size(), t.streams.size(), backends_of(t),
       to_text(makespan));
  std::string waits;
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < hazard_count; ++i) {
    sum += hazards[i];
    if (hazards[i] != 0) waits += fmt::format(", {} {}", hazards[i], to_string(static_cast<hazard>(i)));
  }
  line("{} wait{}{}. Times by {}.", sum, sum == 1 ? "" : "s", waits.empty() ? "" : ": " + waits.substr(2),
       t.timing);
  if (t.dropped != 0) line("The buffer was full: {} records were dropped, the oldest first.", t.dropped);
  if (t.incomplete != 0)
    line("{} ops are left out: they were not over, or part of them was dropped.", t.incomplete);
  for (const std::string& each : e.violations) line("OUT OF ORDER: {}", each);

  line("\nWhere the time of each stream went:\n");
  line("  {:>12} {:>8} {:>12} {:>18} {:>20} {:>12}", "stream", "ops", "busy", "waiting for ops",
       "waiting for a worker", "idle");
  constexpr std::size_t most_streams = 40;
  for (std::size_t i = 0; i < e.streams.size() && i < most_streams; ++i) {
    const account& a = e.streams[i];
    line("  {:>12} {:>8} {:>12} {:>18} {:>20} {:>12}", name_of(t, a.stream), a.ops, percent(a.busy, makespan),
         percent(a.waiting, makespan), percent(a.starved, makespan), percent(a.idle, makespan));
  }
  if (e.streams.size() > most_streams)
    line("  and {} more streams (--json lists them)", e.streams.size() - most_streams);

  if (!e.waits.empty()) {
    line("\nThe longest waits:\n");
    for (const costly_wait& w : e.waits) line("  {}", sentence(t, t.ops[w.op], t.ops[w.op].waits[w.wait]));
  }

  const critical_path& p = e.path;
  std::size_t ops = 0;
  for (const path_step& s : p.steps) ops += s.what == path_step::kind::op ? 1 : 0;
  line(
      "\nThe critical path: {} ops take {} ({}), their waits for a worker {} ({}), the program between them "
      "{} ({}).",
      ops, to_text(p.ops), percent(p.ops, makespan), to_text(p.worker), percent(p.worker, makespan),
      to_text(p.host), percent(p.host, makespan));
  std::vector<const path_step*> steps;
  steps.reserve(p.steps.size());
  for (const path_step& s : p.steps) steps.push_back(&s);
  if (steps.size() > most_steps) {
    std::ranges::stable_sort(steps, std::greater{}, [](const path_step* s) { return s->end - s->begin; });
    steps.resize(most_steps);
    std::ranges::sort(steps, {}, [](const path_step* s) { return s->begin; });
    line("Its {} longest pieces, in the order of time:\n", most_steps);
  } else {
    out += '\n';
  }
  for (const path_step* s : steps) {
    line("  at {:>10}  {:>10}  {}", to_text(s->begin - t.begin), to_text(s->end - s->begin), describe(t, *s));
  }

  const bounds& b = e.at_best;
  line("\nAt best:\n");
  line("  All ops one after the other take {}.", to_text(b.work));
  if (b.workers != 0) line("  Shared evenly by the workers that is {}.", to_text(b.workers));
  line(
      "  The longest chain of ops that depend on each other takes {}; with the order of the streams as it "
      "was, {}.",
      to_text(b.dependencies), to_text(b.streams));
  line("  More streams or another placement can gain {}: {} is the least{}.", gain(makespan, b.best()),
       to_text(b.best()), b.workers != 0 ? " on these workers" : "");
  if (b.workers > b.dependencies) {
    line("  More workers can gain {} with these streams.", gain(makespan, b.streams));
  }
  return out;
}

nlohmann::json to_json(const trace& t, const explanation& e) {
  using nlohmann::json;
  const auto us = [](time_ns time) { return static_cast<double>(time) / 1000.0; };
  json out;
  out["ops"] = t.ops.size();
  out["makespan_us"] = us(t.makespan());
  out["dropped"] = t.dropped;
  out["incomplete"] = t.incomplete;
  out["timing"] = t.timing;
  const auto hazards = waits_by_hazard(t);
  out["waits"] = json::object();
  for (unsigned i = 0; i < hazard_count; ++i) out["waits"][to_string(static_cast<hazard>(i))] = hazards[i];
  out["violations"] = e.violations;
  out["streams"] = json::array();
  for (const account& a : e.streams) {
    out["streams"].push_back({{"stream", t.streams[a.stream].name},
                              {"runtime", t.streams[a.stream].runtime},
                              {"ops", a.ops},
                              {"busy_us", us(a.busy)},
                              {"waiting_for_ops_us", us(a.waiting)},
                              {"waiting_for_a_worker_us", us(a.starved)},
                              {"idle_us", us(a.idle)}});
  }
  out["longest_waits"] = json::array();
  for (const costly_wait& c : e.waits) {
    const op& o = t.ops[c.op];
    const wait& w = o.waits[c.wait];
    json each = {{"text", sentence(t, o, w)},
                 {"waited_us", us(c.cost)},
                 {"stream", t.streams[o.stream].name},
                 {"op", o.label},
                 {"cursor", o.cursor},
                 {"origin", detail::is_foreign(w.origin) ? detail::foreign_work : to_string(w.origin)},
                 {"origin_cursor", w.cursor},
                 {"hazard", to_string(w.why)},
                 {"resource", w.resource}};
    each["waited_for"] = w.on != no_op ? json(t.ops[w.on].label) : json();
    out["longest_waits"].push_back(std::move(each));
  }
  json steps = json::array();
  for (const path_step& s : e.path.steps) {
    constexpr std::array<const char*, 3> names = {"op", "worker", "host"};
    steps.push_back({{"what", names[static_cast<unsigned>(s.what)]},
                     {"op", t.ops[s.op].label},
                     {"stream", t.streams[t.ops[s.op].stream].name},
                     {"cursor", t.ops[s.op].cursor},
                     {"begin_us", us(s.begin - t.begin)},
                     {"length_us", us(s.end - s.begin)}});
  }
  const time_ns makespan = t.makespan();
  out["critical_path"] = {{"ops_us", us(e.path.ops)},
                          {"worker_us", us(e.path.worker)},
                          {"host_us", us(e.path.host)},
                          {"explained", share(e.path.ops + e.path.worker, makespan)},
                          {"steps", std::move(steps)}};
  out["at_best"] = {{"work_us", us(e.at_best.work)},
                    {"workers_us", us(e.at_best.workers)},
                    {"dependencies_us", us(e.at_best.dependencies)},
                    {"streams_us", us(e.at_best.streams)},
                    {"least_us", us(e.at_best.best())}};
  return out;
}

}  // namespace braid::trace
