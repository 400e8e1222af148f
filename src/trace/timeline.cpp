#include "trace/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "braid/alignment.hpp"
#include "trace/analysis.hpp"

namespace braid::embedded {
// Made by braid_embed() of cmake/embed.cmake from the files in src/trace/timeline/.
extern const std::string_view page_html;
extern const std::string_view page_css;
extern const std::string_view trace_js;
extern const std::string_view view_js;
extern const std::string_view draw_js;
extern const std::string_view page_js;
}  // namespace braid::embedded

namespace braid::trace {

namespace {

/// JSON of a text that may hold anything, fit to stand inside of a <script>.
std::string quoted(const std::string& text) {
  const std::string plain =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string result;
  result.reserve(plain.size());
  for (const char c : plain) {
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

/// Things that occur often, each written once: the ops name them by number.
template <class Key, class Map>
class numbered {
 public:
  std::uint32_t number_of(const Key& key) {
    const auto [at, is_new] = numbers_.try_emplace(key, static_cast<std::uint32_t>(order_.size()));
    if (is_new) order_.push_back(&at->first);  // the maps used here never move a key
    return at->second;
  }
  [[nodiscard]] const std::vector<const Key*>& all() const noexcept { return order_; }

 private:
  Map numbers_;
  std::vector<const Key*> order_;
};
using text_table = numbered<std::string, std::unordered_map<std::string, std::uint32_t>>;
using use_key = std::tuple<std::uint32_t, access, std::uint64_t>;  // name, access, bytes
using use_table = numbered<use_key, std::map<use_key, std::uint32_t>>;

/// Numbers with commas between them.
class column {
 public:
  template <class Number>
  void add(Number value) {
    if (text_.size() != 0) text_.push_back(',');
    const fmt::format_int digits(value);
    text_.append(digits.data(), digits.data() + digits.size());
  }
  [[nodiscard]] std::string_view text() const noexcept { return {text_.data(), text_.size()}; }

 private:
  fmt::memory_buffer text_;
};

void write_columns(std::ostream& out, std::initializer_list<std::pair<const char*, const column*>> columns) {
  char before = '{';
  for (const auto& [name, values] : columns) {
    out << std::exchange(before, ',') << '"' << name << "\":[" << values->text() << ']';
  }
  out << '}';
}

void write_texts(std::ostream& out, const char* name, const text_table& table) {
  out << '"' << name << "\":[";
  const char* before = "";
  for (const std::string* text : table.all()) out << std::exchange(before, ",") << quoted(*text);
  out << "],\n";
}

/// Ops, their waits and what they use. Times are told from the one before: short numbers, a small page.
void write_ops(std::ostream& out, const trace& t) {
  text_table labels;
  text_table names;
  use_table uses;
  column stream, label, cursor, submit, ready, start, length, bytes, worker, submitter, use_count, wait_count;
  column used, failed, skipped;
  column back, reached, why, resource, cost;
  std::string elsewhere;  // waits for what is not in the trace
  std::vector<std::uint64_t> last_cursor(t.streams.size());
  time_ns last_submit = t.begin;
  std::uint64_t waits = 0;

  for (op_index i = 0; i < t.ops.size(); ++i) {
    const op& o = t.ops[i];
    stream.add(o.stream);
    label.add(labels.number_of(o.label));
    cursor.add(static_cast<std::int64_t>(o.cursor - std::exchange(last_cursor[o.stream], o.cursor)));
    submit.add(o.submit - std::exchange(last_submit, o.submit));
    ready.add(ready_at(t, o) - o.submit);
    start.add(o.start - o.submit);
    length.add(o.end - o.start);
    bytes.add(o.bytes);
    worker.add(o.worker);
    submitter.add(o.submitter);
    if (o.became == outcome::failed) failed.add(i);
    if (o.became == outcome::skipped) skipped.add(i);
    use_count.add(o.uses.size());
    for (const use& u : o.uses) used.add(uses.number_of({names.number_of(u.name), u.kind, u.range.size}));
    wait_count.add(o.waits.size());
    for (const wait& w : o.waits) {
      const bool is_here = w.on != no_op;
      back.add(is_here ? std::int64_t{i} - std::int64_t{w.on} : 0);
      reached.add(is_here && w.reached_op != no_op ? std::int64_t{w.reached_op} - std::int64_t{w.on} : 0);
      why.add(static_cast<unsigned>(w.why));
      resource.add(names.number_of(w.resource));
      cost.add(cost_of(t, o, w));
      if (!is_here) {
        elsewhere += fmt::format("{}\"{}\":{}", elsewhere.empty() ? "" : ",", waits,
                                 quoted(detail::name_of_op(w.origin, w.cursor)));
      }
      ++waits;
    }
  }

  write_texts(out, "labels", labels);
  write_texts(out, "names", names);
  column use_name, use_kind, use_bytes;
  for (const use_key* key : uses.all()) {
    use_name.add(std::get<0>(*key));
    use_kind.add(static_cast<unsigned>(std::get<1>(*key)));
    use_bytes.add(std::get<2>(*key));
  }
  out << "\"uses\":";
  write_columns(out, {{"name", &use_name}, {"kind", &use_kind}, {"bytes", &use_bytes}});
  out << ",\n\"ops\":";
  write_columns(out, {{"stream", &stream},
                      {"label", &label},
                      {"cursor", &cursor},
                      {"submit", &submit},
                      {"ready", &ready},
                      {"start", &start},
                      {"length", &length},
                      {"bytes", &bytes},
                      {"worker", &worker},
                      {"submitter", &submitter},
                      {"uses", &use_count},
                      {"used", &used},
                      {"waits", &wait_count},
                      {"failed", &failed},
                      {"skipped", &skipped}});
  out << ",\n\"waits\":";
  write_columns(
      out, {{"back", &back}, {"reached", &reached}, {"why", &why}, {"resource", &resource}, {"cost", &cost}});
  out << ",\n\"elsewhere\":{" << elsewhere << "},\n";
}

void write_streams(std::ostream& out, const trace& t) {
  out << "\"runtimes\":[";
  const char* before = "";
  for (const runtime& r : t.runtimes) {
    out << std::exchange(before, ",")
        << fmt::format(R"({{"number":{},"backend":{},"workers":{},"placement":{}}})", r.number,
                       quoted(r.backend), r.workers, quoted(r.placement));
  }
  out << "],\n\"streams\":[";
  before = "";
  for (const account& a : account_streams(t)) {
    const stream& s = t.streams[a.stream];
    out << std::exchange(before, ",")
        << fmt::format(R"({{"stream":{},"name":{},"runtime":{},"ops":{},)", a.stream, quoted(s.name),
                       s.runtime, a.ops)
        << fmt::format(R"("busy":{},"waiting":{},"starved":{},"idle":{}}})", a.busy, a.waiting, a.starved,
                       a.idle);
  }
  out << "],\n";
}

void write_path(std::ostream& out, const trace& t) {
  const critical_path path = find_critical_path(t);
  column kind, which, length;
  for (const path_step& step : path.steps) {
    kind.add(static_cast<unsigned>(step.what));
    which.add(step.op == no_op ? std::int64_t{-1} : std::int64_t{step.op});
    length.add(step.end - step.begin);
  }
  out << fmt::format("\"pathBegin\":{},\"path\":",
                     path.steps.empty() ? 0 : path.steps.front().begin - t.begin);
  write_columns(out, {{"kind", &kind}, {"op", &which}, {"length", &length}});
  out << ",\n";
}

/// The memory in use, as changes.
void write_memory(std::ostream& out, const trace& t) {
  std::set<std::pair<std::uint32_t, std::uint64_t>> live;
  std::uint64_t before = 0;  // what was given back had been taken, if need be before the trace began
  column at, change;
  time_ns last = t.begin;
  for (const block_event& e : t.blocks) {
    const std::pair key{e.runtime, e.block};
    if (e.is_taken) {
      live.insert(key);
    } else if (live.erase(key) == 0) {
      before += e.bytes;
    }
    at.add(e.at - std::exchange(last, e.at));
    change.add(e.is_taken ? static_cast<std::int64_t>(e.bytes) : -static_cast<std::int64_t>(e.bytes));
  }
  std::uint64_t live_before = 0;
  for (const runtime& r : t.runtimes) live_before += r.live;
  before = std::max(before, live_before);
  out << fmt::format("\"memoryBefore\":{},\"memory\":", before);
  write_columns(out, {{"at", &at}, {"change", &change}});
}

void write_data(std::ostream& out, const trace& t, const std::string& title) {
  out << fmt::format("{{\"title\":{},\"timing\":{},\"dropped\":{},\"incomplete\":{},\"makespan\":{},\n",
                     quoted(title), quoted(t.timing), t.dropped, t.incomplete, t.makespan());
  write_ops(out, t);
  write_streams(out, t);
  write_path(out, t);
  write_memory(out, t);
  out << "}\n";
}

}  // namespace

void write_timeline(std::ostream& out, const trace& t, const std::string& title) {
  const std::pair<std::string_view, std::string_view> parts[] = {{"page.css", embedded::page_css},
                                                                 {"trace.js", embedded::trace_js},
                                                                 {"view.js", embedded::view_js},
                                                                 {"draw.js", embedded::draw_js},
                                                                 {"page.js", embedded::page_js}};
  // The template names its parts in comments: <!--page.css-->, <!--trace-->.
  std::string_view rest = embedded::page_html;
  while (true) {
    const std::size_t begin = rest.find("<!--");
    out << rest.substr(0, begin);
    if (begin == std::string_view::npos) return;
    const std::size_t end = rest.find("-->", begin);
    const std::string_view wanted = rest.substr(begin + 4, end - begin - 4);
    if (wanted == "trace") write_data(out, t, title);
    for (const auto& [name, text] : parts) {
      if (name == wanted) out << text;
    }
    rest.remove_prefix(end + 3);
  }
}

}  // namespace braid::trace
