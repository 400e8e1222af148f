#include "stress/random_programs.hpp"

namespace braid {

template class multi_stream<sim::unasked_backend>;
template class basic_runtime<sim::unasked_backend>;

namespace conformance {
namespace {

TEST(soak, random_programs_on_the_cpu_do_what_a_sequential_run_does) {
  soak<cpu_fixture>(4, 1500);
}
TEST(soak, random_programs_of_one_thread_on_the_cpu_do_what_a_sequential_run_does) {
  soak<cpu_fixture>(1, 3000);
}
TEST(soak, random_programs_on_the_simulated_device_with_events) {
  soak<sim_events>(3, 100);
}
TEST(soak, random_programs_on_the_simulated_device_with_events_that_are_not_asked) {
  soak<sim_unasked>(1, 400);
}
TEST(soak, random_programs_on_the_simulated_device_with_points) {
  soak<sim_points>(3, 100);
}

}  // namespace
}  // namespace conformance
}  // namespace braid
