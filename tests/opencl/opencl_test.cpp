// What only OpenCL has: its devices, views, programs, objects of the program's own, and calls that fail. With
// the layer of this folder in between, and, by PoCL, two devices.

#include "braid/opencl.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <sstream>
#include <thread>

#include "braid/trace.hpp"
#include "layer.hpp"
#include "trace/model.hpp"

namespace braid {
namespace {

using opencl::buffer_view;
using opencl::part;
using queue = cl::CommandQueue;

/// The layer of this process.
struct layer {
  layer() {
    const char* path = std::getenv("OPENCL_LAYERS");
    (void)opencl::devices();  // the loader opens the layer
    void* opened = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
    if (opened == nullptr) throw std::runtime_error("OPENCL_LAYERS does not name the layer of the tests");
    alive = reinterpret_cast<braid_layer_alive_function*>(dlsym(opened, "braid_layer_alive"));
    calls = reinterpret_cast<braid_layer_calls_function*>(dlsym(opened, "braid_layer_calls"));
    fail = reinterpret_cast<braid_layer_fail_function*>(dlsym(opened, "braid_layer_fail"));
    end_with = reinterpret_cast<braid_layer_end_with_function*>(dlsym(opened, "braid_layer_end_with"));
  }
  braid_layer_alive_function* alive = nullptr;
  braid_layer_calls_function* calls = nullptr;
  braid_layer_fail_function* fail = nullptr;
  braid_layer_end_with_function* end_with = nullptr;
};

class opencl_backend : public testing::Test {
 protected:
  void SetUp() override {
    try {
      between.emplace();
    } catch (const usage_error& e) {
      GTEST_SKIP() << e.what();
    }
  }
  void TearDown() override {
    if (!between) return;
    between->fail(nullptr, 0, 0, 0);
    between->end_with(0);
    const braid_layer_objects left = between->alive();
    EXPECT_EQ(left.contexts, 0U);
    EXPECT_EQ(left.queues, 0U);
    EXPECT_EQ(left.buffers, 0U);
    EXPECT_EQ(left.events, 0U);
    EXPECT_EQ(left.programs, 0U);
    EXPECT_EQ(left.kernels, 0U);
  }
  static runtime_options options() {
    runtime_options o;
    o.streams = 8;
    o.logger = std::make_shared<logger>();
    return o;
  }
  std::optional<layer> between;
};

const opencl::program& kernels() {
  static const opencl::program all(
      "kernel void increment(global int* x) { x[get_global_id(0)]++; }\n"
      "kernel void increment_from(global int* x, ulong first) { x[first + get_global_id(0)]++; }\n"
      "kernel void sum(global int* to, ulong at, global const int* x, ulong first) {\n"
      "  to[at + get_global_id(0)] += x[first + get_global_id(0)];\n"
      "}\n");
  return all;
}

void increment(queue& on, const cl::Buffer& x, std::size_t n) {
  cl::Kernel& kernel = kernels().kernel(on, "increment");
  kernel.setArg(0, x);
  on.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(n));
}
constexpr auto increment_all = [](queue& on, const buffer_view<int>& x) { increment(on, x, x.size()); };

template <class Call>
void expect_misuse(misuse kind, std::string_view named, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const usage_error& e) {
    EXPECT_EQ(static_cast<int>(e.kind()), static_cast<int>(kind)) << e.what();
    EXPECT_NE(std::string_view(e.what()).find(named), std::string_view::npos) << e.what();
  }
}

// ---- Devices.

