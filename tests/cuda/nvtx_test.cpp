#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "braid/cuda.hpp"

// Ranges of NVTX, as a profiler that is linked into the program sees them.

#if __has_include(<nvtx3/nvToolsExt.h>)
// The name that NVTX looks for, without declaring it where it is told that it is here.
#define NVTX_STATIC_INJECTION_IMPL
extern "C" {
extern int (*InitializeInjectionNvtx2_fnptr)(const void* (*)(std::uint32_t));
}
#include <nvtx3/nvToolsExt.h>

namespace {

// What was told: names, and "" for the end of a range.
std::mutex mutex;
std::vector<std::string>& told = *new std::vector<std::string>;

int push(const char* name) {
  const std::scoped_lock lock(mutex);
  told.emplace_back(name);
  return 0;
}
int pop() {
  const std::scoped_lock lock(mutex);
  told.emplace_back();
  return 0;
}

int initialise(NvtxGetExportTableFunc_t get) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0)
    return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  return 1;
}

}  // namespace

int (*InitializeInjectionNvtx2_fnptr)(const void* (*)(std::uint32_t)) = &initialise;

namespace braid {
namespace {

std::vector<std::string> ranges_of(std::optional<bool> nvtx) {
  cuda::options with;
  with.nvtx = nvtx;
  cuda::runtime rt(with);
  auto x = rt.make_buffer<int>(16, zeroed, "x");
  rt.submit(stream_id{2}, "first", read(x), [](cuda::native_stream, std::span<const int>) {});
  rt.synchronize();
  told.clear();
  // Without a context: its ops are looked at more closely anyway.
  std::thread([&] {
    rt.submit(stream_id{2}, "elsewhere", read(x), [](cuda::native_stream, std::span<const int>) {});
  }).join();
  rt.submit(stream_id{1}, "outer", read_write(x),
            [](cuda::native_stream, std::span<int>) { push("a body"); });
  rt.submit("next", read(x), [](cuda::native_stream, std::span<const int>) { push("a body"); });
  try {
    rt.submit("broken", write(x), [](cuda::native_stream, std::span<int>) -> void { throw 1; });
    rt.wait(x);
  } catch (const std::exception&) {
    // its range has ended
  }
  const std::scoped_lock lock(mutex);
  return told;
}

TEST(cuda_nvtx, ranges_around_bodies_have_the_labels_of_ops_when_they_are_asked_for) {
  EXPECT_EQ(ranges_of(true), (std::vector<std::string>{"elsewhere", "", "outer", "a body", "", "next",
                                                       "a body", "", "broken", ""}));
}

// In a process of its own: the labels that it makes up are kept for good.
TEST(cuda_nvtx_DeathTest, a_label_that_is_not_kept_is_the_name_all_the_same) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_child = [] {
    for (int i = 0; i < 5000; ++i) (void)detail::label_ref::of("label " + std::to_string(i));
    for (const std::string& each : ranges_of(true)) std::fprintf(stderr, "%s;", each.c_str());
    std::_Exit(0);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0), "elsewhere;;outer;a body;;next;a body;;broken;;");
}

TEST(cuda_nvtx, there_are_none_otherwise) {
  EXPECT_EQ(ranges_of(std::nullopt), (std::vector<std::string>{"a body", "a body"}));
  EXPECT_EQ(ranges_of(false), (std::vector<std::string>{"a body", "a body"}));
}

}  // namespace
}  // namespace braid

#endif
