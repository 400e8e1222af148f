// The workloads of `braid run`, small, on the CPU; and the files of task graphs.

#include "workloads/workload.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "braid/error.hpp"
#include "workloads/taskgraph.hpp"

namespace braid::workloads {
namespace {

/// A file that is gone at the end of the test.
class temporary_file {
 public:
  explicit temporary_file(const std::string& text) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("braid_") + test->test_suite_name() + "_" + test->name() + ".json";
    std::ranges::replace(name, '/', '_');
    path_ = std::filesystem::temp_directory_path() / name;
    std::ofstream(path_) << text;
  }
  ~temporary_file() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// Each access and each kernel, whole and in part, with and without a stream.
constexpr const char* a_graph = R"({
  "version": 1,
  "resources": [{"name": "x", "bytes": 4096}, {"name": "y", "bytes": 256}, {"name": "n", "bytes": 16}],
  "ops": [
    {"label": "fill", "writes": ["x"], "kernel": "fill"},
    {"label": "left", "read_writes": [{"name": "x", "bytes": 2048}], "duration_us": 20, "stream": 1},
    {"label": "right", "read_writes": [{"name": "x", "offset": 2048}], "duration_us": 20.5, "stream": 2},
    {"label": "count left", "reads": [{"name": "x", "offset": 8, "bytes": 16}], "accumulates": ["n"]},
    {"label": "count right", "reads": [{"name": "x", "offset": 4088}], "accumulates": [{"name": "n", "tag": 0}]},
    {"label": "copy", "reads": ["x", "n"], "writes": ["y"], "kernel": "copy"},
    {"label": "sum", "reads": ["x"], "read_writes": ["n"], "kernel": "sum", "stream": 70},
    {"label": "nothing"}
  ],
  "repeat": 20
})";

std::uint64_t small_size(const std::string& workload) {
  return workload == "cholesky" ? 300 : workload == "stencil" ? 300 : 20;
}

struct variant {
  std::string workload;
  unsigned workers;
  std::optional<braid::placement> placement;
};
std::ostream& operator<<(std::ostream& to, const variant& v) {
  return to << v.workload << ", " << v.workers << " workers, "
            << (v.placement ? to_string(*v.placement) : "its own placement");
}
std::vector<variant> variants() {
  std::vector<variant> all;
  for (const description& each : list()) {
    for (const unsigned workers : {1U, 2U}) {
      for (const std::optional<braid::placement> p :
           {std::optional<braid::placement>{}, std::optional{placement::automatic},
            std::optional{placement::per_thread}, std::optional{placement::single}}) {
        all.push_back({each.name, workers, p});
      }
    }
  }
  return all;
}

class workload : public testing::TestWithParam<variant> {};

options options_of(const variant& v, const temporary_file& file) {
  options with;
  with.backend = "cpu";
  with.workers = v.workers;
  with.placement = v.placement;
  with.size = small_size(v.workload);
  if (v.workload == "taskgraph") with.file = file.path();
  return with;
}

TEST_P(workload, gives_the_right_result) {
  const temporary_file file(a_graph);
  const result of = run(GetParam().workload, options_of(GetParam(), file), {});
  EXPECT_TRUE(of.verified) << of.check;
  EXPECT_EQ(of.workload, GetParam().workload);
  EXPECT_EQ(of.backend, "cpu");
  EXPECT_EQ(of.workers, GetParam().workers);
  EXPECT_GT(of.streams, 0U);
  EXPECT_GT(of.seconds, 0.0);
  EXPECT_GT(of.work, 0.0);
  EXPECT_GT(of.submit_seconds, 0.0);
  EXPECT_GT(of.after.streams.ops, of.before.streams.ops);
  EXPECT_EQ(of.after.failed, 0U);
  for (const std::string* text : {&of.unit, &of.problem, &of.check, &of.placement, &of.device}) {
    EXPECT_FALSE(text->empty());
  }
  if (GetParam().placement) {
    EXPECT_EQ(of.placement, to_string(*GetParam().placement));
  }
}

