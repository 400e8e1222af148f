#include "backends/sim/machine.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace braid::sim {

namespace {
constexpr unsigned turn = 256;  // ops that a stream runs before others get theirs, as on the cpu backend
}

machine::machine(std::uint32_t workers)
    : asked_(workers), workers_(workers == 0 ? 0 : std::max(1U, workers - 1)) {}

std::uint32_t machine::add_stream() {
  streams_.emplace_back();
  return static_cast<std::uint32_t>(streams_.size() - 1);
}

void machine::wait(std::uint32_t stream, std::uint32_t origin, std::uint64_t cursor) {
  streams_[stream].open.waits.push_back({origin, cursor});
}

void machine::launch(std::uint32_t stream, time duration) {
  streams_[stream].open.duration += duration;
}

void machine::commit(std::uint32_t stream, std::uint64_t cursor) {
  auto& s = streams_[stream];
  s.given = cursor;
  s.open.submitted = now_;
  s.pieces.push_back(std::exchange(s.open, {}));
}

std::size_t machine::add_worker() {
  const auto place = std::ranges::find(workers_, false, &worker::is_there);
  if (place != workers_.end()) {
    *place = {.free_at = now_};
    return static_cast<std::size_t>(place - workers_.begin());
  }
  workers_.push_back({.free_at = now_});
  return workers_.size() - 1;
}

machine::time machine::remove_worker(std::size_t number) {
  workers_[number].is_there = false;
  return workers_[number].free_at;
}

// When the first op of the stream could start; nothing while something that it waits for has not started.
std::optional<machine::time> machine::ready_at(const queue& s) const {
  const piece& first = s.pieces.front();
  time ready = std::max(first.submitted, s.last_end);
  for (const point& p : first.waits) {
    const auto end = end_of(p.stream, p.cursor);
    if (!end) return std::nullopt;
    ready = std::max(ready, *end);
  }
  return ready;
}

// Of all that could come next, what starts first. What cannot start yet waits for something that starts
// later, so that nothing is started out of order.
std::optional<machine::candidate> machine::next() const {
  std::optional<candidate> best;
  const auto offer = [&](std::uint32_t stream, std::size_t by, time start) {
    if (!best || start < best->start) best = candidate{stream, by, start};
  };
  std::uint32_t oldest = none;
  time oldest_ready = std::numeric_limits<time>::max();
  std::vector<bool> stays(workers_.size(), false);
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].pieces.empty()) continue;
    const auto ready = ready_at(streams_[i]);
    if (!ready) continue;
    if (asked_ == 0) {
      offer(i, 0, *ready);
      continue;
    }
    const auto own = std::ranges::find_if(workers_, [&](const worker& w) {
      return w.is_there && w.with == i && w.turn < turn && *ready <= w.free_at;
    });
    if (own != workers_.end()) {
      const auto number = static_cast<std::size_t>(own - workers_.begin());
      stays[number] = true;
      offer(i, number, own->free_at);
    } else if (*ready < oldest_ready) {
      oldest = i;
      oldest_ready = *ready;
    }
  }
  if (oldest == none) return best;
  std::size_t free = workers_.size();
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (!workers_[w].is_there || stays[w]) continue;
    if (free == workers_.size() || workers_[w].free_at < workers_[free].free_at) free = w;
  }
  if (free != workers_.size()) offer(oldest, free, std::max(oldest_ready, workers_[free].free_at));
  return best;
}

std::optional<machine::time> machine::next_start() const {
  const auto found = next();
  return found ? std::optional(found->start) : std::nullopt;
}

void machine::step() {
  const auto found = next();
  if (!found) return;
  queue& s = streams_[found->stream];
  const time end = found->start + s.pieces.front().duration;
  s.pieces.pop_front();
  s.ends.push_back(end);
  s.last_end = end;
  makespan_ = std::max(makespan_, end);
  if (asked_ == 0) return;
  worker& w = workers_[found->worker];
  w.turn = w.with == found->stream ? w.turn + 1 : 1;
  w.with = found->stream;
  w.free_at = end;
}

std::optional<machine::time> machine::end_of(std::uint32_t stream, std::uint64_t cursor) const {
  if (cursor == 0) return 0;
  const auto& ends = streams_[stream].ends;
  return cursor <= ends.size() ? std::optional(ends[cursor - 1]) : std::nullopt;
}

bool machine::is_over(std::uint32_t stream, std::uint64_t cursor) const {
  const auto end = end_of(stream, cursor);
  return end && *end <= now_;
}

std::uint64_t machine::length_of(std::uint32_t stream) {
  auto& s = streams_[stream];
  while (s.over < s.ends.size() && s.ends[s.over] <= now_) ++s.over;
  return s.given - s.over;
}

}  // namespace braid::sim
