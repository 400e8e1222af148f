#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "braid/sim.hpp"

namespace braid::sim {

const char* to_string(fault f) noexcept {
  switch (f) {
    case fault::none: return "none";
    case fault::missing: return "missing";
    case fault::superfluous: return "superfluous";
    case fault::stale_mark: return "stale_mark";
    case fault::uncommitted_cursor: return "uncommitted_cursor";
  }
  return "unknown";
}

class device_state : public std::enable_shared_from_this<device_state> {
 public:
  explicit device_state(device_options options) : options_(options), random_(options.seed) {}

  stream create_stream() {
    const std::scoped_lock lock(mutex_);
    count_call("create_stream");
    stream s;
    s.index_ = static_cast<std::uint32_t>(queues_.size());
    queues_.emplace_back();
    log_.streams = s.index_ + 1;
    return s;
  }

  event flush(stream& s) {
    const std::scoped_lock lock(mutex_);
    count_call("flush");
    const std::uint64_t number = events_.size();
    events_.emplace_back();
    ++alive_;
    made_ = std::max(made_, alive_);
    tell({command::kind::record, s.index_, 0, number, 0});
    return event(shared_from_this(), number);
  }

  void release_event(std::uint64_t) noexcept {
    const std::scoped_lock lock(mutex_);
    --alive_;
  }

  void wait_event(stream& s, const event& e) {
    const std::scoped_lock lock(mutex_);
    count_call("wait_event");
    if (e.home_.get() != this) throw call_failed("wait_event: the event belongs to another device");
    command wait{command::kind::wait_event, s.index_, 0, e.number_, 0};
    if (is_faulty()) {
      if (options_.inject == fault::stale_mark || options_.inject == fault::uncommitted_cursor) {
        wait.subject = misplaced(e.number_);
      }
    }
    tell_wait(wait);
  }

  void wait_point(stream& s, const stream& origin, std::uint64_t cursor) {
    const std::scoped_lock lock(mutex_);
    count_call("wait_point");
    command wait{command::kind::wait_point, s.index_, origin.index_, cursor, 0};
    if (is_faulty()) {
      if (options_.inject == fault::stale_mark) wait.subject = 0;
      if (options_.inject == fault::uncommitted_cursor) --wait.subject;
    }
    tell_wait(wait);
  }

  void commit_point(stream& s, std::uint64_t cursor) {
    const std::scoped_lock lock(mutex_);
    count_call("commit_point");
    tell({command::kind::commit, s.index_, 0, cursor, 0});
  }

  std::size_t launch(stream& s, op what) {
    const std::scoped_lock lock(mutex_);
    count_call("launch");
    const std::uint64_t index = log_.ops.size();
    log_.ops.push_back(what.touches);
    log_.labels.push_back(what.label);
    done_.push_back(false);
    bodies_.push_back(std::move(what));
    tell({command::kind::launch, s.index_, 0, index, 0});
    return index;
  }

  void wait_event_sync(const event& e) {
    std::unique_lock lock(mutex_);
    count_call("wait_event_sync");
    run_until([&] { return events_[e.number_].done; });
    told_event(e.number_);
  }

  bool is_complete(const event& e) {
    const std::scoped_lock lock(mutex_);
    count_call("is_complete");
    advance();
    if (!events_[e.number_].done) return false;
    told_event(e.number_);
    return true;
  }

  void wait_point_sync(const stream& s, std::uint64_t cursor) {
    const std::scoped_lock lock(mutex_);
    count_call("wait_point_sync");
    run_until([&] { return queues_[s.index_].reached >= cursor; });
    told_point(s.index_, cursor);
  }

  bool is_point_complete(const stream& s, std::uint64_t cursor) {
    const std::scoped_lock lock(mutex_);
    count_call("is_point_complete");
    advance();
    if (queues_[s.index_].reached < cursor) return false;
    told_point(s.index_, cursor);
    return true;
  }

  std::size_t run(std::size_t steps) {
    const std::scoped_lock lock(mutex_);
    std::size_t ran = 0;
    while (ran < steps && step()) ++ran;
    return ran;
  }

  void run_all() {
    const std::scoped_lock lock(mutex_);
    while (step()) {
    }
    for (const queue& q : queues_) {
      if (!q.commands.empty())
        throw execution_error("deadlock: streams of the simulated device wait for each other");
    }
  }