TEST_F(opencl_backend, a_device_is_chosen_by_number_name_platform_kind_or_version) {
  const auto all = opencl::devices();
  ASSERT_GE(all.size(), 2U) << "POCL_DEVICES makes two";
  for (const auto& each : all) {
    EXPECT_EQ(opencl::device_for(std::to_string(each.ordinal)).ordinal, each.ordinal);
    EXPECT_GT(each.memory, 0U);
    EXPECT_GT(each.compute_units, 0U);
    EXPECT_FALSE(each.version.empty());
  }
  EXPECT_EQ(opencl::device_for("PORTABLE computing").ordinal, 0);
  EXPECT_EQ(opencl::device_for(all[1].name).name, all[1].name);
  EXPECT_EQ(opencl::device_for("cpu").kind, "CPU");
  EXPECT_EQ(opencl::device_for("PoCL").ordinal, 0);  // its platform's name is another
  expect_misuse(misuse::no_device, all[0].name, [] { (void)opencl::device_for("no such thing"); });
  expect_misuse(misuse::no_device, "99", [] { (void)opencl::device_for("99"); });
  auto o = options();
  o.device = "1";
  opencl::runtime rt(o);
  EXPECT_EQ(rt.backend().info().ordinal, 1);
  o = options();
  o.devices = {0, 1};
  expect_misuse(misuse::no_device, "one device", [&] { opencl::runtime both(o); });
}

TEST_F(opencl_backend, runtimes_on_two_devices_copy_through_the_host_in_order) {
  auto o = options();
  o.device = "0";
  opencl::runtime here(o);
  o.device = "1";
  opencl::runtime there(o);
  EXPECT_FALSE(here.backend().shares_memory_with(there.backend()));
  auto x = here.make_buffer<int>(1000, zeroed, "x");
  auto y = there.make_buffer<int>(1000, zeroed, "y");
  cl::UserEvent opened(here.backend().context());
  here.submit("hold", read_write(x), [&](queue& on, const buffer_view<int>&) {
    const std::vector<cl::Event> behind{opened};
    on.enqueueBarrierWithWaitList(&behind);
  });
  for (int i = 0; i < 20; ++i) {
    here.submit("increment", read_write(x), increment_all);
    there.copy(y, x);
    there.submit("increment", read_write(y), increment_all);
    here.copy(x, y);
  }
  opened.setStatus(CL_COMPLETE);
  EXPECT_EQ(here.read(x).get(), std::vector<int>(1000, 40));
  there.copy(y.slice(3, 0), x.slice(5, 0));
  EXPECT_EQ(there.read(y).get(), std::vector<int>(1000, 40));
  // What was poisoned there is poisoned here, by the op that did it.
  here.submit("culprit", write(x),
              [](queue&, const buffer_view<int>&) { throw std::runtime_error("broken"); });
  there.copy(y, x);
  try {
    (void)there.read(y).get();
    ADD_FAILURE();
  } catch (const op_error& e) {
    EXPECT_EQ(e.label(), "culprit");
  }
}

TEST_F(opencl_backend, runtimes_on_one_device_share_its_context) {
  opencl::runtime a(options());
  opencl::runtime b(options());
  EXPECT_TRUE(a.backend().shares_memory_with(b.backend()));
  auto x = a.make_buffer<int>(100, zeroed);
  auto y = b.make_buffer<int>(100);
  a.submit("increment", read_write(x), increment_all);
  b.copy(y, x);
  EXPECT_EQ(b.read(y).get(), std::vector<int>(100, 1));
  a.submit("increment", read_write(x), increment_all);
  EXPECT_EQ(b.read(y).get(), std::vector<int>(100, 1));
  EXPECT_EQ(between->alive().contexts, 1U);
}

TEST_F(opencl_backend, runtimes_on_one_device_take_and_give_memory_back_at_the_same_time) {
  const auto work = [](int value) {
    opencl::runtime rt(options());
    for (int i = 0; i < 300; ++i) {
      auto x = rt.make_buffer<int>(1 << 16);
      rt.fill(x, value);
      rt.submit("increment", read_write(x), increment_all);
      EXPECT_EQ(rt.read(x.slice(1000, 1)).get(), std::vector<int>{value + 1});
      x = {};
      (void)rt.trim();
    }
  };
  std::thread other([&] { work(1); });
  work(100);
  other.join();
}

// ---- Views.