INSTANTIATE_TEST_SUITE_P(each, workload, testing::ValuesIn(variants()), [](const auto& of) {
  return of.param.workload + "_" + std::to_string(of.param.workers) + "_" +
         (of.param.placement ? to_string(*of.param.placement) : "default");
});

TEST(workloads, a_wrong_result_is_told) {
  const temporary_file file(a_graph);
  for (const description& each : list()) {
    hooks call;
    std::size_t bytes = 0;
    call.tamper = [&bytes](std::span<std::byte> with) {
      bytes += with.size();
      with[with.size() - 2] ^= std::byte{0x10};  // of a double, a bit of its exponent
    };
    const result of = run(each.name, options_of({each.name, 2, {}}, file), call);
    EXPECT_GT(bytes, 0U) << each.name;
    EXPECT_FALSE(of.verified) << each.name << ": " << of.check;
  }
}

TEST(workloads, the_hooks_are_called_in_order) {
  const temporary_file file(a_graph);
  for (const description& each : list()) {
    std::string calls;
    double share = -1.0;
    hooks call;
    call.begin = [&] { calls += 'b'; };
    call.end = [&] { calls += 'e'; };
    call.progress = [&](double now) {
      EXPECT_GE(now, share) << each.name;
      EXPECT_LE(now, 1.0) << each.name;
      share = now;
    };
    (void)run(each.name, options_of({each.name, 2, {}}, file), call);
    EXPECT_EQ(calls, "be") << each.name;
    EXPECT_EQ(share, 1.0) << each.name;
  }
}

/// What the resource holds after these ops of a graph, one after the other.
std::vector<std::uint64_t> after(const graph& g, const std::vector<std::uint64_t>& order) {
  std::vector<std::uint64_t> words(g.resources[0].words);
  for (const std::uint64_t i : order) {
    const graph::op& op = g.ops[i];
    execute(g, op, seed_of(op, i, 0, 1),
            [&](std::uint64_t a) { return words.data() + g.accesses[op.first_access + a].first; });
  }
  return words;
}

TEST(workloads, a_wrong_order_of_a_graph_is_seen) {
  const graph g = parse_taskgraph(R"({
    "version": 1,
    "resources": [{"name": "x", "bytes": 64}],
    "ops": [
      {"label": "write", "writes": ["x"]},
      {"label": "change", "read_writes": [{"name": "x", "offset": 8, "bytes": 8}]},
      {"label": "add", "accumulates": ["x"]},
      {"label": "add more", "accumulates": ["x"]},
      {"label": "move", "reads": [{"name": "x", "offset": 8, "bytes": 8}], "writes": [{"name": "x", "offset": 32}]}
    ]})",
                                  "g.json");
  const auto right = after(g, {0, 1, 2, 3, 4});
  EXPECT_EQ(after(g, {0, 1, 3, 2, 4}), right);  // these two have no order
  EXPECT_NE(after(g, {1, 0, 2, 3, 4}), right);
  EXPECT_NE(after(g, {0, 2, 1, 3, 4}), right);
  EXPECT_NE(after(g, {0, 1, 2, 4, 3}), right);
}

TEST(workloads, sizes_need_not_fit_the_tiles) {
  for (const std::uint64_t size : {1U, 2U, 63U, 65U, 129U}) {
    for (const char* name : {"cholesky", "stencil"}) {
      const result of = run(name, {.backend = "cpu", .size = size}, {});
      EXPECT_TRUE(of.verified) << name << ' ' << size << ": " << of.check;
    }
  }
}

TEST(workloads, another_seed_is_another_problem) {
  std::vector<std::string> checks;
  for (const std::uint64_t seed : {1U, 2U}) {
    checks.push_back(run("pipeline", {.backend = "cpu", .size = 3, .seed = seed}, {}).check);
  }
  EXPECT_NE(checks[0], checks[1]);
}

