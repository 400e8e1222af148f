#include "fixture.hpp"

namespace braid {

template class multi_stream<sim::backend>;
template class multi_stream<sim::point_mode_backend>;
template class basic_runtime<sim::backend>;
template class basic_runtime<sim::point_mode_backend>;

}  // namespace braid