TEST_F(opencl_backend, a_view_is_a_buffer_of_just_the_slice) {
  opencl::runtime rt(options());
  const std::uint64_t step = rt.backend().info().slice_alignment / sizeof(int);
  auto x = rt.make_buffer<int>(4 * step, zeroed, "x");
  rt.submit("look", read_write(x.slice(step, 2 * step)), [&](queue& on, const buffer_view<int>& part) {
    EXPECT_EQ(part.size(), 2 * step);
    EXPECT_EQ(part.getInfo<CL_MEM_SIZE>(), part.size_bytes());
    EXPECT_EQ(part.data(), nullptr);
    increment(on, part, part.size());
  });
  // As a plain buffer of the bindings, and by value.
  rt.submit("again", read_write(x.slice(2 * step, step)),
            [&](queue& on, cl::Buffer part) { increment(on, part, step); });
  std::vector<int> expected(4 * step, 0);
  for (std::uint64_t i = step; i < 3 * step; ++i) expected[i] = i < 2 * step ? 1 : 2;
  EXPECT_EQ(rt.read(x).get(), expected);
  rt.submit("none", read(x.slice(step, 0)), [](queue&, const buffer_view<const int>& none) {
    EXPECT_EQ(none.size(), 0U);
    EXPECT_EQ(none(), nullptr);
  });
}

TEST_F(opencl_backend, a_slice_that_no_view_can_begin_at_is_refused_by_submit_and_is_a_part) {
  opencl::runtime rt(options());
  auto x = rt.make_buffer<int>(64, zeroed, "x");
  const std::uint64_t before = rt.stats().streams.ops;
  const std::string rule = std::to_string(rt.backend().info().slice_alignment) + " bytes";
  expect_misuse(misuse::misaligned, rule,
                [&] { rt.submit("view", read_write(x.slice(3, 5)), increment_all); });
  expect_misuse(misuse::misaligned, "part<T>",
                [&] { rt.submit("buffer", read_write(x.slice(3, 5)), [](queue&, const cl::Buffer&) {}); });
  EXPECT_EQ(rt.stats().streams.ops, before);
  rt.submit("part", read_write(x.slice(3, 5)), [](queue& on, const part<int>& some) {
    EXPECT_EQ(some.size(), 5U);
    cl::Kernel& kernel = kernels().kernel(on, "increment_from");
    kernel.setArg(0, some.buffer());
    kernel.setArg(1, cl_ulong{some.offset()});
    on.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(some.size()));
  });
  std::vector<int> expected(64, 0);
  for (std::size_t i = 3; i < 8; ++i) expected[i] = 1;
  EXPECT_EQ(rt.read(x).get(), expected);
}

TEST_F(opencl_backend, small_buffers_begin_where_a_view_can) {
  opencl::runtime rt(options());
  std::vector<buffer<int>> all;
  for (std::uint64_t n = 1; n < 200; n += 7) {
    all.push_back(rt.make_buffer<int>(n, zeroed));
    rt.submit("increment", read_write(all.back()), increment_all);
  }
  for (const auto& each : all) EXPECT_EQ(rt.read(each).get(), std::vector<int>(each.size(), 1));
}

TEST_F(opencl_backend, the_views_of_an_op_stay_however_many_there_are) {
  opencl::runtime rt(options());
  std::vector<buffer<int>> all;
  for (int i = 0; i < 300; ++i) all.push_back(rt.make_buffer<int>(8, zeroed));
  std::minstd_rand random(5);
  std::vector<int> expected(all.size(), 0);
  for (int i = 0; i < 300; ++i) {
    std::array<std::size_t, 8> chosen{};  // another one of each part of all
    for (std::size_t k = 0; k < 8; ++k) chosen[k] = k * (all.size() / 8) + random() % (all.size() / 8);
    const auto at = [&](std::size_t k) { return read_write(all[chosen[k]]); };
    rt.submit(stream_id{0}, "eight", at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7),
              [](queue& on, const auto&... x) { (increment(on, x, x.size()), ...); });
    for (const std::size_t each : chosen) ++expected[each];
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(rt.read(all[i]).get(), std::vector<int>(8, expected[i]));
  }
}

