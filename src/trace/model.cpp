#include "trace/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "braid/alignment.hpp"
#include "braid/detail/stamp.hpp"
#include "trace/analysis.hpp"

namespace braid::trace {

namespace {

using nlohmann::json;

constexpr int deepest = 16;
constexpr double latest = 9e12;  // µs: a hundred days

/// Takes events as the parser finds them, so that no file is in memory as a whole.
class reader {
 public:
  explicit reader(std::string name) : name_(std::move(name)) {}

  trace read(std::istream& in) {
    bool has_events = false;
    std::string top;
    const auto look = [&](int depth, json::parse_event_t what, json& parsed) {
      if (depth > deepest) fail(fmt::format("nested over {} deep", deepest));
      if (depth == 1 && what == json::parse_event_t::key) top = parsed.get<std::string>();
      if (depth == 1 && what == json::parse_event_t::array_start && top == "traceEvents") has_events = true;
      if (depth == 2 && what == json::parse_event_t::object_end && top == "traceEvents") {
        take(parsed);
        return false;
      }
      return true;
    };
    json rest;
    try {
      rest = json::parse(in, look);
    } catch (const json::parse_error& e) {
      fail(text_of(e));
    } catch (const json::exception& e) {
      fail(e.what());
    }
    if (in.bad()) fail("could not be read to its end");
    if (!rest.is_object() || !rest.contains("braid")) {
      fail(
          "is not a trace of braid's: it has no field 'braid'. One is made by `braid run WORKLOAD --trace "
          "FILE` or by "
          "BRAID_TRACE=FILE in front of a program");
    }
    if (!has_events) fail("has no field 'traceEvents'");
    take_header(rest["braid"]);
    link();
    return std::move(made_);
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw trace_error(fmt::format("{}: {}", name_, text));
  }

  // "syntax error while parsing ..." without the library's number in front.
  static std::string text_of(const json::parse_error& e) {
    const std::string_view all = e.what();
    const std::size_t at = all.find("] ");
    return std::string(at == std::string_view::npos ? all : all.substr(at + 2));
  }

  [[noreturn]] void fail_at(const std::string& field, const char* what) const {
    fail(where_.empty() ? fmt::format("{}: {}", field, what)
                        : fmt::format("{}: {}: {}", where_, field, what));
  }

  // ---- Fields.

  const json& field(const json& of, const char* key, const std::string& path) const {
    const auto found = of.find(key);
    if (found == of.end()) fail_at(path, "is missing");
    return *found;
  }
  std::uint64_t whole(const json& of, const char* key, const std::string& path,
                      std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) const {
    const json& v = field(of, key, path);
    if (!v.is_number_unsigned() || v.get<std::uint64_t>() > most) {
      fail_at(path, fmt::format("is not a whole number from 0 to {}", most).c_str());
    }
    return v.get<std::uint64_t>();
  }
  std::uint32_t small(const json& of, const char* key, const std::string& path) const {
    return static_cast<std::uint32_t>(whole(of, key, path, std::numeric_limits<std::uint32_t>::max() - 1));
  }
  time_ns time(const json& of, const char* key, const std::string& path) const {
    const json& v = field(of, key, path);
    if (!v.is_number()) fail_at(path, "is not a number");
    const double us = v.get<double>();
    if (!std::isfinite(us) || std::abs(us) > latest) fail_at(path, "is not a time in µs");
    return std::llround(us * 1000.0);
  }
  std::string text(const json& of, const char* key, const std::string& path) const {
    const json& v = field(of, key, path);
    if (!v.is_string()) fail_at(path, "is not a text");
    return v.get<std::string>();
  }
  const json& list(const json& of, const char* key, const std::string& path) const {
    const json& v = field(of, key, path);
    if (!v.is_array()) fail_at(path, "is not a list");
    return v;
  }
  template <class Enum>
  Enum named(const std::string& found, unsigned count, const std::string& path) const {
    std::string all;
    for (unsigned i = 0; i < count; ++i) {
      if (found == to_string(static_cast<Enum>(i))) return static_cast<Enum>(i);
      all += fmt::format("{}{}", i == 0 ? "" : ", ", to_string(static_cast<Enum>(i)));
    }
    fail_at(path, fmt::format("'{}' is not one of {}", found, all).c_str());
  }
  // As to_string(stream_id) writes it; of work submitted elsewhere, any of its ids.
  stream_id id_of(const std::string& found, const std::string& path) const {
    if (found == detail::foreign_work) return stream_id::special(index_of(detail::first_foreign_lane));
    constexpr std::string_view special = "special ";
    const bool is_special = found.starts_with(special);
    const std::string digits = is_special ? found.substr(special.size()) : found;
    if (digits.empty() || digits.size() > 20 || digits.find_first_not_of("0123456789") != std::string::npos) {
      fail_at(path, fmt::format("'{}' is not a stream", found).c_str());
    }
    std::uint64_t value = 0;
    for (const char c : digits) value = value * 10 + static_cast<std::uint64_t>(c - '0');
    return is_special ? stream_id::special(static_cast<unsigned>(value)) : stream_id{value};
  }

