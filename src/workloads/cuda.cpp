// The workloads on a GPU: their programs with kernels of its own.

#include "braid/cuda.hpp"

#include <algorithm>

#include "workloads/cholesky.hpp"
#include "workloads/cuda_blas.hpp"
#include "workloads/inference.hpp"
#include "workloads/kernels.hpp"
#include "workloads/pipeline.hpp"
#include "workloads/programs.hpp"
#include "workloads/stencil.hpp"
#include "workloads/taskgraph.hpp"

namespace braid::workloads {

namespace {

using native = cuda::native_stream;
using in = std::span<const double>;
using out = std::span<double>;

void check(int code) {
  if (code != 0) throw cuda::error(code, kernels::error_text(code));
}

// ---- cholesky

/// What is on the way to the next diagonal tile goes to the streams that go first, the first third.
struct cholesky_kernels {
  using runtime = cuda::runtime;
  static constexpr std::uint64_t default_n = 16'384;
  static constexpr std::uint64_t largest_tile = 1024;
  static constexpr const char* streams_are = "by tile; what the next column needs goes first";

  static void configure(runtime_options& of, const options& with) {
    if (!of.streams) of.streams = 12;  // each has handles of its own, and those cost memory
    if (with.placement) return;
    of.priorities.assign(*of.streams, 0);
    std::fill_n(of.priorities.begin(), std::min(urgent(*of.streams), *of.streams), -5);
  }
  static std::uint32_t urgent(std::uint32_t streams) { return std::max(1U, streams / 3); }
  static stream_id stream(std::uint64_t j, std::uint64_t k, std::uint64_t i, std::uint32_t streams) {
    const std::uint32_t first = urgent(streams);
    const bool is_next = i == k || (j == k && i == k + 1) || (j == k + 1 && i == j);
    if (is_next || streams == first) return {0};
    if (j == k + 1) return {first == 1 ? 0 : 1 + i % (first - 1)};
    return {first + i % (streams - first)};
  }

  static auto make(std::uint64_t seed, std::uint64_t of, std::uint64_t row, std::uint64_t column,
                   std::uint64_t height) {
    return [=](native on, out to) {
      check(kernels::make_tile(on, to.data(), to.size(), seed, of, row, column, height));
    };
  }
  template <class Submit>
  void potrf(Submit&& submit, const buffer<double>& of, std::uint64_t b) const {
    const int size = b == work_[0].first ? work_[0].second : work_[1].second;
    submit(read_write(of), scratch<double>(static_cast<std::uint64_t>(size)), scratch<int>(1),
           [b, size](native on, out a, out work, std::span<int> status) {
             cuda_blas::potrf(on, static_cast<int>(b), a.data(), work.data(), size, status.data());
           });
  }
  static auto trsm(std::uint64_t rows, std::uint64_t columns) {
    return [m = static_cast<int>(rows), c = static_cast<int>(columns)](native on, in l, out a) {
      cuda_blas::trsm(on, m, c, l.data(), a.data());
    };
  }
  static auto syrk(std::uint64_t rows, std::uint64_t depth) {
    return [m = static_cast<int>(rows), k = static_cast<int>(depth)](native on, in a, out c) {
      cuda_blas::syrk(on, m, k, a.data(), c.data());
    };
  }
  static auto gemm(std::uint64_t rows, std::uint64_t columns, std::uint64_t depth) {
    return
        [m = static_cast<int>(rows), c = static_cast<int>(columns), k = static_cast<int>(depth)](
            native on, in a, in b, out to) { cuda_blas::gemm(on, m, c, k, a.data(), b.data(), to.data()); };
  }

  void prepare(runtime& rt, std::uint32_t streams, std::array<std::uint64_t, 2> sides) {
    for (std::uint32_t s = 0; s < streams; ++s) {
      rt.submit(stream_id{s}, "make handles", [](native on) { cuda_blas::prepare(on); });
    }
    for (std::size_t i = 0; i < sides.size(); ++i) {
      work_[i] = {sides[i], 0};
      rt.submit(stream_id{0}, "size", [&](native on) {
        work_[i].second = cuda_blas::work_of_potrf(on, static_cast<int>(sides[i]));
      });
    }
    // Loads what is loaded at first use. The results are of no use.
    const std::uint64_t b = sides[0];
    const auto x = rt.make_buffer<double>(b * b, zeroed, "unused");
    const auto y = rt.make_buffer<double>(b * b, zeroed, "unused");
    const auto z = rt.make_buffer<double>(b * b, zeroed, "unused");
    const auto submit = [&](auto&&... op) {
      rt.submit(stream_id{0}, "warm up", std::forward<decltype(op)>(op)...);
    };
    potrf(submit, x, b);
    submit(read(x), read_write(y), trsm(b, b));
    submit(read(x), read_write(y), syrk(b, b));
    submit(read(x), read(y), read_write(z), gemm(b, b, b));
    rt.synchronize();
  }

 private:
  std::array<std::pair<std::uint64_t, int>, 2> work_{};  // of potrf, by the side of the tile
};

// ---- stencil

struct stencil_kernels {
  using runtime = cuda::runtime;
  static constexpr std::uint64_t default_n = 4096;
  static constexpr std::uint64_t largest_block = 1024;
  static constexpr std::uint64_t steps = 100;

