// Every member that a program may call is found when it is linked with nothing but the header of its backend:
// of some backends the library has compiled the rest, and what it has not is missed only here.

#ifdef BRAID_INTERFACE_OPENCL
#include <braid/opencl.hpp>
using runtime = braid::opencl::runtime;
#elif defined BRAID_INTERFACE_CUDA
#include <braid/cuda.hpp>
using runtime = braid::cuda::runtime;
#else
#include <braid/cpu.hpp>
using runtime = braid::cpu::runtime;
#endif

#include <chrono>
#include <memory>
#include <span>
#include <vector>

namespace {

constexpr auto nothing = [](auto...) {};

template <class T>
void use(runtime& rt, runtime& other) {
  using namespace braid;
  const stream_id one{1};
  std::vector<T> host(8);
  auto x = rt.make_buffer<T>(8, "x");
  auto y = rt.make_buffer<T>(8, zeroed, "y");
  auto z = other.make_buffer<T>(8, zeroed, "z");
  const resource token = resource::token("token");
  const auto part = x.slice(2, 4);

  rt.fill(x, T{1});
  rt.fill(part, T{2});
  rt.write(x, host);
  rt.write(part, std::span<const T>(host).first(4));
  rt.write_from(x, host);
  rt.write_from(part, std::vector<T>(4));
  rt.copy(y, x);
  rt.copy(x, z);
  rt.copy(part, y.slice(0, 4));
  rt.submit("named", write(x), nothing);
  rt.submit(one, "on a stream", read(x), read_write(y), nothing);
  rt.submit("all kinds", read(part), accumulate(y, 3), scratch<T>(4), read(token), nothing);
  bindings list;
  list.add(read(x));
  list.add(read_write(y));
  const submission op = rt.submit("a list", list, nothing);
  (void)op.cancel();
  op.wait();
  std::string_view label = "text";
  rt.submit(label, read(x), nothing);

  recording again = rt.record([&] {
    rt.submit("recorded", read(x), read_write(y), nothing);
    rt.fill(x, T{3});
    rt.copy(y, x);
  });
  again.replay();
  again.replay(3);
  (void)again.is_graph();

  (void)rt.read(x).get();
  (void)rt.read(part).get();
  rt.read(x, std::span<T>(host)).get();
  rt.read(part, std::span<T>(host).first(4)).wait();
  rt.read(x).then([](std::vector<T>) {}).wait();
  auto asked = rt.read(y);
  (void)asked.wait_for(std::chrono::milliseconds(1));
  (void)asked.is_ready();

  rt.wait(x);
  rt.wait(one);
  rt.retire(std::make_shared<int>(1), one);
  rt.synchronize();
  (void)rt.stats();
  (void)rt.trim(1 << 20);
#ifndef BRAID_INTERFACE_CPU
  auto event = rt.last_write(x);
  rt.wait_for(one, event);
  rt.note(read(x), rt.last_access(y));
  rt.note(write(part), std::move(event));
#endif
  auto adopted = rt.adopt(std::span<T>(host), "host", std::make_shared<int>(1));
  (void)rt.backend();
}

}  // namespace

// With an argument it would run, which is not the point.
int main(int argc, char**) {
  if (argc == 1) return 0;
  runtime rt, other;
  use<int>(rt, other);
  use<double>(rt, other);
  (void)rt.shutdown(std::chrono::seconds(1));
}
