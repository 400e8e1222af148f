// Cholesky's factorisation of a matrix in tiles, A = L L^T, with cuSOLVER and cuBLAS for each tile: the program of
// examples/06_cholesky.cpp on a GPU. Checked against cuSOLVER on the whole matrix.
//
//   example_cuda_cholesky [--small]
//   example_cuda_cholesky --bench        n = 16384 in tiles of several sizes, and a timeline of the best

#include <algorithm>
#include <braid/cublas.hpp>
#include <braid/cusolver.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "example.hpp"

namespace {

using braid::cuda::check;
using in = std::span<const double>;
using out = std::span<double>;

// ---- The matrix: symmetric, with a heavy diagonal; each element follows from its place.

__device__ double element(std::size_t row, std::size_t column, std::size_t n) {
  const std::size_t low = row < column ? row : column;
  const std::size_t high = row < column ? column : row;
  const double off = static_cast<double>((low * 7919 + high * 104729) % 1009) / 1009.0 - 0.5;
  return row == column ? static_cast<double>(n) : off;
}

__global__ void make_part(double* to, std::size_t side, std::size_t leading, std::size_t row, std::size_t column,
                          std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= side * side) return;
  to[i / side * leading + i % side] = element(row + i % side, column + i / side, n);
}

/// The largest difference between a tile and its place in the whole, of what is on or below the diagonal.
__global__ void compare(const double* tile, const double* whole, std::size_t side, std::size_t n, std::size_t row,
                        std::size_t column, unsigned long long* worst) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= side * side) return;
  const std::size_t r = row + i % side;
  const std::size_t c = column + i / side;
  if (r < c) return;
  const double difference = fabs(tile[i] - whole[c * n + r]);
  atomicMax(worst, static_cast<unsigned long long>(__double_as_longlong(difference)));  // ordered as the numbers are
}

// ---- When each op ran, if somebody wants to know.

struct moment {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  char kind = ' ';
};

class timeline {
 public:
  timeline() { check(cudaEventCreate(&start_)); }
  ~timeline() {
    (void)cudaEventDestroy(start_);
    for (const moment& m : moments_) {
      (void)cudaEventDestroy(m.begin);
      (void)cudaEventDestroy(m.end);
    }
  }
  timeline(const timeline&) = delete;
  timeline& operator=(const timeline&) = delete;
  void begin(cudaStream_t stream) { check(cudaEventRecord(start_, stream)); }
  template <class Work>
  void note(cudaStream_t stream, char kind, Work&& work) {
    moment m;
    m.kind = kind;
    check(cudaEventCreate(&m.begin));
    check(cudaEventCreate(&m.end));
    check(cudaEventRecord(m.begin, stream));
    work();
    check(cudaEventRecord(m.end, stream));
    moments_.push_back(m);
  }
  /// One line for each part of the time: how many ops of each kind ran in the middle of it.
  void print(int lines) const {
    std::vector<std::pair<float, float>> when;
    float last = 0.0F;
    for (const moment& m : moments_) {
      float from = 0.0F;
      float to = 0.0F;
      check(cudaEventElapsedTime(&from, start_, m.begin));
      check(cudaEventElapsedTime(&to, start_, m.end));
      when.emplace_back(from, to);
      last = std::max(last, to);
    }
    std::printf("   ms   ops that run: p potrf, t trsm, s syrk, g gemm\n");
    for (int line = 0; line < lines; ++line) {
      const float at = last * (static_cast<float>(line) + 0.5F) / static_cast<float>(lines);
      std::string running;
      for (std::size_t i = 0; i < when.size(); ++i) {
        if (when[i].first <= at && at < when[i].second) running += moments_[i].kind;
      }
      std::sort(running.begin(), running.end());
      std::printf("%6.2f  %s\n", static_cast<double>(at), running.c_str());
    }
    for (const char kind : {'p', 't', 's', 'g'}) {
      float sum = 0.0F;
      for (std::size_t i = 0; i < when.size(); ++i) sum += moments_[i].kind == kind ? when[i].second - when[i].first : 0.0F;
      std::printf("%c: %.2f ms in all\n", kind, static_cast<double>(sum));
    }
  }

 private:
  cudaEvent_t start_ = nullptr;
  std::vector<moment> moments_;
};

// ---- In tiles.

class tiled {
 public:
  tiled(braid::cuda::runtime& rt, std::size_t n, std::size_t side)
      : rt_(rt), n_(n), side_(side), rows_(n / side), tiles_(rows_ * (rows_ + 1) / 2) {
    for (auto& t : tiles_) t = rt.make_buffer<double>(side * side, "tile");
    status_ = rt.make_buffer<int>(1, braid::zeroed, "status");
    const int b = static_cast<int>(side);
    rt.submit("size", [&](cudaStream_t stream) {
      check(cusolverDnDpotrf_bufferSize(braid::cuda::cusolver(stream), CUBLAS_FILL_MODE_LOWER, b, nullptr, b, &work_));
    });
  }