TEST_F(opencl_backend, bindings_of_a_number_known_at_run_time_are_parts) {
  opencl::runtime rt(options());
  auto sum = rt.make_buffer<int>(4, zeroed, "sum");
  bindings list;
  list.add(read_write(sum));
  std::vector<buffer<int>> all;
  for (int i = 0; i < 5; ++i) {
    all.push_back(rt.make_buffer<int>(9));
    rt.fill(all.back(), i);
    list.add(read(all.back().slice(5, 4)));
  }
  rt.submit("sum", list, [](queue& on, std::span<const opencl::any_part> each) {
    const part<int> to = each[0].as<int>();
    for (const opencl::any_part& from : each.subspan(1)) {
      const part<const int> x = from.as<const int>();
      cl::Kernel& kernel = kernels().kernel(on, "sum");
      kernel.setArg(0, to.buffer());
      kernel.setArg(1, cl_ulong{to.offset()});
      kernel.setArg(2, x.buffer());
      kernel.setArg(3, cl_ulong{x.offset()});
      on.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(x.size()));
    }
  });
  EXPECT_EQ(rt.read(sum).get(), std::vector<int>(4, 0 + 1 + 2 + 3 + 4));
}

struct odd {
  int a, b, c;
  friend bool operator==(const odd&, const odd&) = default;
};

TEST_F(opencl_backend, values_of_any_size_fill_a_buffer) {
  opencl::runtime rt(options());
  auto x = rt.make_buffer<odd>(777, "x");
  rt.fill(x, odd{1, 2, 3});
  EXPECT_EQ(rt.read(x).get(), std::vector<odd>(777, odd{1, 2, 3}));
  rt.fill(x, odd{5, 5, 5});
  EXPECT_EQ(rt.read(x).get(), std::vector<odd>(777, odd{5, 5, 5}));
  auto y = rt.make_buffer<std::array<double, 32>>(3);
  std::array<double, 32> wide{};
  wide[31] = 1.5;
  rt.fill(y, wide);
  EXPECT_EQ(rt.read(y).get().back(), wide);
}

TEST_F(opencl_backend, with_shared_virtual_memory_views_have_addresses) {
  auto o = options();
  o.shared_virtual_memory = true;
  if (opencl::device_for("").shared_virtual_memory == "none") {
    GTEST_SKIP() << "the device has no shared virtual memory";
  }
  opencl::runtime rt(o);
  auto x = rt.make_buffer<int>(64, zeroed, "x");
  rt.submit("by address", read_write(x.slice(3, 5)), [](queue& on, const part<int>& some) {
    ASSERT_NE(some.data(), nullptr);
    cl::Kernel& kernel = kernels().kernel(on, "increment");
    kernel.setArg(0, some.data());
    on.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(some.size()));
  });
  rt.submit("by buffer", read_write(x), increment_all);
  std::vector<int> expected(64, 1);
  for (std::size_t i = 3; i < 8; ++i) expected[i] = 2;
  EXPECT_EQ(rt.read(x).get(), expected);
}

// ---- Programs.

TEST_F(opencl_backend, programs_are_built_once_for_a_device_and_options) {
  const std::uint64_t before = between->calls("clBuildProgram");
  {
    opencl::runtime a(options());
    opencl::runtime b(options());
    auto x = a.make_buffer<int>(8, zeroed);
    auto y = b.make_buffer<int>(8, zeroed);
    const std::string source = "kernel void set(global int* x) { x[get_global_id(0)] = VALUE; }";
    const opencl::program one(source, "-DVALUE=1");
    const opencl::program same(source, "-DVALUE=1");
    const opencl::program other(source, "-DVALUE=2");
    const auto set = [](const opencl::program& by) {
      return [&by](queue& on, const buffer_view<int>& to) {
        cl::Kernel& kernel = by.kernel(on, "set");
        kernel.setArg(0, to);
        on.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(to.size()));
      };
    };
    for (std::uint64_t i = 0; i < 4; ++i) {
      a.submit(stream_id{i}, "set", write(x), set(one));
      b.submit(stream_id{i}, "set", write(y), set(same));
    }
    EXPECT_EQ(a.read(x).get(), std::vector<int>(8, 1));
    EXPECT_EQ(b.read(y).get(), std::vector<int>(8, 1));
    EXPECT_EQ(between->calls("clBuildProgram") - before, 1U);
    a.submit("set", write(x), set(other));
    EXPECT_EQ(a.read(x).get(), std::vector<int>(8, 2));
    EXPECT_EQ(between->calls("clBuildProgram") - before, 2U);
  }
}