  // ---- Events.

  void take(const json& e) {
    where_ = fmt::format("event {}", ++events_);
    if (!e.is_object()) fail_at("traceEvents", "has something that is not an object");
    const std::string kind = text(e, "ph", "ph");
    const auto category = e.find("cat");
    const bool has_category = category != e.end() && category->is_string();
    if (kind == "X" && has_category && *category == "op") take_op(e);
    if (kind == "X" && has_category && *category == "host") take_host_wait(e);
    if (kind == "i" && has_category && *category == "memory") take_block(e);
    if (kind == "M" && text(e, "name", "name") == "thread_name") {
      const std::string name = text(field(e, "args", "args"), "name", "args.name");
      names_[{small(e, "pid", "pid"), small(e, "tid", "tid")}] =
          name.starts_with("stream ") ? name.substr(7) : name;
    }
    where_.clear();
  }

  void take_op(const json& e) {
    op o;
    o.runtime = small(e, "pid", "pid");
    o.stream = small(e, "tid", "tid");  // until link()
    o.label = text(e, "name", "name");
    o.start = time(e, "ts", "ts");
    const time_ns lasted = time(e, "dur", "dur");
    if (lasted < 0) fail_at("dur", "is negative");
    o.end = o.start + lasted;
    const json& args = field(e, "args", "args");
    if (!args.is_object()) fail_at("args", "is not an object");
    o.cursor = whole(args, "op", "args.op");
    o.id = id_of(text(args, "stream", "args.stream"), "args.stream");
    o.submit = time(args, "submit", "args.submit");
    o.submitter = small(args, "by", "args.by");
    o.worker = small(args, "on", "args.on");
    o.bytes = whole(args, "bytes", "args.bytes");
    o.is_named = args.contains("named");
    if (args.contains("outcome")) {
      const std::string became = text(args, "outcome", "args.outcome");
      if (became != "failed" && became != "skipped") fail_at("args.outcome", "is not 'failed' or 'skipped'");
      o.became = became == "failed" ? outcome::failed : outcome::skipped;
    }
    const json& uses = list(args, "uses", "args.uses");
    o.uses.reserve(uses.size());
    for (std::size_t i = 0; i < uses.size(); ++i)
      o.uses.push_back(use_of(uses[i], fmt::format("args.uses[{}]", i)));
    const json& waits = list(args, "waits", "args.waits");
    o.waits.reserve(waits.size());
    for (std::size_t i = 0; i < waits.size(); ++i) {
      o.waits.push_back(wait_of(waits[i], fmt::format("args.waits[{}]", i)));
    }
    if (made_.ops.size() >= no_op - 1) fail("has too many ops");
    made_.ops.push_back(std::move(o));
  }

  use use_of(const json& u, const std::string& path) const {
    if (!u.is_object()) fail_at(path, "is not an object");
    use made;
    bool has_kind = false;
    for (const access kind : {access::read, access::write, access::read_write, access::accumulate}) {
      if (!u.contains(to_string(kind))) continue;
      made.kind = kind;
      made.name = text(u, to_string(kind), path + "." + to_string(kind));
      has_kind = true;
    }
    if (!has_kind) fail_at(path, "has none of the fields read, write, read_write, accumulate");
    made.resource = whole(u, "id", path + ".id");
    made.range = {0, std::numeric_limits<std::uint64_t>::max()};
    if (u.contains("bytes")) {
      made.range.offset = whole(u, "from", path + ".from");
      made.range.size = whole(u, "bytes", path + ".bytes");
      if (made.range.offset + made.range.size < made.range.offset) fail_at(path, "ends beyond 64 bits");
    }
    if (u.contains("tag")) made.tag = small(u, "tag", path + ".tag");
    return made;
  }

