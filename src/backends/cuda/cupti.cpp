#include "cupti.hpp"

#include <fmt/format.h>

#include "backends/drivers.hpp"
#include "braid/detail/trace_hooks.hpp"

#if __has_include(<cupti.h>)

#include <cupti.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace braid::cuda::detail {

namespace {

// clang-format off
#define BRAID_CUPTI_FUNCTIONS(X) \
  X(cuptiGetVersion) X(cuptiGetTimestamp) X(cuptiActivityEnable) X(cuptiActivityDisable) \
  X(cuptiActivityRegisterCallbacks) X(cuptiActivityGetNextRecord) X(cuptiActivityFlushAll) \
  X(cuptiActivityGetNumDroppedRecords) X(cuptiActivityPushExternalCorrelationId) \
  X(cuptiActivityPopExternalCorrelationId)
// clang-format on

struct functions {
#define X(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): it is declared
  BRAID_CUPTI_FUNCTIONS(X)
#undef X
};

// The correlation is known of calls that CUPTI records: hence those of both interfaces.
constexpr CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY,
                                        CUPTI_ACTIVITY_KIND_MEMCPY2,
                                        CUPTI_ACTIVITY_KIND_MEMSET,
                                        CUPTI_ACTIVITY_KIND_RUNTIME,
                                        CUPTI_ACTIVITY_KIND_DRIVER,
                                        CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};

struct times {
  std::int64_t start;
  std::int64_t end;
};

struct library {
  functions call;
  std::string error;
  std::mutex mutex;
  std::unordered_map<std::uint32_t, std::uint64_t> ids;  // by correlation
  std::vector<std::pair<std::uint32_t, times>> work;
  std::uint64_t dropped = 0;

  void take(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size) {
    const std::scoped_lock lock(mutex);
    CUpti_Activity* each = nullptr;
    while (call.cuptiActivityGetNextRecord(buffer, size, &each) == CUPTI_SUCCESS) {
      const auto add = [&](const auto& record) {
        work.emplace_back(record.correlationId, times{static_cast<std::int64_t>(record.start),
                                                      static_cast<std::int64_t>(record.end)});
      };
      switch (each->kind) {
        case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
          const auto& record = *reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(each);
          if (record.externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) {
            ids[record.correlationId] = record.externalId;
          }
          break;
        }
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        case CUPTI_ACTIVITY_KIND_KERNEL: add(*reinterpret_cast<const CUpti_ActivityKernel10*>(each)); break;
        case CUPTI_ACTIVITY_KIND_MEMCPY: add(*reinterpret_cast<const CUpti_ActivityMemcpy6*>(each)); break;
        case CUPTI_ACTIVITY_KIND_MEMCPY2:
          add(*reinterpret_cast<const CUpti_ActivityMemcpyPtoP4*>(each));
          break;
        case CUPTI_ACTIVITY_KIND_MEMSET: add(*reinterpret_cast<const CUpti_ActivityMemset4*>(each)); break;
        default: break;
      }
    }
    std::size_t lost = 0;
    if (call.cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) dropped += lost;
  }

  /// What to add to CUPTI's time to get the trace's: of a few tries, the one that took the least time.
  [[nodiscard]] std::int64_t clock_offset() const {
    std::int64_t best = 0;
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
    for (int i = 0; i < 16; ++i) {
      std::uint64_t theirs = 0;
      const std::int64_t before = braid::detail::trace_now();
      (void)call.cuptiGetTimestamp(&theirs);
      const std::int64_t after = braid::detail::trace_now();
      if (after - before >= shortest) continue;
      shortest = after - before;
      best = before + (after - before) / 2 - static_cast<std::int64_t>(theirs);
    }
    return best;
  }
};

