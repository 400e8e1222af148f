#include "state.hpp"

namespace braid::opencl {

program::program(std::string source, std::string build_options)
    : text_(std::make_shared<program_text>(program_text{std::move(source), std::move(build_options)})) {}

namespace {

detail::stream_state& running_on(const cl::CommandQueue& queue) {
  detail::stream_state* s = detail::stream_state::running;
  if (s != nullptr && s->queue() == queue()) return *s;
  throw usage_error(misuse::unused_stream,
                    "a kernel was asked for outside of the body of an op, or for another queue than the one "
                    "that the body is given");
}

}  // namespace

cl::Kernel& program::kernel(const cl::CommandQueue& queue, const char* name) const {
  detail::stream_state& s = running_on(queue);
  for (const auto& each : s.kernels) {
    if (each->of == text_ && each->name == name) return each->kernel;
  }
  cl_int code = CL_SUCCESS;
  const cl_kernel made = clCreateKernel(s.home.device().program(*text_), name, &code);
  if (code == CL_INVALID_KERNEL_NAME) {
    throw error(code, detail::text_of("clCreateKernel", code) + ": the program has no kernel '" + name + "'");
  }
  detail::expect("clCreateKernel", code);
  s.kernels.push_back(std::make_unique<detail::stream_state::kept_kernel>(
      detail::stream_state::kept_kernel{text_, name, cl::Kernel(made, false)}));
  return s.kernels.back()->kernel;
}

cl::Program program::native(const cl::CommandQueue& queue) const {
  return cl::Program(running_on(queue).home.device().program(*text_), true);
}

}  // namespace braid::opencl