  wait wait_of(const json& w, const std::string& path) {
    if (!w.is_object()) fail_at(path, "is not an object");
    wait made;
    made.origin = id_of(text(w, "stream", path + ".stream"), path + ".stream");
    made.cursor = whole(w, "op", path + ".op");
    made.reached = whole(w, "reached", path + ".reached");
    made.why = named<hazard>(text(w, "hazard", path + ".hazard"), hazard_count, path + ".hazard");
    if (w.contains("resource")) made.resource = text(w, "resource", path + ".resource");
    if (w.contains("tid")) made.on = small(w, "tid", path + ".tid");  // until link()
    return made;
  }

  void take_block(const json& e) {
    block_event b;
    b.at = time(e, "ts", "ts");
    b.runtime = small(e, "pid", "pid");
    const std::string name = text(e, "name", "name");
    if (name != "take" && name != "give") fail_at("name", "is neither 'take' nor 'give'");
    b.is_taken = name == "take";
    const json& args = field(e, "args", "args");
    if (!args.is_object()) fail_at("args", "is not an object");
    b.block = whole(args, "block", "args.block");
    b.bytes = whole(args, "bytes", "args.bytes", std::uint64_t{1} << 60);
    b.thread = small(args, "by", "args.by");
    if (b.is_taken) {
      b.name = text(args, "name", "args.name");
      b.step = named<reuse_step>(text(args, "as", "args.as"), reuse_step_count, "args.as");
      b.stream = fmt::format("{}", small(args, "tid", "args.tid"));  // until link()
    }
    made_.blocks.push_back(std::move(b));
  }

  void take_host_wait(const json& e) {
    waiting w;
    w.what.thread = small(e, "tid", "tid");
    w.what.begin = time(e, "ts", "ts");
    const time_ns lasted = time(e, "dur", "dur");
    if (lasted < 0) fail_at("dur", "is negative");
    w.what.end = w.what.begin + lasted;
    const json& args = field(e, "args", "args");
    if (!args.is_object()) fail_at("args", "is not an object");
    w.runtime = small(args, "runtime", "args.runtime");
    w.what.cpu_begin = time(args, "cpu", "args.cpu");
    w.what.cpu_end = time(args, "cpu_after", "args.cpu_after");
    if (args.contains("op")) {
      w.tid = small(args, "tid", "args.tid");
      w.cursor = whole(args, "op", "args.op");
    }
    waiting_.push_back(w);
  }

  void take_header(const json& h) {
    if (!h.is_object()) fail_at("braid", "is not an object");
    if (whole(h, "version", "braid.version") != 1)
      fail_at("braid.version", "is not 1: a newer braid wrote it");
    made_.dropped = whole(h, "dropped", "braid.dropped");
    made_.incomplete = whole(h, "incomplete", "braid.incomplete");
    made_.timing = text(h, "timing", "braid.timing");
    const json& all = list(h, "runtimes", "braid.runtimes");
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string path = fmt::format("braid.runtimes[{}]", i);
      const json& r = all[i];
      if (!r.is_object()) fail_at(path, "is not an object");
      made_.runtimes.push_back({.number = small(r, "runtime", path + ".runtime"),
                                .backend = text(r, "backend", path + ".backend"),
                                .workers = small(r, "workers", path + ".workers"),
                                .streams = small(r, "streams", path + ".streams"),
                                .width = small(r, "width", path + ".width"),
                                .placement = text(r, "placement", path + ".placement"),
                                .live = whole(r, "live", path + ".live", std::uint64_t{1} << 60)});
    }
  }

  // ---- From numbers to ops.

  [[nodiscard]] op_index find(std::uint32_t runtime, std::uint32_t tid, std::uint64_t cursor) const {
    const auto found = places_.find({runtime, tid});
    if (found == places_.end()) return no_op;
    const auto& ops = made_.streams[found->second].ops;
    const auto at =
        std::ranges::lower_bound(ops, cursor, {}, [&](op_index i) { return made_.ops[i].cursor; });
    return at != ops.end() && made_.ops[*at].cursor == cursor ? *at : no_op;
  }