TEST_F(opencl_backend, a_program_that_cannot_be_built_fails_its_op_with_the_log) {
  opencl::runtime rt(options());
  auto x = rt.make_buffer<int>(8, zeroed, "x");
  const opencl::program broken("kernel void f(global int* x) { x[0] = no_such_name; }");
  rt.submit("compile", write(x), [&](queue& on, const buffer_view<int>&) { (void)broken.kernel(on, "f"); });
  try {
    (void)rt.read(x).get();
    ADD_FAILURE();
  } catch (const op_error& e) {
    EXPECT_EQ(e.label(), "compile");
    EXPECT_NE(std::string_view(e.what()).find("no_such_name"), std::string_view::npos) << e.what();
    EXPECT_NE(std::string_view(e.what()).find("clBuildProgram: CL_BUILD_PROGRAM_FAILURE"),
              std::string_view::npos)
        << e.what();
    EXPECT_THROW(std::rethrow_exception(e.cause()), opencl::build_error);
  }
  rt.submit("name", write(x),
            [](queue& on, const buffer_view<int>&) { (void)kernels().kernel(on, "absent"); });
  EXPECT_THROW((void)rt.read(x).get(), op_error);
  queue mine(rt.backend().context(), rt.backend().device());
  expect_misuse(misuse::unused_stream, "body", [&] { (void)kernels().kernel(mine, "increment"); });
}

// ---- Of the program.

