// The workloads by OpenCL: their programs with kernels of its own.

#include "braid/opencl.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "workloads/cholesky.hpp"
#include "workloads/inference.hpp"
#include "workloads/pipeline.hpp"
#include "workloads/programs.hpp"
#include "workloads/stencil.hpp"
#include "workloads/taskgraph.hpp"

namespace braid::embedded {
extern const std::string_view kernels_cl;
}

namespace braid::workloads {

namespace {

using queue = cl::CommandQueue;
template <class T>
using view_of = opencl::buffer_view<T>;
template <class T>
using part = opencl::part<T>;
using in = view_of<const double>;
using out = view_of<double>;

const opencl::program& with_doubles() {
  static const opencl::program all(std::string(embedded::kernels_cl), "-DWITH_DOUBLES");
  return all;
}
const opencl::program& without_doubles() {
  static const opencl::program all{std::string(embedded::kernels_cl)};
  return all;
}

void set(cl::Kernel& kernel, cl_uint& at, const cl::Buffer& x) {
  kernel.setArg(at++, x);
}
template <class T>
void set(cl::Kernel& kernel, cl_uint& at, const part<T>& x) {
  kernel.setArg(at++, x.buffer());
  kernel.setArg(at++, cl_ulong{x.offset()});
}
template <class T>
  requires(std::is_arithmetic_v<T>)
void set(cl::Kernel& kernel, cl_uint& at, T value) {
  kernel.setArg(at++, value);
}
void set(cl::Kernel& kernel, cl_uint& at, const cl::LocalSpaceArg& room) {
  kernel.setArg(at++, room);
}

/// Numbers go to the kernel as what they are: cl_ulong, cl_uint or cl_int.
template <class... Args>
void run(queue& on, const opencl::program& of, const char* name, const cl::NDRange& items,
         const cl::NDRange& group, const Args&... args) {
  cl::Kernel& kernel = of.kernel(on, name);
  cl_uint at = 0;
  (set(kernel, at, args), ...);
  on.enqueueNDRangeKernel(kernel, cl::NullRange, items, group);
}

cl_ulong wide(std::uint64_t x) {
  return x;
}
cl_int small(std::uint64_t x) {
  return static_cast<cl_int>(x);
}
const cl::NDRange one_group(64);
const cl::NDRange any_group{};
cl::LocalSpaceArg room_for_sum() {
  return cl::Local(64 * sizeof(cl_ulong));
}

// ---- cholesky

struct cholesky_kernels {
  using runtime = opencl::runtime;
  static constexpr std::uint64_t default_n = 1024;
  static constexpr std::uint64_t largest_tile = 128;
  static constexpr const char* streams_are = "by row";