TEST(workloads, the_file_of_a_graph_may_say_how_often_it_runs) {
  const temporary_file file(a_graph);
  const result as_it_says = run("taskgraph", {.backend = "cpu", .file = file.path()}, {});
  EXPECT_EQ(as_it_says.work, 8 * 20);
  EXPECT_EQ(as_it_says.placement, "the streams of the file, else automatic");
  const result three = run("taskgraph", {.backend = "cpu", .size = 3, .file = file.path()}, {});
  EXPECT_EQ(three.work, 8 * 3);
  EXPECT_TRUE(three.verified) << three.check;
}

void expect_refused(const std::string& name, const options& with, const std::string& text) {
  try {
    (void)run(name, with, {});
    ADD_FAILURE() << "not refused: " << text;
  } catch (const usage_error& e) {
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
  }
}

TEST(workloads, options_that_cannot_be_are_refused) {
  expect_refused("cholesk", {}, "there is no workload 'cholesk'; there are cholesky, stencil");
  expect_refused("stencil", {.backend = "vulkan"}, "there is no backend 'vulkan'; there are auto, cpu, cuda");
  expect_refused("stencil", {.backend = "cpu", .size = 0}, "--size 0: has to be from 1 to");
  expect_refused("stencil", {.backend = "cpu", .size = ~std::uint64_t{0}}, "has to be from 1 to");
  expect_refused("stencil", {.backend = "cpu", .workers = 0}, "--workers 0: has to be at least 1");
  expect_refused("stencil", {.backend = "cpu", .streams = 0}, "stream");
  expect_refused("stencil", {.backend = "cpu", .file = "x.json"}, "takes no file");
  expect_refused("taskgraph", {.backend = "cpu"}, "needs a file");
  expect_refused("taskgraph", {.backend = "cpu", .file = "/nowhere/x.json"}, "/nowhere/x.json: No such file");
  expect_refused("taskgraph", {.backend = "cpu", .file = "/"}, "/: is a directory");
}

// ---- Files of graphs.