  void link() {
    std::ranges::stable_sort(made_.ops, {}, &op::submit);
    for (const op& o : made_.ops) places_.try_emplace({o.runtime, o.stream}, 0);
    std::uint32_t next = 0;
    for (auto& [at, place] : places_) {
      place = next++;
      const auto name = names_.find(at);
      made_.streams.push_back({at.first,
                               at.second - (at.second != 0 ? 1 : 0),
                               name != names_.end() ? name->second : std::string(),
                               {}});
    }
    for (op_index i = 0; i < made_.ops.size(); ++i) {
      op& o = made_.ops[i];
      o.stream = places_.at({o.runtime, o.stream});
      stream& of = made_.streams[o.stream];
      of.ops.push_back(i);
      if (of.name.empty()) of.name = to_string(o.id);
    }
    for (stream& s : made_.streams) {
      std::ranges::sort(s.ops, {}, [&](op_index i) { return made_.ops[i].cursor; });
      for (std::size_t i = 1; i < s.ops.size(); ++i) {
        if (made_.ops[s.ops[i]].cursor != made_.ops[s.ops[i - 1]].cursor) continue;
        fail(fmt::format("op {} of stream {} is there twice", made_.ops[s.ops[i]].cursor, s.name));
      }
    }
    for (op& o : made_.ops) {
      for (wait& w : o.waits) {
        const std::uint32_t tid = std::exchange(w.on, no_op);
        if (tid == no_op) continue;
        w.on = find(o.runtime, tid, w.cursor);
        w.reached_op = find(o.runtime, tid, w.reached);
      }
    }
    for (block_event& b : made_.blocks) {
      if (!b.is_taken) continue;
      const auto found = places_.find({b.runtime, static_cast<std::uint32_t>(std::stoul(b.stream))});
      b.stream = found != places_.end() ? made_.streams[found->second].name : std::string();
    }
    std::ranges::stable_sort(made_.blocks, {}, &block_event::at);
    for (const waiting& w : waiting_) {
      made_.host_waits.push_back(w.what);
      if (w.cursor != 0) made_.host_waits.back().on = find(w.runtime, w.tid, w.cursor);
    }
    std::ranges::stable_sort(made_.host_waits, {}, &host_wait::begin);
    if (made_.ops.empty()) return;
    made_.begin = made_.ops.front().submit;
    for (const op& o : made_.ops) {
      made_.begin = std::min({made_.begin, o.submit, o.start});
      made_.end = std::max(made_.end, o.end);
    }
  }

  struct waiting {
    host_wait what;
    std::uint32_t runtime = 0;
    std::uint32_t tid = 0;
    std::uint64_t cursor = 0;
  };

  std::string name_;
  std::string where_;
  std::uint64_t events_ = 0;
  trace made_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> names_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> places_;
  std::vector<waiting> waiting_;
};

}  // namespace

trace read(std::istream& in, const std::string& name) {
  return reader(name).read(in);
}

trace read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw trace_error(fmt::format("{}: cannot be opened: {}", path, std::generic_category().message(errno)));
  }
  return read(in, path);
}

std::vector<std::string> violations(const trace& t) {
  std::vector<std::string> found;
  for (const op& o : t.ops) {
    for (const wait& w : o.waits) {
      if (w.on == no_op || t.ops[w.on].end <= o.start) continue;
      found.push_back(fmt::format(
          "'{}' (op {} of stream {}) starts {} before '{}' is over, which it waited for", o.label, o.cursor,
          t.streams[o.stream].name, to_text(t.ops[w.on].end - o.start), t.ops[w.on].label));
    }
    if (o.start < o.submit) {
      found.push_back(fmt::format("'{}' (op {} of stream {}) starts {} before it is submitted", o.label,
                                  o.cursor, t.streams[o.stream].name, to_text(o.submit - o.start)));
    }
  }
  for (const stream& s : t.streams) {
    for (std::size_t i = 1; i < s.ops.size(); ++i) {
      const op& before = t.ops[s.ops[i - 1]];
      const op& o = t.ops[s.ops[i]];
      if (before.end <= o.start) continue;
      found.push_back(fmt::format("'{}' (op {} of stream {}) starts {} before the op in front of it is over",
                                  o.label, o.cursor, s.name, to_text(before.end - o.start)));
    }
  }
  return found;
}

}  // namespace braid::trace