  static void configure(runtime_options& of, const options&) {
    if (!of.streams) of.streams = 8;
  }
  static stream_id stream(std::uint64_t, std::uint64_t, std::uint64_t i, std::uint32_t streams) {
    return {i % streams};
  }
  static auto make(std::uint64_t seed, std::uint64_t of, std::uint64_t row, std::uint64_t column,
                   std::uint64_t height) {
    return [=](queue& on, const out& to) {
      run(on, with_doubles(), "make_tile", cl::NDRange(to.size()), any_group, to, wide(seed), wide(of),
          wide(row), wide(column), wide(height));
    };
  }
  template <class Submit>
  static void potrf(Submit&& submit, const buffer<double>& of, std::uint64_t b) {
    submit(read_write(of), scratch<int>(1), [b](queue& on, const out& a, const view_of<int>& status) {
      run(on, with_doubles(), "potrf", one_group, one_group, small(b), a, status);
    });
  }
  static auto trsm(std::uint64_t rows, std::uint64_t columns) {
    return [=](queue& on, const in& l, const out& a) {
      run(on, with_doubles(), "trsm", cl::NDRange(rows), any_group, small(rows), small(columns), l, a);
    };
  }
  static auto gemm(std::uint64_t rows, std::uint64_t columns, std::uint64_t depth) {
    return [=](queue& on, const in& a, const in& b, const out& to) {
      run(on, with_doubles(), "gemm", cl::NDRange(rows, (columns + 3) / 4), any_group, small(rows),
          small(columns), small(depth), a, b, to);
    };
  }
  /// Of a whole tile, though half of it would do.
  static auto syrk(std::uint64_t rows, std::uint64_t depth) {
    return [=](queue& on, const in& a, const out& c) {
      run(on, with_doubles(), "gemm", cl::NDRange(rows, (rows + 3) / 4), any_group, small(rows), small(rows),
          small(depth), a, a, c);
    };
  }
  /// Compiles what is compiled at first use. The results are of no use.
  static void prepare(runtime& rt, std::uint32_t, std::array<std::uint64_t, 2> sides) {
    const std::uint64_t b = sides[0];
    const auto x = rt.make_buffer<double>(b * b, "unused");
    const auto y = rt.make_buffer<double>(b * b, "unused");
    const auto z = rt.make_buffer<double>(b * b, "unused");
    rt.submit("warm up", write(x), make(1, b, 0, 0, b));
    rt.submit("warm up", write(y), make(1, b, 0, 0, b));
    rt.submit("warm up", write(z), make(1, b, 0, 0, b));
    potrf([&](auto&&... op) { rt.submit("warm up", std::forward<decltype(op)>(op)...); }, x, b);
    rt.submit("warm up", read(x), read_write(y), trsm(b, b));
    rt.submit("warm up", read(x), read_write(y), syrk(b, b));
    rt.submit("warm up", read(x), read(y), read_write(z), gemm(b, b, b));
    rt.synchronize();
  }
};

// ---- stencil: edges begin anywhere.

struct stencil_kernels {
  using runtime = opencl::runtime;
  static constexpr std::uint64_t default_n = 1024;
  static constexpr std::uint64_t largest_block = 256;
  static constexpr std::uint64_t steps = 100;

  static auto make(std::uint64_t seed, std::uint64_t of, std::uint64_t row, std::uint64_t column,
                   block_shape s) {
    return [=](queue& on, const out& to) {
      run(on, with_doubles(), "make_block", cl::NDRange(s.columns, s.rows), any_group, to, wide(s.rows),
          wide(s.columns), wide(seed), wide(of), wide(row), wide(column));
    };
  }
  static auto step(block_shape s) {
    return [s](queue& on, const part<const double>& old, const part<const double>& north,
               const part<const double>& south, const part<const double>& west,
               const part<const double>& east, const part<double>& to) {
      run(on, with_doubles(), "step_block", cl::NDRange(s.columns, s.rows), any_group, wide(s.rows),
          wide(s.columns), old, north, south, west, east, to);
    };
  }
};

// ---- pipeline

struct pipeline_kernels {
  using runtime = opencl::runtime;
  using samples = view_of<std::uint32_t>;
  using const_samples = view_of<const std::uint32_t>;
  using bytes = view_of<std::uint8_t>;
  using const_bytes = view_of<const std::uint8_t>;
  static constexpr std::uint64_t frames = 500;
  static constexpr auto decode = [](queue& on, const const_bytes& packed, const samples& frame) {
    run(on, without_doubles(), "decode", cl::NDRange(frame.size()), any_group, packed, frame);
  };
  static constexpr auto filter = [](queue& on, const const_samples& frame, const samples& smooth) {
    run(on, without_doubles(), "filter", cl::NDRange(frame.size()), any_group, frame, smooth);
  };
  static constexpr auto blend = [](queue& on, const const_samples& smooth, const samples& background,
                                   const samples& difference) {
    run(on, without_doubles(), "blend", cl::NDRange(smooth.size()), any_group, smooth, background,
        difference);
  };
  static constexpr auto encode = [](queue& on, const const_samples& difference, const bytes& coded) {
    run(on, without_doubles(), "encode", cl::NDRange(coded.size()), any_group, difference, coded);
  };
  static constexpr auto digest = [](queue& on, const const_bytes& coded, const view_of<std::uint64_t>& to) {
    run(on, without_doubles(), "digest", one_group, one_group, coded, wide(coded.size()), to, room_for_sum());
  };
};

// ---- inference

struct inference_kernels {
  using runtime = opencl::runtime;
  static constexpr std::uint64_t requests = 1000;
  static constexpr auto layer = [](queue& on, const view_of<const std::int16_t>& by,
                                   const view_of<const std::int16_t>& from, const view_of<std::int16_t>& to) {
    run(on, without_doubles(), "layer", cl::NDRange(to.size()), any_group, by, from, to, wide(from.size()));
  };
};

// ---- taskgraph

struct taskgraph_kernels {
  using runtime = opencl::runtime;

