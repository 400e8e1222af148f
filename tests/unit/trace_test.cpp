#include "braid/trace.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "braid/cpu.hpp"
#include "braid/settings.hpp"
#include "trace/explain.hpp"
#include "trace/graph.hpp"
#include "trace/model.hpp"
#include "trace/ring.hpp"

namespace {

using namespace braid;

/// A file of its own, gone at the end.
class temporary {
 public:
  temporary() {
    static std::atomic<unsigned> next{0};
    path_ = std::filesystem::temp_directory_path() /
            ("braid_trace_" + std::to_string(::getpid()) + "_" + std::to_string(next++) + ".json");
  }
  ~temporary() { std::filesystem::remove(path_); }
  temporary(const temporary&) = delete;
  temporary& operator=(const temporary&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// What `program` does, traced.
template <class Program>
trace::trace traced(Program program, trace_options options = {}) {
  const temporary file;
  {
    tracing on(file.path(), options);
    program();
    on.stop();
  }
  return trace::read_file(file.path().string());
}

const trace::op& find(const trace::trace& t, const std::string& label) {
  for (const trace::op& o : t.ops) {
    if (o.label == label) return o;
  }
  throw std::out_of_range(label);
}

void spin(std::chrono::microseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
  }
}

// ---- The buffer.

TEST(trace_ring, keeps_the_newest_records_and_counts_those_it_dropped) {
  trace::ring r(65'536);  // 8,192 words
  std::vector<std::uint64_t> record(100, 7);
  for (std::uint64_t i = 0; i < 200; ++i) {
    record[0] = record.size();
    record[1] = i;
    r.write(record);
  }
  const auto words = r.read();
  ASSERT_EQ(words.size() % 100, 0U);
  EXPECT_EQ(words.size() / 100 + r.dropped(), 200U);
  EXPECT_EQ(words.size() / 100, 81U);
  for (std::size_t i = 0; i < words.size() / 100; ++i) EXPECT_EQ(words[100 * i + 1], r.dropped() + i);
}

TEST(trace_ring, drops_a_record_that_it_could_never_hold) {
  trace::ring r(65'536);
  r.write(std::vector<std::uint64_t>(5'000, 5'000));
  EXPECT_TRUE(r.read().empty());
  EXPECT_EQ(r.dropped(), 1U);
}

// ---- What is recorded.

TEST(trace, has_each_op_with_its_stream_its_times_and_its_uses) {
  cpu::runtime rt({.workers = 2, .deterministic = true});
  const auto t = traced([&] {
    auto x = rt.make_buffer<int>(8, "x");
    rt.submit(stream_id{1}, "fill", write(x), [](std::span<int> v) { std::ranges::fill(v, 1); });
    rt.submit(stream_id{2}, "add", read_write(x.slice(4, 2)), [](std::span<int> v) { v[0] += 1; });
    rt.synchronize();
  });
  ASSERT_EQ(t.ops.size(), 2U);
  EXPECT_EQ(t.streams.size(), 2U);
  EXPECT_EQ(t.incomplete, 0U);
  const auto& fill = find(t, "fill");
  const auto& add = find(t, "add");
  EXPECT_EQ(fill.id, stream_id{1});
  EXPECT_EQ(t.streams[add.stream].name, "2");
  EXPECT_EQ(fill.cursor, 1U);
  EXPECT_TRUE(fill.is_named);
  EXPECT_LE(fill.submit, fill.start);
  EXPECT_LE(fill.start, fill.end);
  EXPECT_EQ(fill.bytes, 32U);
  ASSERT_EQ(add.uses.size(), 1U);
  EXPECT_EQ(add.uses[0].name, "x");
  EXPECT_EQ(add.uses[0].kind, access::read_write);
  EXPECT_EQ(add.uses[0].range, (byte_range{16, 8}));
  EXPECT_EQ(add.uses[0].resource, fill.uses[0].resource);
}

TEST(trace, has_each_wait_with_both_ops_the_resource_and_the_hazard) {
  cpu::runtime rt({.workers = 2, .deterministic = true});
  const auto t = traced([&] {
    auto x = rt.make_buffer<int>(8, "x");
    auto y = rt.make_buffer<int>(8, "y");
    rt.submit(stream_id{1}, "fill", write(x), [](std::span<int>) { spin(std::chrono::microseconds(300)); });
    rt.submit(stream_id{2}, "scale", read(x), write(y), [](std::span<const int>, std::span<int>) {});
    rt.submit(stream_id{1}, "clear", write(x), [](std::span<int>) {});
    rt.synchronize();
  });
  const auto& scale = find(t, "scale");
  ASSERT_EQ(scale.waits.size(), 1U);
  EXPECT_EQ(scale.waits[0].why, hazard::read_after_write);
  EXPECT_EQ(scale.waits[0].resource, "x");
  EXPECT_EQ(scale.waits[0].cursor, 1U);
  ASSERT_NE(scale.waits[0].on, trace::no_op);
  EXPECT_EQ(t.ops[scale.waits[0].on].label, "fill");
  const auto& clear = find(t, "clear");
  ASSERT_EQ(clear.waits.size(), 1U);
  EXPECT_EQ(clear.waits[0].why, hazard::write_after_read);
  EXPECT_EQ(t.ops[clear.waits[0].on].label, "scale");
  EXPECT_TRUE(trace::violations(t).empty());
  EXPECT_NE(
      trace::sentence(t, scale, scale.waits[0]).find("for 'fill' on stream 1: it reads 'x' that it wrote"),
      std::string::npos);
}

TEST(trace, tells_work_that_was_submitted_elsewhere_from_streams) {
  cpu::runtime rt({.workers = 2, .deterministic = true});
  cpu::runtime other({.workers = 2, .deterministic = true});
  const auto t = traced([&] {
    auto x = rt.make_buffer<int>(8, "x");
    auto theirs = other.make_buffer<int>(8, zeroed, "theirs");
    rt.copy(x, theirs);
    rt.synchronize();
  });
  const auto& copy = find(t, "copy");
  ASSERT_EQ(copy.waits.size(), 1U);
  EXPECT_EQ(copy.waits[0].on, trace::no_op);
  const std::string text = trace::sentence(t, copy, copy.waits[0]);
  EXPECT_NE(text.find("came after work submitted elsewhere: it writes 'x' that it wrote"), std::string::npos)
      << text;
}

TEST(trace, has_each_replay_of_a_recorded_op_with_its_waits) {
  cpu::runtime rt({.workers = 2, .deterministic = true});
  const auto t = traced([&] {
    auto x = rt.make_buffer<int>(4, zeroed, "x");
    auto y = rt.make_buffer<int>(4, "y");
    const recording r = rt.record([&] {
      rt.submit(stream_id{1}, "there", read(x), write(y), [](auto from, auto to) { to[0] = from[0]; });
      rt.submit(stream_id{2}, "back", read(y), write(x), [](auto from, auto to) { to[0] = from[0]; });
    });
    r.replay(3);
    r.replay();
    rt.synchronize();
  });
  int there = 0;
  int back = 0;
  for (const trace::op& o : t.ops) {
    if (o.label == "there") {
      // The first one comes after the zeroing of x, the others after the last "back".
      ASSERT_EQ(o.waits.size(), 1U) << there;
      ASSERT_NE(o.waits[0].on, trace::no_op);
      EXPECT_EQ(t.ops[o.waits[0].on].label, there++ == 0 ? "zero" : "back");
      EXPECT_EQ(o.waits[0].resource, "x");
    } else if (o.label == "back") {
      // Its stream may wait at the beginning of a replay for what the other one waits for as well.
      ++back;
      ASSERT_GE(o.waits.size(), 1U);
      const trace::wait& inner = o.waits.back();
      EXPECT_EQ(inner.why, hazard::read_after_write);
      EXPECT_EQ(inner.resource, "y");
      EXPECT_EQ(t.ops[inner.on].label, "there");
    }
    EXPECT_LE(o.submit, o.start);
  }
  EXPECT_EQ(there, 4);
  EXPECT_EQ(back, 4);
  EXPECT_TRUE(trace::violations(t).empty());
}

TEST(trace, tells_which_ops_failed_and_which_were_skipped) {
  cpu::runtime rt({.workers = 2, .logger = std::make_shared<logger>()});
  const auto t = traced([&] {
    auto x = rt.make_buffer<int>(8, "x");
    rt.submit("breaks", write(x), [](std::span<int>) { throw std::runtime_error("broken"); });
    rt.submit("follows", read_write(x), [](std::span<int>) {});
    rt.submit("heals", write(x), [](std::span<int>) {});
    rt.synchronize();
  });
  EXPECT_EQ(find(t, "breaks").became, trace::outcome::failed);
  EXPECT_EQ(find(t, "follows").became, trace::outcome::skipped);
  EXPECT_EQ(find(t, "heals").became, trace::outcome::done);
}

TEST(trace, has_memory_that_is_taken_and_given_back_and_under_which_preference) {
  cpu::runtime rt({.workers = 1, .deterministic = true});
  const auto kept = rt.make_buffer<int>(16, zeroed, "kept");
  rt.synchronize();
  const auto t = traced([&] {
    for (int i = 0; i < 2; ++i) {
      auto x = rt.make_buffer<int>(1024, "x");
      rt.submit(stream_id{1}, "fill", write(x), [](std::span<int>) {});
    }
    rt.synchronize();
  });
  ASSERT_EQ(t.blocks.size(), 4U);
  EXPECT_TRUE(t.blocks[0].is_taken);
  EXPECT_EQ(t.blocks[0].name, "x");
  EXPECT_EQ(t.blocks[0].bytes, 4096U);
  EXPECT_EQ(t.blocks[0].step, reuse_step::fresh);
  EXPECT_EQ(t.blocks[0].stream, "1");
  EXPECT_FALSE(t.blocks[1].is_taken);
  EXPECT_EQ(t.blocks[1].block, t.blocks[0].block);
  EXPECT_EQ(t.blocks[2].step, reuse_step::ordered);
  ASSERT_EQ(t.runtimes.size(), 1U);
  EXPECT_EQ(t.runtimes[0].live, 64U);
}

TEST(trace, keeps_any_label_and_replaces_what_is_not_text) {
  cpu::runtime rt({.workers = 1});
  const std::string hostile = "a\"b\\c\n\t</script>\x01";
  const auto t = traced([&] {
    auto x = rt.make_buffer<int>(1, "\xff\xc3");
    rt.submit(hostile, write(x), [](std::span<int>) {});
    rt.submit("größe µs", read_write(x), [](std::span<int>) {});
    rt.synchronize();
  });
  ASSERT_EQ(t.ops.size(), 2U);
  EXPECT_EQ(t.ops[0].label, hostile);
  EXPECT_EQ(t.ops[1].label, "größe µs");
  EXPECT_EQ(t.ops[0].uses[0].name, "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(trace, is_of_all_threads_also_of_those_that_are_gone) {
  cpu::runtime rt({.workers = 2});
  const auto t = traced([&] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&rt, i] {
        auto x = rt.make_buffer<int>(1, "x");
        for (int k = 0; k < 100; ++k) {
          rt.submit(stream_id{static_cast<std::uint64_t>(i)}, "step", write(x), [](std::span<int>) {});
        }
      });
    }
    for (std::thread& each : threads) each.join();
    rt.synchronize();
  });
  EXPECT_EQ(t.ops.size(), 400U);
  std::map<std::uint32_t, int> submitters;
  for (const auto& o : t.ops) ++submitters[o.submitter];
  EXPECT_EQ(submitters.size(), 4U);
  EXPECT_TRUE(trace::violations(t).empty());
}

TEST(trace, of_a_full_buffer_has_the_newest_ops_and_says_how_much_is_missing) {
  cpu::runtime rt({.workers = 1});
  auto x = rt.make_buffer<int>(1, zeroed, "x");
  rt.synchronize();
  const auto t = traced(
      [&] {
        for (int i = 0; i < 5'000; ++i) rt.submit("op", read_write(x), [](std::span<int>) {});
        rt.submit("last", read_write(x), [](std::span<int>) {});
        rt.synchronize();
      },
      {.buffer_bytes = 65'536});
  EXPECT_GT(t.dropped, 0U);
  EXPECT_GT(t.incomplete, 0U);
  EXPECT_LT(t.ops.size(), 5'000U);
  EXPECT_GT(t.ops.size(), 100U);
  EXPECT_NO_THROW((void)find(t, "last"));
}

TEST(trace, records_nothing_before_it_begins_and_after_it_ends) {
  cpu::runtime rt({.workers = 1});
  auto x = rt.make_buffer<int>(1, "x");
  rt.submit("before", write(x), [](std::span<int>) {});
  rt.synchronize();
  const auto t = traced([&] {
    rt.submit("inside", read_write(x), [](std::span<int>) {});
    rt.synchronize();
  });
  EXPECT_EQ(t.ops.size(), 1U);
  rt.submit("after", read_write(x), [](std::span<int>) {});
  rt.synchronize();
  const auto again = traced([&] {
    rt.submit("again", read_write(x), [](std::span<int>) {});
    rt.synchronize();
  });
  ASSERT_EQ(again.ops.size(), 1U);
  EXPECT_EQ(again.ops[0].label, "again");
}

TEST(trace, leaves_out_ops_that_are_not_over_and_counts_them) {
  cpu::runtime rt({.workers = 2});
  std::atomic<bool> go{false};
  const temporary file;
  {
    tracing on(file.path());
    auto x = rt.make_buffer<int>(1, "x");
    rt.submit("slow", write(x), [&go](std::span<int>) {
      while (!go) std::this_thread::yield();
    });
    EXPECT_EQ(on.stop().incomplete, 1U);
  }
  go = true;
  rt.synchronize();
  EXPECT_EQ(trace::read_file(file.path().string()).ops.size(), 0U);
}

TEST(trace, of_two_at_a_time_is_refused) {
  const temporary first;
  const temporary second;
  const tracing on(first.path());
  EXPECT_THROW(tracing(second.path()), usage_error);
  EXPECT_FALSE(std::filesystem::exists(second.path()));
}

TEST(trace, is_not_written_by_a_child_of_the_process_that_began_it) {
  const temporary file;
  tracing on(file.path());
  const pid_t child = fork();
  if (child == 0) {
    const bool is_empty = on.stop().ops == 0;
    _exit(is_empty ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  cpu::runtime rt({.workers = 1});
  auto x = rt.make_buffer<int>(1, "x");
  rt.submit("fill", write(x), [](std::span<int>) {});
  rt.synchronize();
  EXPECT_EQ(on.stop().ops, 1U);
  EXPECT_EQ(trace::read_file(file.path().string()).ops.size(), 1U);
}

TEST(trace, that_cannot_be_written_is_refused_at_once) {
  try {
    const tracing on("/nonexistent/folder/trace.json");
    FAIL();
  } catch (const usage_error& e) {
    EXPECT_NE(std::string(e.what()).find("/nonexistent/folder/trace.json"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("No such file"), std::string::npos);
  }
}

TEST(trace, begins_and_ends_while_threads_submit) {
  cpu::runtime rt({.workers = 2});
  std::atomic<bool> stop{false};
  std::atomic<int> steps{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      auto x = rt.make_buffer<int>(4, "x");
      while (!stop) {
        auto y = rt.make_buffer<int>(4, "y");
        rt.submit("step", write(x), write(y), [](std::span<int>, std::span<int>) {});
        rt.wait(x);
        ++steps;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const auto t = traced([&] {
      const int until = steps + 20;
      while (steps < until) std::this_thread::yield();
    });
    EXPECT_FALSE(t.ops.empty());
    EXPECT_TRUE(trace::violations(t).empty());
  }
  stop = true;
  for (std::thread& each : threads) each.join();
}

TEST(trace, is_chrome_trace_events_with_an_arrow_for_each_wait) {
  cpu::runtime rt({.workers = 2, .deterministic = true});
  const temporary file;
  {
    tracing on(file.path());
    auto x = rt.make_buffer<int>(8, "x");
    rt.submit(stream_id{1}, "fill", write(x), [](std::span<int>) {});
    rt.submit(stream_id{2}, "use", read(x), [](std::span<const int>) {});
    rt.synchronize();
  }
  std::ifstream in(file.path());
  const auto all = nlohmann::json::parse(in);
  std::map<std::string, int> kinds;
  double fill_end = 0;
  double arrow_begin = 0;
  for (const auto& e : all["traceEvents"]) {
    ++kinds[e["ph"]];
    EXPECT_TRUE(e.contains("pid"));
    EXPECT_TRUE(e.contains("tid"));
    if (e["name"] == "fill") fill_end = e["ts"].get<double>() + e["dur"].get<double>();
    if (e["ph"] == "s") arrow_begin = e["ts"].get<double>();
  }
  EXPECT_EQ(kinds["s"], 1);
  EXPECT_EQ(kinds["f"], 1);
  EXPECT_GE(kinds["X"], 2);
  EXPECT_LE(arrow_begin, fill_end);
}

// ---- Where the time went.

/// Two streams: 'b' waits for 'a' and then, as there is one worker, for 'c'.
trace::trace example() {
  const char* text = R"({"braid": {"version": 1, "dropped": 0, "incomplete": 0, "timing": "t", "runtimes":
    [{"runtime": 1, "backend": "cpu", "workers": 1, "streams": 2, "width": 2, "placement": "automatic", "live": 0}]},
  "traceEvents": [
  {"ph": "X", "cat": "op", "pid": 1, "tid": 1, "ts": 1, "dur": 10, "name": "a", "args": {"op": 1, "stream": "0",
   "submit": 0, "by": 1, "on": 2, "uses": [{"write": "x", "id": 5, "from": 0, "bytes": 8}], "bytes": 8, "waits": []}},
  {"ph": "X", "cat": "op", "pid": 1, "tid": 1, "ts": 11, "dur": 5, "name": "c", "args": {"op": 2, "stream": "0",
   "submit": 1, "by": 1, "on": 2, "uses": [], "bytes": 0, "waits": []}},
  {"ph": "X", "cat": "op", "pid": 1, "tid": 2, "ts": 16, "dur": 4, "name": "b", "args": {"op": 1, "stream": "7",
   "submit": 2, "by": 1, "on": 2, "uses": [{"read": "x", "id": 5, "from": 0, "bytes": 8}], "bytes": 8,
   "waits": [{"stream": "0", "tid": 1, "op": 1, "reached": 1, "hazard": "RAW", "resource": "x"}]}}
  ]})";
  std::istringstream in(text);
  return trace::read(in, "example");
}

TEST(trace_account, tells_running_waiting_for_ops_for_a_worker_and_idling_apart) {
  const auto t = example();
  const auto all = trace::account_streams(t);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(t.makespan(), 20'000);
  EXPECT_EQ(all[0].busy, 15'000);
  EXPECT_EQ(all[0].starved, 1'000);  // from the submit to the start
  EXPECT_EQ(all[0].idle, 4'000);
  EXPECT_EQ(all[1].idle, 2'000);
  EXPECT_EQ(all[1].waiting, 9'000);  // from 2 to 11
  EXPECT_EQ(all[1].starved, 5'000);  // from 11 to 16
  EXPECT_EQ(all[1].busy, 4'000);
}

// The first op holds all others back until they are submitted: so what giving them costs is on no path but
// its own.
TEST(trace_account, adds_up_to_the_makespan_for_a_real_program) {
  cpu::runtime rt({.workers = 2});
  std::vector<buffer<int>> all;
  bindings everything;
  for (int i = 0; i < 8; ++i) {
    all.push_back(rt.make_buffer<int>(4, zeroed, "cell"));
    everything.add(read_write(all.back()));
  }
  rt.synchronize();
  std::atomic<bool> open{false};
  const auto t = traced([&] {
    rt.submit("gate", everything, [&](std::span<const view>) { open.wait(false); });
    for (int step = 0; step < 30; ++step) {
      for (int i = 0; i < 8; ++i) {
        rt.submit("step", read(all[static_cast<std::size_t>((i + 1) % 8)]),
                  read_write(all[static_cast<std::size_t>(i)]),
                  [](std::span<const int>, std::span<int>) { spin(std::chrono::microseconds(20)); });
      }
    }
    open.store(true);
    open.notify_all();
    rt.synchronize();
  });
  EXPECT_TRUE(trace::violations(t).empty());
  for (const auto& a : trace::account_streams(t)) {
    EXPECT_EQ(a.busy + a.waiting + a.starved + a.idle, t.makespan());
  }
  const auto path = trace::find_critical_path(t);
  EXPECT_GT(static_cast<double>(path.ops + path.worker), 0.9 * static_cast<double>(t.makespan()));
  EXPECT_EQ(path.ops + path.worker + path.host, t.makespan());
  for (std::size_t i = 1; i < path.steps.size(); ++i) EXPECT_EQ(path.steps[i - 1].end, path.steps[i].begin);
}

TEST(trace_path, goes_through_the_op_that_was_waited_for_and_the_wait_for_a_worker) {
  const auto t = example();
  const auto path = trace::find_critical_path(t);
  std::vector<std::string> steps;
  for (const auto& s : path.steps) {
    steps.push_back(std::string(s.what == trace::path_step::kind::op ? "" : "waits ") + t.ops[s.op].label);
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"waits a", "a", "waits b", "b"}));
  EXPECT_EQ(path.ops, 14'000);
  EXPECT_EQ(path.worker, 6'000);
}

TEST(trace_bounds, are_those_of_the_dependencies_and_of_the_workers) {
  const auto b = trace::find_bounds(example());
  EXPECT_EQ(b.work, 19'000);
  EXPECT_EQ(b.workers, 19'000);
  EXPECT_EQ(b.dependencies, 14'000);
  EXPECT_EQ(b.streams, 15'000);
  EXPECT_EQ(b.best(), 19'000);
}

TEST(trace_explain, says_it_in_words_and_in_numbers) {
  const auto t = example();
  const auto e = trace::explain(t);
  const std::string text = trace::to_text(t, e);
  EXPECT_NE(text.find("stream 7 waited 9.00 µs for 'a' on stream 0: it reads 'x' that it wrote"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("3 ops on 2 streams (cpu, 1 worker) took 20.0 µs"), std::string::npos) << text;
  const auto json = trace::to_json(t, e);
  EXPECT_EQ(json["longest_waits"][0]["waited_us"], 9.0);
  EXPECT_EQ(json["critical_path"]["explained"], 1.0);
}

TEST(trace_explain, finds_an_op_that_starts_too_early) {
  auto t = example();
  t.ops[2].start = 9'000;
  const auto found = trace::violations(t);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].find("'b' (op 1 of stream 7) starts 2.00 µs before 'a' is over"), std::string::npos)
      << found[0];
}

TEST(trace_graph, has_a_node_for_each_op_and_an_edge_for_each_wait) {
  std::ostringstream out;
  trace::write_graph(out, example());
  EXPECT_NE(out.str().find("label=\"RAW x\""), std::string::npos);
  EXPECT_NE(out.str().find("label=\"a (10.0 µs)\""), std::string::npos);
}

// ---- Files that are no traces.

std::string error_of(const std::string& text) {
  std::istringstream in(text);
  try {
    (void)trace::read(in, "file");
  } catch (const trace::trace_error& e) {
    return e.what();
  }
  return "no error";
}

TEST(trace_file, that_is_broken_is_refused_with_the_place_and_the_field) {
  const std::string head =
      R"({"braid": {"version": 1, "dropped": 0, "incomplete": 0, "timing": "t", "runtimes": []}, "traceEvents": [)";
  EXPECT_NE(error_of("").find("file: "), std::string::npos);
  EXPECT_NE(error_of("{").find("line 1, column 2"), std::string::npos) << error_of("{");
  EXPECT_NE(error_of("[]").find("is not a trace of braid's"), std::string::npos);
  EXPECT_NE(error_of("{\"traceEvents\": []}").find("is not a trace of braid's"), std::string::npos);
  EXPECT_NE(error_of(R"({"braid": 3, "traceEvents": []})").find("braid: is not an object"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"braid": {"version": 2}, "traceEvents": []})").find("braid.version: is not 1"),
            std::string::npos);
  EXPECT_NE(error_of(head + R"({"ph": "X", "cat": "op"}]})").find("event 1: pid: is missing"),
            std::string::npos);
  EXPECT_NE(
      error_of(head + R"({"ph": "X", "cat": "op", "pid": -1}]})").find("event 1: pid: is not a whole number"),
      std::string::npos);
  EXPECT_NE(
      error_of(head + R"({"ph": "M", "name": "x"}, {"ph": "X", "cat": "op", "pid": 1, "tid": 1, "name": "n",
                               "ts": 1e300, "dur": 0}]})")
          .find("event 2: ts: is not a time"),
      std::string::npos);
  EXPECT_NE(error_of(std::string(100, '[')).find("nested"), std::string::npos);
  EXPECT_EQ(error_of(head + "]}"), "no error");
}

TEST(trace_file, cut_at_any_place_is_refused) {
  const temporary file;
  {
    cpu::runtime rt({.workers = 1});
    tracing on(file.path());
    auto x = rt.make_buffer<int>(8, "x");
    rt.submit("fill", write(x), [](std::span<int>) {});
    rt.synchronize();
    on.stop();
  }
  std::ifstream in(file.path());
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_NE(error_of(text.substr(0, length)), "no error") << length;
  }
  EXPECT_EQ(error_of(text), "no error");
}

}  // namespace
