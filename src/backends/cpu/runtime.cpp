#include "braid/cpu.hpp"

namespace braid {

template class multi_stream<cpu::backend>;
template class basic_runtime<cpu::backend>;

}  // namespace braid