  /// The cuts go to the device once. No op binds them: nothing changes them, and they stay to the end.
  void prepare(runtime& rt, const graph& g) {
    std::vector<std::uint64_t> all;
    for (const graph::resource& r : g.resources) {
      starts_.push_back(all.size());
      all.insert(all.end(), r.cuts.begin(), r.cuts.end());
    }
    if (all.empty()) all.push_back(0);
    table_ = rt.make_buffer<std::uint64_t>(all.size(), "cuts");
    values_ = rt.make_buffer<std::uint64_t>(most_queues, zeroed, "values");
    rt.write(table_, all);
    rt.submit("find cuts", read(table_), read_write(values_),
              [this](queue& on, const part<const std::uint64_t>& cuts, const part<std::uint64_t>& values) {
                cuts_.emplace(cuts);
                cells_.emplace(values);
                run(on, without_doubles(), "spin", cl::NDRange(1), any_group, wide(0), values);
              });
    rt.synchronize();
    const bool has_durations =
        std::any_of(g.ops.begin(), g.ops.end(), [](const graph::op& op) { return op.nanoseconds != 0; });
    if (has_durations) measure_rounds(rt);
  }

  auto body(const graph& g, const graph::op& op, std::uint64_t seed) {
    return [this, &g, &op, seed](queue& on, std::span<const opencl::any_part> parts) {
      const std::span accesses(g.accesses.data() + op.first_access, op.accesses);
      const cl_ulong cell = cells_->offset() + cell_of(on);
      const cl::Buffer& value = cells_->buffer();
      const auto words = [&](std::size_t i) { return parts[i].as<std::uint64_t>(); };
      const auto first_cut = [&](const graph::access& a) {
        return wide(cuts_->offset() + starts_[a.resource] + a.first_cut);
      };
      std::size_t sources = 0;  // plain reads come first
      bool has_value = false;
      for (std::size_t i = 0; i < accesses.size(); ++i) {
        const graph::access& a = accesses[i];
        if (a.kind == access::read) ++sources;
        if (a.kind != access::read && a.kind != access::read_write) continue;
        run(on, without_doubles(), "absorb", one_group, one_group, words(i), cuts_->buffer(), first_cut(a),
            wide(a.first), cl_uint{a.cuts}, wide(op.kernel == graph_kernel::sum ? a.words : 0),
            static_cast<cl_uint>(i), wide(seed), cl_int{has_value ? 0 : 1}, value, cell, room_for_sum());
        has_value = true;
      }
      if (!has_value) {
        run(on, without_doubles(), "begin_value", cl::NDRange(1), any_group, value, cell, wide(seed));
      }
      for (std::size_t i = 0; i < accesses.size(); ++i) {
        const graph::access& a = accesses[i];
        if (a.kind == access::write && op.kernel == graph_kernel::fill) {
          run(on, without_doubles(), "fill_words", one_group, one_group, words(i), wide(a.words),
              static_cast<cl_uint>(i), value, cell);
        } else if (a.kind == access::write && op.kernel == graph_kernel::copy) {
          const std::size_t from = i % sources;
          run(on, without_doubles(), "copy_words", one_group, one_group, words(i), wide(a.words), words(from),
              wide(accesses[from].words));
        }
      }
      for (std::size_t i = 0; i < accesses.size(); ++i) {
        const graph::access& a = accesses[i];
        if (a.kind == access::read) continue;
        run(on, without_doubles(), "emit", one_group, one_group, words(i), cuts_->buffer(), first_cut(a),
            wide(a.first), cl_uint{a.cuts}, static_cast<cl_uint>(i),
            cl_int{a.kind == access::accumulate ? 1 : 0}, value, cell);
      }
      if (op.nanoseconds != 0) spin(on, static_cast<double>(op.nanoseconds) * rounds_per_ns_);
    };
  }

