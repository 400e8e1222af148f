#include "cuda.hpp"

#include <algorithm>
#include <barrier>
#include <deque>
#include <functional>
#include <map>
#include <stdexcept>

#include "cases.hpp"
#include "machine.hpp"
#include "median.hpp"

namespace braid::bench {

namespace {

// ---- One kernel after the other.

bench_case chain(world& w) {
  const unsigned n = w.ops(500);
  const auto h = std::make_shared<hand>(w, 0);
  const auto o = std::make_shared<origin>();
  const auto by_launching = [n](cudaStream_t on) {
    const auto begin = clock::now();
    for (unsigned i = 0; i < n; ++i) launch_empty(on);
    check(cudaStreamSynchronize(on));
    return since(begin) / n;
  };
  return {"chain",
          "empty kernels in one stream",
          1.03,
          true,
          {{"braid",
            [&w, n] {
              const auto begin = clock::now();
              for (unsigned i = 0; i < n; ++i) {
                w.rt->submit(stream_id{0}, "kernel", read_write(w.cells[0]), do_empty);
              }
              w.rt->wait(stream_id{0});
              return since(begin) / n;
            }},
           {"by_hand", [h, by_launching] { return by_launching(h->stream(0)); }},
           {"origin", [o, by_launching] { return by_launching(o->stream(0)); }}},
          many_turns};
}

bench_case pingpong(world& w) {
  const unsigned n = w.ops(500);
  const auto h = std::make_shared<hand>(w, 2);
  const auto o = std::make_shared<origin>();
  return {"pingpong",
          "empty kernels, in turn in two streams",
          1.03,
          true,
          {{"braid",
            [&w, n] {
              const auto begin = clock::now();
              for (unsigned i = 0; i < n; ++i) {
                w.rt->submit(stream_id{i % 2}, "kernel", read_write(w.cells[0]), do_empty);
              }
              w.rt->wait(w.cells[0]);
              return since(begin) / n;
            }},
           {"by_hand",
            [h, n] {
              const auto begin = clock::now();
              for (unsigned i = 0; i < n; ++i) {
                if (i != 0) h->wait(i % 2, (i + 1) % 2);
                launch_empty(h->stream(i % 2));
                h->record(i % 2, i % 2);
              }
              check(cudaEventSynchronize(h->event((n + 1) % 2)));
              return since(begin) / n;
            }},
           {"origin",
            [o, n] {
              const auto begin = clock::now();
              for (unsigned i = 0; i < n; ++i) {
                if (i != 0) o->align(i % 2, (i + 1) % 2);
                launch_empty(o->stream(i % 2));
                if (i != 0) o->release(i % 2);
              }
              o->synchronize();
              return since(begin) / n;
            }}},
          many_turns};
}

// ---- Fork and join: one op that reads all and writes one; then eight that read it and write one each.

template <class Kernel>
bench_case fork_join(world& w, std::string name, std::string what, unsigned rounds, unsigned turns,
                     Kernel kernel) {
  const unsigned n = rounds * (width + 1);
  const auto h = std::make_shared<hand>(w, width + 1);
  const auto o = std::make_shared<origin>();
  const auto body = [kernel](cuda::native_stream on, auto...) { kernel(on); };
  return {std::move(name),
          std::move(what),
          1.03,
          true,
          {{"braid",
            [&w, n, rounds, body] {
              auto& b = w.cells;
              const auto begin = clock::now();
              for (unsigned r = 0; r < rounds; ++r) {
                w.rt->submit(stream_id{0}, "join", read(b[0]), read(b[1]), read(b[2]), read(b[3]), read(b[4]),
                             read(b[5]), read(b[6]), read(b[7]), read_write(b[8]), body);
                for (unsigned k = 0; k < width; ++k) {
                  w.rt->submit(stream_id{k}, "fork", read(b[8]), read_write(b[k]), body);
                }
              }
              w.rt->synchronize();
              return since(begin) / n;
            }},
           {"by_hand",
            [h, n, rounds, kernel] {
              const auto begin = clock::now();
              for (unsigned r = 0; r < rounds; ++r) {
                if (r != 0) {
                  for (unsigned k = 1; k < width; ++k) h->wait(0, k);
                }
                kernel(h->stream(0));
                h->record(0, 0);
                for (unsigned k = 0; k < width; ++k) {
                  if (k != 0) h->wait(k, 0);
                  kernel(h->stream(k));
                  if (k != 0) h->record(k, k);
                }
              }
              h->synchronize();
              return since(begin) / n;
            }},
           {"origin",
            [o, n, rounds, kernel] {
              const auto begin = clock::now();
              for (unsigned r = 0; r < rounds; ++r) {
                if (r != 0) {
                  for (unsigned k = 1; k < width; ++k) o->align(0, k);
                }
                kernel(o->stream(0));
                if (r != 0) o->release(0);
                for (unsigned k = 0; k < width; ++k) {
                  if (k != 0) o->align(k, 0);
                  kernel(o->stream(k));
                  if (k != 0) o->release(k);
                }
              }
              o->synchronize();
              return since(begin) / n;
            }}},
          turns};
}

// ---- A stencil of width 8: cell i of a row needs i - 1, i and i + 1 of the row before.

bench_case stencil(world& w) {
  const unsigned steps = w.quick ? 10 : 50;
  const unsigned n = steps * width;
  const unsigned blocks = w.blocks;
  const auto kernel = [blocks](cudaStream_t on) { launch_busy(on, blocks, long_kernel); };
  const auto h = std::make_shared<hand>(w, 2 * width);
  const auto o = std::make_shared<origin>();
  auto rows = std::make_shared<std::vector<buffer<int>>>();
  for (unsigned i = 0; i < 2 * width; ++i) {
    rows->push_back(w.rt->make_buffer<int>(16, "row"));
    w.rt->fill(rows->back(), 0);
  }
  const auto body = [kernel](cuda::native_stream on, auto...) { kernel(on); };
  return {"stencil_100us",
          "width 8, kernels of 100 us on an eighth of the multiprocessors",
          1.03,
          true,
          {{"braid",
            [&w, rows, steps, n, body] {
              const auto begin = clock::now();
              for (unsigned t = 0; t < steps; ++t) {
                const auto before = [&](unsigned i) { return read((*rows)[(t + 1) % 2 * width + i]); };
                for (unsigned i = 0; i < width; ++i) {
                  const auto to = write((*rows)[t % 2 * width + i]);
                  const stream_id on{i};
                  if (i == 0) {
                    w.rt->submit(on, "edge", to, before(0), before(1), body);
                  } else if (i == width - 1) {
                    w.rt->submit(on, "edge", to, before(i - 1), before(i), body);
                  } else {
                    w.rt->submit(on, "cell", to, before(i - 1), before(i), before(i + 1), body);
                  }
                }
              }
              w.rt->synchronize();
              return since(begin) / n;
            }},
           {"by_hand",
            [h, steps, n, kernel] {
              const auto begin = clock::now();
              for (unsigned t = 0; t < steps; ++t) {
                const unsigned old = (t + 1) % 2 * width;
                for (unsigned i = 0; i < width; ++i) {
                  if (t != 0 && i > 0) h->wait(i, old + i - 1);
                  if (t != 0 && i + 1 < width) h->wait(i, old + i + 1);
                  kernel(h->stream(i));
                  h->record(t % 2 * width + i, i);
                }
              }
              h->synchronize();
              return since(begin) / n;
            }},
           {"origin", [o, steps, n, kernel] {
              const auto begin = clock::now();
              for (unsigned t = 0; t < steps; ++t) {
                for (unsigned i = 0; i < width; ++i) {
                  if (t != 0 && i > 0) o->align(i, i - 1);
                  if (t != 0 && i + 1 < width) o->align(i, i + 1);
                  kernel(o->stream(i));
                  if (t != 0) o->release(i);
                }
              }
              o->synchronize();
              return since(begin) / n;
            }}}};
}

// ---- Eight threads, each with a stream.

template <class Give>
double on_threads(unsigned n, Give give) {
  std::vector<std::thread> all;
  std::barrier ready(width + 1);
  for (unsigned t = 0; t < width; ++t) {
    all.emplace_back([&, t] {
      check(cudaSetDevice(0));
      give(t, 10);
      ready.arrive_and_wait();
      ready.arrive_and_wait();
      give(t, n);
    });
  }
  ready.arrive_and_wait();
  const auto begin = clock::now();
  ready.arrive_and_wait();
  for (std::thread& t : all) t.join();
  return since(begin) / (double{width} * n);
}

bench_case threads(world& w, bool is_shared) {
  const unsigned n = w.ops(3000);
  const auto h = std::make_shared<hand>(w, 0);
  return {is_shared ? "threads8_shared" : "threads8",
          is_shared ? "eight threads on eight streams that all read one buffer"
                    : "eight threads on eight streams",
          1.05,
          true,
          {{"braid",
            [&w, n, is_shared] {
              return on_threads(n, [&](unsigned t, unsigned count) {
                for (unsigned i = 0; i < count; ++i) {
                  if (is_shared) {
                    w.rt->submit(stream_id{t}, "kernel", read(w.cells[width]), read_write(w.cells[t]),
                                 do_empty);
                  } else {
                    w.rt->submit(stream_id{t}, "kernel", read_write(w.cells[t]), do_empty);
                  }
                }
                w.rt->wait(stream_id{t});
              });
            }},
           {"by_hand", [h, n] {
              return on_threads(n, [&](unsigned t, unsigned count) {
                for (unsigned i = 0; i < count; ++i) launch_empty(h->stream(t));
                check(cudaStreamSynchronize(h->stream(t)));
              });
            }}}};
}

// ---- Bodies that do nothing: what braid itself costs.

constexpr auto nothing = [](auto...) {};

bench_case alternating(world& w) {
  const unsigned n = w.ops(100'000) / 2 * 2;
  return {"empty_xy",
          "no kernels: x.read, y.read_write and back, in one stream",
          100,
          false,
          {{"braid", [&w, n] {
              auto& x = w.cells[0];
              auto& y = w.cells[1];
              const auto begin = clock::now();
              for (unsigned i = 0; i < n; i += 2) {
                w.rt->submit(stream_id{0}, "there", read(x), read_write(y), nothing);
                w.rt->submit(stream_id{0}, "back", read(y), read_write(x), nothing);
              }
              const double ns = since(begin) / n;
              w.rt->synchronize();
              return ns;
            }}}};
}

// ---- Two kernels that exchange two arrays.

// What they hold is looked at past braid, so that nothing but the kernels is submitted to it.
bench_case swaps(world& w) {
  const unsigned n = w.ops(500) / 2 * 2 + 1;
  const auto h = std::make_shared<hand>(w, 0);
  const auto expect_exchanged = [h, in_x = std::make_shared<int>(1)] {  // x holds ones at first, y twos
    std::vector<int> found(world::length);
    check(cudaMemcpy(found.data(), h->x, found.size() * sizeof(int), cudaMemcpyDeviceToHost));
    *in_x = 3 - *in_x;
    if (found != std::vector<int>(world::length, *in_x)) throw std::runtime_error("swap: wrong result");
  };
  return {"swap",
          "a kernel that exchanges x and y, again and again",
          1.03,
          true,
          {{"braid",
            [&w, n, expect_exchanged] {
              const auto begin = clock::now();
              for (unsigned i = 0; i < n; ++i) {
                w.rt->submit(stream_id{0}, "swap", read_write(w.x), read_write(w.y),
                             [](cuda::native_stream on, std::span<int> p, std::span<int> q) {
                               launch_swap(on, p.data(), q.data(), p.size());
                             });
              }
              w.rt->wait(stream_id{0});
              const double ns = since(begin) / n;
              expect_exchanged();
              return ns;
            }},
           {"by_hand",
            [n, h, expect_exchanged] {
              const auto begin = clock::now();
              for (unsigned i = 0; i < n; ++i) h->launch_swap_of_both();
              check(cudaStreamSynchronize(h->stream(0)));
              const double ns = since(begin) / n;
              expect_exchanged();
              return ns;
            }}},
          many_turns};
}

// ---- Memory.

bench_case allocation(world& w) {
  const unsigned n = w.ops(20'000);
  const auto h = std::make_shared<hand>(w, 0);
  return {"allocate_1mib",
          "take 1 MiB in a stream, use it in an op without a kernel, free it",
          150,
          false,
          {{"braid",
            [&w, n] {
              const auto begin = clock::now();
              for (unsigned i = 0; i < n; ++i) {
                const auto x = w.rt->make_buffer<char>(1 << 20, "x");
                w.rt->submit(stream_id{0}, "use", write(x), nothing);
              }
              return since(begin) / n;
            }},
           {"by_hand", [n, h] {
              const auto begin = clock::now();
              for (unsigned i = 0; i < n; ++i) {
                void* made = nullptr;
                check(cudaMallocAsync(&made, 1 << 20, h->stream(0)));
                check(cudaFreeAsync(made, h->stream(0)));
              }
              const double ns = since(begin) / n;
              check(cudaStreamSynchronize(h->stream(0)));
              return ns;
            }}}};
}

// ---- What calls of the driver cost the host.

template <class Call>
variant timed(unsigned n, std::shared_ptr<hand> h, Call call) {
  return [n, h = std::move(h), call] {
    const auto begin = clock::now();
    for (unsigned i = 0; i < n; ++i) call();
    const double ns = since(begin) / n;
    h->synchronize();
    return ns;
  };
}

void add_calls(world& w, std::vector<bench_case>& cases) {
  const unsigned n = w.ops(2000);
  const auto h = std::make_shared<hand>(w, 2);
  h->record(0, 0);
  h->synchronize();
  const auto add = [&](const char* name, auto call) {
    cases.push_back(
        {std::string("call_") + name, "one call of the driver", 0, false, {{"by_hand", timed(n, h, call)}}});
  };
  add("record", [h = h.get()] { h->record(1, 1); });
  add("wait", [h = h.get()] { h->wait(2, 0); });
  add("query", [h = h.get()] { (void)cudaEventQuery(h->event(0)); });
  add("capture_mode", [] {
    auto mode = cudaStreamCaptureModeRelaxed;
    check(cudaThreadExchangeStreamCaptureMode(&mode));
    check(cudaThreadExchangeStreamCaptureMode(&mode));
  });
  add("event_create_destroy", [] {
    cudaEvent_t made = nullptr;
    check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    check(cudaEventDestroy(made));
  });
  add("launch", [h = h.get()] { launch_empty(h->stream(3)); });
  cudaEvent_t with_timing = nullptr;
  check(cudaEventCreate(&with_timing));
  const std::shared_ptr<CUevent_st> timing(with_timing, [](cudaEvent_t e) { (void)cudaEventDestroy(e); });
  add("record_with_timing", [h = h.get(), timing] { check(cudaEventRecord(timing.get(), h->stream(4))); });
}

nlohmann::json device() {
  cudaDeviceProp found{};
  int driver = 0;
  int runtime = 0;
  check(cudaGetDeviceProperties(&found, 0));
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&runtime));
  return {{"name", found.name},
          {"multiprocessors", found.multiProcessorCount},
          {"memory_bytes", found.totalGlobalMem},
          {"driver_cuda", driver},
          {"runtime_cuda", runtime}};
}

}  // namespace

nlohmann::json run_cuda_bench(const cuda_options& options,
                              const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  (void)cuda::devices();  // says why there is none
  // What one case leaves behind, in memory and in what braid has learned, is not the next one's.
  std::deque<world> worlds;
  const auto fresh = [&]() -> world& { return worlds.emplace_back(options.quick); };
  const unsigned blocks = fresh().blocks;
  std::vector<bench_case> cases;
  cases.push_back(chain(fresh()));
  cases.push_back(pingpong(fresh()));
  cases.push_back(fork_join(fresh(), "forkjoin", "empty kernels, 1 to 8 to 1",
                            worlds.front().ops(500) / many_turns, many_turns,
                            [](cudaStream_t on) { launch_empty(on); }));
  cases.push_back(threads(fresh(), false));
  cases.push_back(threads(fresh(), true));
  cases.push_back(fork_join(fresh(), "forkjoin_100us",
                            "kernels of 100 us on an eighth of the multiprocessors", options.quick ? 5 : 25,
                            1, [blocks](cudaStream_t on) { launch_busy(on, blocks, long_kernel); }));
  cases.push_back(stencil(fresh()));
  cases.push_back(swaps(fresh()));
  cases.push_back(alternating(fresh()));
  add_rows(fresh, cases);
  cases.push_back(allocation(fresh()));
  add_recorded(fresh, cases);
  add_calls(worlds.front(), cases);
  std::erase_if(cases, [&](const bench_case& c) { return c.name.find(options.filter) == std::string::npos; });

  std::map<std::string, std::map<std::string, std::vector<double>>> found;
  const std::uint64_t of = cases.size() * (options.repetitions + 1);
  std::uint64_t done = 0;
  for (unsigned repetition = 0; repetition <= options.repetitions; ++repetition) {  // the first warms up
    for (const bench_case& c : cases) {
      for (unsigned turn = 0; turn < c.turns; ++turn) {
        for (const auto& [name, run] : c.variants) {
          const double ns = run();
          if (repetition != 0) found[c.name][name].push_back(ns);
        }
      }
      progress(++done, of);
    }
  }

  nlohmann::json out;
  out["machine"] = machine();
  out["device"] = device();
  out["repetitions"] = options.repetitions;
  out["results"] = nlohmann::json::array();
  out["ratios"] = nlohmann::json::array();
  for (const bench_case& c : cases) {
    std::map<std::string, double> medians;
    std::vector<double> ratios;  // of two that ran one after the other
    const auto& by_hand = found[c.name]["by_hand"];
    const auto& by_braid = found[c.name]["braid"];
    for (std::size_t i = 0; i < std::min(by_hand.size(), by_braid.size()); ++i)
      ratios.push_back(by_braid[i] / by_hand[i]);
    for (auto& [name, all] : found[c.name]) {
      if (all.empty()) continue;
      std::sort(all.begin(), all.end());
      medians[name] = all[all.size() / 2];
      out["results"].push_back({{"case", c.name},
                                {"runtime", name},
                                {"ns", medians[name]},
                                {"ns_min", all.front()},
                                {"ns_max", all.back()}});
    }
    nlohmann::json row = {{"case", c.name}, {"what", c.what}, {"is_ratio", c.is_ratio}};
    if (c.most != 0) row["at_most"] = c.most;
    if (!ratios.empty()) row["ratio"] = median(ratios);
    out["ratios"].push_back(std::move(row));
  }
  return out;
}

}  // namespace braid::bench
