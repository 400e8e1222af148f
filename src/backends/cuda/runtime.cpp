#include "braid/cuda.hpp"
#include "braid/runtime.hpp"

namespace braid {

template class multi_stream<cuda::backend>;
template class basic_runtime<cuda::backend>;

}  // namespace braid
