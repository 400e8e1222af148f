// An imitation of libcuda.so.1, for machines without a GPU: what braid's backend calls, with the meaning that
// the driver's documentation gives it. A stream is a thread that runs what it is given in order; memory of
// the device is memory of the host. Each piece of work is held up at random, so that what nothing orders runs
// out of order. A graph runs what was captured in an order chosen at random from those that the captured
// waits allow. fake_cuda_lose() makes every later call fail as after a kernel that faulted,
// fake_cuda_devices() sets how many devices there are, fake_cuda_peers() whether they reach each other's
// memory, fake_cuda_unload() lets the driver go before the program does, and fake_cuda_fail() lets one call
// fail. It refuses what the driver refuses, of contexts and of captures too, and what it can be asked beyond
// that (how many events with timing were made, say) stands at the top of its functions.

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
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

std::atomic<bool> is_lost{false};
std::atomic<int> lost_with{CUDA_ERROR_ILLEGAL_ADDRESS};
std::atomic<bool> is_unloaded{false};

CUresult status() {
  if (is_unloaded) return CUDA_ERROR_DEINITIALIZED;
  return is_lost.load() ? static_cast<CUresult>(lost_with.load()) : CUDA_SUCCESS;
}

std::atomic<bool> is_child{false};  // of fork(): the driver was used before
std::atomic<int> calls_in_child{0};

