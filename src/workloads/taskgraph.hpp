#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "workloads/arithmetic.hpp"
#include "workloads/measured.hpp"
#include "workloads/taskgraph_file.hpp"

// A graph of ops from a file. Each op makes a value of its label, its number and the values that it finds in
// what it reads, and leaves it in what it writes; so what is there at the end tells whether the order was
// right. One word in each piece that the graph's ranges cut a resource into is enough for that, so that an op
// with a duration takes no longer than it says.

namespace braid::workloads {

/// Of an op, in the round of its graph: what its value begins with.
inline std::uint64_t seed_of(const graph::op& op, std::uint64_t number, std::uint64_t round,
                             std::uint64_t seed) {
  std::uint64_t h = mix(seed ^ mix(number << 32 ^ round));
  for (const char c : op.label) h = mix(h ^ static_cast<unsigned char>(c));
  return h;
}

/// What the op does, in plain loops. words_of(i) is where the range of access i begins.
template <class WordsOf>
void execute(const graph& g, const graph::op& op, std::uint64_t seed, WordsOf words_of) {
  const std::span accesses(g.accesses.data() + op.first_access, op.accesses);
  const auto for_each_cut = [&](std::uint64_t i, auto f) {
    const graph::access& a = accesses[i];
    const std::uint64_t* const cuts = g.resources[a.resource].cuts.data() + a.first_cut;
    std::uint64_t* const words = words_of(i);
    for (std::uint64_t c = 0; c < a.cuts; ++c) f(words[cuts[c] - a.first], c);
  };
  const auto reads = [](const graph::access& a) {
    return a.kind == access::read || a.kind == access::read_write;
  };
  const auto writes = [](const graph::access& a) {
    return a.kind == access::write || a.kind == access::read_write;
  };

  std::uint64_t value = seed;
  std::uint64_t sources = 0;  // reads come first
  for (std::uint64_t i = 0; i < accesses.size(); ++i) {
    if (accesses[i].kind == access::read) ++sources;
    if (!reads(accesses[i])) continue;
    for_each_cut(i, [&](std::uint64_t& w, std::uint64_t c) { value += absorbed(w, i, c); });
    if (op.kernel == graph_kernel::sum) {
      const std::uint64_t* const words = words_of(i);
      for (std::uint64_t w = 0; w < accesses[i].words; ++w) value += absorbed(words[w], i, w);
    }
  }
  for (std::uint64_t i = 0; i < accesses.size(); ++i) {
    const graph::access& a = accesses[i];
    if (a.kind == access::write) {
      std::uint64_t* const words = words_of(i);
      if (op.kernel == graph_kernel::fill) {
        for (std::uint64_t w = 0; w < a.words; ++w) words[w] = emitted(~value, i, w);
      } else if (op.kernel == graph_kernel::copy) {
        const std::uint64_t from = i % sources;
        const std::uint64_t* const source = words_of(from);
        for (std::uint64_t w = 0; w < a.words; ++w) words[w] = source[w % accesses[from].words];
      }
    }
    if (writes(a)) {
      for_each_cut(i, [&](std::uint64_t& w, std::uint64_t c) { w = emitted(value, i, c); });
    } else if (a.kind == access::accumulate) {
      // relaxed: only the sum matters, and whoever reads it comes after this op
      for_each_cut(i, [&](std::uint64_t& w, std::uint64_t c) {
        std::atomic_ref(w).fetch_add(emitted(value, i, c), std::memory_order_relaxed);
      });
    }
  }
}

/// `Kernels` has
///   runtime
///   prepare(rt, graph)            before anything is measured
///   body(graph, op, seed)         that does what execute() does, for as long as the op's duration
template <class Kernels>
class taskgraph {
 public:
  using runtime = typename Kernels::runtime;