TEST(taskgraph_file, a_graph_is_read) {
  const graph g = parse_taskgraph(a_graph, "g.json");
  ASSERT_EQ(g.resources.size(), 3U);
  ASSERT_EQ(g.ops.size(), 8U);
  EXPECT_EQ(g.repeat, 20U);
  EXPECT_EQ(g.resources[0].words, 512U);
  EXPECT_EQ(g.resources[0].cuts, (std::vector<std::uint64_t>{0, 1, 3, 256, 511}));
  EXPECT_EQ(g.ops[2].nanoseconds, 20'500U);
  EXPECT_EQ(g.ops[2].stream, 2U);
  EXPECT_EQ(g.ops[6].kernel, graph_kernel::sum);
  const graph::access& left = g.accesses[g.ops[1].first_access];
  EXPECT_EQ(left.kind, access::read_write);
  EXPECT_EQ(left.words, 256U);
  EXPECT_EQ(left.cuts, 3U);
  EXPECT_EQ(g.ops[7].accesses, 0U);
}

/// The error begins with this.
void expect_error(const std::string& text, const std::string& error) {
  try {
    (void)parse_taskgraph(text, "g.json");
    ADD_FAILURE() << "accepted: " << text;
  } catch (const usage_error& e) {
    EXPECT_EQ(e.kind(), misuse::bad_settings);
    EXPECT_EQ(std::string(e.what()).substr(0, error.size()), error) << "of " << text;
  }
}

/// A graph with these ops, the first in line 5.
std::string with_ops(const std::string& ops) {
  return "{\"version\": 1,\n\"resources\": [{\"name\": \"in\", \"bytes\": 64},\n{\"name\": \"out\", "
         "\"bytes\": 64}],\n\"ops\": "
         "[\n" +
         ops + "\n]}";
}

TEST(taskgraph_file, what_is_not_json_is_told_with_its_line) {
  expect_error("", "g.json:1: syntax error");
  expect_error("{\"version\": 1,\n\n  oops}", "g.json:3: syntax error");
  expect_error("{\"version\": 1}\n{", "g.json:2: syntax error");
  expect_error("{\"version\": \xff}", "g.json:1: syntax error");
  expect_error("{\"version\":\n 1e999}", "g.json:2: number overflow");
  expect_error("{\"version\": NaN}", "g.json:1: syntax error");
  expect_error("{\"a\":\n" + std::string(40, '[') + std::string(40, ']') + "}",
               "g.json:2: lists and objects in more than 16 levels");
  expect_error(std::string(1'000'000, '['), "g.json:1: lists and objects in more than 16 levels");
}

TEST(taskgraph_file, a_number_at_the_end_of_a_line_belongs_to_that_line) {
  expect_error("{\n\"version\":\n7\n\n}", "g.json:3: version: 7 is unknown; this is version 1");
  expect_error("{\n\"version\": 1,\n\"repeat\": 0\n, \"ops\": [{\"label\": \"a\"}]}",
               "g.json:3: repeat: has to be from 1 to");
}

TEST(taskgraph_file, fields_of_the_graph) {
  expect_error("[]", "g.json:1: has to be an object, and is a list");
  expect_error("{\n}", "g.json:1: version: missing; this is version 1");
  expect_error("{\"version\": 1}", "g.json:1: ops: missing; a list of ops");
  expect_error("{\"version\": 1, \"ops\": []}", "g.json:1: ops: has to have at least one op");
  expect_error("{\"version\": 1, \"ops\": 3}", "g.json:1: ops: has to be a list, and is a whole number");
  expect_error("{\"version\": 1,\n\"op\": []}", "g.json:2: unknown field 'op'; did you mean 'ops'?");
  expect_error("{\"version\": 1,\n\"version\": 1}", "g.json:2: version: is given twice, first in line 1");
  const std::string ops = "\"ops\": [{\"label\": \"a\", \"duration_us\": 1000000}, {\"label\": \"b\"}]}";
  expect_error("{\"version\": 1, \"repeat\": -1,\n" + ops,
               "g.json:1: repeat: has to be a whole number from 1 to 100000000, and is -1");
  expect_error("{\"version\": 1, \"repeat\": 1.5,\n" + ops, "g.json:1: repeat: has to be a whole number");
  expect_error("{\"version\": 1, \"repeat\": 100000000,\n" + ops,
               "g.json:1: repeat: 100000000 times 2 ops are more than");
  expect_error("{\"version\": 1, \"repeat\": 3601,\n" + ops,
               "g.json:1: repeat: the durations of all ops, 3601 times, are more than 3600 s");
}

TEST(taskgraph_file, fields_of_resources) {
  const auto with = [](const std::string& resources) {
    return "{\"version\": 1, \"ops\": [{\"label\": \"a\"}], \"resources\": [\n" + resources + "]}";
  };
  expect_error(with("3"), "g.json:2: resources[0]: has to be an object, and is a whole number");
  expect_error(with("{\"bytes\": 8}"), "g.json:2: resources[0].name: missing");
  expect_error(with("{\"name\": \"x\"}"), "g.json:2: resources[0].bytes: missing");
  expect_error(with("{\"name\": \"\", \"bytes\": 8}"), "g.json:2: resources[0].name: is empty");
  expect_error(with("{\"name\": \"" + std::string(300, 'x') + "\", \"bytes\": 8}"),
               "g.json:2: resources[0].name: is longer than 200 bytes");
  expect_error(with("{\"name\": null, \"bytes\": 8}"),
               "g.json:2: resources[0].name: has to be a text, and is null");
  expect_error(with("{\"name\": \"x\", \"bytes\": 8},\n{\"name\": \"x\", \"bytes\": 8}"),
               "g.json:3: resources[1].name: 'x' is the name of resources[0] already");
  expect_error(with("{\"name\": \"x\", \"bytes\": 0}"),
               "g.json:2: resources[0].bytes: has to be from 8 to 1073741824, and is 0");
  expect_error(with("{\"name\": \"x\", \"bytes\": -8}"),
               "g.json:2: resources[0].bytes: has to be a whole number from 8 to");
  expect_error(with("{\"name\": \"x\", \"bytes\": 12}"),
               "g.json:2: resources[0].bytes: has to be a multiple of 8, and is 12");
  expect_error(with("{\"name\": \"x\", \"bytes\": 18446744073709551615}"),
               "g.json:2: resources[0].bytes: has to be from 8 to");
  expect_error(with("{\"name\": \"x\", \"bytes\": 1073741824},\n{\"name\": \"y\", \"bytes\": 8}"),
               "g.json:3: resources[1].bytes: all resources together are larger than 1073741824 bytes");
  expect_error(with("{\"name\": \"x\", \"bytes\": 8, \"size\": 8}"),
               "g.json:2: resources[0]: unknown field 'size'");
}

TEST(taskgraph_file, fields_of_ops) {
  expect_error(with_ops("{}"), "g.json:5: ops[0].label: missing");
  expect_error(with_ops("{\"label\": \"a\"},\n{\"label\": 7}"),
               "g.json:6: ops[1].label: has to be a text, and is a whole number");
  expect_error(with_ops("{\"label\": \"a\", \"reed\": []}"),
               "g.json:5: ops[0]: unknown field 'reed'; did you mean 'reads'?");
  expect_error(with_ops("{\"label\": \"a\", \"duration_us\": -1}"),
               "g.json:5: ops[0].duration_us: has to be from 0 to 3600000000, and is -1");
  expect_error(with_ops("{\"label\": \"a\", \"duration_us\": 1e300}"),
               "g.json:5: ops[0].duration_us: has to be from 0 to");
  expect_error(with_ops("{\"label\": \"a\", \"duration_us\": \"1\"}"),
               "g.json:5: ops[0].duration_us: has to be a number, and is a text");
  expect_error(with_ops("{\"label\": \"a\", \"kernel\": \"fil\"}"),
               "g.json:5: ops[0].kernel: there is no kernel 'fil'; there are fill, copy, sum");
  expect_error(with_ops("{\"label\": \"a\", \"kernel\": \"fill\"}"),
               "g.json:5: ops[0].kernel: fill needs something in writes");
  expect_error(with_ops("{\"label\": \"a\", \"writes\": [\"out\"], \"kernel\": \"copy\"}"),
               "g.json:5: ops[0].kernel: copy needs something in reads");
  expect_error(with_ops("{\"label\": \"a\", \"writes\": [\"out\"], \"kernel\": \"sum\"}"),
               "g.json:5: ops[0].kernel: sum needs something in reads");
  expect_error(with_ops("{\"label\": \"a\", \"duration_us\": 1,\n\"kernel\": \"fill\"}"),
               "g.json:6: ops[0].kernel: an op has a duration_us or a kernel, not both");
  expect_error(with_ops("{\"label\": \"a\", \"stream\": -1}"),
               "g.json:5: ops[0].stream: has to be a whole number from 0 to 4294967295, and is -1");
  expect_error(with_ops("{\"label\": \"a\", \"stream\": true}"),
               "g.json:5: ops[0].stream: has to be a whole number, and is true or false");
}

TEST(taskgraph_file, accesses_of_ops) {
  expect_error(with_ops("{\"label\": \"a\", \"reads\": \"in\"}"),
               "g.json:5: ops[0].reads: has to be a list, and is a text");
  expect_error(with_ops("{\"label\": \"a\", \"reads\": [\n\"int\"]}"),
               "g.json:6: ops[0].reads[0]: there is no resource 'int'; did you mean 'in'?");
  expect_error(with_ops("{\"label\": \"a\", \"reads\": [\"in\", \"farther\"]}"),
               "g.json:5: ops[0].reads[1]: there is no resource 'farther'");
  expect_error(with_ops("{\"label\": \"a\", \"writes\": [[]]}"),
               "g.json:5: ops[0].writes[0]: has to be a name or an object, and is a list");
  expect_error(with_ops("{\"label\": \"a\", \"writes\": [{}]}"), "g.json:5: ops[0].writes[0].name: missing");
  expect_error(with_ops("{\"label\": \"a\", \"writes\": [{\"name\": \"z\"}]}"),
               "g.json:5: ops[0].writes[0].name: there is no resource 'z'");
  expect_error(with_ops("{\"label\": \"a\", \"writes\": [{\"name\": \"in\", \"offset\": 4}]}"),
               "g.json:5: ops[0].writes[0].offset: has to be a multiple of 8, and is 4");
  expect_error(with_ops("{\"label\": \"a\", \"writes\": [{\"name\": \"in\", \"offset\": 64}]}"),
               "g.json:5: ops[0].writes[0].offset: has to be from 0 to 56, and is 64");
  expect_error(
      with_ops("{\"label\": \"a\", \"writes\": [{\"name\": \"in\", \"offset\": 8,\n\"bytes\": 64}]}"),
      "g.json:6: ops[0].writes[0].bytes: has to be from 8 to 56, and is 64");
  expect_error(with_ops("{\"label\": \"a\", \"reads\": [{\"name\": \"in\", \"tag\": 1}]}"),
               "g.json:5: ops[0].reads[0]: unknown field 'tag'");
  expect_error(with_ops("{\"label\": \"a\", \"reads\": [\"in\"], \"writes\": [\"in\"]}"),
               "g.json:5: ops[0]: names bytes of 'in' from 0 on twice");
  expect_error(with_ops("{\"label\": \"a\", \"reads\": [{\"name\": \"in\", \"bytes\": 16}], \"accumulates\": "
                        "[{\"name\": \"in\", \"offset\": 8}]}"),
               "g.json:5: ops[0]: names bytes of 'in' from 8 on twice");
  expect_error(with_ops("{\"label\": \"a\", \"accumulates\": [\"in\", {\"name\": \"in\", \"tag\": 2}]}"),
               "g.json:5: ops[0]: names bytes of 'in' from 0 on twice");
  // What has no order among itself is fine.
  EXPECT_EQ(
      parse_taskgraph(
          with_ops("{\"label\": \"a\", \"reads\": [\"in\", \"in\"], \"accumulates\": [\"out\", \"out\"]}"),
          "g.json")
          .accesses.size(),
      4U);
}

TEST(taskgraph_file, limits_hold) {
  graph_limits limits;
  limits.ops = 1;
  limits.resources = 2;
  const std::string two = with_ops("{\"label\": \"a\"}, {\"label\": \"b\"}");
  EXPECT_THROW((void)parse_taskgraph(two, "g.json", limits), usage_error);
  limits.ops = 2;
  EXPECT_EQ(parse_taskgraph(two, "g.json", limits).ops.size(), 2U);
  limits.resources = 1;
  EXPECT_THROW((void)parse_taskgraph(two, "g.json", limits), usage_error);
  limits.resources = 2;
  limits.text = 10;
  EXPECT_THROW((void)parse_taskgraph(two, "g.json", limits), usage_error);
  graph_limits few;
  few.accesses_of_op = 1;
  few.cuts = 1;
  EXPECT_THROW(
      (void)parse_taskgraph(with_ops("{\"label\": \"a\", \"reads\": [\"in\", \"out\"]}"), "g.json", few),
      usage_error);
  few.accesses_of_op = 2;
  EXPECT_THROW(
      (void)parse_taskgraph(with_ops("{\"label\": \"a\", \"reads\": [\"in\", \"out\"]}"), "g.json", few),
      usage_error);
}

TEST(taskgraph_file, no_beginning_of_a_graph_is_a_graph) {
  const std::string whole = a_graph;
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_THROW((void)parse_taskgraph(whole.substr(0, n), "g.json"), usage_error) << n;
  }
}

}  // namespace
}  // namespace braid::workloads
