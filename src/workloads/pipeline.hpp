#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "workloads/arithmetic.hpp"
#include "workloads/measured.hpp"

// Frames go through stages: decode, filter, blend with the background, encode, digest. The background is the
// one thing that all frames share: it takes them in their order, while all else of several frames runs at the
// same time. Buffers are made for each frame and dropped as soon as the last op on them is submitted; the
// pool gives their memory to the next ones.

namespace braid::workloads {

// The stages in plain loops: what the CPU runs, and what results are checked against.
namespace stages {

using samples = std::span<std::uint32_t>;
using bytes = std::span<std::uint8_t>;
using const_samples = std::span<const std::uint32_t>;
using const_bytes = std::span<const std::uint8_t>;

inline void decode(const_bytes packed, samples frame) {
  for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = decoded(packed[i / 4], i);
}
/// The sample at the edge stands for what is beyond it.
inline void filter(const_samples frame, samples smooth) {
  const std::size_t n = frame.size();
  const auto at = [&](std::size_t i) {
    return frame[i < 2 ? 0 : i - 2 < n ? i - 2 : n - 1];
  };  // shifted by 2
  const auto one = [&](std::size_t i) {
    smooth[i] = smoothed(at(i), at(i + 1), at(i + 2), at(i + 3), at(i + 4));
  };
  for (std::size_t i = 0; i < n && i < 2; ++i) one(i);
  for (std::size_t i = 2; i + 2 < n; ++i) {
    smooth[i] = smoothed(frame[i - 2], frame[i - 1], frame[i], frame[i + 1], frame[i + 2]);
  }
  for (std::size_t i = n < 4 ? 2 : n - 2; i < n; ++i) one(i);
}
inline void blend(const_samples smooth, samples background, samples difference) {
  for (std::size_t i = 0; i < smooth.size(); ++i) {
    difference[i] = smooth[i] - background[i];
    background[i] = blended(background[i], smooth[i]);
  }
}
inline void encode(const_samples difference, bytes coded) {
  for (std::size_t i = 0; i < coded.size(); ++i) coded[i] = encoded(difference[i]);
}
inline std::uint64_t digest(const_bytes coded) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < coded.size(); ++i) sum += digest_part(coded[i], i);
  return sum;
}

}  // namespace stages

/// `Kernels` has
///   runtime, frames               the type, and how many there are by default
///   decode, filter, blend, encode, digest     bodies with the arguments of the stages
template <class Kernels>
class pipeline {
 public:
  using runtime = typename Kernels::runtime;

  pipeline(const options& with, const hooks& call)
      : frames_(size_of(with, Kernels::frames, most_frames)),
        made_(runtime_options_of(with, placement::automatic)),
        rt_(made_),
        part_(rt_, made_, with, call, 7 * frames_, to_string(placement::automatic)),
        sources_(distinct, std::vector<std::uint8_t>(samples / 4)) {
    const std::uint64_t seed = mix(with.seed);
    for (std::uint64_t s = 0; s < distinct; ++s) {
      for (std::uint64_t i = 0; i < samples / 4; ++i) {
        sources_[s][i] = static_cast<std::uint8_t>(mix(seed + (s << 32 | i)));
      }
    }
  }

  result run() {
    // Loads what is loaded at first use.
    (void)submit(0, rt_.template make_buffer<std::uint32_t>(samples, zeroed, "unused")).get();
    const auto background = rt_.template make_buffer<std::uint32_t>(samples, zeroed, "background");
    std::vector<std::uint64_t> found;
    std::deque<future<std::vector<std::uint64_t>>> in_flight;
    const auto take = [&] {
      found.push_back(in_flight.front().get().front());
      in_flight.pop_front();
      part_.report(static_cast<double>(found.size()) / static_cast<double>(frames_));
    };
    part_.start();
    for (std::uint64_t f = 0; f < frames_; ++f) {
      if (in_flight.size() == most_in_flight) take();
      in_flight.push_back(part_.timed([&] { return submit(f, background); }));
    }
    while (!in_flight.empty()) take();
    part_.finish();

    result& of = part_.result();
    of.problem = fmt::format("{} frames of {} samples, {} in flight", frames_, samples, most_in_flight);
    of.work = static_cast<double>(frames_);
    of.unit = "frame";
    part_.tamper(std::span(found));
    const std::vector<std::uint64_t> expected = one_by_one();
    std::uint64_t wrong = 0;
    for (std::uint64_t f = 0; f < frames_; ++f) wrong += found[f] != expected[f] ? 1 : 0;
    of.verified = wrong == 0;
    of.check = of.verified ? fmt::format(
                                 "the digests of all frames are those of one frame after the other; the "
                                 "last is {:016x}",
                                 found.back())
                           : fmt::format("the digests of {} of {} frames are wrong", wrong, frames_);
    return of;
  }

 private:
  static constexpr std::uint64_t most_frames = 10'000'000;
  static constexpr std::uint64_t samples = 65'536;
  static constexpr std::uint64_t distinct = 32;
  static constexpr std::size_t most_in_flight = 8;

  future<std::vector<std::uint64_t>> submit(std::uint64_t f, const buffer<std::uint32_t>& background) {
    const auto named = [&](const char* what) { return fmt::format("{} {}", what, f); };
    const auto packed = rt_.template make_buffer<std::uint8_t>(samples / 4, "packed");
    const auto frame = rt_.template make_buffer<std::uint32_t>(samples, "frame");
    const auto smooth = rt_.template make_buffer<std::uint32_t>(samples, "smooth");
    const auto difference = rt_.template make_buffer<std::uint32_t>(samples, "difference");
    const auto coded = rt_.template make_buffer<std::uint8_t>(samples, "coded");
    const auto digest = rt_.template make_buffer<std::uint64_t>(1, "digest");
    rt_.write(packed, sources_[f % distinct]);
    rt_.submit(named("decode"), read(packed), write(frame), Kernels::decode);
    rt_.submit(named("filter"), read(frame), write(smooth), Kernels::filter);
    rt_.submit(named("blend"), read(smooth), read_write(background), write(difference), Kernels::blend);
    rt_.submit(named("encode"), read(difference), write(coded), Kernels::encode);
    rt_.submit(named("digest"), read(coded), write(digest), Kernels::digest);
    return rt_.read(digest);
  }

  // ---- The check: one frame after the other on this thread.
  std::vector<std::uint64_t> one_by_one() const {
    std::vector<std::uint32_t> frame(samples), smooth(samples), background(samples), difference(samples);
    std::vector<std::uint8_t> coded(samples);
    std::vector<std::uint64_t> digests;
    for (std::uint64_t f = 0; f < frames_; ++f) {
      stages::decode(sources_[f % distinct], frame);
      stages::filter(frame, smooth);
      stages::blend(smooth, background, difference);
      stages::encode(difference, coded);
      digests.push_back(stages::digest(coded));
    }
    return digests;
  }

  std::uint64_t frames_;
  runtime_options made_;
  runtime rt_;
  measured<runtime> part_;
  std::vector<std::vector<std::uint8_t>> sources_;
};

}  // namespace braid::workloads
