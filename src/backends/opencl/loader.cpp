// The functions of OpenCL, which hand each call on to libOpenCL.so.1: that is opened at the first one. So a
// program with OpenCL in it links nothing of OpenCL's and starts on every machine. Where there is no such
// library, or an old one, each call says so by its code.

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <type_traits>

#include "backends/drivers.hpp"
#include "loader.hpp"

namespace braid::opencl::detail {

const braid::detail::vendor_library& loader() {
  static const auto* const opened = new braid::detail::vendor_library("libOpenCL.so.1");  // for good
  return *opened;
}

namespace {

template <class Last>
void say_missing(Last last) {
  if constexpr (std::is_same_v<Last, cl_int*>) {
    if (last != nullptr) *last = CL_PLATFORM_NOT_FOUND_KHR;
  }
}

template <class R, class... P>
R hand_on(R(CL_API_CALL* to)(P...), std::type_identity_t<P>... args) {
  if (to != nullptr) [[likely]]
    return to(args...);
  if constexpr (std::is_same_v<R, cl_int>) {
    return CL_PLATFORM_NOT_FOUND_KHR;
  } else {
    (say_missing(args), ...);  // the one that takes the code is the last, and the only one of its type
    return R();
  }
}

}  // namespace
}  // namespace braid::opencl::detail

