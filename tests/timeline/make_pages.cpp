// Makes the pages that timeline_test.py opens: `make_timeline_pages FOLDER`.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "trace/analysis.hpp"
#include "trace/timeline.hpp"

namespace {

namespace tr = braid::trace;
using braid::access;
using braid::hazard;
using tr::op_index;
using tr::time_ns;

/// A trace that is built op by op.
class builder {
 public:
  builder(std::uint32_t streams, std::uint32_t workers) {
    trace_.runtimes.push_back({.number = 0,
                               .backend = workers == 0 ? "sim" : "cpu",
                               .workers = workers,
                               .width = streams,
                               .placement = "automatic"});
    trace_.timing = "made by hand";
    for (std::uint32_t i = 0; i < streams; ++i) {
      trace_.streams.push_back({.runtime = 0, .lane = i, .name = std::to_string(i), .ops = {}});
    }
  }

  op_index add(std::uint32_t stream, std::string label, time_ns submit, time_ns start, time_ns end) {
    const auto index = static_cast<op_index>(trace_.ops.size());
    tr::op o;
    o.stream = stream;
    o.id = {stream};
    o.cursor = trace_.streams[stream].ops.size() + 1;
    o.label = std::move(label);
    o.submit = submit;
    o.start = start;
    o.end = end;
    o.submitter = 1;
    o.worker = 2 + stream;
    trace_.ops.push_back(std::move(o));
    trace_.streams[stream].ops.push_back(index);
    return index;
  }
  void uses(op_index o, const std::string& name, access kind, std::uint64_t bytes) {
    trace_.ops[o].uses.push_back({.resource = std::hash<std::string>{}(name) % 100000,
                                  .name = name,
                                  .kind = kind,
                                  .range = {0, bytes},
                                  .tag = 0});
    trace_.ops[o].bytes += bytes;
  }
  void waits(op_index o, op_index on, hazard why, const std::string& name, op_index reached = tr::no_op) {
    tr::wait w;
    w.on = on;
    w.origin = trace_.ops[on].id;
    w.cursor = trace_.ops[on].cursor;
    w.reached_op = reached == tr::no_op ? on : reached;
    w.reached = trace_.ops[w.reached_op].cursor;
    w.why = why;
    w.resource = name;
    trace_.ops[o].waits.push_back(w);
  }
  void takes(time_ns at, std::uint64_t block, std::uint64_t bytes) { memory(at, true, block, bytes); }
  void gives(time_ns at, std::uint64_t block, std::uint64_t bytes) { memory(at, false, block, bytes); }
  tr::trace& raw() { return trace_; }

  tr::trace finish() {
    trace_.begin = trace_.ops.empty() ? 0 : trace_.ops.front().submit;
    for (const tr::op& o : trace_.ops) trace_.end = std::max(trace_.end, o.end);
    std::ranges::stable_sort(trace_.blocks, {}, &tr::block_event::at);
    return std::move(trace_);
  }

