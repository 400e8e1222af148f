// Blocks of a row that exchange their edges, step after step, without a barrier between the steps. A block
// binds just the edge of its neighbour: a slice of one element, which no device could make a buffer of, so it
// comes as a part. Each block has a queue of its own choice; braid puts in the waits.

#include <vector>

#include "example.hpp"

namespace {

constexpr std::size_t blocks = 8;
constexpr std::size_t side = 4096;
constexpr std::size_t steps = 50;

// In whole numbers, so that both ways give the same.
std::vector<int> in_one_piece() {
  std::vector<int> now(blocks * side);
  for (std::size_t i = 0; i < now.size(); ++i) now[i] = static_cast<int>(i * 37 % 1000);
  std::vector<int> next(now.size());
  for (std::size_t s = 0; s < steps; ++s) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      const int left = i > 0 ? now[i - 1] : 0;
      const int right = i + 1 < now.size() ? now[i + 1] : 0;
      next[i] = (left + 2 * now[i] + right) / 4;
    }
    now.swap(next);
  }
  return now;
}

}  // namespace

int main() {
  return run_example([] {
    using braid::opencl::part;
    const braid::opencl::program kernels(
        "kernel void step_block(global const int* left, ulong left_at, global const int* now, ulong now_at,\n"
        "                       global const int* right, ulong right_at, global int* next, ulong next_at) {\n"
        "  const size_t i = get_global_id(0);\n"
        "  const size_t last = get_global_size(0) - 1;\n"
        "  const int l = i > 0 ? now[now_at + i - 1] : left[left_at];\n"
        "  const int r = i < last ? now[now_at + i + 1] : right[right_at];\n"
        "  next[next_at + i] = (l + 2 * now[now_at + i] + r) / 4;\n"
        "}\n");
    braid::opencl::runtime rt;
    std::vector<braid::buffer<int>> now, next;
    for (std::size_t b = 0; b < blocks; ++b) {
      now.push_back(rt.make_buffer<int>(side, "now"));
      next.push_back(rt.make_buffer<int>(side, "next"));
      std::vector<int> first(side);
      for (std::size_t i = 0; i < side; ++i) first[i] = static_cast<int>((b * side + i) * 37 % 1000);
      rt.write(now[b], first);
    }
    const auto nothing = rt.make_buffer<int>(1, braid::zeroed, "beyond the ends");
    for (std::size_t s = 0; s < steps; ++s) {
      for (std::size_t b = 0; b < blocks; ++b) {
        rt.submit("step", read(b > 0 ? now[b - 1].slice(side - 1, 1) : nothing.slice(0, 1)), read(now[b]),
                  read(b + 1 < blocks ? now[b + 1].slice(0, 1) : nothing.slice(0, 1)), write(next[b]),
                  [&](cl::CommandQueue& queue, const part<const int>& left, const part<const int>& here,
                      const part<const int>& right, const part<int>& to) {
                    cl::Kernel& step = kernels.kernel(queue, "step_block");
                    cl_uint at = 0;
                    const auto set = [&](const auto& x) {
                      step.setArg(at++, x.buffer());
                      step.setArg(at++, cl_ulong{x.offset()});
                    };
                    set(left);
                    set(here);
                    set(right);
                    set(to);
                    queue.enqueueNDRangeKernel(step, cl::NullRange, cl::NDRange(to.size()));
                  });
      }
      now.swap(next);
    }
    std::vector<int> result;
    for (const auto& block : now) {
      const std::vector<int> part_of_it = rt.read(block).get();
      result.insert(result.end(), part_of_it.begin(), part_of_it.end());
    }
    return result == in_one_piece();
  });
}
