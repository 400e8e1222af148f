// From what the threads recorded to Chrome trace events: one array of objects, each with the fields that the
// format knows (ph, pid, tid, ts, dur, name) and, under "args", what braid's own tools read.
//
// A runtime is a process of the trace and a stream a thread of it; the program's threads that waited are
// process 0. Times are in µs since the trace began, with three digits: ns.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "braid/alignment.hpp"
#include "braid/detail/runtime_base.hpp"
#include "braid/memory.hpp"
#include "trace/recorder.hpp"

namespace braid::trace {

namespace {

struct key {
  std::uint32_t runtime = 0;
  std::uint32_t lane = 0;
  std::uint64_t cursor = 0;
  friend auto operator<=>(const key&, const key&) = default;
};

struct recorded_op {
  key at;
  const std::uint64_t* words;  // the record
};

struct recorded_run {
  key at;
  std::int64_t start;
  std::int64_t end;
  std::uint32_t thread;
  detail::traced_outcome became;
};

struct recorded_block {
  std::int64_t time;
  const std::uint64_t* words;
};

std::uint32_t high(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 32);
}
std::uint32_t low(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word);
}
std::string_view text_at(const std::uint64_t* words, std::uint64_t size) noexcept {
  return {reinterpret_cast<const char*>(words), size};
}
std::uint64_t words_of(std::uint64_t size) noexcept {
  return (size + 7) / 8;
}

// JSON is UTF-8: bytes that are not are replaced, so that any label can be written.
void add_text(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text[i];
    } else if (c < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
    } else if (c < 0x80) {
      out += text[i];
    } else {
      const std::size_t length = c >= 0xf0 && c < 0xf5   ? 4
                                 : c >= 0xe0 && c < 0xf0 ? 3
                                 : c >= 0xc2 && c < 0xe0 ? 2
                                                         : 0;
      bool is_valid = length != 0 && i + length <= text.size();
      for (std::size_t k = 1; is_valid && k < length; ++k) {
        is_valid = (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
      }
      if (is_valid && length >= 3) {
        const auto next = static_cast<unsigned char>(text[i + 1]);
        is_valid = !(c == 0xe0 && next < 0xa0) && !(c == 0xed && next > 0x9f) &&
                   !(c == 0xf0 && next < 0x90) && !(c == 0xf4 && next > 0x8f);
      }
      if (!is_valid) {
        out += "\\ufffd";
        continue;
      }
      out.append(text, i, length);
      i += length - 1;
    }
  }
  out += '"';
}

class events {
 public:
  events(std::string& out, const recording& r) : out_(out), all_(r) { sort(); }

  trace_summary write() {
    fmt::format_to(end(), "{{\"braid\": {{\"version\": 1, \"dropped\": {}, \"incomplete\": {}, \"timing\": ",
                   all_.dropped, incomplete_);
    add_text(out_, all_.timing);
    out_ += ", \"runtimes\": [";
    write_runtimes();
    out_ += "]},\n\"displayTimeUnit\": \"ns\",\n\"traceEvents\": [\n";
    write_names();
    std::size_t op = 0;
    for (const recorded_run& run : runs_) {
      while (op < ops_.size() && ops_[op].at < run.at) ++op;
      if (op < ops_.size() && ops_[op].at == run.at) write_op(ops_[op], run);
    }
    write_blocks();
    write_host_waits();
    if (out_.ends_with(",\n")) out_.resize(out_.size() - 2);
    out_ += "\n]}\n";
    made_.dropped = all_.dropped;
    made_.incomplete = incomplete_;
    return made_;
  }

 private:
  std::back_insert_iterator<std::string> end() { return std::back_inserter(out_); }
  [[nodiscard]] double us(std::int64_t time) const noexcept {
    return static_cast<double>(time - all_.began) / 1000.0;
  }

