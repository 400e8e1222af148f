#include <functional>
#include <stdexcept>
#include <utility>

#include "cases.hpp"

namespace braid::bench {

namespace {

/// A round of ops that a program runs again and again.
struct rounds {
  std::string name;
  std::string what;
  unsigned ops;  // in a round
  unsigned times;
  unsigned turns;
  std::function<void(world&)> submit;
  std::function<void(hand&, bool is_first)> by_hand;
  std::function<void(world&)> expect_result = [](world&) {};
};

/// A graph of what is put on the streams by hand.
class graph_by_hand {
 public:
  graph_by_hand(hand& h, const std::function<void(hand&, bool)>& round) {
    check(cudaStreamBeginCapture(h.stream(0), cudaStreamCaptureModeThreadLocal));
    const std::size_t fork = h.events() - 1;
    h.record(fork, 0);
    for (std::size_t i = 1; i < width; ++i) h.wait(i, fork);
    round(h, true);
    for (std::size_t i = 1; i < width; ++i) {
      h.record(fork - i, i);
      h.wait(0, fork - i);
    }
    check(cudaStreamEndCapture(h.stream(0), &made_));
    check(cudaGraphInstantiate(&runnable_, made_, 0));
  }
  ~graph_by_hand() {
    (void)cudaGraphExecDestroy(runnable_);
    (void)cudaGraphDestroy(made_);
  }
  graph_by_hand(const graph_by_hand&) = delete;
  graph_by_hand& operator=(const graph_by_hand&) = delete;
  void launch(cudaStream_t on) { check(cudaGraphLaunch(runnable_, on)); }

 private:
  cudaGraph_t made_ = nullptr;
  cudaGraphExec_t runnable_ = nullptr;
};

variant replayed(world& w, const rounds& r, bool is_graph) {
  const recording recorded = w.rt->record([&] { r.submit(w); }, {.graph = is_graph});
  if (recorded.is_graph() != is_graph) throw std::runtime_error(r.name + ": could not be captured");
  return [&w, r, recorded] {
    const auto begin = clock::now();
    recorded.replay(r.times);
    w.rt->synchronize();
    const double ns = since(begin) / (double{1} * r.ops * r.times);
    r.expect_result(w);
    return ns;
  };
}

void add(const rounds& r, const std::function<world&()>& fresh, std::vector<bench_case>& to) {
  world& w = fresh();
  world& with_graph = fresh();
  const auto h = std::make_shared<hand>(w, 4 * width);
  const auto graph = std::make_shared<graph_by_hand>(*h, r.by_hand);
  to.push_back({r.name + "_recorded",
                r.what + ", recorded and replayed op by op",
                1.03,
                true,
                {{"braid", replayed(w, r, false)},
                 {"by_hand",
                  [h, r] {
                    const auto begin = clock::now();
                    for (unsigned i = 0; i < r.times; ++i) r.by_hand(*h, i == 0);
                    h->synchronize();
                    return since(begin) / (double{1} * r.ops * r.times);
                  }}},
                r.turns});
  to.push_back({r.name + "_graph",
                r.what + ", recorded as a graph; by hand as a graph as well",
                1.05,
                true,
                {{"braid", replayed(with_graph, r, true)},
                 {"by_hand",
                  [h, graph, r] {
                    const auto begin = clock::now();
                    for (unsigned i = 0; i < r.times; ++i) graph->launch(h->stream(0));
                    h->synchronize();
                    return since(begin) / (double{1} * r.ops * r.times);
                  }}},
                r.turns});
}

}  // namespace

void add_recorded(const std::function<world&()>& fresh, std::vector<bench_case>& to) {
  const bool is_quick = fresh().quick;
  const unsigned times = is_quick ? 10 : 50;
  add({"chain", "rounds of 10 empty kernels in one stream", 10, times, many_turns,
       [](world& w) {
         for (unsigned i = 0; i < 10; ++i)
           w.rt->submit(stream_id{0}, "kernel", read_write(w.cells[0]), do_empty);
       },
       [](hand& h, bool) {
         for (unsigned i = 0; i < 10; ++i) launch_empty(h.stream(0));
       }},
      fresh, to);
  add({"pingpong", "rounds of 10 empty kernels, in turn in two streams", 10, times, many_turns,
       [](world& w) {
         for (unsigned i = 0; i < 10; ++i)
           w.rt->submit(stream_id{i % 2}, "kernel", read_write(w.cells[0]), do_empty);
       },
       [](hand& h, bool is_first) {
         for (unsigned i = 0; i < 10; ++i) {
           if (!is_first || i != 0) h.wait(i % 2, (i + 1) % 2);
           launch_empty(h.stream(i % 2));
           h.record(i % 2, i % 2);
         }
       }},
      fresh, to);
  const auto add_fork_join = [&](const char* name, const char* what, unsigned n, unsigned turns,
                                 auto kernel) {
    const auto body = [kernel](cuda::native_stream on, auto...) { kernel(on); };
    add({name, what, width + 1, n, turns,
         [body](world& w) {
           auto& b = w.cells;
           w.rt->submit(stream_id{0}, "join", read(b[0]), read(b[1]), read(b[2]), read(b[3]), read(b[4]),
                        read(b[5]), read(b[6]), read(b[7]), read_write(b[8]), body);
           for (unsigned k = 0; k < width; ++k)
             w.rt->submit(stream_id{k}, "fork", read(b[8]), read_write(b[k]), body);
         },
         [kernel](hand& h, bool is_first) {
           for (unsigned k = 1; !is_first && k < width; ++k) h.wait(0, k);
           kernel(h.stream(0));
           h.record(0, 0);
           for (unsigned k = 0; k < width; ++k) {
             if (k != 0) h.wait(k, 0);
             kernel(h.stream(k));
             if (k != 0) h.record(k, k);
           }
         }},
        fresh, to);
  };
  add({"swap", "rounds of 10 kernels that exchange x and y", 10, times, many_turns,
       [](world& w) {
         for (unsigned i = 0; i < 10; ++i) {
           w.rt->submit(stream_id{0}, "swap", read_write(w.x), read_write(w.y),
                        [](cuda::native_stream on, std::span<int> p, std::span<int> q) {
                          launch_swap(on, p.data(), q.data(), p.size());
                        });
         }
       },
       [](hand& h, bool) {
         for (unsigned i = 0; i < 10; ++i) h.launch_swap_of_both();
       },
       [](world& w) {
         if (w.rt->read(w.x).get() != std::vector<int>(world::length, 1))
           throw std::runtime_error("swap: wrong result");
       }},
      fresh, to);
  add_fork_join("forkjoin", "empty kernels, 1 to 8 to 1", times, many_turns,
                [](cudaStream_t on) { launch_empty(on); });
  const unsigned blocks = fresh().blocks;
  add_fork_join("forkjoin_100us", "kernels of 100 us on an eighth of the multiprocessors", is_quick ? 5 : 25,
                1, [blocks](cudaStream_t on) { launch_busy(on, blocks, long_kernel); });
}

}  // namespace braid::bench
