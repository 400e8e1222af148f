#include "braid/cuda.hpp"
#include "braid/multi_stream.hpp"

namespace braid {

template class multi_stream<cuda::backend>;
template class basic_runtime<cuda::backend>;

}  // namespace braid
