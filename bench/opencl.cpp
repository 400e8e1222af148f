#include "opencl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "braid/opencl.hpp"
#include "machine.hpp"

namespace braid::bench {

namespace {

using clock = std::chrono::steady_clock;
using queue = cl::CommandQueue;
using opencl::buffer_view;
constexpr std::size_t width = 8;
// Of a kernel, which does next to nothing with each: ten microseconds or so, and next to none.
constexpr std::size_t usual_items = 262'144;
constexpr std::size_t few_items = 16;

const char* const source =
    "kernel void increment(global int* x) { x[get_global_id(0)]++; }\n"
    "kernel void follow(global const int* from, global int* x) { x[get_global_id(0)] = "
    "from[get_global_id(0)]; }\n"
    "kernel void join(global const int* a, global const int* b, global const int* c, global const int* d,\n"
    "                 global const int* e, global const int* f, global const int* g, global const int* h,\n"
    "                 global int* x) {\n"
    "  const size_t i = get_global_id(0);\n"
    "  x[i] = (a[i] + b[i] + c[i] + d[i] + e[i] + f[i] + g[i] + h[i]) / 8 + 1;\n"
    "}\n";

struct measure {
  double ns = 0;  // an op
  double markers = 0;
  double barriers = 0;
};

/// The programs, in the words of whoever runs them. Each variant is set up once, and runs once a repetition.
using variant = std::function<measure()>;

template <class... Args>
void launch(queue& on, cl::Kernel& kernel, std::size_t items, const Args&... args) {
  cl_uint at = 0;
  (kernel.setArg(at++, args), ...);
  on.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(items));
}

// ---- By hand. A kernel object for each queue, as setting arguments asks for where threads share one.

class hand {
 public:
  /// On the context of `like`.
  hand(opencl::backend& like, std::size_t of) : items(of), context_(like.context()) {
    cl::Program built(context_, source);
    built.build(like.device());
    for (std::size_t i = 0; i <= width; ++i) {
      queues.emplace_back(context_, like.device());
      increment.emplace_back(built, "increment");
      follow.emplace_back(built, "follow");
      buffers.emplace_back(context_, CL_MEM_READ_WRITE, items * sizeof(cl_int));
    }
    join = cl::Kernel(built, "join");
    newest_.resize(queues.size());
    is_marked_.resize(queues.size(), true);
  }
  template <class... Args>
  void run(std::size_t i, cl::Kernel& kernel, const Args&... args) {
    launch(queues[i], kernel, items, args...);
    is_marked_[i] = false;
  }
  /// Behind what the queue has so far; on its way.
  cl::Event mark(std::size_t i) {
    cl::Event made;
    queues[i].enqueueMarkerWithWaitList(nullptr, &made);
    queues[i].flush();
    ++markers;
    newest_[i] = made;
    is_marked_[i] = true;
    return made;
  }
  void wait(std::size_t i, const std::vector<cl::Event>& behind) {
    queues[i].enqueueBarrierWithWaitList(&behind);
    ++barriers;
  }
  void clear() {
    for (const cl::Buffer& each : buffers)
      queues[0].enqueueFillBuffer(each, cl_int{0}, 0, items * sizeof(cl_int));
    queues[0].finish();
    markers = 0;
    barriers = 0;
  }
  /// Until all is over; fails if a command did not end well, which clFinish does not tell.
  void finish() {
    std::vector<cl::Event> last;
    for (std::size_t i = 0; i < queues.size(); ++i) {
      if (!is_marked_[i]) mark(i);
      if (newest_[i]() != nullptr) last.push_back(newest_[i]);
    }
    if (cl::WaitForEvents(last) != CL_SUCCESS) throw std::runtime_error("by hand: a command failed");
  }
  cl_int value(std::size_t buffer) {
    cl_int found = 0;
    queues[0].enqueueReadBuffer(buffers[buffer], CL_TRUE, 0, sizeof found, &found);
    return found;
  }

  const std::size_t items;
  std::vector<queue> queues;
  std::vector<cl::Kernel> increment;
  std::vector<cl::Kernel> follow;
  cl::Kernel join;
  std::vector<cl::Buffer> buffers;  // of the branches, then of the root
  std::uint64_t markers = 0;
  std::uint64_t barriers = 0;