 private:
  void memory(time_ns at, bool is_taken, std::uint64_t block, std::uint64_t bytes) {
    tr::block_event e;
    e.at = at;
    e.is_taken = is_taken;
    e.block = block;
    e.bytes = bytes;
    e.name = fmt::format("block {}", block);
    trace_.blocks.push_back(e);
  }
  tr::trace trace_;
};

/// Three streams, each hazard once, a late mark, a wait for what is not in the trace, an op that failed.
tr::trace small() {
  builder b(3, 2);
  constexpr time_ns us = 1000;
  constexpr std::uint64_t mib = 1024 * 1024;
  const op_index load = b.add(0, "load x", 5 * us, 10 * us, 210 * us);
  const op_index fill = b.add(1, "fill y", 8 * us, 12 * us, 92 * us);
  const op_index scale = b.add(1, "scale y", 11 * us, 230 * us, 480 * us);
  const op_index sum = b.add(2, "sum y", 14 * us, 500 * us, 640 * us);
  const op_index next = b.add(0, "load next x", 16 * us, 485 * us, 700 * us);
  const op_index store = b.add(2, "store y", 18 * us, 660 * us, 800 * us);
  const op_index clear = b.add(1, "clear y", 20 * us, 805 * us, 860 * us);
  const op_index report = b.add(0, "report", 22 * us, 870 * us, 990 * us);
  const op_index limited = b.add(2, "scratch z", 700 * us, 880 * us, 1000 * us);
  b.uses(load, "x", access::write, 8 * mib);
  b.uses(fill, "y", access::write, 8 * mib);
  b.uses(scale, "x", access::read, 8 * mib);
  b.uses(scale, "y", access::read_write, 8 * mib);
  b.uses(sum, "y", access::read, 8 * mib);
  b.uses(sum, "total", access::accumulate, 8);
  b.uses(next, "x", access::write, 8 * mib);
  b.uses(store, "y", access::read, 8 * mib);
  b.uses(clear, "y", access::write, 8 * mib);
  b.uses(limited, "z", access::write, 4 * mib);
  b.waits(scale, load, hazard::read_after_write, "x");
  b.waits(sum, scale, hazard::read_after_write, "y");
  b.waits(next, scale, hazard::write_after_read, "x");
  b.waits(clear, store, hazard::write_after_read, "y");
  b.waits(report, clear, hazard::user, "");
  b.waits(limited, scale, hazard::reuse, "z", clear);
  b.waits(limited, fill, hazard::write_after_write, "z");
  b.waits(report, sum, hazard::capacity, "");
  tr::wait gone;
  gone.origin = {7};
  gone.cursor = 41;
  gone.why = hazard::read_after_write;
  gone.resource = "old";
  b.raw().ops[load].waits.push_back(gone);
  b.raw().ops[limited].became = tr::outcome::failed;
  b.gives(6 * us, 9, 2 * mib);  // taken before the trace began
  b.takes(9 * us, 1, 8 * mib);
  b.takes(12 * us, 2, 8 * mib);
  b.gives(700 * us, 1, 8 * mib);
  b.takes(870 * us, 3, 4 * mib);
  return b.finish();
}

/// The tiled Cholesky decomposition, as a runtime with so many streams and workers could have run it.
class cholesky {
 public:
  cholesky(int tiles, std::uint32_t streams, std::uint32_t workers, time_ns pace)
      : tiles_(tiles), streams_(streams), pace_(pace), trace_(streams, workers) {
    for (std::uint32_t i = 0; i < workers; ++i) free_at_.push(0);
    stream_free_.resize(streams);
    known_.assign(streams, std::vector<op_index>(streams, tr::no_op));
  }