 private:
  static constexpr std::uint64_t most_queues = 4096;

  void spin(queue& on, double rounds) const {
    if (!cells_) return;  // prepare() was not called
    run(on, without_doubles(), "spin", cl::NDRange(1), any_group, wide(static_cast<std::uint64_t>(rounds)),
        *cells_);
  }
  /// A kernel has no clock: a duration is so many rounds.
  void measure_rounds(runtime& rt) {
    constexpr double rounds = 1e6;
    double best = 1e9;  // s
    for (int i = 0; i < 3; ++i) {
      const clock::time_point begin = clock::now();
      rt.submit("measure", read(table_),
                [&](queue& on, const part<const std::uint64_t>&) { spin(on, rounds); });
      rt.synchronize();
      best = std::min(best, seconds_since(begin));
    }
    rounds_per_ns_ = rounds / (best * 1e9);
  }
  /// Ops of one queue come one after the other and may use one place for their value.
  std::uint64_t cell_of(const queue& on) {
    const std::scoped_lock lock(mutex_);
    const auto [found, is_new] = cell_of_.try_emplace(on(), cell_of_.size());
    if (is_new && found->second >= most_queues) throw std::length_error("more queues than values");
    return found->second;
  }

  buffer<std::uint64_t> table_;
  buffer<std::uint64_t> values_;
  std::optional<part<const std::uint64_t>> cuts_;
  std::optional<part<std::uint64_t>> cells_;
  std::vector<std::uint64_t> starts_;  // of each resource's cuts
  double rounds_per_ns_ = 0;
  std::mutex mutex_;
  std::map<cl_command_queue, std::uint64_t> cell_of_;
};

bool needs_doubles(const std::string& workload) {
  return workload == "cholesky" || workload == "stencil";
}

}  // namespace

std::string why_not_opencl(const std::string& workload, const std::string& device) {
  try {
    const opencl::device_info of = opencl::device_for(device);
    if (needs_doubles(workload) && !of.has_doubles) {
      return fmt::format("{} computes in double precision, which {} does not have", workload, of.name);
    }
    return {};
  } catch (const usage_error& e) {
    return e.what();
  } catch (const opencl::error& e) {
    return e.what();
  }
}

bool has_opencl_gpu() {
  try {
    return opencl::device_for("").kind == "GPU";
  } catch (const std::exception&) {
    return false;
  }
}

result run_on_opencl(const std::string& workload, const options& with, const hooks& call) {
  result of = workload == "cholesky"    ? cholesky<cholesky_kernels>(with, call).run()
              : workload == "stencil"   ? stencil<stencil_kernels>(with, call).run()
              : workload == "pipeline"  ? pipeline<pipeline_kernels>(with, call).run()
              : workload == "inference" ? inference<inference_kernels>(with, call).run()
                                        : taskgraph<taskgraph_kernels>(with, call).run();
  const opencl::device_info on = opencl::device_for(with.device);
  of.device = fmt::format("{} ({})", on.name, on.platform);
  return of;
}

}  // namespace braid::workloads
