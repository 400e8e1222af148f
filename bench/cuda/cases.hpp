#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "braid/cuda.hpp"
#include "kernels.hpp"
#include "row_inputs.hpp"

// What the cases of `braid bench cuda` are made of.

namespace braid::bench {

using clock = std::chrono::steady_clock;
constexpr unsigned long_kernel = 100'000;  // ns

inline void check(cudaError_t code) {
  cuda::check(code);
}

inline double since(clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(clock::now() - begin).count();
}

// ---- As the origin does it.

/// An alignment makes an event with timing behind the other stream, and destroys it once it is waited for.
/// After the op a further stream waits for a second one, and a thread for a third, behind that: then what the
/// op shared is let go. When eight such releases are pending the submitter waits.
class origin {
 public:
  origin() {
    for (cudaStream_t& s : streams_) check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    check(cudaStreamCreateWithFlags(&gc_, cudaStreamNonBlocking));
    releases_ = std::thread([this] { run(); });
  }
  ~origin() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    releases_.join();
    for (cudaStream_t s : streams_) (void)cudaStreamDestroy(s);
    (void)cudaStreamDestroy(gc_);
  }
  origin(const origin&) = delete;
  origin& operator=(const origin&) = delete;

  cudaStream_t stream(std::size_t i) const { return streams_[i]; }
  /// Before an op, for each stream whose data it shares.
  void align(std::size_t stream, std::size_t with) { wait(streams_[stream], flush(streams_[with])); }
  /// After an op that shared data.
  void release(std::size_t stream) {
    wait(gc_, flush(streams_[stream]));
    const cudaEvent_t made = flush(gc_);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.size() < 8; });
    queue_.push_back(made);
    lock.unlock();
    changed_.notify_all();
  }
  void synchronize() {
    for (cudaStream_t s : streams_) check(cudaStreamSynchronize(s));
  }

 private:
  static cudaEvent_t flush(cudaStream_t of) {
    cudaEvent_t made = nullptr;
    check(cudaEventCreate(&made));
    check(cudaEventRecord(made, of));
    return made;
  }
  static void wait(cudaStream_t on, cudaEvent_t made) {
    check(cudaStreamWaitEvent(on, made, 0));
    check(cudaEventDestroy(made));
  }
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const cudaEvent_t next = queue_.front();
      queue_.pop_front();
      lock.unlock();
      changed_.notify_all();
      (void)cudaEventSynchronize(next);
      (void)cudaEventDestroy(next);
      lock.lock();
    }
  }

  std::array<cudaStream_t, width> streams_{};
  cudaStream_t gc_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<cudaEvent_t> queue_;
  bool stop_ = false;
  std::thread releases_;
};

// ---- The cases. Each variant is set up once, then runs once a repetition and returns ns an op.

using variant = std::function<double()>;
struct bench_case {
  std::string name;
  std::string what;
  double most = 0;  // of the ratio to `by_hand`, or ns where nothing is written by hand
  bool is_ratio = true;
  std::map<std::string, variant> variants;  // "braid", "by_hand", "origin"
  unsigned turns = 1;                       // of each variant in a repetition, one after the other
};

/// How many times short programs take turns: the host changes its speed within tens of milliseconds.
constexpr unsigned many_turns = 10;

inline std::shared_ptr<int> device_ints(std::size_t count) {
  void* made = nullptr;
  check(cudaMalloc(&made, count * sizeof(int)));
  return {static_cast<int*>(made), [](int* p) { (void)cudaFree(p); }};
}

struct world {
  explicit world(bool is_quick) : quick(is_quick) {
    runtime_options with;
    with.streams = width;
    rt = std::make_shared<cuda::runtime>(with);
    cudaDeviceProp found{};
    check(cudaGetDeviceProperties(&found, 0));
    blocks = std::max(1U, static_cast<unsigned>(found.multiProcessorCount) / width);
    for (unsigned i = 0; i <= width; ++i) {
      cells.push_back(rt->make_buffer<int>(16, "cell"));
      rt->fill(cells.back(), 0);
    }
    x = rt->adopt(std::span<int>(x_memory.get(), length), "x");
    y = rt->adopt(std::span<int>(y_memory.get(), length), "y");
    rt->fill(x, 1);
    rt->fill(y, 2);
    rt->synchronize();
  }
  static constexpr std::size_t length = 1024;
  bool quick;
  unsigned blocks = 16;
  std::shared_ptr<int> x_memory = device_ints(length);
  std::shared_ptr<int> y_memory = device_ints(length);
  std::shared_ptr<cuda::runtime> rt;
  std::vector<buffer<int>> cells;  // width and one more
  buffer<int> x, y;
  [[nodiscard]] unsigned ops(unsigned n) const { return quick ? std::max(100U, n / 10) : n; }
};

// ---- By hand.

/// Streams, and as many events without timing as the program needs, made beforehand. Streams and memory are
/// those of a runtime, which has nothing to do meanwhile: which of the device's queues a stream is given and
/// where the memory lies make a difference to kernels as short as these.
class hand {
 public:
  hand(world& w, std::size_t events) : x(w.x_memory.get()), y(w.y_memory.get()), events_(events) {
    for (unsigned i = 0; i < width; ++i)
      w.rt->submit(stream_id{i}, "native", [&](cuda::native_stream s) { streams_[i] = s; });
    w.rt->synchronize();
    for (cudaEvent_t& e : events_) check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  }
  ~hand() {
    for (cudaEvent_t e : events_) (void)cudaEventDestroy(e);
  }
  hand(const hand&) = delete;
  hand& operator=(const hand&) = delete;

  cudaStream_t stream(std::size_t i) const { return streams_[i]; }
  cudaEvent_t event(std::size_t i) const { return events_[i]; }
  std::size_t events() const { return events_.size(); }
  void record(std::size_t event, std::size_t stream) { check(record_(events_[event], streams_[stream])); }
  void wait(std::size_t stream, std::size_t event) { check(wait_(streams_[stream], events_[event], 0)); }
  void synchronize() {
    for (cudaStream_t s : streams_) check(cudaStreamSynchronize(s));
  }
  void launch_swap_of_both() { launch_swap(streams_[0], x, y, world::length); }

  int* const x;
  int* const y;

 private:
  // As braid does: the driver's functions, which cost less than those of the runtime library.
  template <class Function>
  static Function driver_function(const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
    if (found == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
    return reinterpret_cast<Function>(found);
  }
  static void check(cudaError_t code) { bench::check(code); }
  static void check(CUresult code) {
    if (code != CUDA_SUCCESS)
      throw std::runtime_error("a call of the driver failed: " + std::to_string(code));
  }

  const decltype(&cuEventRecord) record_ = driver_function<decltype(&cuEventRecord)>("cuEventRecord");
  const decltype(&cuStreamWaitEvent) wait_ =
      driver_function<decltype(&cuStreamWaitEvent)>("cuStreamWaitEvent");
  std::array<cudaStream_t, width> streams_{};
  std::vector<cudaEvent_t> events_;
};

inline constexpr auto do_empty = [](cuda::native_stream on, auto...) { launch_empty(on); };

/// Programs that repeat themselves, recorded: each given op by op, and as a graph.
void add_recorded(const std::function<world&()>& fresh, std::vector<bench_case>& to);
/// Rows of tasks without kernels: what braid costs where streams wait for each other.
void add_rows(const std::function<world&()>& fresh, std::vector<bench_case>& to);

}  // namespace braid::bench
