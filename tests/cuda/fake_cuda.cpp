// An imitation of libcuda.so.1, for machines without a GPU: what braid's backend calls, with the meaning that
// the driver's documentation gives it. A stream is a thread that runs what it is given in order; memory of
// the device is memory of the host. Each piece of work is held up at random, so that what nothing orders runs
// out of order. A graph runs what was captured in an order chosen at random from those that the captured
// waits allow. fake_cuda_lose() makes every later call fail as after a kernel that faulted,
// fake_cuda_devices() sets how many devices there are, none of which can reach the memory of another,
// fake_cuda_unload() lets the driver go before the program does, fake_cuda_fail() lets one call fail, and
// fake_cuda_calls_in_child() tells what a child of fork() has asked for.

#include <cuda.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

std::atomic<bool> is_lost{false};
std::atomic<bool> is_unloaded{false};

CUresult status() {
  if (is_unloaded) return CUDA_ERROR_DEINITIALIZED;
  return is_lost.load() ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

std::atomic<bool> is_child{false};  // of fork(): the driver was used before
std::atomic<int> calls_in_child{0};

/// One call that shall fail.
class fault {
 public:
  /// Whether the one before has been told.
  bool set(const char* call, int skip, int code) {
    const std::scoped_lock lock(mutex_);
    const bool was_told = !call_.empty() && !is_set_;
    call_ = call != nullptr ? call : "";
    skip_ = skip;
    code_ = static_cast<CUresult>(code);
    is_set_ = !call_.empty();
    return was_told;
  }
  CUresult of(std::string_view call) {
    if (!is_set_) return CUDA_SUCCESS;
    const std::scoped_lock lock(mutex_);
    if (!is_set_ || call != call_ || skip_-- > 0) return CUDA_SUCCESS;
    is_set_ = false;
    return code_;
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> is_set_{false};
  std::string call_;
  int skip_ = 0;
  CUresult code_ = CUDA_SUCCESS;
};
fault& next_fault = *new fault;  // for good: the driver is used until the process ends

/// What each call begins with: what it gives instead of doing something, or success. `function`: its
/// __func__, where cuda.h adds the version of some.
CUresult enter(std::string_view function) {
  [[maybe_unused]] static const int watched = pthread_atfork(nullptr, nullptr, [] { is_child = true; });
  if (is_child) ++calls_in_child;
  if (function.ends_with("_v2")) function.remove_suffix(3);
  return next_fault.of(function);
}

/// How often an event was recorded, and how many of those are behind all work before them.
struct event_core {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0;
  std::uint64_t done = 0;
  std::chrono::steady_clock::time_point at;  // when the last of them was reached

  void finish(std::uint64_t which) {
    const std::scoped_lock lock(mutex);
    done = std::max(done, which);
    at = std::chrono::steady_clock::now();
    changed.notify_all();
  }
  void wait_for(std::uint64_t which) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done >= which; });
  }
};

thread_local CUcontext current = nullptr;
std::mutex capturing;  // of all streams
std::atomic<int> device_count{1};

CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>(0x1000 + std::uintptr_t{16} * static_cast<unsigned>(device));
}
bool is_context(CUcontext c) {
  for (int i = 0; i < device_count; ++i)
    if (c == context_of(i)) return true;
  return false;
}

}  // namespace

/// What was captured: pieces of work, each after others.
struct CUgraph_st {
  struct node {
    std::function<void()> work;
    std::set<std::size_t> after;
  };
  std::vector<node> nodes;
  std::set<CUstream> streams;  // that are being captured into it

  /// Whether the node comes before one of these, or is one.
  [[nodiscard]] bool is_behind(const std::set<std::size_t>& ends, std::size_t wanted) const {
    return std::any_of(ends.begin(), ends.end(), [&](std::size_t end) {
      return end == wanted || (end > wanted && is_behind(nodes[end].after, wanted));
    });
  }
};

struct CUgraphExec_st {
  std::mutex one_at_a_time;
  std::vector<CUgraph_st::node> nodes;
  std::mt19937 random{1};

  void run() {
    const std::scoped_lock lock(one_at_a_time);
    std::vector<bool> is_done(nodes.size());
    for (std::size_t done = 0; done < nodes.size(); ++done) {
      std::vector<std::size_t> ready;
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        const auto& after = nodes[i].after;
        if (!is_done[i] && std::all_of(after.begin(), after.end(), [&](std::size_t a) { return is_done[a]; }))
          ready.push_back(i);
      }
      const std::size_t next = ready[random() % ready.size()];
      nodes[next].work();
      is_done[next] = true;
    }
  }
};