library& loaded() {
  static auto* const all = [] {
    auto* made = new library;
    for (const char* name : {"libcupti.so.13", "libcupti.so", "/usr/local/cuda/lib64/libcupti.so",
                             "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"}) {
      const braid::detail::vendor_library file(name);
      if (!file.is_open()) {
        if (made->error.empty()) made->error = file.error();
        continue;
      }
      made->error.clear();
#define X(name)                                                                             \
  made->call.name = file.function<std::remove_pointer_t<decltype(made->call.name)>>(#name); \
  if (made->call.name == nullptr && made->error.empty()) made->error = "it has no " #name;
      BRAID_CUPTI_FUNCTIONS(X)
#undef X
      break;
    }
    if (!made->error.empty()) return made;
    std::uint32_t version = 0;
    (void)made->call.cuptiGetVersion(&version);
    // The layout of records changes between versions.
    if (version / 10'000 != CUPTI_API_VERSION / 10'000) {
      made->error =
          fmt::format("it is of version {}, and braid was built for {}", version, CUPTI_API_VERSION);
    }
    return made;
  }();
  return *all;
}

// CUPTI's own thread calls these.
void CUPTIAPI on_request(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *size = std::size_t{8} << 20;
  *most = 0;
  *buffer = static_cast<std::uint8_t*>(std::malloc(*size));  // NOLINT: handed to a C library, and freed below
  if (*buffer == nullptr) *size = 0;
}
void CUPTIAPI on_complete(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  if (buffer != nullptr && valid != 0) loaded().take(context, stream, buffer, valid);
  std::free(buffer);  // NOLINT
}

}  // namespace

cupti* cupti::open(std::string& reason) {
  library& all = loaded();
  static cupti one;
  static const bool is_ready =
      all.error.empty() && all.call.cuptiActivityRegisterCallbacks(on_request, on_complete) == CUPTI_SUCCESS;
  if (is_ready) return &one;
  reason = all.error.empty() ? "another profiler uses it" : all.error;
  return nullptr;
}

bool cupti::begin() {
  library& all = loaded();
  {
    const std::scoped_lock lock(all.mutex);
    all.ids.clear();
    all.work.clear();
    all.dropped = 0;
  }
  bool is_enabled = true;
  for (const CUpti_ActivityKind kind : kinds) {
    is_enabled = all.call.cuptiActivityEnable(kind) == CUPTI_SUCCESS && is_enabled;
  }
  if (!is_enabled) {
    for (const CUpti_ActivityKind kind : kinds) (void)all.call.cuptiActivityDisable(kind);
  }
  return is_enabled;
}

void cupti::push(std::uint64_t id) noexcept {
  (void)loaded().call.cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, id);
}

void cupti::pop() noexcept {
  std::uint64_t last = 0;
  (void)loaded().call.cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
}

cupti::found cupti::stop() {
  library& all = loaded();
  (void)all.call.cuptiActivityFlushAll(0);
  for (const CUpti_ActivityKind kind : kinds) (void)all.call.cuptiActivityDisable(kind);
  (void)all.call.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::int64_t offset = all.clock_offset();
  const std::scoped_lock lock(all.mutex);
  std::unordered_map<std::uint64_t, times> spans;
  for (const auto& [correlation, t] : all.work) {
    const auto id = all.ids.find(correlation);
    if (id == all.ids.end() || t.start == 0) continue;  // not an op's, or without times
    const auto [at, is_new] = spans.try_emplace(id->second, t);
    if (!is_new) at->second = {std::min(at->second.start, t.start), std::max(at->second.end, t.end)};
  }
  found result;
  result.spans = std::make_unique<span[]>(spans.size());
  for (const auto& [id, t] : spans) result.spans[result.count++] = {id, t.start + offset, t.end + offset};
  result.dropped = all.dropped;
  return result;
}

}  // namespace braid::cuda::detail

#else

namespace braid::cuda::detail {

cupti* cupti::open(std::string& reason) {
  reason = "braid was built without its header";
  return nullptr;
}
bool cupti::begin() {
  return false;
}
void cupti::push(std::uint64_t) noexcept {}
void cupti::pop() noexcept {}
cupti::found cupti::stop() {
  return {};
}

}  // namespace braid::cuda::detail

#endif