  bool has_run(std::size_t op_index) const {
    const std::scoped_lock lock(mutex_);
    return done_.at(op_index);
  }
  std::size_t launched() const {
    const std::scoped_lock lock(mutex_);
    return log_.ops.size();
  }
  std::uint64_t makespan() const {
    const std::scoped_lock lock(mutex_);
    return makespan_;
  }
  void align_times() {
    const std::scoped_lock lock(mutex_);
    for (queue& q : queues_) q.time = 0;
    for (event_state& e : events_) e.time = 0;
    for (queue& q : queues_) {
      for (auto& [cursor, time] : q.times) time = 0;
    }
    makespan_ = 0;
  }
  history_log log() const {
    const std::scoped_lock lock(mutex_);
    return log_;
  }
  std::size_t alive() const {
    const std::scoped_lock lock(mutex_);
    return alive_;
  }
  std::size_t made() const {
    const std::scoped_lock lock(mutex_);
    return made_;
  }
  void fail_call(std::optional<std::uint64_t> n) {
    const std::scoped_lock lock(mutex_);
    fail_at_ = n;
    calls_ = 0;
  }
  std::uint64_t calls() const {
    const std::scoped_lock lock(mutex_);
    return calls_;
  }

 private:
  struct event_state {
    bool done = false;
    std::uint64_t time = 0;
    std::string error;
  };
  struct queue {
    std::deque<command> commands;
    std::uint64_t time = 0;
    std::uint64_t reached = 0;                     // the cursor up to which ops ran
    std::map<std::uint64_t, std::uint64_t> times;  // when points were reached
    std::map<std::uint64_t, std::string> failed;   // points
    std::string error;                             // for the next event
    std::string point_error;                       // for the next point
  };

  void count_call(const char* name) {
    const std::uint64_t call = calls_++;
    if (fail_at_ && *fail_at_ == call) {
      fail_at_.reset();
      throw call_failed(std::string("injected failure of ") + name + ", call " + std::to_string(call));
    }
  }

  void tell(const command& c) {
    log_.commands.push_back(c);
    queues_[c.stream].commands.push_back(c);
    advance();
  }

  [[nodiscard]] bool is_faulty() const {
    return options_.inject != fault::none && log_.waits == options_.inject_at;
  }

  void tell_wait(command wait) {
    const bool faulty = is_faulty();
    wait.number = log_.waits++;
    if (faulty && options_.inject == fault::missing) {
      --log_.waits;
      options_.inject = fault::none;
      return;
    }
    tell(wait);
    if (faulty && options_.inject == fault::superfluous) {
      options_.inject = fault::none;
      wait.number = log_.waits++;
      tell(wait);
    }
  }

  // An event that stands where a wrong mark would have put it: before the last op in front of `number`, and
  // if stale where the stream's event before that stands, or at the stream's beginning.
  std::uint64_t misplaced(std::uint64_t number) {
    const auto is_record = [&](const command& c) {
      return c.what == command::kind::record && c.subject == number;
    };
    auto at = std::find_if(log_.commands.begin(), log_.commands.end(), is_record);
    const std::uint32_t of = at->stream;
    while (at != log_.commands.begin()) {
      --at;
      if (at->stream == of && at->what == command::kind::launch) break;
    }
    if (options_.inject == fault::stale_mark) {
      while (at != log_.commands.begin()) {
        --at;
        if (at->stream == of && at->what == command::kind::record) break;
      }
    }
    const std::uint64_t wrong = events_.size();
    events_.emplace_back().done = true;  // it stands in the past: only the log tells what it covers
    log_.commands.insert(at, command{command::kind::record, of, 0, wrong, 0});
    return wrong;
  }

  void advance() {
    if (options_.progress == 0) return;
    for (std::uint64_t n = random_() % (options_.progress + 1); n > 0 && step(); --n) {
    }
  }

  template <class Done>
  void run_until(Done&& done) {
    while (!done()) {
      if (!step()) throw execution_error("deadlock: nothing that is waited for can run");
    }
  }

  [[nodiscard]] bool is_ready(const queue& q) const {
    if (q.commands.empty()) return false;
    const command& c = q.commands.front();
    if (c.what == command::kind::wait_event) return events_[c.subject].done;
    if (c.what == command::kind::wait_point) return queues_[c.origin].reached >= c.subject;
    return true;
  }

  bool step() {
    const std::size_t count = queues_.size();
    if (count == 0) return false;
    const std::size_t start = random_() % count;
    for (std::size_t i = 0; i < count; ++i) {
      queue& q = queues_[(start + i) % count];
      if (!is_ready(q)) continue;
      const command c = q.commands.front();
      q.commands.pop_front();
      execute(q, c);
      return true;
    }
    return false;
  }