/// One call that shall fail.
class fault {
 public:
  /// Whether the one before has been told.
  bool set(const char* call, int skip, int code, bool is_kept) {
    const std::scoped_lock lock(mutex_);
    const bool was_told = std::exchange(is_told_, false);
    call_ = call != nullptr ? call : "";
    skip_ = skip;
    code_ = static_cast<CUresult>(code);
    is_kept_ = is_kept;
    is_set_ = !call_.empty();
    return was_told;
  }
  CUresult of(std::string_view call) {
    if (!is_set_) return CUDA_SUCCESS;
    const std::scoped_lock lock(mutex_);
    if (!is_set_ || call != call_ || skip_-- > 0) return CUDA_SUCCESS;
    is_set_ = is_kept_;
    is_told_ = true;
    return code_;
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> is_set_{false};
  bool is_kept_ = false;
  bool is_told_ = false;
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
  if (is_unloaded) return CUDA_ERROR_DEINITIALIZED;
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
std::atomic<int> device_count{1};
constexpr int most_devices = 8;
constexpr int lowest_priority = 0;
constexpr int highest_priority = -5;
std::atomic<bool> are_peers{false};
std::atomic<std::uint64_t> enabled_peers{0};  // a bit for each pair
std::atomic<int> retained[most_devices];      // primary contexts, how often
std::atomic<int> timing_events{0};            // that were ever made
std::atomic<int> living_events{0};
std::atomic<int> living_streams{0};

CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>(0x1000 + std::uintptr_t{16} * static_cast<unsigned>(device));
}
int device_of(CUcontext c) {
  for (int i = 0; i < device_count; ++i)
    if (c == context_of(i)) return i;
  return -1;
}
bool is_context(CUcontext c) {
  return device_of(c) >= 0;
}

/// What some streams are given goes into a graph.
struct capture {
  const CUgraph graph;
  const CUstream origin;
  const CUstreamCaptureMode mode;
  const std::thread::id by = std::this_thread::get_id();
  bool is_valid = true;
  bool is_over = false;
  std::set<CUstream> streams{};
};
std::mutex capturing;  // for all of these, and for which stream and event belongs to which
std::set<std::shared_ptr<capture>>& captures = *new std::set<std::shared_ptr<capture>>;  // for good
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/// enter() for a call that no capture would notice: captures that forbid it are not valid any more.
CUresult enter_unsafely(std::string_view function) {
  if (const CUresult no = enter(function)) return no;
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  const std::scoped_lock lock(capturing);
  CUresult result = CUDA_SUCCESS;
  for (const auto& each : captures) {
    const bool is_mine = each->by == std::this_thread::get_id();
    if (is_mine ? each->mode == CU_STREAM_CAPTURE_MODE_RELAXED
                : each->mode != CU_STREAM_CAPTURE_MODE_GLOBAL || thread_mode != CU_STREAM_CAPTURE_MODE_GLOBAL)
      continue;
    each->is_valid = false;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

}  // namespace

/// What was captured: pieces of work, each after others.
struct CUgraph_st {
  struct node {
    std::function<void()> work;
    std::set<std::size_t> after;
  };
  std::vector<node> nodes;

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
  CUevent_st(CUcontext of, bool timed) : context(of), is_timed(timed) { ++living_events; }
  ~CUevent_st() { --living_events; }
  /// Refuses what cannot be done with an event that was last recorded in a capture.
  CUresult expect_not_captured() {
    const std::scoped_lock lock(capturing);
    if (captured == nullptr) return CUDA_SUCCESS;
    captured->is_valid = false;
    return CUDA_ERROR_CAPTURED_EVENT;
  }

  const CUcontext context;
  const bool is_timed;
  std::shared_ptr<event_core> core = std::make_shared<event_core>();
  std::shared_ptr<capture> captured;  // in which it was recorded last,
  std::set<std::size_t> behind;       // behind these
};

struct CUstream_st {
  CUstream_st(CUcontext of, unsigned made_with, int wanted)
      : context(of), flags(made_with), priority(wanted), thread([this] { run(); }) {}
  ~CUstream_st() {
    {
      const std::scoped_lock lock(mutex);
      stop = true;
    }
    changed.notify_all();
    thread.join();
  }
  CUresult add(std::function<void()> work) {
    {
      const std::scoped_lock lock(capturing);
      if (const CUresult no = expect_usable()) return no;
      if (captured != nullptr) {
        auto& nodes = captured->graph->nodes;
        nodes.push_back({std::move(work), ends});
        ends = {nodes.size() - 1};
        return CUDA_SUCCESS;
      }
    }
    const std::scoped_lock lock(mutex);
    queue.push_back(std::move(work));
    changed.notify_all();
    return CUDA_SUCCESS;
  }
  /// Under `capturing`: what is given to a stream is refused if its capture is not valid any more, and, on a
  /// default stream, while one that is ordered with it is captured.
  CUresult expect_usable() {
    if (captured != nullptr) return captured->is_valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    CUresult result = CUDA_SUCCESS;
    for (const auto& each : captures_ordered_with_it()) {
      each->is_valid = false;
      result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return result;
  }
  std::vector<std::shared_ptr<capture>> captures_ordered_with_it() {
    std::vector<std::shared_ptr<capture>> found;
    for (const auto& each : captures) {
      if (is_default && std::any_of(each->streams.begin(), each->streams.end(), [&](CUstream s) {
            return s->context == context && (s->flags & CU_STREAM_NON_BLOCKING) == 0;
          }))
        found.push_back(each);
    }
    return found;
  }
  /// Refuses to look whether it is idle while it is captured.
  CUresult expect_not_captured() {
    const std::scoped_lock lock(capturing);
    if (captured == nullptr) return expect_usable();
    captured->is_valid = false;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
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
  const unsigned flags;
  const int priority;
  bool is_default = false;
  std::shared_ptr<capture> captured;
  std::set<std::size_t> ends;  // of what was captured from this stream
  std::thread thread;
};

namespace {

/// Memory that the driver knows.
class known_memory {
 public:
  struct block {
    std::size_t bytes;
    unsigned type;  // a CUmemorytype
    int device;     // whose context was current
    bool is_managed;
  };
  void add(void* data, std::size_t bytes, unsigned type, bool is_managed = false) {
    const std::scoped_lock lock(mutex_);
    all_[reinterpret_cast<std::uintptr_t>(data)] = {bytes, type, device_of(current), is_managed};
  }
  bool remove(void* data) {
    const std::scoped_lock lock(mutex_);
    return all_.erase(reinterpret_cast<std::uintptr_t>(data)) != 0;
  }
  std::optional<block> find(std::uintptr_t p) {
    const std::scoped_lock lock(mutex_);
    const auto after = all_.upper_bound(p);
    if (after == all_.begin() || p - std::prev(after)->first >= std::prev(after)->second.bytes) return {};
    return std::prev(after)->second;
  }
  /// Whether the bytes are part of what was registered of the host, or have nothing to do with it.
  bool is_whole(const void* data, std::size_t bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    const std::scoped_lock lock(mutex_);
    auto at = all_.lower_bound(begin + bytes);
    if (at == all_.begin()) return true;
    --at;  // the last one that begins before the end
    const std::uintptr_t end = at->first + at->second.bytes;
    if (at->second.type != CU_MEMORYTYPE_HOST || end <= begin) return true;
    return at->first <= begin && begin + bytes <= end;
  }
  std::size_t count() {
    const std::scoped_lock lock(mutex_);
    return all_.size();
  }

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, block> all_;
};
known_memory& memory = *new known_memory;  // for good

/// Null and the legacy handle are the default stream of the context that is current.
CUstream stream_of(CUstream s) {
  if (s != nullptr && s != CU_STREAM_LEGACY) return s;
  if (!is_context(current)) return nullptr;
  static std::mutex mutex;
  static auto* const all = new std::map<CUcontext, std::unique_ptr<CUstream_st>>;  // for good
  const std::scoped_lock lock(mutex);
  auto& found = (*all)[current];
  if (found == nullptr) {
    found = std::make_unique<CUstream_st>(current, CU_STREAM_DEFAULT, 0);
    found->is_default = true;
  }
  return found.get();
}

CUresult copy_later(CUstream on, void* to, const void* from, std::size_t bytes) {
  if (status() != CUDA_SUCCESS) return status();
  on = stream_of(on);
  if (on == nullptr || !is_context(current)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!memory.is_whole(to, bytes) || !memory.is_whole(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return on->add([=] { std::memcpy(to, from, bytes); });
}

void* pointer_of(CUdeviceptr p) {
  return reinterpret_cast<void*>(p);
}

CUresult allocate(CUdeviceptr* made, std::size_t bytes) {
  *made = 0;
  if (!is_context(current)) return CUDA_ERROR_INVALID_CONTEXT;
  if (status() != CUDA_SUCCESS) return status();
  const std::size_t whole = (bytes + 4095) / 4096 * 4096;
  void* data = bytes > (std::size_t{1} << 32) ? nullptr : std::aligned_alloc(4096, whole);
  if (data == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  memory.add(data, bytes, CU_MEMORYTYPE_DEVICE);
  *made = reinterpret_cast<CUdeviceptr>(data);
  return CUDA_SUCCESS;
}

template <class Word>
CUresult set_later(CUstream on, CUdeviceptr to, std::size_t pitch, Word value, std::size_t width,
                   std::size_t height) {
  if (status() != CUDA_SUCCESS) return status();
  on = stream_of(on);
  if (on == nullptr || !is_context(current)) return CUDA_ERROR_INVALID_CONTEXT;
  if (to % sizeof(Word) != 0 || pitch % sizeof(Word) != 0) return CUDA_ERROR_INVALID_VALUE;
  return on->add([=] {
    for (std::size_t row = 0; row < height; ++row) {
      for (std::size_t i = 0; i < width; ++i) {
        std::memcpy(reinterpret_cast<char*>(to) + row * pitch + i * sizeof(Word), &value, sizeof(Word));
      }
    }
  });
}

}  // namespace

extern "C" {

void fake_cuda_lose() {
  is_lost = true;
}
/// Likewise, with this code.
void fake_cuda_lose_as(int code) {
  lost_with = code;
  is_lost = true;
}
/// At most 8.
void fake_cuda_devices(int count) {
  device_count = std::min(count, most_devices);
}
void fake_cuda_unload() {
  is_unloaded = true;
}
/// Whether a device can reach the memory of another.
void fake_cuda_peers(bool yes) {
  are_peers = yes;
}
/// The call of that name, without a version, gives this code once, after `skip` more that do not. Null: none
/// does. Whether the one that was set before has come.
bool fake_cuda_fail(const char* call, int skip, int code) {
  return next_fault.set(call, skip, code, false);
}
/// Likewise, and all calls of that name after it.
bool fake_cuda_keep_failing(const char* call, int skip, int code) {
  return next_fault.set(call, skip, code, true);
}
/// Calls of the driver in this process, if it is a child of one that used it before.
int fake_cuda_calls_in_child() {
  return calls_in_child;
}
/// How many events with timing were made so far.
int fake_cuda_timing_events() {
  return timing_events;
}
/// How many events, streams (without default ones) and allocations there are now, and how often a primary
/// context is retained.
int fake_cuda_living_events() {
  return living_events;
}
int fake_cuda_living_streams() {
  return living_streams;
}
int fake_cuda_living_memory() {
  return static_cast<int>(memory.count());
}
int fake_cuda_retained(int device) {
  return retained[device];
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
  (void)enter(__func__);
  *name = code == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : code == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                             : "CUDA_ERROR";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  (void)enter(__func__);
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
CUresult cuDeviceCanAccessPeer(int* can, CUdevice from, CUdevice to) {
  if (const CUresult no = enter(__func__)) return no;
  *can = are_peers && from != to ? 1 : 0;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (const CUresult no = enter(__func__)) return no;
  if (device < 0 || device >= device_count) return CUDA_ERROR_INVALID_DEVICE;
  ++retained[device];
  *context = context_of(device);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  if (const CUresult no = enter(__func__)) return no;
  if (retained[device] == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --retained[device];
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  if (const CUresult no = enter(__func__)) return no;
  *context = current;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  if (const CUresult no = enter(__func__)) return no;
  if (context != nullptr && !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned) {
  if (const CUresult no = enter(__func__)) return no;
  if (!is_context(current) || !is_context(peer) || peer == current) return CUDA_ERROR_INVALID_CONTEXT;
  if (!are_peers) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const std::uint64_t bit = std::uint64_t{1} << (device_of(current) * most_devices + device_of(peer));
  return (enabled_peers.fetch_or(bit) & bit) == 0 ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}
CUresult cuCtxGetStreamPriorityRange(int* lowest, int* highest) {
  if (const CUresult no = enter(__func__)) return no;
  if (!is_context(current)) return CUDA_ERROR_INVALID_CONTEXT;
  *lowest = lowest_priority;
  *highest = highest_priority;
  return CUDA_SUCCESS;
}
CUresult cuStreamCreateWithPriority(CUstream* made, unsigned flags, int priority) {
  if (const CUresult no = enter_unsafely(__func__)) return no;
  if (!is_context(current)) return CUDA_ERROR_INVALID_CONTEXT;
  if (status() != CUDA_SUCCESS) return status();
  *made = new CUstream_st(current, flags, std::clamp(priority, highest_priority, lowest_priority));
  ++living_streams;
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  delete s;
  --living_streams;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetFlags(CUstream s, unsigned* flags) {
  if (const CUresult no = enter(__func__)) return no;
  *flags = s->flags;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetPriority(CUstream s, int* priority) {
  if (const CUresult no = enter(__func__)) return no;
  *priority = s->priority;
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
  if (!s->captures_ordered_with_it().empty()) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *found = s->captured == nullptr  ? CU_STREAM_CAPTURE_STATUS_NONE
           : s->captured->is_valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                   : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
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
    if (const CUresult no = s->expect_usable()) return no;
    if (e->captured != nullptr) {
      if (e->captured->is_over) return CUDA_ERROR_CAPTURED_EVENT;
      if (s->captured != nullptr && s->captured != e->captured) {
        s->captured->is_valid = e->captured->is_valid = false;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
      }
      if (s->captured == nullptr) s->ends.clear();
      s->captured = e->captured;
      s->captured->streams.insert(s);
      s->ends.insert(e->behind.begin(), e->behind.end());
      return CUDA_SUCCESS;
    }
    if (s->captured != nullptr) {
      s->captured->is_valid = false;
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
  }
  std::uint64_t which = 0;
  {
    const std::scoped_lock lock(e->core->mutex);
    which = e->core->recorded;
  }
  return s->add([core = e->core, which] { core->wait_for(which); });
}
CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode mode) {
  if (const CUresult no = enter(__func__)) return no;
  if (is_lost) return status();
  if (s == nullptr || s == CU_STREAM_LEGACY) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::scoped_lock lock(capturing);
  if (s->captured != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  s->captured = std::make_shared<capture>(capture{new CUgraph_st, s, mode});
  s->captured->streams.insert(s);
  s->ends.clear();
  captures.insert(s->captured);
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream s, CUgraph* made) {
  if (const CUresult no = enter(__func__)) return no;
  *made = nullptr;
  const std::scoped_lock lock(capturing);
  const std::shared_ptr<capture> ended = s->captured;
  if (ended == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (ended->origin != s) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (ended->mode != CU_STREAM_CAPTURE_MODE_RELAXED && ended->by != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  bool is_joined = true;
  for (CUstream each : ended->streams) {
    for (const std::size_t end : each->ends) is_joined = is_joined && ended->graph->is_behind(s->ends, end);
    each->captured = nullptr;
  }
  ended->is_over = true;
  captures.erase(ended);
  if (!ended->is_valid || !is_joined || is_lost) {
    delete ended->graph;
    if (is_lost) return status();
    return ended->is_valid ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  *made = ended->graph;
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
  return s->add([graph] { graph->run(); });
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
  if (const CUresult no = enter_unsafely(__func__)) return no;
  if (status() != CUDA_SUCCESS) return status();
  s = stream_of(s);
  if (s == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult no = s->expect_not_captured()) return no;
  const auto core = std::make_shared<event_core>();
  if (const CUresult no = s->add([core] { core->finish(1); })) return no;
  core->wait_for(1);
  return status();
}
CUresult cuStreamQuery(CUstream s) {
  if (const CUresult no = enter_unsafely(__func__)) return no;
  if (status() != CUDA_SUCCESS) return status();
  s = stream_of(s);
  if (s == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult no = s->expect_not_captured()) return no;
  return s->is_idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuEventCreate(CUevent* made, unsigned flags) {
  if (const CUresult no = enter(__func__)) return no;
  if (!is_context(current)) return CUDA_ERROR_INVALID_CONTEXT;
  if (status() != CUDA_SUCCESS) return status();
  const bool is_timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  if (is_timed) ++timing_events;
  *made = new CUevent_st(current, is_timed);
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent e) {
  if (const CUresult no = enter(__func__)) return no;
  delete e;
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent e, CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  if (status() != CUDA_SUCCESS) return status();
  s = stream_of(s);
  if (s == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (e == nullptr || e->context != s->context) return CUDA_ERROR_INVALID_HANDLE;
  {
    const std::scoped_lock lock(capturing);
    if (const CUresult no = s->expect_usable()) return no;
    e->captured = s->captured;
    e->behind = s->ends;
    if (e->captured != nullptr) return CUDA_SUCCESS;
  }
  // One at a time, so that the order of the numbers is that of the queue.
  const std::scoped_lock lock(e->core->mutex);
  return s->add([core = e->core, which = ++e->core->recorded] { core->finish(which); });
}
CUresult cuEventQuery(CUevent e) {
  if (const CUresult no = enter_unsafely(__func__)) return no;
  if (status() != CUDA_SUCCESS) return status();
  if (const CUresult no = e->expect_not_captured()) return no;
  const std::scoped_lock lock(e->core->mutex);
  return e->core->done >= e->core->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuEventSynchronize(CUevent e) {
  if (const CUresult no = enter_unsafely(__func__)) return no;
  if (status() != CUDA_SUCCESS) return status();
  if (const CUresult no = e->expect_not_captured()) return no;
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
  if (from == to) {
    *ms = 0;
    return CUDA_SUCCESS;
  }
  const std::scoped_lock lock(from->core->mutex, to->core->mutex);
  for (const CUevent each : {from, to}) {
    if (!each->is_timed || each->core->recorded == 0) return CUDA_ERROR_INVALID_HANDLE;
    if (each->core->done < each->core->recorded) return CUDA_ERROR_NOT_READY;
  }
  *ms = std::chrono::duration<float, std::milli>(to->core->at - from->core->at).count();
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* made, std::size_t bytes) {
  if (const CUresult no = enter_unsafely(__func__)) return no;
  return allocate(made, bytes);
}
CUresult cuMemFree(CUdeviceptr data) {
  if (const CUresult no = enter_unsafely(__func__)) return no;
  if (!is_context(current)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!memory.remove(pointer_of(data))) return CUDA_ERROR_INVALID_VALUE;
  std::free(pointer_of(data));
  return CUDA_SUCCESS;
}
CUresult cuMemAllocAsync(CUdeviceptr* made, std::size_t bytes, CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  if (const CUresult no = allocate(made, bytes)) return no;
  return s->add([=, data = *made] { std::memset(pointer_of(data), 0xdb, bytes); });  // there from here on
}
CUresult cuMemFreeAsync(CUdeviceptr data, CUstream s) {
  if (const CUresult no = enter(__func__)) return no;
  if (!memory.remove(pointer_of(data))) return CUDA_ERROR_INVALID_VALUE;
  return s->add([=] { std::free(pointer_of(data)); });
}
CUresult cuMemHostAlloc(void** made, std::size_t bytes, unsigned) {
  *made = nullptr;
  if (const CUresult no = enter_unsafely(__func__)) return no;
  if (!is_context(current)) return CUDA_ERROR_INVALID_CONTEXT;
  if (status() != CUDA_SUCCESS) return status();
  const std::size_t whole = (bytes + 4095) / 4096 * 4096;
  *made = bytes > (std::size_t{1} << 32) ? nullptr : std::aligned_alloc(4096, whole);
  if (*made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  memory.add(*made, whole, CU_MEMORYTYPE_HOST);
  return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* data) {
  if (const CUresult no = enter_unsafely(__func__)) return no;
  if (!memory.remove(data)) return CUDA_ERROR_INVALID_VALUE;
  std::free(data);
  return CUDA_SUCCESS;
}
CUresult cuMemHostRegister(void* data, std::size_t bytes, unsigned) {
  if (const CUresult no = enter_unsafely(__func__)) return no;
  if (!is_context(current)) return CUDA_ERROR_INVALID_CONTEXT;
  memory.add(data, bytes, CU_MEMORYTYPE_HOST);
  return CUDA_SUCCESS;
}
CUresult cuMemHostUnregister(void* data) {
  if (const CUresult no = enter_unsafely(__func__)) return no;
  return memory.remove(data) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}
CUresult cuMemAllocManaged(CUdeviceptr* made, std::size_t bytes, unsigned) {
  if (const CUresult no = enter_unsafely(__func__)) return no;
  if (const CUresult no = allocate(made, bytes)) return no;
  memory.add(pointer_of(*made), bytes, CU_MEMORYTYPE_DEVICE, true);
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
  // As for memory that the driver does not know, nothing is set for any but its own.
  if (const auto found = memory.find(p)) {
    for (unsigned i = 0; i < count; ++i) {
      if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) *static_cast<unsigned*>(data[i]) = found->type;
      if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *static_cast<int*>(data[i]) = found->device;
      if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED)
        *static_cast<unsigned*>(data[i]) = found->is_managed ? 1 : 0;
    }
  }
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (const CUresult no = enter(__func__)) return no;
  std::swap(thread_mode, *mode);
  return CUDA_SUCCESS;
}
/// As a kernel would be.
CUresult fake_cuda_launch(CUstream s, const std::function<void()>& work) {
  if (const CUresult no = enter(__func__)) return no;
  if (status() != CUDA_SUCCESS) return status();
  s = stream_of(s);
  if (s == nullptr || !is_context(current)) return CUDA_ERROR_INVALID_CONTEXT;
  if (s->context != current) return CUDA_ERROR_INVALID_HANDLE;  // a stream of another device
  return s->add(work);
}

}  // extern "C"