  tr::trace run() {
    for (int k = 0; k < tiles_; ++k) {
      submit(fmt::format("potrf {}", k), 34'000, {}, tile(k, k));
      for (int i = k + 1; i < tiles_; ++i)
        submit(fmt::format("trsm {},{}", i, k), 52'000, {tile(k, k)}, tile(i, k));
      for (int i = k + 1; i < tiles_; ++i) {
        submit(fmt::format("syrk {},{}", i, k), 48'000, {tile(i, k)}, tile(i, i));
        for (int j = k + 1; j < i; ++j) {
          submit(fmt::format("gemm {},{},{}", i, j, k), 88'000, {tile(i, k), tile(j, k)}, tile(i, j));
        }
      }
    }
    return trace_.finish();
  }

 private:
  struct tile_state {
    op_index writer = tr::no_op;
    std::vector<op_index> readers;
  };
  [[nodiscard]] int tile(int i, int j) const { return i * tiles_ + j; }
  [[nodiscard]] std::string name(int t) const { return fmt::format("A[{},{}]", t / tiles_, t % tiles_); }
  time_ns jitter() {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<time_ns>((seed_ >> 33) % 100);
  }

  void submit(std::string label, time_ns length, std::vector<int> reads, int writes) {
    auto& ops = trace_.raw().ops;
    const auto index = static_cast<op_index>(ops.size());
    now_ += pace_;
    length += length * (jitter() - 40) / 400;
    tile_state& target = state_[writes];
    // Behind the last writer of its tile where that stream is free soonest, else on the stream that is.
    std::uint32_t stream = 0;
    for (std::uint32_t s = 1; s < streams_; ++s) {
      if (stream_free_[s] < stream_free_[stream]) stream = s;
    }
    time_ns ready = std::max(now_, stream_free_[stream]);
    struct need {
      op_index on;
      hazard why;
      int tile;
    };
    std::vector<need> needs;
    const auto after = [&](op_index on, hazard why, int of) {
      if (on == tr::no_op || ops[on].stream == stream) return;
      ready = std::max(ready, ops[on].end);
      op_index& last = known_[stream][ops[on].stream];
      if (last != tr::no_op && last >= on) return;
      last = on;
      needs.push_back({on, why, of});
    };
    for (const int r : reads) after(state_[r].writer, hazard::read_after_write, r);
    after(target.writer, hazard::read_after_write, writes);
    for (const op_index reader : target.readers) after(reader, hazard::write_after_read, writes);
    const time_ns start = std::max(ready, free_at_.top()) + 700;
    free_at_.pop();
    free_at_.push(start + length);
    trace_.add(stream, std::move(label), now_, start, start + length);
    for (const int r : reads) {
      trace_.uses(index, name(r), access::read, tile_bytes);
      state_[r].readers.push_back(index);
    }
    trace_.uses(index, name(writes), access::read_write, tile_bytes);
    if (target.writer == tr::no_op) trace_.takes(now_, static_cast<std::uint64_t>(writes), tile_bytes);
    trace_.takes(now_, 1'000'000 + index, tile_bytes / 2);  // a scratch for each op
    trace_.gives(start + length, 1'000'000 + index, tile_bytes / 2);
    for (const need& n : needs) trace_.waits(index, n.on, n.why, name(n.tile));
    target.writer = index;
    target.readers.clear();
    stream_free_[stream] = start + length;
  }

  static constexpr std::uint64_t tile_bytes = 256 * 256 * 8;
  int tiles_;
  std::uint32_t streams_;
  time_ns pace_;
  builder trace_;
  time_ns now_ = 0;
  std::uint64_t seed_ = 7;
  std::priority_queue<time_ns, std::vector<time_ns>, std::greater<>> free_at_;
  std::vector<time_ns> stream_free_;
  std::vector<std::vector<op_index>> known_;  // of a stream, the last op of another that it comes after
  std::map<int, tile_state> state_;
};

/// Labels and names that try to be something else.
tr::trace hostile() {
  builder b(2, 1);
  const std::string nasty[] = {"</script><script>document.title='taken'</script>",
                               "<!-- <img src=x onerror=alert(1)>",
                               "\"quotes\" 'and' \\backslashes\\",
                               std::string("control \x01\x02\0\x7f\n\r\t end", 19),
                               "not UTF-8: \xff\xfe\xc3(",
                               "\xe2\x80\xa8 line \xe2\x80\xa9 separators",
                               "\xe2\x80\xae right to left \xf0\x9f\xa7\xb6",
                               "",
                               std::string(5000, 'x'),
                               "__proto__",
                               "constructor"};
  time_ns now = 0;
  for (const std::string& text : nasty) {
    const op_index first = b.add(0, text, now, now + 10, now + 60);
    const op_index second = b.add(1, text, now + 5, now + 70, now + 100);
    b.uses(first, text, access::write, 64);
    b.uses(second, text, access::read, 64);
    b.waits(second, first, hazard::read_after_write, text);
    now += 100;
  }
  b.raw().streams[0].name = "<b>zero</b>";
  b.raw().runtimes[0].backend = "</script>";
  b.raw().dropped = 12;
  return b.finish();
}

void write(const std::string& folder, const std::string& name, const std::string& title, const tr::trace& t) {
  std::ofstream out(folder + "/" + name + ".html", std::ios::binary);
  tr::write_timeline(out, t, title);
  out.close();
  if (!out) throw std::runtime_error("cannot write " + folder + "/" + name + ".html");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} FOLDER\n", argv[0]);
    return 2;
  }
  const std::string folder = argv[1];
  const tr::trace few = small();
  write(folder, "small", "small.json", few);
  std::ofstream sentences(folder + "/small.sentences");
  for (const tr::op& o : few.ops) {
    for (const tr::wait& w : o.waits) sentences << tr::sentence(few, o, w) << '\n';
  }
  write(folder, "cholesky", "cholesky.json", cholesky(9, 6, 4, 4'000).run());
  write(folder, "large", "large.json", cholesky(84, 16, 8, 1'500).run());
  write(folder, "empty", "empty.json", {});
  write(folder, "hostile", "</title><script>document.title='taken'</script>", hostile());
  return 0;
}