struct CUevent_st {
  std::shared_ptr<event_core> core = std::make_shared<event_core>();
  CUgraph captured = nullptr;    // it was recorded in a stream that was being captured,
  std::set<std::size_t> behind;  // behind these
};

struct CUstream_st {
  explicit CUstream_st(CUcontext of) : context(of), thread([this] { run(); }) {}
  ~CUstream_st() {
    {
      const std::scoped_lock lock(mutex);
      stop = true;
    }
    changed.notify_all();
    thread.join();
  }
  void add(std::function<void()> work) {
    {
      const std::scoped_lock lock(capturing);
      if (captured != nullptr) {
        captured->nodes.push_back({std::move(work), ends});
        ends = {captured->nodes.size() - 1};
        return;
      }
    }
    const std::scoped_lock lock(mutex);
    queue.push_back(std::move(work));
    changed.notify_all();
  }
  bool is_idle() {
    const std::scoped_lock lock(mutex);
    return queue.empty() && !is_busy;
  }
  void run() {
    std::uint64_t random = reinterpret_cast<std::uintptr_t>(this);
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stop || !queue.empty(); });
      if (queue.empty()) return;
      auto work = std::move(queue.front());
      queue.pop_front();
      is_busy = true;
      lock.unlock();
      random = random * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;
      if ((random >> 60) == 0) std::this_thread::sleep_for(std::chrono::microseconds(random >> 56 & 0xff));
      work();
      lock.lock();
      is_busy = false;
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool stop = false;
  bool is_busy = false;  // with what it has taken from the queue
  CUcontext const context;
  CUgraph captured = nullptr;
  std::set<std::size_t> ends;  // of what was captured from this stream
  std::thread thread;
};