#define UNPACKED(...) __VA_ARGS__
#define FORWARD(result, name, parameters, arguments)                                         \
  extern "C" CL_API_ENTRY result CL_API_CALL name parameters {                               \
    static auto* const to = braid::opencl::detail::loader().function<decltype(name)>(#name); \
    return braid::opencl::detail::hand_on(to, UNPACKED arguments);                           \
  }

// clang-format off
FORWARD(cl_int, clGetPlatformIDs, (cl_uint a, cl_platform_id* b, cl_uint* c), (a, b, c))
FORWARD(cl_int, clGetPlatformInfo, (cl_platform_id a, cl_platform_info b, size_t c, void* d, size_t* e), (a,
        b, c, d, e))
FORWARD(cl_int, clGetDeviceIDs, (cl_platform_id a, cl_device_type b, cl_uint c, cl_device_id* d, cl_uint*
        e), (a, b, c, d, e))
FORWARD(cl_int, clGetDeviceInfo, (cl_device_id a, cl_device_info b, size_t c, void* d, size_t* e), (a, b, c,
        d, e))
FORWARD(cl_int, clCreateSubDevices, (cl_device_id a, const cl_device_partition_property* b, cl_uint c,
        cl_device_id* d, cl_uint* e), (a, b, c, d, e))
FORWARD(cl_int, clRetainDevice, (cl_device_id a), (a))
FORWARD(cl_int, clReleaseDevice, (cl_device_id a), (a))
FORWARD(cl_int, clSetDefaultDeviceCommandQueue, (cl_context a, cl_device_id b, cl_command_queue c), (a, b, c))
FORWARD(cl_int, clGetDeviceAndHostTimer, (cl_device_id a, cl_ulong* b, cl_ulong* c), (a, b, c))
FORWARD(cl_int, clGetHostTimer, (cl_device_id a, cl_ulong* b), (a, b))
FORWARD(cl_context, clCreateContext, (const cl_context_properties* a, cl_uint b, const cl_device_id* c, void
        (CL_CALLBACK* d)(const char* errinfo, const void* private_info, size_t cb, void* user_data), void*
        e, cl_int* f), (a, b, c, d, e, f))
FORWARD(cl_context, clCreateContextFromType, (const cl_context_properties* a, cl_device_type b, void
        (CL_CALLBACK* c)(const char* errinfo, const void* private_info, size_t cb, void* user_data), void*
        d, cl_int* e), (a, b, c, d, e))
FORWARD(cl_int, clRetainContext, (cl_context a), (a))
FORWARD(cl_int, clReleaseContext, (cl_context a), (a))
FORWARD(cl_int, clGetContextInfo, (cl_context a, cl_context_info b, size_t c, void* d, size_t* e), (a, b, c,
        d, e))
FORWARD(cl_int, clSetContextDestructorCallback, (cl_context a, void (CL_CALLBACK* b)(cl_context context,
        void* user_data), void* c), (a, b, c))
FORWARD(cl_command_queue, clCreateCommandQueueWithProperties, (cl_context a, cl_device_id b, const
        cl_queue_properties* c, cl_int* d), (a, b, c, d))
FORWARD(cl_int, clRetainCommandQueue, (cl_command_queue a), (a))
FORWARD(cl_int, clReleaseCommandQueue, (cl_command_queue a), (a))
FORWARD(cl_int, clGetCommandQueueInfo, (cl_command_queue a, cl_command_queue_info b, size_t c, void* d,
        size_t* e), (a, b, c, d, e))
FORWARD(cl_mem, clCreateBuffer, (cl_context a, cl_mem_flags b, size_t c, void* d, cl_int* e), (a, b, c, d, e))
FORWARD(cl_mem, clCreateSubBuffer, (cl_mem a, cl_mem_flags b, cl_buffer_create_type c, const void* d,
        cl_int* e), (a, b, c, d, e))
FORWARD(cl_mem, clCreateImage, (cl_context a, cl_mem_flags b, const cl_image_format* c, const cl_image_desc*
        d, void* e, cl_int* f), (a, b, c, d, e, f))
FORWARD(cl_mem, clCreatePipe, (cl_context a, cl_mem_flags b, cl_uint c, cl_uint d, const cl_pipe_properties*
        e, cl_int* f), (a, b, c, d, e, f))
FORWARD(cl_mem, clCreateBufferWithProperties, (cl_context a, const cl_mem_properties* b, cl_mem_flags c,
        size_t d, void* e, cl_int* f), (a, b, c, d, e, f))
FORWARD(cl_mem, clCreateImageWithProperties, (cl_context a, const cl_mem_properties* b, cl_mem_flags c,
        const cl_image_format* d, const cl_image_desc* e, void* f, cl_int* g), (a, b, c, d, e, f, g))
FORWARD(cl_int, clRetainMemObject, (cl_mem a), (a))
FORWARD(cl_int, clReleaseMemObject, (cl_mem a), (a))
FORWARD(cl_int, clGetSupportedImageFormats, (cl_context a, cl_mem_flags b, cl_mem_object_type c, cl_uint d,
        cl_image_format* e, cl_uint* f), (a, b, c, d, e, f))
FORWARD(cl_int, clGetMemObjectInfo, (cl_mem a, cl_mem_info b, size_t c, void* d, size_t* e), (a, b, c, d, e))
FORWARD(cl_int, clGetImageInfo, (cl_mem a, cl_image_info b, size_t c, void* d, size_t* e), (a, b, c, d, e))
FORWARD(cl_int, clGetPipeInfo, (cl_mem a, cl_pipe_info b, size_t c, void* d, size_t* e), (a, b, c, d, e))
FORWARD(cl_int, clSetMemObjectDestructorCallback, (cl_mem a, void (CL_CALLBACK* b)(cl_mem memobj, void*
        user_data), void* c), (a, b, c))
FORWARD(void*, clSVMAlloc, (cl_context a, cl_svm_mem_flags b, size_t c, cl_uint d), (a, b, c, d))
FORWARD(void, clSVMFree, (cl_context a, void* b), (a, b))
FORWARD(cl_sampler, clCreateSamplerWithProperties, (cl_context a, const cl_sampler_properties* b, cl_int*
        c), (a, b, c))
FORWARD(cl_int, clRetainSampler, (cl_sampler a), (a))
FORWARD(cl_int, clReleaseSampler, (cl_sampler a), (a))
FORWARD(cl_int, clGetSamplerInfo, (cl_sampler a, cl_sampler_info b, size_t c, void* d, size_t* e), (a, b, c,
        d, e))
FORWARD(cl_program, clCreateProgramWithSource, (cl_context a, cl_uint b, const char** c, const size_t* d,
        cl_int* e), (a, b, c, d, e))
FORWARD(cl_program, clCreateProgramWithBinary, (cl_context a, cl_uint b, const cl_device_id* c, const
        size_t* d, const unsigned char** e, cl_int* f, cl_int* g), (a, b, c, d, e, f, g))
FORWARD(cl_program, clCreateProgramWithBuiltInKernels, (cl_context a, cl_uint b, const cl_device_id* c,
        const char* d, cl_int* e), (a, b, c, d, e))
FORWARD(cl_program, clCreateProgramWithIL, (cl_context a, const void* b, size_t c, cl_int* d), (a, b, c, d))
FORWARD(cl_int, clRetainProgram, (cl_program a), (a))
FORWARD(cl_int, clReleaseProgram, (cl_program a), (a))
FORWARD(cl_int, clBuildProgram, (cl_program a, cl_uint b, const cl_device_id* c, const char* d, void
        (CL_CALLBACK* e)(cl_program program, void* user_data), void* f), (a, b, c, d, e, f))
FORWARD(cl_int, clCompileProgram, (cl_program a, cl_uint b, const cl_device_id* c, const char* d, cl_uint e,
        const cl_program* f, const char** g, void (CL_CALLBACK* h)(cl_program program, void* user_data),
        void* i), (a, b, c, d, e, f, g, h, i))
FORWARD(cl_program, clLinkProgram, (cl_context a, cl_uint b, const cl_device_id* c, const char* d, cl_uint
        e, const cl_program* f, void (CL_CALLBACK* g)(cl_program program, void* user_data), void* h, cl_int*
        i), (a, b, c, d, e, f, g, h, i))
FORWARD(cl_int, clSetProgramSpecializationConstant, (cl_program a, cl_uint b, size_t c, const void* d), (a,
        b, c, d))
FORWARD(cl_int, clUnloadPlatformCompiler, (cl_platform_id a), (a))
FORWARD(cl_int, clGetProgramInfo, (cl_program a, cl_program_info b, size_t c, void* d, size_t* e), (a, b, c,
        d, e))
FORWARD(cl_int, clGetProgramBuildInfo, (cl_program a, cl_device_id b, cl_program_build_info c, size_t d,
        void* e, size_t* f), (a, b, c, d, e, f))
FORWARD(cl_kernel, clCreateKernel, (cl_program a, const char* b, cl_int* c), (a, b, c))
FORWARD(cl_int, clCreateKernelsInProgram, (cl_program a, cl_uint b, cl_kernel* c, cl_uint* d), (a, b, c, d))
FORWARD(cl_kernel, clCloneKernel, (cl_kernel a, cl_int* b), (a, b))
FORWARD(cl_int, clRetainKernel, (cl_kernel a), (a))
FORWARD(cl_int, clReleaseKernel, (cl_kernel a), (a))
FORWARD(cl_int, clSetKernelArg, (cl_kernel a, cl_uint b, size_t c, const void* d), (a, b, c, d))
FORWARD(cl_int, clSetKernelArgSVMPointer, (cl_kernel a, cl_uint b, const void* c), (a, b, c))
FORWARD(cl_int, clSetKernelExecInfo, (cl_kernel a, cl_kernel_exec_info b, size_t c, const void* d), (a, b,
        c, d))
FORWARD(cl_int, clGetKernelInfo, (cl_kernel a, cl_kernel_info b, size_t c, void* d, size_t* e), (a, b, c, d,
        e))
FORWARD(cl_int, clGetKernelArgInfo, (cl_kernel a, cl_uint b, cl_kernel_arg_info c, size_t d, void* e,
        size_t* f), (a, b, c, d, e, f))
FORWARD(cl_int, clGetKernelWorkGroupInfo, (cl_kernel a, cl_device_id b, cl_kernel_work_group_info c, size_t
        d, void* e, size_t* f), (a, b, c, d, e, f))
FORWARD(cl_int, clGetKernelSubGroupInfo, (cl_kernel a, cl_device_id b, cl_kernel_sub_group_info c, size_t d,
        const void* e, size_t f, void* g, size_t* h), (a, b, c, d, e, f, g, h))
FORWARD(cl_int, clWaitForEvents, (cl_uint a, const cl_event* b), (a, b))
FORWARD(cl_int, clGetEventInfo, (cl_event a, cl_event_info b, size_t c, void* d, size_t* e), (a, b, c, d, e))
FORWARD(cl_event, clCreateUserEvent, (cl_context a, cl_int* b), (a, b))
FORWARD(cl_int, clRetainEvent, (cl_event a), (a))
FORWARD(cl_int, clReleaseEvent, (cl_event a), (a))
FORWARD(cl_int, clSetUserEventStatus, (cl_event a, cl_int b), (a, b))
FORWARD(cl_int, clSetEventCallback, (cl_event a, cl_int b, void (CL_CALLBACK* c)(cl_event event, cl_int
        event_command_status, void* user_data), void* d), (a, b, c, d))
FORWARD(cl_int, clGetEventProfilingInfo, (cl_event a, cl_profiling_info b, size_t c, void* d, size_t* e),
        (a, b, c, d, e))
FORWARD(cl_int, clFlush, (cl_command_queue a), (a))
FORWARD(cl_int, clFinish, (cl_command_queue a), (a))
FORWARD(cl_int, clEnqueueReadBuffer, (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void* f,
        cl_uint g, const cl_event* h, cl_event* i), (a, b, c, d, e, f, g, h, i))
FORWARD(cl_int, clEnqueueReadBufferRect, (cl_command_queue a, cl_mem b, cl_bool c, const size_t* d, const
        size_t* e, const size_t* f, size_t g, size_t h, size_t i, size_t j, void* k, cl_uint l, const
        cl_event* m, cl_event* n), (a, b, c, d, e, f, g, h, i, j, k, l, m, n))
FORWARD(cl_int, clEnqueueWriteBuffer, (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const
        void* f, cl_uint g, const cl_event* h, cl_event* i), (a, b, c, d, e, f, g, h, i))
FORWARD(cl_int, clEnqueueWriteBufferRect, (cl_command_queue a, cl_mem b, cl_bool c, const size_t* d, const
        size_t* e, const size_t* f, size_t g, size_t h, size_t i, size_t j, const void* k, cl_uint l, const
        cl_event* m, cl_event* n), (a, b, c, d, e, f, g, h, i, j, k, l, m, n))
FORWARD(cl_int, clEnqueueFillBuffer, (cl_command_queue a, cl_mem b, const void* c, size_t d, size_t e,
        size_t f, cl_uint g, const cl_event* h, cl_event* i), (a, b, c, d, e, f, g, h, i))
FORWARD(cl_int, clEnqueueCopyBuffer, (cl_command_queue a, cl_mem b, cl_mem c, size_t d, size_t e, size_t f,
        cl_uint g, const cl_event* h, cl_event* i), (a, b, c, d, e, f, g, h, i))
FORWARD(cl_int, clEnqueueCopyBufferRect, (cl_command_queue a, cl_mem b, cl_mem c, const size_t* d, const
        size_t* e, const size_t* f, size_t g, size_t h, size_t i, size_t j, cl_uint k, const cl_event* l,
        cl_event* m), (a, b, c, d, e, f, g, h, i, j, k, l, m))
FORWARD(cl_int, clEnqueueReadImage, (cl_command_queue a, cl_mem b, cl_bool c, const size_t* d, const size_t*
        e, size_t f, size_t g, void* h, cl_uint i, const cl_event* j, cl_event* k), (a, b, c, d, e, f, g, h,
        i, j, k))
FORWARD(cl_int, clEnqueueWriteImage, (cl_command_queue a, cl_mem b, cl_bool c, const size_t* d, const
        size_t* e, size_t f, size_t g, const void* h, cl_uint i, const cl_event* j, cl_event* k), (a, b, c,
        d, e, f, g, h, i, j, k))
FORWARD(cl_int, clEnqueueFillImage, (cl_command_queue a, cl_mem b, const void* c, const size_t* d, const
        size_t* e, cl_uint f, const cl_event* g, cl_event* h), (a, b, c, d, e, f, g, h))
FORWARD(cl_int, clEnqueueCopyImage, (cl_command_queue a, cl_mem b, cl_mem c, const size_t* d, const size_t*
        e, const size_t* f, cl_uint g, const cl_event* h, cl_event* i), (a, b, c, d, e, f, g, h, i))
FORWARD(cl_int, clEnqueueCopyImageToBuffer, (cl_command_queue a, cl_mem b, cl_mem c, const size_t* d, const
        size_t* e, size_t f, cl_uint g, const cl_event* h, cl_event* i), (a, b, c, d, e, f, g, h, i))
FORWARD(cl_int, clEnqueueCopyBufferToImage, (cl_command_queue a, cl_mem b, cl_mem c, size_t d, const size_t*
        e, const size_t* f, cl_uint g, const cl_event* h, cl_event* i), (a, b, c, d, e, f, g, h, i))
FORWARD(void*, clEnqueueMapBuffer, (cl_command_queue a, cl_mem b, cl_bool c, cl_map_flags d, size_t e,
        size_t f, cl_uint g, const cl_event* h, cl_event* i, cl_int* j), (a, b, c, d, e, f, g, h, i, j))
FORWARD(void*, clEnqueueMapImage, (cl_command_queue a, cl_mem b, cl_bool c, cl_map_flags d, const size_t* e,
        const size_t* f, size_t* g, size_t* h, cl_uint i, const cl_event* j, cl_event* k, cl_int* l), (a, b,
        c, d, e, f, g, h, i, j, k, l))
FORWARD(cl_int, clEnqueueUnmapMemObject, (cl_command_queue a, cl_mem b, void* c, cl_uint d, const cl_event*
        e, cl_event* f), (a, b, c, d, e, f))
FORWARD(cl_int, clEnqueueMigrateMemObjects, (cl_command_queue a, cl_uint b, const cl_mem* c,
        cl_mem_migration_flags d, cl_uint e, const cl_event* f, cl_event* g), (a, b, c, d, e, f, g))
FORWARD(cl_int, clEnqueueNDRangeKernel, (cl_command_queue a, cl_kernel b, cl_uint c, const size_t* d, const
        size_t* e, const size_t* f, cl_uint g, const cl_event* h, cl_event* i), (a, b, c, d, e, f, g, h, i))
FORWARD(cl_int, clEnqueueNativeKernel, (cl_command_queue a, void (CL_CALLBACK* b)(void*), void* c, size_t d,
        cl_uint e, const cl_mem* f, const void** g, cl_uint h, const cl_event* i, cl_event* j), (a, b, c, d,
        e, f, g, h, i, j))
FORWARD(cl_int, clEnqueueMarkerWithWaitList, (cl_command_queue a, cl_uint b, const cl_event* c, cl_event*
        d), (a, b, c, d))
FORWARD(cl_int, clEnqueueBarrierWithWaitList, (cl_command_queue a, cl_uint b, const cl_event* c, cl_event*
        d), (a, b, c, d))
FORWARD(cl_int, clEnqueueSVMFree, (cl_command_queue a, cl_uint b, void** c, void (CL_CALLBACK*
        d)(cl_command_queue queue, cl_uint num_svm_pointers, void** c, void* user_data), void*
        e, cl_uint f, const cl_event* g, cl_event* h), (a, b, c, d, e, f, g, h))
FORWARD(cl_int, clEnqueueSVMMemcpy, (cl_command_queue a, cl_bool b, void* c, const void* d, size_t e,
        cl_uint f, const cl_event* g, cl_event* h), (a, b, c, d, e, f, g, h))
FORWARD(cl_int, clEnqueueSVMMemFill, (cl_command_queue a, void* b, const void* c, size_t d, size_t e,
        cl_uint f, const cl_event* g, cl_event* h), (a, b, c, d, e, f, g, h))
FORWARD(cl_int, clEnqueueSVMMap, (cl_command_queue a, cl_bool b, cl_map_flags c, void* d, size_t e, cl_uint
        f, const cl_event* g, cl_event* h), (a, b, c, d, e, f, g, h))
FORWARD(cl_int, clEnqueueSVMUnmap, (cl_command_queue a, void* b, cl_uint c, const cl_event* d, cl_event* e),
        (a, b, c, d, e))
FORWARD(cl_int, clEnqueueSVMMigrateMem, (cl_command_queue a, cl_uint b, const void** c, const size_t* d,
        cl_mem_migration_flags e, cl_uint f, const cl_event* g, cl_event* h), (a, b, c, d, e, f, g, h))
FORWARD(void*, clGetExtensionFunctionAddressForPlatform, (cl_platform_id a, const char* b), (a, b))
FORWARD(cl_command_queue, clCreateCommandQueue, (cl_context a, cl_device_id b, cl_command_queue_properties
        c, cl_int* d), (a, b, c, d))
FORWARD(cl_sampler, clCreateSampler, (cl_context a, cl_bool b, cl_addressing_mode c, cl_filter_mode d,
        cl_int* e), (a, b, c, d, e))
// clang-format on