  // A trace begins and ends while ops are on their way: of those, one half is missing.
  void sort() {
    for (const auto& thread : all_.threads) {
      for (std::size_t i = 0; i < thread.size();) {
        const std::uint64_t* w = &thread[i];
        const record_head head = record_head::of(*w);
        i += head.words;
        switch (head.kind) {
          case record_kind::op: ops_.push_back({{head.runtime, high(w[1]), w[3]}, w}); break;
          case record_kind::run:
            runs_.push_back({{head.runtime, high(w[1]), w[2]},
                             static_cast<std::int64_t>(w[3]),
                             static_cast<std::int64_t>(w[4]),
                             low(w[1]),
                             static_cast<detail::traced_outcome>(w[5])});
            break;
          case record_kind::take:
          case record_kind::give: blocks_.push_back({static_cast<std::int64_t>(w[1]), w}); break;
          case record_kind::host_wait: waits_.push_back(w); break;
        }
      }
    }
    std::ranges::sort(ops_, {}, &recorded_op::at);
    // A device's op is told of when it is handed over, without times, and once more when they are known.
    std::ranges::sort(runs_, [](const recorded_run& a, const recorded_run& b) {
      return a.at != b.at ? a.at < b.at : a.end > b.end;
    });
    const auto again = std::ranges::unique(runs_, {}, &recorded_run::at);
    runs_.erase(again.begin(), again.end());
    place_empty_ops();
    std::ranges::stable_sort(blocks_, {}, &recorded_block::time);
    // In both: an op that is in one list alone is left out.
    std::size_t both = 0;
    for (std::size_t i = 0, j = 0; i < ops_.size() && j < runs_.size();) {
      if (ops_[i].at == runs_[j].at) {
        streams_.emplace(std::pair(ops_[i].at.runtime, ops_[i].at.lane), ops_[i].words[2]);
        ++both, ++i, ++j;
      } else if (ops_[i].at < runs_[j].at) {
        ++i;
      } else {
        ++j;
      }
    }
    incomplete_ = ops_.size() - both + (runs_.size() - both);
  }

  // An op that put nothing on its device's stream takes no time: at the moment in which all in front of it is
  // over. Events are exact to about a microsecond: what they tell to begin earlier than it can have is
  // corrected by that.
  void place_empty_ops() {
    std::vector<const recorded_op*> by_time;
    by_time.reserve(ops_.size());
    for (const recorded_op& op : ops_) by_time.push_back(&op);
    std::ranges::stable_sort(by_time, {}, [](const recorded_op* op) { return op->words[4]; });
    for (const recorded_op* op : by_time) {
      recorded_run* run = run_of(op->at);
      if (run == nullptr || run->thread != 0) continue;
      std::int64_t ready = static_cast<std::int64_t>(op->words[4]);
      const recorded_run* before = run_of({op->at.runtime, op->at.lane, op->at.cursor - 1});
      if (before != nullptr) ready = std::max(ready, before->end);
      each_wait(*op, [&](const std::uint64_t* w) {
        const recorded_run* on = run_of({op->at.runtime, high(w[1]), w[2]});
        if (on != nullptr) ready = std::max(ready, on->end);
      });
      constexpr std::int64_t resolution = 2'000;
      if (run->start == 0) {
        run->start = run->end = ready;
      } else if (run->start < ready && run->start + resolution >= ready) {
        run->start = ready;
        run->end = std::max(run->end, ready);
      }
    }
  }

  template <class Visit>
  static void each_wait(const recorded_op& op, Visit visit) {
    const std::uint64_t* at = op.words + 7 + words_of(high(op.words[5]));
    for (std::uint64_t i = 0; i < low(op.words[5]); ++i) at += 5 + words_of(at[4]);
    for (std::uint64_t i = 0; i < low(op.words[6]); ++i, at += 5) visit(at);
  }

  [[nodiscard]] recorded_run* run_of(const key& at) {
    const auto found = std::ranges::lower_bound(runs_, at, {}, &recorded_run::at);
    return found != runs_.end() && found->at == at ? &*found : nullptr;
  }
  void write_runtimes() {
    const char* separator = "";
    for (const auto& [number, r] : all_.runtimes) {
      fmt::format_to(end(), "{}{{\"runtime\": {}, \"backend\": ", std::exchange(separator, ", "), number);
      add_text(out_, r.backend);
      fmt::format_to(
          end(), ", \"workers\": {}, \"streams\": {}, \"width\": {}, \"placement\": \"{}\", \"live\": {}}}",
          r.workers, r.streams, r.width, r.placement, r.live);
    }
  }