namespace {

/// Memory of the host that the device reaches.
class pinned_memory {
 public:
  void add(void* data, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    all_[reinterpret_cast<std::uintptr_t>(data)] = bytes;
  }
  void remove(void* data) {
    const std::scoped_lock lock(mutex_);
    all_.erase(reinterpret_cast<std::uintptr_t>(data));
  }
  bool has(std::uintptr_t p) {
    const std::scoped_lock lock(mutex_);
    const auto after = all_.upper_bound(p);
    return after != all_.begin() && p - std::prev(after)->first < std::prev(after)->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> all_;
};
pinned_memory& pinned = *new pinned_memory;  // for good

/// Null and the legacy handle are the default stream of the context that is current.
CUstream stream_of(CUstream s) {
  if (s != nullptr && s != CU_STREAM_LEGACY) return s;
  if (!is_context(current)) return nullptr;
  static std::mutex mutex;
  static auto* const all = new std::map<CUcontext, std::unique_ptr<CUstream_st>>;  // for good
  const std::scoped_lock lock(mutex);
  auto& found = (*all)[current];
  if (found == nullptr) found = std::make_unique<CUstream_st>(current);
  return found.get();
}

CUresult copy_later(CUstream on, void* to, const void* from, std::size_t bytes) {
  if (status() != CUDA_SUCCESS) return status();
  on = stream_of(on);
  if (on == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  on->add([=] { std::memcpy(to, from, bytes); });
  return CUDA_SUCCESS;
}

template <class Word>
CUresult set_later(CUstream on, CUdeviceptr to, std::size_t pitch, Word value, std::size_t width,
                   std::size_t height) {
  if (status() != CUDA_SUCCESS) return status();
  on = stream_of(on);
  if (on == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  on->add([=] {
    for (std::size_t row = 0; row < height; ++row) {
      for (std::size_t i = 0; i < width; ++i) {
        std::memcpy(reinterpret_cast<char*>(to) + row * pitch + i * sizeof(Word), &value, sizeof(Word));
      }
    }
  });
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

void fake_cuda_lose() {
  is_lost = true;
}
void fake_cuda_devices(int count) {
  device_count = count;
}
void fake_cuda_unload() {
  is_unloaded = true;
}
/// The call of that name, without a version, gives this code once, after `skip` more that do not. Null: none
/// does. Whether the one that was set before has come.
bool fake_cuda_fail(const char* call, int skip, int code) {
  return next_fault.set(call, skip, code);
}
/// Calls of the driver in this process, if it is a child of one that used it before.
int fake_cuda_calls_in_child() {
  return calls_in_child;
}

CUresult cuInit(unsigned) {
  if (const CUresult no = enter(__func__)) return no;
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  if (const CUresult no = enter(__func__)) return no;
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult code, const char** name) {
  if (const CUresult no = enter(__func__)) return no;
  *name = code == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : code == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                             : "CUDA_ERROR";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  if (const CUresult no = enter(__func__)) return no;
  *text = "an imitated error";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (const CUresult no = enter(__func__)) return no;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  if (const CUresult no = enter(__func__)) return no;
  *count = device_count;
  return status();
}
CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  if (const CUresult no = enter(__func__)) return no;
  std::strncpy(name, "an imitated device", static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
  if (const CUresult no = enter(__func__)) return no;
  *bytes = std::size_t{1} << 32;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
  if (const CUresult no = enter(__func__)) return no;
  *value = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
  if (const CUresult no = enter(__func__)) return no;
  *can = 0;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (const CUresult no = enter(__func__)) return no;
  *context = context_of(device);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  if (const CUresult no = enter(__func__)) return no;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  if (const CUresult no = enter(__func__)) return no;
  *context = current;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  if (const CUresult no = enter(__func__)) return no;
  current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) {
  if (const CUresult no = enter(__func__)) return no;
  return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}
CUresult cuCtxGetStreamPriorityRange(int* lowest, int* highest) {
  if (const CUresult no = enter(__func__)) return no;
  *lowest = 0;
  *highest = -5;
  return CUDA_SUCCESS;
}
CUresult cuStreamCreateWithPriority(CUstream* made, unsigned, int) {
  if (const CUresult no = enter(__func__)) return no;
  if (!is_context(current)) return CUDA_ERROR_INVALID_CONTEXT;
  if (status() != CUDA_SUCCESS) return status();
  *made = new CUstream_st(current);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  if (is_unloaded) return status();
  delete s;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx(CUstream s, CUcontext* context) {
  if (const CUresult no = enter(__func__)) return no;
  *context = s->context;
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* found) {
  if (const CUresult no = enter(__func__)) return no;
  s = stream_of(s);
  if (s == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::scoped_lock lock(capturing);
  *found = s->captured != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned) {
  if (const CUresult no = enter(__func__)) return no;
  if (status() != CUDA_SUCCESS) return status();
  s = stream_of(s);
  if (s == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (e == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  {
    const std::scoped_lock lock(capturing);
    if (e->captured != nullptr) {
      if (s->captured == nullptr) s->ends.clear();
      s->captured = e->captured;
      s->captured->streams.insert(s);
      s->ends.insert(e->behind.begin(), e->behind.end());
      return CUDA_SUCCESS;
    }
    if (s->captured != nullptr) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  std::uint64_t which = 0;
  {
    const std::scoped_lock lock(e->core->mutex);
    which = e->core->recorded;
  }
  s->add([core = e->core, which] { core->wait_for(which); });
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode) {
  if (const CUresult no = enter(__func__)) return no;
  if (is_lost) return status();
  const std::scoped_lock lock(capturing);
  if (s->captured != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  s->captured = new CUgraph_st;
  s->captured->streams.insert(s);
  s->ends.clear();
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream s, CUgraph* made) {
  if (const CUresult no = enter(__func__)) return no;
  const std::scoped_lock lock(capturing);
  CUgraph found = s->captured;
  if (found == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  bool is_joined = true;
  for (CUstream each : found->streams) {
    for (const std::size_t end : each->ends) is_joined = is_joined && found->is_behind(s->ends, end);
    each->captured = nullptr;
  }
  found->streams.clear();
  if (!is_joined || is_lost) {
    delete found;
    *made = nullptr;
    return is_lost ? status() : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  *made = found;
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* made, CUgraph graph, unsigned long long) {
  if (const CUresult no = enter(__func__)) return no;
  if (is_lost) return status();
  *made = new CUgraphExec_st;
  (*made)->nodes = graph->nodes;
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  if (is_lost) return status();
  s->add([graph] { graph->run(); });
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec graph) {
  if (const CUresult no = enter(__func__)) return no;
  delete graph;  // one that still runs is a fault of the program's
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  if (const CUresult no = enter(__func__)) return no;
  delete graph;
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  if (is_unloaded) return status();
  s = stream_of(s);
  if (s == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  {
    const std::scoped_lock lock(capturing);
    if (s->captured != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  const auto core = std::make_shared<event_core>();
  s->add([core] { core->finish(1); });
  core->wait_for(1);
  return status();
}
CUresult cuStreamQuery(CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  if (status() != CUDA_SUCCESS) return status();
  s = stream_of(s);
  if (s == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  {
    const std::scoped_lock lock(capturing);
    if (s->captured != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return s->is_idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuEventCreate(CUevent* made, unsigned) {
  if (const CUresult no = enter(__func__)) return no;
  if (!is_context(current)) return CUDA_ERROR_INVALID_CONTEXT;
  if (status() != CUDA_SUCCESS) return status();
  *made = new CUevent_st;
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent e) {
  if (const CUresult no = enter(__func__)) return no;
  if (is_unloaded) return status();
  delete e;
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent e, CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  if (status() != CUDA_SUCCESS) return status();
  s = stream_of(s);
  if (s == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  {
    const std::scoped_lock lock(capturing);
    e->captured = s->captured;
    e->behind = s->ends;
    if (e->captured != nullptr) return CUDA_SUCCESS;
  }
  // One at a time, so that the order of the numbers is that of the queue.
  const std::scoped_lock lock(e->core->mutex);
  s->add([core = e->core, which = ++e->core->recorded] { core->finish(which); });
  return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent e) {
  if (const CUresult no = enter(__func__)) return no;
  if (status() != CUDA_SUCCESS) return status();
  {
    const std::scoped_lock lock(capturing);
    if (e->captured != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  }
  const std::scoped_lock lock(e->core->mutex);
  return e->core->done >= e->core->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuEventSynchronize(CUevent e) {
  if (const CUresult no = enter(__func__)) return no;
  if (is_unloaded) return status();
  {
    const std::scoped_lock lock(capturing);
    if (e->captured != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  }
  std::uint64_t which = 0;
  {
    const std::scoped_lock lock(e->core->mutex);
    which = e->core->recorded;
  }
  e->core->wait_for(which);
  return status();
}
CUresult cuEventElapsedTime(float* ms, CUevent from, CUevent to) {
  if (const CUresult no = enter(__func__)) return no;
  if (is_lost) return status();
  if (cuEventQuery(from) != CUDA_SUCCESS || cuEventQuery(to) != CUDA_SUCCESS) return CUDA_ERROR_NOT_READY;
  const std::scoped_lock lock(from->core->mutex, to->core->mutex);
  *ms = std::chrono::duration<float, std::milli>(to->core->at - from->core->at).count();
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* made, std::size_t bytes) {
  if (const CUresult no = enter(__func__)) return no;
  *made = 0;
  if (!is_context(current)) return CUDA_ERROR_INVALID_CONTEXT;
  if (status() != CUDA_SUCCESS) return status();
  void* data = bytes > (std::size_t{1} << 32) ? nullptr : std::aligned_alloc(4096, bytes);
  *made = reinterpret_cast<CUdeviceptr>(data);
  return data != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemFree(CUdeviceptr data) {
  if (const CUresult no = enter(__func__)) return no;
  std::free(reinterpret_cast<void*>(data));
  return CUDA_SUCCESS;
}
CUresult cuMemAllocAsync(CUdeviceptr* made, std::size_t bytes, CUstream) {
  if (const CUresult no = enter(__func__)) return no;
  return cuMemAlloc(made, bytes);
}
CUresult cuMemFreeAsync(CUdeviceptr data, CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  s->add([=] { std::free(reinterpret_cast<void*>(data)); });
  return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void** made, std::size_t bytes, unsigned) {
  if (const CUresult no = enter(__func__)) return no;
  *made = nullptr;
  if (status() != CUDA_SUCCESS) return status();
  const std::size_t whole = (bytes + 4095) / 4096 * 4096;
  *made = bytes > (std::size_t{1} << 32) ? nullptr : std::aligned_alloc(4096, whole);
  if (*made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  pinned.add(*made, whole);
  return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* data) {
  if (const CUresult no = enter(__func__)) return no;
  pinned.remove(data);
  std::free(data);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  return copy_later(s, reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t n, CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  return set_later(s, to, 0, value, n, 1);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t n, CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  return set_later(s, to, 0, value, n, 1);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t n, CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  return set_later(s, to, 0, value, n, 1);
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width,
                           std::size_t height, CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  return set_later(s, to, pitch, value, width, height);
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t width,
                            std::size_t height, CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  return set_later(s, to, pitch, value, width, height);
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width,
                            std::size_t height, CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  return set_later(s, to, pitch, value, width, height);
}
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr p) {
  if (const CUresult no = enter(__func__)) return no;
  // As for memory that the driver does not know, nothing is set for any but pinned memory.
  if (count == 1 && attributes[0] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE && pinned.has(p))
    *static_cast<unsigned*>(data[0]) = CU_MEMORYTYPE_HOST;
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (const CUresult no = enter(__func__)) return no;
  thread_local CUstreamCaptureMode now = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::swap(now, *mode);
  return CUDA_SUCCESS;
}
/// As a kernel would be.
CUresult fake_cuda_launch(CUstream s, const std::function<void()>& work) {
  if (const CUresult no = enter(__func__)) return no;
  if (status() != CUDA_SUCCESS) return status();
  s = stream_of(s);
  if (s == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  s->add(work);
  return CUDA_SUCCESS;
}

}  // extern "C"