  void execute(queue& q, const command& c) {
    switch (c.what) {
      case command::kind::launch: {
        op& what = bodies_[c.subject];
        if (what.body) what.body();
        what.body = nullptr;
        q.time += what.duration;
        makespan_ = std::max(makespan_, q.time);
        done_[c.subject] = true;
        if (what.fails) q.error = q.point_error = "'" + what.label + "' failed";
        break;
      }
      case command::kind::record:
        events_[c.subject].done = true;
        events_[c.subject].time = q.time;
        events_[c.subject].error = std::exchange(q.error, {});
        break;
      case command::kind::commit:
        q.reached = c.subject;
        q.times[c.subject] = q.time;
        if (!q.point_error.empty()) q.failed[c.subject] = std::exchange(q.point_error, {});
        break;
      case command::kind::wait_event: q.time = std::max(q.time, events_[c.subject].time); break;
      case command::kind::wait_point: {
        const auto& times = queues_[c.origin].times;
        if (const auto at = times.find(c.subject); at != times.end()) q.time = std::max(q.time, at->second);
        break;
      }
      case command::kind::complete_event:
      case command::kind::complete_point: break;  // never queued
    }
  }

  void told_event(std::uint64_t number) {
    log_.commands.push_back({command::kind::complete_event, 0, 0, number, 0});
    if (!events_[number].error.empty()) throw execution_error(events_[number].error);
  }
  void told_point(std::uint32_t of, std::uint64_t cursor) {
    log_.commands.push_back({command::kind::complete_point, 0, of, cursor, 0});
    const auto& failed = queues_[of].failed;
    if (const auto at = failed.find(cursor); at != failed.end()) throw execution_error(at->second);
  }

  mutable std::mutex mutex_;
  device_options options_;
  std::mt19937_64 random_;
  history_log log_;
  std::deque<op> bodies_;
  std::vector<bool> done_;
  std::deque<queue> queues_;
  std::deque<event_state> events_;
  std::size_t alive_ = 0;
  std::size_t made_ = 0;
  std::uint64_t makespan_ = 0;
  std::uint64_t calls_ = 0;
  std::optional<std::uint64_t> fail_at_;
};

event& event::operator=(event&& other) noexcept {
  if (this != &other) {
    reset();
    home_ = std::move(other.home_);
    number_ = other.number_;
  }
  return *this;
}

void event::reset() noexcept {
  if (home_) std::exchange(home_, nullptr)->release_event(number_);
}

stream backend::create_stream() {
  return device_->create_stream();
}
event backend::flush(stream& s) {
  return device_->flush(s);
}
void backend::wait_event(stream& s, const event& e) {
  device_->wait_event(s, e);
}
void backend::wait_event_sync(const event& e) {
  device_->wait_event_sync(e);
}
bool backend::is_complete(const event& e) {
  return device_->is_complete(e);
}

void backend::enqueue(stream& s, op what) {
  device_->launch(s, std::move(what));
}

// All memory of the machine is memory 0, by its addresses, so that the next owner of a block is seen to touch
// the same bytes. What has no bytes is a memory of its own.
touch backend::touch_of(const braid::detail::touched& t) noexcept {
  const auto owner = static_cast<std::uint32_t>(t.state->id);
  const auto base = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(t.base));
  return {.memory = t.base != nullptr ? 0 : owner,
          .owner = owner,
          .range = {base + t.begin, t.end - t.begin},
          .kind = t.kind,
          .tag = t.tag};
}

void point_mode_backend::commit_point(stream& s, std::uint64_t cursor) {
  device_->commit_point(s, cursor);
}
void point_mode_backend::wait_point(stream& s, const stream& origin, std::uint64_t cursor) {
  device_->wait_point(s, origin, cursor);
}
void point_mode_backend::wait_point_sync(const stream& s, std::uint64_t cursor) {
  device_->wait_point_sync(s, cursor);
}
bool point_mode_backend::is_point_complete(const stream& s, std::uint64_t cursor) {
  return device_->is_point_complete(s, cursor);
}

device::device(device_options options) : state_(std::make_shared<device_state>(options)) {}
device::~device() = default;
std::size_t device::launch(stream& s, op what) {
  return state_->launch(s, std::move(what));
}
std::size_t device::run(std::size_t steps) {
  return state_->run(steps);
}
void device::run_all() {
  state_->run_all();
}
bool device::has_run(std::size_t op_index) const {
  return state_->has_run(op_index);
}
std::size_t device::launched() const {
  return state_->launched();
}
std::uint64_t device::makespan() const {
  return state_->makespan();
}
void device::align_times() {
  state_->align_times();
}
history_log device::log() const {
  return state_->log();
}
std::size_t device::events_alive() const {
  return state_->alive();
}
std::size_t device::events_made() const {
  return state_->made();
}
void device::fail_call(std::optional<std::uint64_t> n) {
  state_->fail_call(n);
}
std::uint64_t device::calls() const {
  return state_->calls();
}

}  // namespace braid::sim