TEST_F(opencl_backend, queues_buffers_and_events_of_the_program_take_part) {
  opencl::runtime rt(options());
  const cl::Context context = rt.backend().context();
  queue mine(context, rt.backend().device());
  rt.adopt(stream_id{100}, rt.backend().adopt(mine));
  cl::Buffer memory(context, CL_MEM_READ_WRITE, 64 * sizeof(int));
  mine.enqueueFillBuffer(memory, 7, 0, 64 * sizeof(int));
  mine.finish();
  {
    auto adopted = rt.backend().adopt<int>(memory);
    EXPECT_EQ(adopted.addresses.size(), 64U);
    auto x = rt.adopt(adopted.addresses, "x", adopted.owner);
    adopted = {};
    rt.submit(stream_id{100}, "mine", read_write(x), [&](queue& on, const buffer_view<int>& all) {
      EXPECT_EQ(on(), mine());
      increment(on, all, all.size());
    });
    rt.submit(stream_id{1}, "braid's", read_write(x), increment_all);
    EXPECT_EQ(rt.read(x).get(), std::vector<int>(64, 9));

    // The program waits for braid's last write, adds work of its own, and says so.
    rt.submit(stream_id{2}, "again", read_write(x), increment_all);
    const auto written = rt.last_write(x);
    const std::vector<cl::Event> behind{cl::Event(written.native(), true)};
    cl::Event done;
    mine.enqueueFillBuffer(memory, 1, 0, 64 * sizeof(int), &behind, &done);
    mine.flush();
    rt.note(write(x), rt.backend().adopt(done));
    rt.submit(stream_id{3}, "behind it", read_write(x), increment_all);
    EXPECT_EQ(rt.read(x).get(), std::vector<int>(64, 2));
  }
  cl::UserEvent opened(context);
  auto y = rt.make_buffer<int>(8, zeroed, "y");
  rt.synchronize();
  rt.wait_for(stream_id{4}, rt.backend().adopt(opened));
  const submission op = rt.submit(stream_id{4}, "held", read_write(y), increment_all);
  auto z = rt.make_buffer<int>(8, zeroed, "z");
  rt.submit(stream_id{5}, "free", read_write(z), increment_all).wait();
  EXPECT_FALSE(op.is_over());
  opened.setStatus(CL_COMPLETE);
  op.wait();

  queue loose(context, rt.backend().device(), CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  expect_misuse(misuse::no_device, "in order", [&] { (void)rt.backend().adopt(loose); });
  const cl::Context foreign(rt.backend().device());
  queue elsewhere(foreign, rt.backend().device());
  expect_misuse(misuse::no_device, "context", [&] { (void)rt.backend().adopt(elsewhere); });
  cl::Buffer apart(foreign, CL_MEM_READ_WRITE, 64);
  expect_misuse(misuse::foreign_resource, "context", [&] { (void)rt.backend().adopt<int>(apart); });
  rt.synchronize();
}

// ---- What braid puts on queues.

TEST_F(opencl_backend, an_op_behind_several_streams_waits_with_one_barrier) {
  auto o = options();
  o.deterministic = true;
  opencl::runtime rt(o);
  std::vector<buffer<int>> leaves;
  for (int i = 0; i < 7; ++i) leaves.push_back(rt.make_buffer<int>(16, zeroed));
  auto root = rt.make_buffer<int>(16, zeroed, "root");
  rt.synchronize();
  const auto round = [&] {
    for (std::uint64_t i = 0; i < leaves.size(); ++i) {
      rt.submit(stream_id{i + 1}, "leaf", read(root), read_write(leaves[i]),
                [](queue& on, const buffer_view<const int>&, const buffer_view<int>& x) {
                  increment(on, x, x.size());
                });
    }
    rt.submit(stream_id{0}, "root", read(leaves[0]), read(leaves[1]), read(leaves[2]), read(leaves[3]),
              read(leaves[4]), read(leaves[5]), read(leaves[6]), read_write(root),
              [](queue& on, const auto&... all) { increment(on, std::get<7>(std::tie(all...)), 16); });
  };
  round();
  round();  // the engine has learned who needs marks
  const auto before = rt.backend().commands();
  const std::uint64_t barriers = between->calls("clEnqueueBarrierWithWaitList");
  const std::uint64_t markers = between->calls("clEnqueueMarkerWithWaitList");
  for (int i = 0; i < 10; ++i) round();
  const auto after = rt.backend().commands();
  EXPECT_EQ(after.barriers - before.barriers, 10 * 8U);  // seven that wait for the root, and the root's one
  EXPECT_EQ(after.markers - before.markers, 10 * 8U);
  EXPECT_EQ(between->calls("clEnqueueBarrierWithWaitList") - barriers, after.barriers - before.barriers);
  EXPECT_EQ(between->calls("clEnqueueMarkerWithWaitList") - markers, after.markers - before.markers);
  EXPECT_EQ(rt.read(root).get(), std::vector<int>(16, 12));
}

TEST_F(opencl_backend, a_trace_has_the_times_of_ops_also_if_it_begins_late) {
  const std::string file = testing::TempDir() + "opencl_trace.json";
  {
    opencl::runtime rt(options());
    auto x = rt.make_buffer<int>(1 << 16, zeroed, "x");
    rt.submit(stream_id{1}, "before", read_write(x), increment_all);
    {
      const tracing on(file);
      for (std::uint64_t i = 0; i < 10; ++i) {
        rt.submit(stream_id{i % 3}, "traced", read_write(x), increment_all);
      }
      rt.synchronize();
    }
    EXPECT_EQ(rt.read(x).get(), std::vector<int>(1 << 16, 11));
  }
  const trace::trace t = trace::read_file(file);
  std::size_t timed = 0;
  for (const trace::op& op : t.ops) timed += op.label == "traced" && op.end > op.start ? 1 : 0;
  EXPECT_EQ(timed, 10U);
  EXPECT_TRUE(trace::violations(t).empty());
  (void)std::remove(file.c_str());
}

// ---- What goes wrong.

/// One of everything. Returns what was said of failures, to the caller or in the log.
std::vector<std::string> everything(const opencl::program& by) {
  std::vector<std::string> said;
  std::mutex mutex;
  const auto say = [&](std::string_view text) {
    const std::scoped_lock lock(mutex);
    said.emplace_back(text);
  };
  const auto attempt = [&](auto&& call) {
    try {
      call();
    } catch (const usage_error& e) {
      // What was to be written first was refused, with a text of its own.
      if (e.kind() != misuse::never_written) say(e.what());
    } catch (const std::exception& e) {
      say(e.what());
    }
  };
  attempt([&] {
    runtime_options o;
    o.streams = 4;
    o.logger = std::make_shared<logger>([&](log_area, log_level, std::string_view text) { say(text); });
    o.logger->set_level(log_area::errors, log_level::basic);
    opencl::runtime rt(o);
    auto x = rt.make_buffer<int>(32, "x");
    auto y = rt.make_buffer<int>(32, "y");
    const auto add_one = [&](queue& on, const buffer_view<int>& all) {
      cl::Kernel& kernel = by.kernel(on, "increment");
      kernel.setArg(0, all);
      on.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(all.size()));
    };
    attempt([&] { rt.write(x, std::vector<int>(32, 1)); });
    attempt([&] { rt.fill(y, 2); });
    for (std::uint64_t i = 0; i < 3; ++i) {
      attempt([&] { rt.submit(stream_id{i}, "x", read_write(x), add_one); });
      attempt([&] { rt.submit(stream_id{i + 1}, "y", read_write(y), add_one); });
    }
    attempt([&] { (void)rt.read(x).get(); });
    attempt([&] { (void)rt.read(y).get(); });
    attempt([&] { rt.copy(y, x); });
    attempt([&] { (void)rt.read(y).get(); });
    attempt([&] { rt.wait(y); });
    attempt([&] { rt.synchronize(); });
  });
  return said;
}