 private:
  cl::Context context_;
  std::vector<cl::Event> newest_;  // marker of each queue
  std::vector<bool> is_marked_;    // nothing was put behind it
};

void expect(std::int64_t found, std::int64_t expected, const char* who) {
  if (found == expected) return;
  throw std::runtime_error(fmt::format("{}: the result is {}, and has to be {}", who, found, expected));
}

template <class Program>
variant by_hand(std::shared_ptr<hand> h, std::uint64_t ops, std::size_t result, std::int64_t expected,
                Program program) {
  return [=] {
    h->clear();
    const auto begin = clock::now();
    program(*h);
    h->finish();
    const double ns = std::chrono::duration<double, std::nano>(clock::now() - begin).count();
    const auto n = static_cast<double>(ops);
    expect(h->value(result), expected, "by hand");
    return measure{ns / n, static_cast<double>(h->markers) / n, static_cast<double>(h->barriers) / n};
  };
}

// ---- On braid.

struct with_braid {
  with_braid(const runtime_options& o, std::size_t of) : items(of), rt(o), kernels(source) {
    for (std::size_t i = 0; i <= width; ++i) buffers.push_back(rt.make_buffer<int>(items, zeroed));
    rt.synchronize();
  }
  const std::size_t items;
  opencl::runtime rt;
  opencl::program kernels;
  std::vector<buffer<int>> buffers;  // of the branches, then of the root
};

/// A program that is a number of equal rounds; `is_recorded`: one is recorded, and all are replayed.
template <class Round>
variant on_braid(std::shared_ptr<with_braid> b, std::uint64_t ops, std::size_t result, std::int64_t expected,
                 std::uint64_t rounds, bool is_recorded, Round round) {
  recording one;
  if (is_recorded) one = b->rt.record([&] { round(*b); });
  return [=] {
    for (const auto& each : b->buffers) b->rt.fill(each, 0);
    b->rt.synchronize();
    const auto before = b->rt.backend().commands();
    const auto begin = clock::now();
    if (is_recorded) {
      one.replay(rounds);
    } else {
      for (std::uint64_t i = 0; i < rounds; ++i) round(*b);
    }
    b->rt.synchronize();
    const double ns = std::chrono::duration<double, std::nano>(clock::now() - begin).count();
    const auto after = b->rt.backend().commands();
    const auto n = static_cast<double>(ops);
    expect(b->rt.read(b->buffers[result]).get().front(), expected, "braid");
    return measure{ns / n, static_cast<double>(after.markers - before.markers) / n,
                   static_cast<double>(after.barriers - before.barriers) / n};
  };
}

// ---- The cases.

struct bench_case {
  std::string name;
  std::string what;
  bool is_bound;                            // whether the ratio has a bound
  std::map<std::string, variant> variants;  // "braid", "by_hand"
};

struct world {
  explicit world(const opencl_options& with) : quick(with.quick) {
    options.device = with.device;
    options.streams = width + 1;
  }
  /// What one case leaves behind is not the next one's.
  [[nodiscard]] std::shared_ptr<with_braid> braid(std::size_t items) const {
    return std::make_shared<with_braid>(options, items);
  }
  [[nodiscard]] std::uint64_t ops(std::uint64_t n) const { return quick ? n / 10 : n; }
  runtime_options options;
  bool quick;
};

std::string suffix(std::size_t items, bool is_recorded) {
  return std::string(items == usual_items ? "" : "_empty") + (is_recorded ? "_recorded" : "");
}

auto incrementing(const with_braid& b) {
  return [&kernels = b.kernels](queue& on, const buffer_view<int>& x) {
    launch(on, kernels.kernel(on, "increment"), x.size(), x);
  };
}

bench_case chain(const world& w, std::size_t items, bool is_recorded) {
  const std::uint64_t n = w.ops(1'000);
  const auto b = w.braid(items);
  const auto h = std::make_shared<hand>(b->rt.backend(), items);
  return {"chain" + suffix(items, is_recorded),
          "kernels one after the other in one queue",
          items == usual_items,
          {{"braid", on_braid(b, n, 0, static_cast<std::int64_t>(n), n / 10, is_recorded,
                              [](with_braid& on) {
                                for (std::uint64_t i = 0; i < 10; ++i) {
                                  on.rt.submit(stream_id{0}, "increment", read_write(on.buffers[0]),
                                               incrementing(on));
                                }
                              })},
           {"by_hand", by_hand(h, n, 0, static_cast<std::int64_t>(n), [n](hand& by) {
              for (std::uint64_t i = 0; i < n; ++i) {
                by.run(0, by.increment[0], by.buffers[0]);
              }
            })}}};
}

bench_case pingpong(const world& w, std::size_t items, bool is_recorded) {
  const std::uint64_t n = w.ops(1'000);
  const auto b = w.braid(items);
  const auto h = std::make_shared<hand>(b->rt.backend(), items);
  return {"pingpong" + suffix(items, is_recorded),
          "kernels one after the other, in two queues in turn",
          items == usual_items,
          {{"braid", on_braid(b, n, 0, static_cast<std::int64_t>(n), n / 10, is_recorded,
                              [](with_braid& on) {
                                for (std::uint64_t i = 0; i < 10; ++i) {
                                  on.rt.submit(stream_id{i % 2}, "pass on", read_write(on.buffers[0]),
                                               incrementing(on));
                                }
                              })},
           {"by_hand", by_hand(h, n, 0, static_cast<std::int64_t>(n), [n](hand& by) {
              std::vector<cl::Event> last;
              for (std::uint64_t i = 0; i < n; ++i) {
                if (!last.empty()) by.wait(i % 2, last);
                by.run(i % 2, by.increment[i % 2], by.buffers[0]);
                last.assign(1, by.mark(i % 2));
              }
            })}}};
}

bench_case fork_join(const world& w, std::size_t items, bool is_recorded) {
  const std::uint64_t rounds = w.ops(100);
  const std::uint64_t n = rounds * (width + 1);
  const auto b = w.braid(items);
  const auto h = std::make_shared<hand>(b->rt.backend(), items);
  const auto on_stream = [](with_braid& on, std::size_t k) {
    on.rt.submit(
        stream_id{k}, "follow", read(on.buffers[width]), write(on.buffers[k]),
        [&kernels = on.kernels](queue& to, const buffer_view<const int>& root, const buffer_view<int>& mine) {
          launch(to, kernels.kernel(to, "follow"), mine.size(), root, mine);
        });
  };
  return {"forkjoin" + suffix(items, is_recorded),
          "one kernel, eight that read what it wrote in a queue each, and one that reads what those wrote",
          items == usual_items,
          {{"braid", on_braid(b, n, width, static_cast<std::int64_t>(rounds), rounds, is_recorded,
                              [on_stream](with_braid& on) {
                                const auto& x = on.buffers;
                                for (std::size_t k = 0; k < width; ++k) on_stream(on, k);
                                on.rt.submit(
                                    stream_id{width}, "join", read(x[0]), read(x[1]), read(x[2]), read(x[3]),
                                    read(x[4]), read(x[5]), read(x[6]), read(x[7]), write(x[width]),
                                    [&kernels = on.kernels, items = on.items](queue& to, const auto&... all) {
                                      launch(to, kernels.kernel(to, "join"), items, all...);
                                    });
                              })},
           {"by_hand", by_hand(h, n, width, static_cast<std::int64_t>(rounds), [rounds](hand& by) {
              const auto& x = by.buffers;
              std::vector<cl::Event> root;
              std::vector<cl::Event> branches(width);
              for (std::uint64_t r = 0; r < rounds; ++r) {
                for (std::size_t k = 0; k < width; ++k) {
                  if (!root.empty()) by.wait(k, root);
                  by.run(k, by.follow[k], x[width], x[k]);
                  branches[k] = by.mark(k);
                }
                by.wait(width, branches);
                by.run(width, by.join, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[width]);
                root.assign(1, by.mark(width));
              }
            })}}};
}

}  // namespace

nlohmann::json run_opencl_bench(const opencl_options& options,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  constexpr double at_most = 1.05;
  const opencl::device_info device = opencl::device_for(options.device);
  const world w(options);
  std::vector<bench_case> cases;
  for (const bool is_recorded : {false, true}) {
    for (const std::size_t items : {usual_items, few_items}) {
      cases.push_back(chain(w, items, is_recorded));
      cases.push_back(pingpong(w, items, is_recorded));
      cases.push_back(fork_join(w, items, is_recorded));
    }
  }
  std::erase_if(cases, [&](const bench_case& c) { return c.name.find(options.filter) == std::string::npos; });

  std::map<std::string, std::map<std::string, std::vector<measure>>> found;
  const std::uint64_t of = cases.size() * (options.repetitions + 1);
  std::uint64_t done = 0;
  for (unsigned repetition = 0; repetition <= options.repetitions; ++repetition) {  // the first warms up
    for (const bench_case& c : cases) {
      // Each of both goes first as often.
      for (const char* name :
           repetition % 2 == 0 ? std::array{"braid", "by_hand"} : std::array{"by_hand", "braid"}) {
        const measure m = c.variants.at(name)();
        if (repetition != 0) found[c.name][name].push_back(m);
      }
      progress(++done, of);
    }
  }

  nlohmann::json out;
  out["machine"] = machine();
  out["device"] = {{"name", device.name},
                   {"platform", device.platform},
                   {"version", device.version},
                   {"driver", device.driver}};
  out["repetitions"] = options.repetitions;
  out["results"] = nlohmann::json::array();
  out["ratios"] = nlohmann::json::array();
  for (const bench_case& c : cases) {
    // Of the two runs of one repetition: they have seen the same of what else went on.
    std::vector<double> pairs;
    for (std::size_t i = 0; i < options.repetitions; ++i) {
      pairs.push_back(found[c.name]["braid"][i].ns / found[c.name]["by_hand"][i].ns);
    }
    std::ranges::sort(pairs);
    for (auto& [name, all] : found[c.name]) {
      std::ranges::sort(all, {}, &measure::ns);
      const measure& median = all[all.size() / 2];
      out["results"].push_back({{"case", c.name},
                                {"runtime", name},
                                {"ns", median.ns},
                                {"ns_min", all.front().ns},
                                {"ns_max", all.back().ns},
                                {"markers", median.markers},
                                {"barriers", median.barriers}});
    }
    out["ratios"].push_back({{"case", c.name},
                             {"what", c.what},
                             {"ratio", pairs[pairs.size() / 2]},
                             {"ratio_lower_quartile", pairs[pairs.size() / 4]},
                             {"ratio_upper_quartile", pairs[pairs.size() * 3 / 4]}});
    if (c.is_bound) out["ratios"].back()["at_most"] = at_most;
  }
  return out;
}

}  // namespace braid::bench
