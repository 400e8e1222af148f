// What the tests on OpenCL set before anything opens it: the layer between loader and platforms, that nothing
// may be left behind, where compiled kernels are kept, and that there are two devices. What is set already
// stays.

#include <cstdlib>

namespace {

[[gnu::constructor]] void set_environment() {
  constexpr int keep = 0;
  (void)setenv("OPENCL_LAYERS", BRAID_OPENCL_LAYER, keep);   // NOLINT(concurrency-mt-unsafe): before main
  (void)setenv("BRAID_LAYER_EXPECT_NONE", "1", keep);        // NOLINT(concurrency-mt-unsafe)
  (void)setenv("POCL_CACHE_DIR", BRAID_KERNEL_CACHE, keep);  // NOLINT(concurrency-mt-unsafe)
  (void)setenv("POCL_DEVICES", "pthread pthread", keep);     // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

// What PoCL and the compiler in it keep for good is not braid's.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions() {
  return "leak:libpocl\nleak:libLLVM\nleak:libclang\n";
}
