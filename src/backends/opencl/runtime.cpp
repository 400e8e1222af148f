#include "braid/runtime.hpp"
#include "braid/opencl.hpp"

namespace braid {

template class multi_stream<opencl::backend>;
template class basic_runtime<opencl::backend>;

}  // namespace braid