  void write_name(std::uint32_t pid, std::uint64_t tid, const char* what, std::string_view name) {
    fmt::format_to(end(),
                   "{{\"ph\": \"M\", \"pid\": {}, \"tid\": {}, \"name\": \"{}\", \"args\": {{\"name\": ", pid,
                   tid, what);
    add_text(out_, name);
    out_ += "}},\n";
  }

  void write_names() {
    for (const auto& [number, r] : all_.runtimes) {
      write_name(number, 0, "process_name", fmt::format("runtime {} ({})", number, r.backend));
    }
    if (!waits_.empty()) write_name(0, 0, "process_name", "threads of the program");
    for (const auto& [at, id] : streams_) {
      write_name(at.first, at.second + 1, "thread_name", "stream " + to_string(stream_id{id}));
      fmt::format_to(end(),
                     "{{\"ph\": \"M\", \"pid\": {}, \"tid\": {}, \"name\": \"thread_sort_index\", \"args\": "
                     "{{\"sort_index\": {}}}}},\n",
                     at.first, at.second + 1, at.second);
    }
  }

  void write_op(const recorded_op& op, const recorded_run& run) {
    ++made_.ops;
    const std::uint64_t* w = op.words;
    const std::uint64_t label_size = high(w[5]);
    const std::uint64_t uses = low(w[5]);
    const std::uint64_t waits = low(w[6]);
    const std::uint64_t* at = w + 7;
    fmt::format_to(end(),
                   "{{\"ph\": \"X\", \"cat\": \"op\", \"pid\": {}, \"tid\": {}, \"ts\": {:.3f}, \"dur\": "
                   "{:.3f}, \"name\": ",
                   op.at.runtime, op.at.lane + 1, us(run.start),
                   static_cast<double>(run.end - run.start) / 1000.0);
    add_text(out_, text_at(at, label_size));
    at += words_of(label_size);
    fmt::format_to(
        end(), ", \"args\": {{\"op\": {}, \"stream\": \"{}\", \"submit\": {:.3f}, \"by\": {}, \"on\": {}",
        op.at.cursor, to_string(stream_id{w[2]}), us(static_cast<std::int64_t>(w[4])), low(w[1]), run.thread);
    if (high(w[6]) != 0) out_ += ", \"named\": true";
    if (run.became != detail::traced_outcome::done) {
      fmt::format_to(end(), ", \"outcome\": \"{}\"",
                     run.became == detail::traced_outcome::failed ? "failed" : "skipped");
    }
    out_ += ", \"uses\": [";
    names_.clear();
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < uses; ++i) {
      const bool is_token = at[2] == std::numeric_limits<std::uint64_t>::max();
      if (!is_token) bytes += at[2];
      names_.push_back(text_at(at + 5, at[4]));
      fmt::format_to(end(), "{}{{\"{}\": ", i == 0 ? "" : ", ", to_string(static_cast<access>(low(at[3]))));
      add_text(out_, names_.back());
      fmt::format_to(end(), ", \"id\": {}", at[0]);
      if (!is_token) fmt::format_to(end(), ", \"from\": {}, \"bytes\": {}", at[1], at[2]);
      if (high(at[3]) != 0) fmt::format_to(end(), ", \"tag\": {}", high(at[3]));
      out_ += '}';
      at += 5 + words_of(at[4]);
    }
    fmt::format_to(end(), "], \"bytes\": {}, \"waits\": [", bytes);
    const std::uint64_t* first_wait = at;
    for (std::uint64_t i = 0; i < waits; ++i, at += 5) {
      ++made_.waits;
      const bool is_ours = !detail::is_foreign(static_cast<detail::lane_id>(high(at[1])));
      fmt::format_to(end(), "{}{{\"stream\": \"{}\", \"op\": {}, \"reached\": {}, \"hazard\": \"{}\"",
                     i == 0 ? "" : ", ", is_ours ? to_string(stream_id{at[0]}) : detail::foreign_work, at[2],
                     at[3], to_string(static_cast<hazard>(low(at[1]))));
      if (is_ours) {
        fmt::format_to(end(), ", \"tid\": {}", high(at[1]) + 1);
      }
      if (at[4] < names_.size()) {
        out_ += ", \"resource\": ";
        add_text(out_, names_[at[4]]);
      }
      out_ += '}';
    }
    out_ += "]}},\n";
    for (std::uint64_t i = 0; i < waits; ++i, first_wait += 5) {
      write_arrow(op.at, run, first_wait);
    }
  }

  // An arrow from the op that was waited for.
  void write_arrow(const key& to, const recorded_run& run, const std::uint64_t* w) {
    const recorded_run* from = run_of({to.runtime, high(w[1]), w[2]});
    if (from == nullptr) return;
    ++last_arrow_;
    const char* why = to_string(static_cast<hazard>(low(w[1])));
    fmt::format_to(
        end(),
        "{{\"ph\": \"s\", \"cat\": \"wait\", \"id\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {:.3f}, "
        "\"name\": \"{}\"}},\n"
        "{{\"ph\": \"f\", \"bp\": \"e\", \"cat\": \"wait\", \"id\": {}, \"pid\": {}, \"tid\": {}, "
        "\"ts\": {:.3f}, \"name\": \"{}\"}},\n",
        last_arrow_, to.runtime, high(w[1]) + 1, us(std::max(from->start, from->end - 1)), why, last_arrow_,
        to.runtime, to.lane + 1, us(run.start), why);
  }

  void write_blocks() {
    std::map<std::uint32_t, std::int64_t> live;
    for (const auto& [number, r] : all_.runtimes) live[number] = static_cast<std::int64_t>(r.live);
    for (const recorded_block& b : blocks_) {
      ++made_.blocks;
      const std::uint64_t* w = b.words;
      const record_head head = record_head::of(*w);
      const bool is_taken = head.kind == record_kind::take;
      live[head.runtime] += is_taken ? static_cast<std::int64_t>(w[3]) : -static_cast<std::int64_t>(w[3]);
      fmt::format_to(
          end(),
          "{{\"ph\": \"i\", \"s\": \"p\", \"cat\": \"memory\", \"pid\": {}, \"tid\": 0, \"ts\": {:.3f}, "
          "\"name\": \"{}\", \"args\": {{\"block\": {}, \"bytes\": {}, \"by\": {}",
          head.runtime, us(b.time), is_taken ? "take" : "give", w[2], w[3], w[4]);
      if (is_taken) {
        fmt::format_to(end(), ", \"as\": \"{}\", \"tid\": {}, \"name\": ",
                       to_string(static_cast<reuse_step>(low(w[5]))), high(w[5]) + 1);
        add_text(out_, text_at(w + 7, w[6]));
      }
      fmt::format_to(
          end(),
          "}}}},\n{{\"ph\": \"C\", \"cat\": \"memory\", \"pid\": {}, \"tid\": 0, \"ts\": {:.3f}, \"name\": "
          "\"bytes in use\", \"args\": {{\"bytes\": {}}}}},\n",
          head.runtime, us(b.time), live[head.runtime]);
    }
  }

  void write_host_waits() {
    for (const std::uint64_t* w : waits_) {
      detail::op_point on;
      on.bits = w[2];
      const auto begin = static_cast<std::int64_t>(w[3]);
      const auto until = static_cast<std::int64_t>(w[4]);
      fmt::format_to(
          end(),
          "{{\"ph\": \"X\", \"cat\": \"host\", \"pid\": 0, \"tid\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}, "
          "\"name\": \"wait\", \"args\": {{\"runtime\": {}, \"cpu\": {:.3f}, \"cpu_after\": {:.3f}",
          w[1], us(begin), static_cast<double>(until - begin) / 1000.0, record_head::of(*w).runtime,
          static_cast<double>(w[5]) / 1000.0, static_cast<double>(w[6]) / 1000.0);
      if (w[2] != 0) {
        fmt::format_to(end(), ", \"tid\": {}, \"op\": {}", detail::index_of(on.lane()) + 1, on.cursor());
      }
      out_ += "}},\n";
    }
  }

  std::string& out_;
  const recording& all_;
  std::vector<recorded_op> ops_;
  std::vector<recorded_run> runs_;
  std::vector<recorded_block> blocks_;
  std::vector<const std::uint64_t*> waits_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> streams_;  // to the first id used
  std::vector<std::string_view> names_;
  std::uint64_t incomplete_ = 0;
  std::uint64_t last_arrow_ = 0;
  trace_summary made_;
};

}  // namespace

trace_summary write_events(std::string& out, const recording& r) {
  return events(out, r).write();
}

}  // namespace braid::trace