  static auto make(std::uint64_t seed, std::uint64_t of, std::uint64_t row, std::uint64_t column,
                   block_shape s) {
    return [=](native on, out to) {
      check(kernels::make_block(on, to.data(), {s.rows, s.columns}, seed, of, row, column));
    };
  }
  static auto step(block_shape s) {
    return [s](native on, in old, in north, in south, in west, in east, out to) {
      check(kernels::step_block(on, {s.rows, s.columns}, old.data(), north.data(), south.data(), west.data(),
                                east.data(), to.data()));
    };
  }
};

// ---- pipeline

struct pipeline_kernels {
  using runtime = cuda::runtime;
  using samples = stages::samples;
  using const_samples = stages::const_samples;
  static constexpr std::uint64_t frames = 4000;
  static constexpr auto decode = [](native on, stages::const_bytes packed, samples frame) {
    check(kernels::decode(on, packed.data(), frame.data(), frame.size()));
  };
  static constexpr auto filter = [](native on, const_samples frame, samples smooth) {
    check(kernels::filter(on, frame.data(), smooth.data(), frame.size()));
  };
  static constexpr auto blend = [](native on, const_samples smooth, samples background, samples difference) {
    check(kernels::blend(on, smooth.data(), background.data(), difference.data(), smooth.size()));
  };
  static constexpr auto encode = [](native on, const_samples difference, stages::bytes coded) {
    check(kernels::encode(on, difference.data(), coded.data(), coded.size()));
  };
  static constexpr auto digest = [](native on, stages::const_bytes coded, std::span<std::uint64_t> to) {
    check(kernels::digest(on, coded.data(), coded.size(), to.data()));
  };
};

// ---- inference

struct inference_kernels {
  using runtime = cuda::runtime;
  static constexpr std::uint64_t requests = 8000;
  static constexpr auto layer = [](native on, weights_view by, weights_view from,
                                   std::span<std::int16_t> to) {
    check(kernels::layer(on, by.data(), from.data(), to.data(), to.size()));
  };
};

// ---- taskgraph

struct taskgraph_kernels {
  using runtime = cuda::runtime;

  /// The cuts go to the device once. No op binds them: nothing changes them, and they stay to the end.
  void prepare(runtime& rt, const graph& g) {
    for (std::size_t i = 0; i < g.ops.size(); ++i) {
      if (g.ops[i].accesses > kernels::graph_op::most_accesses) {
        throw_bad_option(
            fmt::format("ops[{}]: has {} accesses; on a GPU at most {} are possible: use --backend cpu", i,
                        g.ops[i].accesses, kernels::graph_op::most_accesses));
      }
    }
    std::vector<std::uint64_t> all;
    for (const graph::resource& r : g.resources) {
      starts_.push_back(all.size());
      all.insert(all.end(), r.cuts.begin(), r.cuts.end());
    }
    if (all.empty()) all.push_back(0);
    table_ = rt.make_buffer<std::uint64_t>(all.size(), "cuts");
    rt.write(table_, all);
    rt.submit("find cuts", read(table_), [this](native on, std::span<const std::uint64_t> cuts) {
      cuts_ = cuts.data();
      check(kernels::execute(on, kernels::graph_op{}));  // loads the kernel
    });
    rt.synchronize();
  }
  auto body(const graph& g, const graph::op& op, std::uint64_t seed) const {
    return [this, &g, &op, seed](native on, std::span<const view> views) {
      kernels::graph_op to;  // only what is used is filled in
      to.seed = seed;
      to.nanoseconds = op.nanoseconds;
      to.access_count = op.accesses;
      to.reads = 0;
      to.kernel = static_cast<std::uint32_t>(op.kernel);
      for (std::uint32_t i = 0; i < op.accesses; ++i) {
        const graph::access& a = g.accesses[op.first_access + i];
        to.accesses[i] = {views[i].as<std::uint64_t>().data(),
                          cuts_ + starts_[a.resource] + a.first_cut,
                          a.first,
                          a.words,
                          a.cuts,
                          static_cast<std::uint32_t>(a.kind)};
        to.reads += a.kind == access::read ? 1 : 0;
      }
      check(kernels::execute(on, to));
    };
  }

 private:
  buffer<std::uint64_t> table_;
  std::vector<std::uint64_t> starts_;  // of each resource's cuts
  const std::uint64_t* cuts_ = nullptr;
};

}  // namespace

std::string why_not_cuda(const std::string& workload) {
  try {
    if (cuda::devices().empty()) return "there is no GPU";
  } catch (const usage_error& e) {
    return e.what();
  }
  return workload == "cholesky" ? cuda_blas::why_not() : "";
}

result run_on_cuda(const std::string& workload, const options& with, const hooks& call) {
  result of = workload == "cholesky"    ? cholesky<cholesky_kernels>(with, call).run()
              : workload == "stencil"   ? stencil<stencil_kernels>(with, call).run()
              : workload == "pipeline"  ? pipeline<pipeline_kernels>(with, call).run()
              : workload == "inference" ? inference<inference_kernels>(with, call).run()
                                        : taskgraph<taskgraph_kernels>(with, call).run();
  // The runtime took it for a number.
  of.device = cuda::devices()[with.device.empty() ? 0 : std::stoul(with.device)].name;
  return of;
}

}  // namespace braid::workloads
