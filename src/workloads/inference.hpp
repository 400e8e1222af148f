#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "workloads/arithmetic.hpp"
#include "workloads/measured.hpp"

// A server in small: threads answer requests with the same weights. A request goes through the layers in the
// stream of its thread; all read the weights, which nobody writes, so no request waits for one of another
// thread.

namespace braid::workloads {

using weights_view = std::span<const std::int16_t>;

/// A layer in a plain loop: what the CPU runs, and what results are checked against.
inline void apply_layer(weights_view by, weights_view from, std::span<std::int16_t> to) {
  for (std::size_t row = 0; row < to.size(); ++row) {
    const std::int16_t* const w = by.data() + row * from.size();
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < from.size(); ++i) sum += std::int32_t{w[i]} * std::int32_t{from[i]};
    to[row] = activation(sum);
  }
}

/// `Kernels` has
///   runtime, requests      the type, and how many there are by default
///   layer                  body with the arguments of apply_layer
template <class Kernels>
class inference {
 public:
  using runtime = typename Kernels::runtime;

  inference(const options& with, const hooks& call)
      : requests_(size_of(with, Kernels::requests, most_requests)),
        made_(runtime_options_of(with, placement::per_thread)),
        rt_(made_),
        part_(rt_, made_, with, call, requests_ * (layers + 2), to_string(placement::per_thread)) {
    const std::uint64_t seed = mix(with.seed);
    for (std::uint64_t l = 0; l < layers; ++l) {
      host_weights_[l].resize(width * width);
      for (std::uint64_t i = 0; i < width * width; ++i) {
        host_weights_[l][i] =
            static_cast<std::int16_t>(static_cast<int>(mix(seed + (l << 32 | i)) % 256) - 128);
      }
      weights_[l] = rt_.template make_buffer<std::int16_t>(width * width, fmt::format("weights {}", l));
      rt_.write(weights_[l], host_weights_[l]);
    }
    for (std::uint64_t q = 0; q < distinct; ++q) {
      questions_[q].resize(width);
      for (std::uint64_t i = 0; i < width; ++i) {
        questions_[q][i] = static_cast<std::int16_t>(mix(seed ^ (q * width + i)) % 256);
      }
    }
  }

  result run() {
    std::vector<std::int16_t> answers(requests_ * width);
    clock::duration unused{};
    answer(0, std::span(answers).first(width), unused);  // loads what is loaded at first use
    part_.start();
    serve(answers);
    part_.finish();

    result& of = part_.result();
    of.problem = fmt::format("{} requests by {} threads, {} layers of {} x {}", requests_, servers, layers,
                             width, width);
    of.work = static_cast<double>(requests_);
    of.unit = "request";
    part_.tamper(std::span(answers));
    const std::uint64_t wrong = count_wrong(answers);
    of.verified = wrong == 0;
    of.check = of.verified ? "all answers are those of one request after the other"
                           : fmt::format("{} of {} answers are wrong", wrong, requests_);
    return of;
  }

 private:
  static constexpr std::uint64_t most_requests = 10'000'000;
  static constexpr std::uint64_t layers = 4;
  static constexpr std::uint64_t width = 512;
  static constexpr std::uint64_t distinct = 32;  // questions
  static constexpr std::uint64_t servers = 8;

  void serve(std::span<std::int16_t> answers) {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t ended = 0;
    std::exception_ptr failure;
    std::atomic<std::uint64_t> answered{0};
    std::vector<std::thread> threads;
    const auto server = [&](std::uint64_t number) {
      clock::duration submitting{0};
      std::exception_ptr mine;
      try {
        for (std::uint64_t r = number; r < requests_; r += servers) {
          answer(r, answers.subspan(r * width, width), submitting);
          answered.fetch_add(1, std::memory_order_relaxed);  // a count for people
        }
      } catch (...) {
        mine = std::current_exception();
      }
      const std::scoped_lock lock(mutex);
      part_.add_submitting(submitting);
      if (mine && !failure) failure = mine;
      if (++ended == servers) changed.notify_one();
    };
    for (std::uint64_t s = 0; s < servers; ++s) threads.emplace_back(server, s);
    {
      std::unique_lock lock(mutex);
      while (!changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return ended == servers; })) {
        part_.report(static_cast<double>(answered.load(std::memory_order_relaxed)) /
                     static_cast<double>(requests_));
      }
    }
    for (std::thread& t : threads) t.join();
    if (failure) std::rethrow_exception(failure);
  }

  void answer(std::uint64_t r, std::span<std::int16_t> to, clock::duration& submitting) {
    const clock::duration begin = thread_time();
    auto x = rt_.template make_buffer<std::int16_t>(width, "question");
    rt_.write(x, questions_[r % distinct]);
    for (std::uint64_t l = 0; l < layers; ++l) {
      auto y = rt_.template make_buffer<std::int16_t>(width, "activations");
      rt_.submit(fmt::format("layer {} of {}", l, r), read(weights_[l]), read(x), write(y), Kernels::layer);
      x = std::move(y);
    }
    auto arrives = rt_.read(x, to);
    submitting += thread_time() - begin;
    arrives.get();
  }

  // ---- The check: each question once, on this thread.
  std::uint64_t count_wrong(std::span<const std::int16_t> answers) const {
    std::array<std::vector<std::int16_t>, distinct> right = questions_;
    for (auto& x : right) {
      for (const auto& w : host_weights_) {
        std::vector<std::int16_t> y(width);
        apply_layer(w, x, y);
        x = std::move(y);
      }
    }
    std::uint64_t wrong = 0;
    for (std::uint64_t r = 0; r < requests_; ++r) {
      wrong += std::ranges::equal(answers.subspan(r * width, width), right[r % distinct]) ? 0 : 1;
    }
    return wrong;
  }

  std::uint64_t requests_;
  runtime_options made_;
  runtime rt_;
  measured<runtime> part_;
  std::array<std::vector<std::int16_t>, layers> host_weights_;
  std::array<buffer<std::int16_t>, layers> weights_;
  std::array<std::vector<std::int16_t>, distinct> questions_;
};

}  // namespace braid::workloads