  void load() {
    for (std::size_t r = 0; r < rows_; ++r) {
      for (std::size_t c = 0; c <= r; ++c) {
        rt_.submit("make", write(tile(r, c)), [this, r, c](cudaStream_t stream, out to) {
          make_part<<<blocks_for(to.size()), 256, 0, stream>>>(to.data(), side_, side_, r * side_, c * side_, n_);
          check(cudaGetLastError());
        });
      }
    }
    rt_.synchronize();
  }

  /// The plain triple loop. What is on the way to the next diagonal tile goes to the streams that go first.
  void go(timeline* times = nullptr) {
    const int b = static_cast<int>(side_);
    const auto body = [times](char kind, auto work) {
      return [times, kind, work](cudaStream_t stream, auto... views) {
        times != nullptr ? times->note(stream, kind, [&] { work(stream, views...); }) : work(stream, views...);
      };
    };
    for (std::size_t k = 0; k < rows_; ++k) {
      rt_.submit(urgent(0), "potrf", read_write(tile(k, k)), braid::scratch<double>(static_cast<std::uint64_t>(work_)),
                 read_write(status_), body('p', [this, b](cudaStream_t stream, out a, out work, std::span<int> status) {
                   check(cusolverDnDpotrf(braid::cuda::cusolver(stream), CUBLAS_FILL_MODE_LOWER, b, a.data(), b,
                                          work.data(), work_, status.data()));
                 }));
      for (std::size_t i = k + 1; i < rows_; ++i) {
        rt_.submit(i == k + 1 ? urgent(0) : other(i), "trsm", read(tile(k, k)), read_write(tile(i, k)),
                   body('t', [b](cudaStream_t stream, in l, out a) {
                     const double one = 1.0;
                     check(cublasDtrsm(braid::cuda::cublas(stream), CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_LOWER,
                                       CUBLAS_OP_T, CUBLAS_DIAG_NON_UNIT, b, b, &one, l.data(), b, a.data(), b));
                   }));
      }
      for (std::size_t j = k + 1; j < rows_; ++j) {
        rt_.submit(j == k + 1 ? urgent(0) : other(j), "syrk", read(tile(j, k)), read_write(tile(j, j)),
                   body('s', [b](cudaStream_t stream, in a, out c) {
                     const double minus = -1.0;
                     const double one = 1.0;
                     check(cublasDsyrk(braid::cuda::cublas(stream), CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, b, b, &minus,
                                       a.data(), b, &one, c.data(), b));
                   }));
        for (std::size_t i = j + 1; i < rows_; ++i) {
          rt_.submit(j == k + 1 ? urgent(1 + i % 3) : other(i), "gemm", read(tile(i, k)), read(tile(j, k)),
                     read_write(tile(i, j)), body('g', [b](cudaStream_t stream, in x, in y, out c) {
                       const double minus = -1.0;
                       const double one = 1.0;
                       check(cublasDgemm(braid::cuda::cublas(stream), CUBLAS_OP_N, CUBLAS_OP_T, b, b, b, &minus,
                                         x.data(), b, y.data(), b, &one, c.data(), b));
                     }));
        }
      }
    }
  }

  double difference(const double* whole) {
    auto worst = rt_.make_buffer<unsigned long long>(1, braid::zeroed, "worst");
    for (std::size_t r = 0; r < rows_; ++r) {
      for (std::size_t c = 0; c <= r; ++c) {
        rt_.submit("compare", read(tile(r, c)), accumulate(worst),
                   [this, whole, r, c](cudaStream_t stream, in t, std::span<unsigned long long> to) {
                     compare<<<blocks_for(t.size()), 256, 0, stream>>>(t.data(), whole, side_, n_, r * side_, c * side_,
                                                                       to.data());
                     check(cudaGetLastError());
                   });
      }
    }
    double found = 0.0;
    const unsigned long long bits = rt_.read(worst).get().front();
    std::memcpy(&found, &bits, sizeof(found));
    return rt_.read(status_).get().front() == 0 ? found : 1e9;
  }

  static constexpr unsigned urgent_streams = 4;
  static constexpr unsigned streams = 12;

 private:
  braid::buffer<double>& tile(std::size_t row, std::size_t column) { return tiles_[row * (row + 1) / 2 + column]; }
  static braid::stream_id urgent(std::size_t i) { return braid::stream_id{i % urgent_streams}; }
  static braid::stream_id other(std::size_t i) {
    return braid::stream_id{urgent_streams + i % (streams - urgent_streams)};
  }

  braid::cuda::runtime& rt_;
  std::size_t n_;
  std::size_t side_;
  std::size_t rows_;
  std::vector<braid::buffer<double>> tiles_;
  braid::buffer<int> status_;
  int work_ = 0;
};

braid::runtime_options options() {
  std::vector<int> priorities(tiled::streams, 0);
  std::fill_n(priorities.begin(), tiled::urgent_streams, -5);
  braid::runtime_options with;
  with.streams = tiled::streams;
  with.priorities = priorities;
  return with;
}