TEST_F(opencl_backend, each_call_that_fails_is_named_with_its_error) {
  const opencl::program by("kernel void increment(global int* x) { x[get_global_id(0)] += 1; }");
  ASSERT_EQ(everything(by), std::vector<std::string>{});
  constexpr std::array<std::string_view, 4> asked_again{"clCreateBuffer", "clEnqueueMapBuffer",
                                                        "clEnqueueMigrateMemObjects",
                                                        "clCreateCommandQueueWithProperties"};
  for (const char* call : {"clGetPlatformIDs",
                           "clGetDeviceIDs",
                           "clCreateContext",
                           "clCreateCommandQueueWithProperties",
                           "clCreateBuffer",
                           "clCreateSubBuffer",
                           "clEnqueueMapBuffer",
                           "clEnqueueMigrateMemObjects",
                           "clCreateProgramWithSource",
                           "clBuildProgram",
                           "clCreateKernel",
                           "clSetKernelArg",
                           "clEnqueueNDRangeKernel",
                           "clEnqueueWriteBuffer",
                           "clEnqueueReadBuffer",
                           "clEnqueueFillBuffer",
                           "clEnqueueCopyBuffer",
                           "clEnqueueMarkerWithWaitList",
                           "clEnqueueBarrierWithWaitList",
                           "clFlush",
                           "clWaitForEvents",
                           "clGetEventInfo"}) {
    const std::uint64_t before = between->calls(call);
    (void)everything(by);
    const std::uint64_t count = between->calls(call) - before;
    ASSERT_GT(count, 0U) << call;
    for (std::uint64_t n = 0; n < count; ++n) {
      // Once, and from then on.
      for (const std::uint64_t times : {std::uint64_t{1}, ~std::uint64_t{0}}) {
        const std::uint64_t made = between->calls(call);
        between->fail(call, n, times, CL_OUT_OF_RESOURCES);
        const std::vector<std::string> said = everything(by);
        between->fail(nullptr, 0, 0, 0);
        if (between->calls(call) - made <= n) continue;  // fewer this time: there was less to ask
        // Memory is asked for twice.
        const bool may_be_silent =
            times == 1 && (std::ranges::count(asked_again, std::string_view(call)) != 0);
        if (!may_be_silent) {
          EXPECT_FALSE(said.empty()) << call << " number " << n;
        }
        for (const std::string& each : said) {
          EXPECT_NE(each.find(call), std::string::npos) << each;
          EXPECT_NE(each.find("CL_OUT_OF_RESOURCES"), std::string::npos) << each;
        }
        const braid_layer_objects left = between->alive();
        EXPECT_EQ(left.events + left.buffers + left.queues + left.kernels + left.programs + left.contexts, 0U)
            << call << " number " << n;
      }
    }
  }
}

TEST_F(opencl_backend, an_op_that_nobody_waits_for_is_flushed_if_it_comes_alone) {
  opencl::runtime rt(options());
  auto x = rt.make_buffer<int>(32, zeroed);
  for (int i = 0; i < 3; ++i) {
    rt.synchronize();  // which flushes
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const std::uint64_t before = between->calls("clFlush");
    rt.submit(stream_id{0}, "alone", read_write(x),
              [](cl::CommandQueue& on, const opencl::buffer_view<int>& view) {
                opencl::check(on.enqueueFillBuffer(view, cl_int{7}, 0, view.size() * sizeof(cl_int)),
                              "clEnqueueFillBuffer");
              });
    EXPECT_EQ(between->calls("clFlush") - before, 1U);
  }
}

