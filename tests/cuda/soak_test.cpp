#include "stress/random_programs.hpp"

namespace braid::conformance {
namespace {

TEST(soak, random_programs_on_cuda_do_what_a_sequential_run_does) {
  soak<cuda_fixture>(3, 300);
}
TEST(soak, random_programs_of_one_thread_on_cuda_do_what_a_sequential_run_does) {
  soak<cuda_fixture>(1, 1000);
}

}  // namespace
}  // namespace braid::conformance
