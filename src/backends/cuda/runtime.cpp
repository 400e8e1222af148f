#include "braid/runtime.hpp"
#include "braid/cuda.hpp"

namespace braid {

template class multi_stream<cuda::backend>;
template class basic_runtime<cuda::backend>;

}  // namespace braid
