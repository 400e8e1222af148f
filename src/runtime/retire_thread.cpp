#include "braid/detail/retire_thread.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace braid::detail {

namespace {
using namespace std::chrono_literals;
constexpr auto shortest_pause = 20us;
constexpr auto longest_pause = 320us;
}  // namespace

struct retire_thread::state {
  explicit state(gate_keeper& asked) noexcept : keeper(asked) {}

  struct item {
    lane_id lane;
    void* gate;
    retired object;
  };
  void run();
  bool pass();
  void sort_in(std::vector<item>& arrived);

  gate_keeper& keeper;
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable drained;
  std::vector<item> inbox;
  std::uint64_t added = 0;
  std::uint64_t destroyed = 0;
  bool stop = false;
  std::thread thread;

  // Of the thread alone.
  std::map<lane_id, std::deque<item>> queues;
  std::uint64_t destroyed_now = 0;
};

retire_thread::retire_thread(gate_keeper& keeper) : state_(std::make_unique<state>(keeper)) {}
retire_thread::~retire_thread() {
  stop();
}

void retire_thread::add(lane_id lane, void* gate, retired&& object) {
  state& s = *state_;
  const std::scoped_lock lock(s.mutex);
  if (s.inbox.size() == s.inbox.capacity()) s.inbox.reserve(std::max<std::size_t>(8, 2 * s.inbox.size()));
  if (!s.thread.joinable()) s.thread = std::thread([&s] { s.run(); });
  s.inbox.push_back({lane, gate, std::move(object)});
  ++s.added;
  s.wake.notify_one();
}

bool retire_thread::drain(std::chrono::steady_clock::time_point deadline) {
  state& s = *state_;
  std::unique_lock lock(s.mutex);
  const std::uint64_t target = s.added;
  const auto all_destroyed = [&] { return s.destroyed >= target; };
  if (deadline == std::chrono::steady_clock::time_point::max()) {
    s.drained.wait(lock, all_destroyed);
    return true;
  }
  return s.drained.wait_until(lock, deadline, all_destroyed);
}

std::uint64_t retire_thread::pending() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->added - state_->destroyed;
}

std::uint64_t retire_thread::destroyed() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->destroyed;
}

void retire_thread::stop() noexcept {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_one();
  if (state_->thread.joinable()) state_->thread.join();
}

void retire_thread::state::sort_in(std::vector<item>& arrived) {
  for (item& each : arrived) queues[each.lane].push_back(std::move(each));
  arrived.clear();
}

bool retire_thread::state::pass() {
  bool progress = false;
  for (auto& [lane, items] : queues) {
    while (!items.empty()) {
      void* gate = items.front().gate;
      if (gate != nullptr) {
        if (!keeper.is_open(gate)) break;
        keeper.forget(gate);
      }
      items.pop_front();  // destroys the object
      ++destroyed_now;
      progress = true;
    }
  }
  std::erase_if(queues, [](const auto& queue) { return queue.second.empty(); });
  return progress;
}

void retire_thread::state::run() {
  std::vector<item> arrived;
  std::chrono::microseconds pause = shortest_pause;
  std::unique_lock lock(mutex);
  for (;;) {
    const auto has_work = [&] { return stop || !inbox.empty(); };
    if (queues.empty()) {
      wake.wait(lock, has_work);
    } else {
      wake.wait_for(lock, pause, has_work);
    }
    const bool news = !inbox.empty();
    arrived.swap(inbox);
    const bool last = stop;
    lock.unlock();
    sort_in(arrived);
    const bool progress = pass();
    pause = news || progress ? shortest_pause : std::min<std::chrono::microseconds>(pause * 2, longest_pause);
    if (last) {
      for (auto& [lane, items] : queues) {
        for (item& each : items) {
          if (each.gate != nullptr) keeper.forget(each.gate);
        }
        destroyed_now += items.size();
      }
      queues.clear();
    }
    lock.lock();
    destroyed += std::exchange(destroyed_now, 0);
    if (progress || last) drained.notify_all();
    if (last && inbox.empty()) return;
  }
}

}  // namespace braid::detail