// ---- The whole matrix, by cuSOLVER alone.

class whole_matrix {
 public:
  explicit whole_matrix(std::size_t n) : n_(n) {
    void* made = nullptr;
    check(cudaMalloc(&made, n * n * sizeof(double)));
    data_.reset(static_cast<double*>(made));
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check(cusolverDnCreate(&handle_));
    check(cusolverDnSetStream(handle_, stream_));
    check(cusolverDnCreateParams(&params_));
    const auto side = static_cast<std::int64_t>(n);
    check(cusolverDnXpotrf_bufferSize(handle_, params_, CUBLAS_FILL_MODE_LOWER, side, CUDA_R_64F, data_.get(), side,
                                      CUDA_R_64F, &on_device_, &on_host_));
    check(cudaMalloc(&made, on_device_ + sizeof(int)));
    work_.reset(static_cast<double*>(made));
    host_work_.resize(on_host_);
  }
  ~whole_matrix() {
    (void)cusolverDnDestroyParams(params_);
    (void)cusolverDnDestroy(handle_);
    (void)cudaStreamDestroy(stream_);
  }
  whole_matrix(const whole_matrix&) = delete;
  whole_matrix& operator=(const whole_matrix&) = delete;

  void load() {
    make_part<<<blocks_for(n_ * n_), 256, 0, stream_>>>(data_.get(), n_, n_, 0, 0, n_);
    check(cudaGetLastError());
    wait();
  }
  void go() {
    const auto side = static_cast<std::int64_t>(n_);
    auto* status = reinterpret_cast<int*>(reinterpret_cast<char*>(work_.get()) + on_device_);
    check(cusolverDnXpotrf(handle_, params_, CUBLAS_FILL_MODE_LOWER, side, CUDA_R_64F, data_.get(), side, CUDA_R_64F,
                           work_.get(), on_device_, host_work_.data(), on_host_, status));
  }
  void wait() { check(cudaStreamSynchronize(stream_)); }
  const double* data() const { return data_.get(); }

 private:
  struct free_device {
    void operator()(double* p) const { (void)cudaFree(p); }
  };
  std::size_t n_;
  std::unique_ptr<double, free_device> data_;
  std::unique_ptr<double, free_device> work_;
  std::vector<char> host_work_;
  std::size_t on_device_ = 0;
  std::size_t on_host_ = 0;
  cudaStream_t stream_ = nullptr;
  cusolverDnHandle_t handle_ = nullptr;
  cusolverDnParams_t params_ = nullptr;
};

template <class F>
double seconds(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

bool is_small(double difference, std::size_t n) {
  std::printf("largest difference to cuSOLVER on the whole matrix: %g\n", difference);
  return difference < 1e-12 * static_cast<double>(n);
}

bool check_result(std::size_t n, std::size_t side) {
  whole_matrix whole(n);
  whole.load();
  whole.go();
  whole.wait();
  braid::cuda::runtime rt(options());
  tiled tiles(rt, n, side);
  tiles.load();
  tiles.go();
  return is_small(tiles.difference(whole.data()), n);
}

bool bench() {
  constexpr std::size_t n = 16384;
  constexpr int repetitions = 5;
  const double flops = static_cast<double>(n) * n * n / 3.0;
  whole_matrix whole(n);
  braid::cuda::runtime rt(options());
  double best = 1e9;
  std::size_t best_side = 0;
  bool is_right = true;
  for (const std::size_t side : {512UL, 1024UL, 2048UL}) {
    tiled tiles(rt, n, side);
    std::vector<double> ours;
    std::vector<double> theirs;
    for (int r = 0; r <= repetitions; ++r) {
      whole.load();
      const double a = seconds([&] {
        whole.go();
        whole.wait();
      });
      tiles.load();
      const double b = seconds([&] {
        tiles.go();
        rt.synchronize();
      });
      if (r == 0) continue;  // warms up
      theirs.push_back(a);
      ours.push_back(b);
    }
    is_right = is_small(tiles.difference(whole.data()), n) && is_right;
    const double t = median(ours);
    std::printf("n = %zu, tiles of %4zu: braid %.1f ms, %.2f TFLOP/s; cusolverDnXpotrf %.1f ms, %.2f TFLOP/s; ratio %.3f\n", n,
                side, 1e3 * t, flops / t * 1e-12, 1e3 * median(theirs), flops / median(theirs) * 1e-12,
                t / median(theirs));
    if (t < best) {
      best = t;
      best_side = side;
    }
  }
  tiled tiles(rt, n, best_side);
  tiles.load();
  timeline times;
  rt.submit("start", [&](cudaStream_t stream) { times.begin(stream); });
  rt.synchronize();
  tiles.go(&times);
  rt.synchronize();
  times.print(40);
  return is_right;
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_bench = argc > 1 && std::strcmp(argv[1], "--bench") == 0;
  return run_example(argc, argv, [&](bool small) {
    return is_bench ? bench() : small ? check_result(256, 64) : check_result(4096, 512);
  });
}
