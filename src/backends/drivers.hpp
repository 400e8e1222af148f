#pragma once

#include <string>
#include <vector>

// What the drivers of vendors say on this machine. Their libraries are opened at run time and never closed
// again: a driver may have started threads. No header of a vendor is needed.

namespace braid::detail {

struct driver {
  bool opened = false;               ///< the library is there and has what was looked for
  std::vector<std::string> devices;  ///< names, in the driver's order
  std::string text;                  ///< in words, for people: what was found, or why nothing was
};

/// The functions of a library that is opened at run time, by name.
class vendor_library {
 public:
  explicit vendor_library(const char* file);

  [[nodiscard]] bool is_open() const noexcept { return handle_ != nullptr; }
  /// Why it could not be opened; empty if it was.
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  /// Null if the library has no such function.
  template <class Function>
  [[nodiscard]] Function* function(const char* name) const noexcept {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  [[nodiscard]] void* symbol(const char* name) const noexcept;

  void* handle_ = nullptr;
  std::string error_;
};

/// Starts the driver if there is one, which may take some 100 ms. From any thread.
driver probe_cuda(const char* library = "libcuda.so.1");
driver probe_opencl(const char* library = "libOpenCL.so.1");

}  // namespace braid::detail
