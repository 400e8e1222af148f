#include "backends/drivers.hpp"

#include <gtest/gtest.h>

#include "braid/cuda.hpp"

namespace braid::detail {
namespace {

// A library that has no function of a driver, and is there wherever this runs.
constexpr const char* something_else = "libc.so.6";

TEST(drivers, a_library_that_is_not_there_is_told_with_its_name) {
  for (const driver& d : {probe_cuda("libbraid_nosuch.so.1"), probe_opencl("libbraid_nosuch.so.1")}) {
    EXPECT_FALSE(d.opened);
    EXPECT_TRUE(d.devices.empty());
    EXPECT_NE(d.text.find("libbraid_nosuch.so.1"), std::string::npos) << d.text;
  }
}

TEST(drivers, a_library_without_the_functions_is_no_driver) {
  EXPECT_FALSE(probe_cuda(something_else).opened);
  EXPECT_EQ(probe_cuda(something_else).text, "libc.so.6 was opened but is no CUDA driver");
  EXPECT_FALSE(probe_opencl(something_else).opened);
  EXPECT_EQ(probe_opencl(something_else).text, "libc.so.6 was opened but is no OpenCL loader");
}

TEST(drivers, the_devices_of_a_driver_are_named_in_its_order) {
  const driver cuda = probe_cuda(BRAID_FAKE_DRIVER);
  EXPECT_TRUE(cuda.opened);
  EXPECT_EQ(cuda.devices, (std::vector<std::string>{"card 0", "card 1"}));
  EXPECT_EQ(cuda.text, "a driver for CUDA 12.8 with 2 devices: card 0, card 1");
  const driver opencl = probe_opencl(BRAID_FAKE_DRIVER);
  EXPECT_TRUE(opencl.opened);
  EXPECT_EQ(opencl.devices, (std::vector<std::string>{"a device (a platform)"}));
  EXPECT_EQ(opencl.text, "1 platform with 1 device: a device (a platform)");
}

#if BRAID_HAS_CUDA
TEST(drivers, a_code_of_cuda_is_an_error_also_where_there_is_no_driver) {
  try {
    cuda::check(2);
    FAIL();
  } catch (const cuda::error& e) {
    EXPECT_EQ(e.code(), 2);
    EXPECT_FALSE(std::string(e.what()).empty());
  }
}
#endif

TEST(drivers, what_is_here_is_told_in_words) {
  EXPECT_FALSE(probe_cuda().text.empty());
  EXPECT_FALSE(probe_opencl().text.empty());
}

TEST(drivers, a_function_is_found_by_its_name) {
  const vendor_library library(something_else);
  ASSERT_TRUE(library.is_open());
  EXPECT_TRUE(library.error().empty());
  EXPECT_NE(library.function<int()>("getpid"), nullptr);
  EXPECT_EQ(library.function<int()>("braid_nosuch"), nullptr);
}

}  // namespace
}  // namespace braid::detail