TEST_F(opencl_backend, memory_that_cannot_be_placed_is_named_with_its_error) {
  {
    opencl::runtime rt(options());
    auto x = rt.make_buffer<int>(32, "x");
    between->fail("clFinish", 0, ~std::uint64_t{0}, CL_OUT_OF_RESOURCES);
    try {
      rt.fill(x, 1);
      ADD_FAILURE() << "there is no memory";
    } catch (const out_of_memory& e) {
      EXPECT_NE(std::string(e.what()).find("clFinish: CL_OUT_OF_RESOURCES"), std::string::npos) << e.what();
    }
    between->fail(nullptr, 0, 0, 0);
    rt.fill(x, 2);
    EXPECT_EQ(rt.read(x).get(), std::vector<int>(32, 2));
  }
  EXPECT_EQ(between->alive().buffers, 0U);
}

TEST_F(opencl_backend, a_failed_enqueue_poisons_what_the_op_would_have_written_and_nothing_else) {
  opencl::runtime rt(options());
  auto x = rt.make_buffer<int>(8, zeroed, "x");
  auto y = rt.make_buffer<int>(8, zeroed, "y");
  rt.synchronize();
  between->fail("clEnqueueNDRangeKernel", 0, 1, CL_OUT_OF_RESOURCES);
  rt.submit("culprit", read_write(x), increment_all);
  rt.submit("reader", read_write(x), increment_all);
  rt.submit("other", read_write(y), increment_all);
  try {
    (void)rt.read(x).get();
    ADD_FAILURE();
  } catch (const op_error& e) {
    EXPECT_EQ(e.label(), "culprit");
    EXPECT_NE(std::string_view(e.what()).find("clEnqueueNDRangeKernel: CL_OUT_OF_RESOURCES"),
              std::string_view::npos)
        << e.what();
  }
  EXPECT_EQ(rt.read(y).get(), std::vector<int>(8, 1));
  rt.fill(x, 3);
  EXPECT_EQ(rt.read(x).get(), std::vector<int>(8, 3));
}

TEST_F(opencl_backend, a_command_that_ends_abnormally_loses_the_device_and_names_what_was_in_flight) {
  opencl::runtime rt(options());
  auto x = rt.make_buffer<int>(8, zeroed, "x");
  rt.synchronize();
  cl::UserEvent opened(rt.backend().context());
  rt.submit(stream_id{1}, "suspect", read_write(x), [&](queue& on, const buffer_view<int>& all) {
    const std::vector<cl::Event> behind{opened};
    on.enqueueBarrierWithWaitList(&behind);
    increment(on, all, all.size());
  });
  between->end_with(CL_OUT_OF_RESOURCES);
  opened.setStatus(CL_COMPLETE);
  try {
    rt.synchronize();
    ADD_FAILURE();
  } catch (const opencl::device_lost& e) {
    EXPECT_NE(std::string_view(e.what()).find("CL_OUT_OF_RESOURCES"), std::string_view::npos) << e.what();
    EXPECT_NE(std::string_view(e.what()).find("'suspect'"), std::string_view::npos) << e.what();
  }
  between->end_with(0);
  rt.submit("later", write(x), increment_all);
  EXPECT_THROW((void)rt.read(x).get(), execution_error);
}

TEST_F(opencl_backend, a_child_of_fork_is_told) {
  opencl::runtime rt(options());
  auto x = rt.make_buffer<int>(8, zeroed, "x");
  rt.synchronize();
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      rt.submit("in a child", read_write(x), increment_all);
    } catch (const usage_error& e) {
      status = e.kind() == misuse::forked ? 0 : 2;
    }
    _exit(status);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  rt.submit("in the parent", read_write(x), increment_all);
  EXPECT_EQ(rt.read(x).get(), std::vector<int>(8, 1));
}

}  // namespace
}  // namespace braid