  taskgraph(const options& with, const hooks& call)
      : graph_(read_taskgraph(with.file)),
        rounds_(size_of(with, graph_.repeat, graph_limits{}.runs / graph_.ops.size())),
        seed_(mix(with.seed)),
        file_(with.file),
        made_(runtime_options_of(with, placement::automatic)),
        rt_(made_),
        part_(rt_, made_, with, call, rounds_ * graph_.ops.size(), streams_of(graph_)) {
    for (const graph::resource& r : graph_.resources) {
      buffers_.push_back(rt_.template make_buffer<std::uint64_t>(r.words, zeroed, r.name));
    }
    bound_.resize(graph_.ops.size());
    for (std::size_t i = 0; i < bound_.size(); ++i) bind(graph_.ops[i], bound_[i]);
  }

  result run() {
    kernels_.prepare(rt_, graph_);
    part_.start();
    for (std::uint64_t round = 0; round < rounds_; ++round) {
      for (std::uint64_t i = 0; i < graph_.ops.size(); ++i) {
        const graph::op& op = graph_.ops[i];
        auto body = kernels_.body(graph_, op, seed_of(op, i, round, seed_));
        op.stream ? part_.submit_on(stream_id{*op.stream}, op.label, bound_[i], std::move(body))
                  : part_.submit(op.label, bound_[i], std::move(body));
      }
    }
    part_.finish();

    result& of = part_.result();
    of.problem = fmt::format("{}: {} ops on {} resources{}", file_, graph_.ops.size(),
                             graph_.resources.size(), rounds_ == 1 ? "" : fmt::format(", {} times", rounds_));
    of.work = static_cast<double>(rounds_ * graph_.ops.size());
    of.unit = "op";
    check(of);
    return of;
  }

 private:
  static const char* streams_of(const graph& g) {
    std::size_t named = 0;
    for (const graph::op& op : g.ops) named += op.stream ? 1 : 0;
    return named == 0              ? to_string(placement::automatic)
           : named == g.ops.size() ? "the streams of the file"
                                   : "the streams of the file, else automatic";
  }
  void bind(const graph::op& op, bindings& to) {
    for (const graph::access& a : std::span(graph_.accesses).subspan(op.first_access, op.accesses)) {
      const auto range = buffers_[a.resource].slice(a.first, a.words);
      switch (a.kind) {
        case access::read: to.add(read(range)); break;
        case access::write: to.add(write(range)); break;
        case access::read_write: to.add(read_write(range)); break;
        default: to.add(accumulate(range, a.tag));
      }
    }
  }

  // ---- The check: one op after the other on this thread.
  void check(result& of) {
    std::vector<std::vector<std::uint64_t>> expected;
    expected.reserve(graph_.resources.size());
    for (const graph::resource& r : graph_.resources) expected.emplace_back(r.words);
    for (std::uint64_t round = 0; round < rounds_; ++round) {
      for (std::uint64_t i = 0; i < graph_.ops.size(); ++i) {
        const graph::op& op = graph_.ops[i];
        execute(graph_, op, seed_of(op, i, round, seed_), [&](std::uint64_t access) {
          const graph::access& a = graph_.accesses[op.first_access + access];
          return expected[a.resource].data() + a.first;
        });
      }
    }
    of.verified = true;
    of.check = "what the resources hold is what one op after the other gives";
    for (std::size_t r = 0; r < buffers_.size(); ++r) {
      std::vector<std::uint64_t> found = rt_.read(buffers_[r]).get();
      part_.tamper(std::span(found));
      if (found == expected[r]) continue;
      const auto at = std::ranges::mismatch(found, expected[r]).in1 - found.begin();
      of.verified = false;
      of.check = fmt::format("'{}' differs from what one op after the other gives, from byte {} on",
                             graph_.resources[r].name, 8 * at);
      return;
    }
  }

  graph graph_;
  std::uint64_t rounds_;
  std::uint64_t seed_;
  std::string file_;
  runtime_options made_;
  runtime rt_;
  measured<runtime> part_;
  Kernels kernels_;
  std::vector<buffer<std::uint64_t>> buffers_;
  std::vector<bindings> bound_;
};

}  // namespace braid::workloads
