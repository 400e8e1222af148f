#include "verify/campaign.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "verify/shrink.hpp"

namespace braid::verify {

totals& totals::operator+=(const totals& other) noexcept {
  runs += other.runs;
  ops += other.ops;
  conflicts_checked += other.conflicts_checked;
  violations += other.violations;
  value_mismatches += other.value_mismatches;
  waits += other.waits;
  minimal_waits += other.minimal_waits;
  excess_orderings += other.excess_orderings;
  dropped_waits += other.dropped_waits;
  dropped_waits_detected += other.dropped_waits_detected;
  retire_failures += other.retire_failures;
  errors += other.errors;
  injected += other.injected;
  caught += other.caught;
  return *this;
}

totals campaign_result::all() const noexcept {
  totals sum = event;
  sum += point;
  return sum;
}

namespace {

totals count(const outcome& o) {
  totals t;
  t.runs = 1;
  t.ops = o.ops;
  t.conflicts_checked = o.report.conflicts_checked;
  t.violations = o.report.violations.size();
  t.value_mismatches = o.value_mismatches;
  t.waits = o.report.waits;
  t.excess_orderings = o.report.excess_orderings;
  if (o.report.violations.empty()) {  // with conflicts already open, dropping a wait shows nothing
    t.minimal_waits = o.report.minimal_waits;
    t.dropped_waits = o.report.waits;
    t.dropped_waits_detected = o.report.minimal_waits;
  }
  t.retire_failures = o.premature + o.lost;
  t.errors = o.error.empty() ? 0 : 1;
  t.injected = o.injected ? 1 : 0;
  t.caught = o.injected && o.failed() ? 1 : 0;
  return t;
}

}  // namespace

failure shrink_failure(const program& p) {
  // With several submitters a failure may need the right moment.
  const int attempts = p.threads == 1 ? 1 : 20;
  const auto fails = [&](const program& each) {
    for (int i = 0; i < attempts; ++i) {
      const outcome o = run(each);
      if (o.failed() && (each.inject == sim::fault::none || o.injected)) return true;
    }
    return false;
  };
  failure f{shrink(p, fails, p.threads == 1 ? 4000 : 200), {}};
  for (int i = 0; i < attempts; ++i) {
    f.what = run(f.shrunk);
    if (f.what.failed()) break;
  }
  return f;
}

campaign_result run_campaign(const campaign_options& options,
                             const std::function<void(std::uint64_t)>& progress) {
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  campaign_result result;
  std::uint64_t done = 0;
  std::optional<std::pair<std::uint64_t, program>> first;  // of the lowest seed

  const auto work = [&] {
    for (;;) {
      const std::uint64_t i = next.fetch_add(1);
      if (i >= options.programs) return;
      program p = generate(options.of, options.seed + i);
      p.inject = options.inject;
      for (const bool points : {false, true}) {
        if (options.mode == (points ? backend_mode::event : backend_mode::point)) continue;
        p.points = points;
        const outcome o = run(p);
        const std::scoped_lock lock(mutex);
        (points ? result.point : result.event) += count(o);
        if (o.failed() && (!first || i < first->first)) first.emplace(i, p);
      }
      const std::scoped_lock lock(mutex);
      progress(++done);
    }
  };
  unsigned jobs = options.jobs != 0 ? options.jobs : std::max(1U, std::thread::hardware_concurrency());
  if (options.of.threads > 1) jobs = 1;  // the program's own threads are to meet each other
  std::vector<std::thread> threads;
  for (unsigned j = 1; j < jobs; ++j) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();

  result.programs = options.programs;
  if (first) result.first = shrink_failure(first->second);
  return result;
}

}  // namespace braid::verify
