#include "braid/detail/retire_thread.hpp"

#include <algorithm>

namespace braid::detail {

namespace {
using namespace std::chrono_literals;
constexpr auto shortest_pause = 20us;
constexpr auto longest_pause = 320us;
}  // namespace

void retire_thread::add(lane_id lane, void* gate, retired object) {
  const std::scoped_lock lock(mutex_);
  inbox_.push_back({lane, gate, std::move(object)});
  ++added_;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  wake_.notify_one();
}

bool retire_thread::drain(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const std::uint64_t target = added_;
  const auto all_destroyed = [&] { return destroyed_ >= target; };
  if (deadline == std::chrono::steady_clock::time_point::max()) {
    drained_.wait(lock, all_destroyed);
    return true;
  }
  return drained_.wait_until(lock, deadline, all_destroyed);
}

std::uint64_t retire_thread::pending() const {
  const std::scoped_lock lock(mutex_);
  return added_ - destroyed_;
}

std::uint64_t retire_thread::destroyed() const {
  const std::scoped_lock lock(mutex_);
  return destroyed_;
}

void retire_thread::stop() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void retire_thread::sort_in(std::vector<item>& arrived) {
  for (item& each : arrived) queues_[each.lane].push_back(std::move(each));
  arrived.clear();
}

bool retire_thread::pass() {
  bool progress = false;
  for (auto& [lane, items] : queues_) {
    while (!items.empty()) {
      void* gate = items.front().gate;
      if (gate != nullptr) {
        if (!keeper_.is_open(gate)) break;
        keeper_.forget(gate);
      }
      items.pop_front();  // destroys the object
      ++destroyed_now_;
      progress = true;
    }
  }
  std::erase_if(queues_, [](const auto& queue) { return queue.second.empty(); });
  return progress;
}

void retire_thread::run() {
  std::vector<item> arrived;
  std::chrono::microseconds pause = shortest_pause;
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto has_work = [&] { return stop_ || !inbox_.empty(); };
    if (queues_.empty()) {
      wake_.wait(lock, has_work);
    } else {
      wake_.wait_for(lock, pause, has_work);
    }
    const bool news = !inbox_.empty();
    arrived.swap(inbox_);
    const bool last = stop_;
    lock.unlock();
    sort_in(arrived);
    const bool progress = pass();
    pause = news || progress ? shortest_pause : std::min<std::chrono::microseconds>(pause * 2, longest_pause);
    if (last) {
      for (auto& [lane, items] : queues_) {
        for (item& each : items) {
          if (each.gate != nullptr) keeper_.forget(each.gate);
        }
        destroyed_now_ += items.size();
      }
      queues_.clear();
    }
    lock.lock();
    destroyed_ += std::exchange(destroyed_now_, 0);
    if (progress || last) drained_.notify_all();
    if (last && inbox_.empty()) return;
  }
}

}  // namespace braid::detail
