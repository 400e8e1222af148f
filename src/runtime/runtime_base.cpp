#include "braid/detail/runtime_base.hpp"

#include "braid/detail/trace_hooks.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "braid/detail/block.hpp"

namespace braid::detail {

void runtime_base::enter_traces(std::string backend, std::uint32_t workers, std::uint32_t streams,
                                std::uint32_t width, const char* placement,
                                callback<std::uint64_t()> live_bytes) {
  trace_number_ = trace_add_runtime({.backend = std::move(backend),
                                     .workers = workers,
                                     .streams = streams,
                                     .width = width,
                                     .placement = placement,
                                     .live_bytes = std::move(live_bytes),
                                     .is_traced = &is_traced_});
}

void runtime_base::leave_traces(bool is_forked) noexcept {
  trace_remove_runtime(trace_number_, is_forked);
}

constinit thread_local const std::string* running_body = nullptr;
constinit thread_local const runtime_base* recording_runtime = nullptr;
constinit thread_local std::uint64_t last_order = 0;

namespace {
constexpr std::size_t most_recent = 65'536;  // failures that can be asked for by their op
}

void failure::report(const char* why_here) const noexcept {
  if (is_known.exchange(true, std::memory_order_relaxed)) return;
  try {
    log->write(log_area::errors, log_level::basic, std::string(why_here) + ": " + text);
  } catch (const std::exception&) {
    // without memory there is no saying it
  }
}

struct runtime_base::op_lists {
  std::set<op_point> to_cancel;
  std::map<op_point, failure_ptr> recent;  // of the last ops that failed
  std::deque<op_point> oldest;             // the same ops, in the order of their failure
};

struct runtime_base::poison final : attachment {
  // Of a failure that nobody was told of, the last part that goes tells the log.
  struct part {
    part(std::uint64_t from, std::uint64_t to, failure_ptr reason)
        : begin(from), end(to), why(std::move(reason)) {
      why->places.fetch_add(1, std::memory_order_relaxed);
    }
    part(part&& other) noexcept : begin(other.begin), end(other.end), why(std::move(other.why)) {}
    part& operator=(part&& other) noexcept {
      std::swap(begin, other.begin);
      std::swap(end, other.end);
      std::swap(why, other.why);
      return *this;
    }
    ~part() {
      // acq_rel: the last one sees whether somebody was told
      if (why && why->places.fetch_sub(1, std::memory_order_acq_rel) == 1) why->report();
    }

    std::uint64_t begin;
    std::uint64_t end;
    failure_ptr why;
  };
  explicit poison(std::shared_ptr<std::atomic<std::uint32_t>> attention)
      : attention_of(std::move(attention)) {}
  ~poison() override {
    if (!parts.empty()) attention_of->fetch_sub(1, std::memory_order_relaxed);
  }

  // Under the mutex. The bytes become good, or carry another failure.
  void set(std::uint64_t begin, std::uint64_t end, const failure_ptr& why) {
    if (begin == end) return;
    const bool was_poisoned = !parts.empty();
    std::vector<part> left;
    for (part& p : parts) {
      if (p.end <= begin || end <= p.begin) {
        left.push_back(std::move(p));
        continue;
      }
      if (p.begin < begin) left.emplace_back(p.begin, begin, p.why);
      if (end < p.end) left.emplace_back(end, p.end, p.why);
    }
    if (why) left.emplace_back(begin, end, why);
    parts = std::move(left);
    is_empty.store(parts.empty(), std::memory_order_relaxed);  // ordered by what orders the ops
    if (parts.empty() && was_poisoned) attention_of->fetch_sub(1, std::memory_order_relaxed);
    if (!parts.empty() && !was_poisoned) attention_of->fetch_add(1, std::memory_order_relaxed);
  }
  [[nodiscard]] failure_ptr first_in(std::uint64_t begin, std::uint64_t end) const {
    failure_ptr first;
    if (begin == end) return first;
    for (const part& p : parts) {
      if (p.end <= begin || end <= p.begin) continue;
      if (!first || p.why->order < first->order) first = p.why;
    }
    return first;
  }

  std::vector<part> parts;
  std::atomic<bool> is_empty{true};
  std::shared_ptr<std::atomic<std::uint32_t>> attention_of;
};

runtime_base::runtime_base(std::shared_ptr<logger> log)
    : log_(std::move(log)),
      attention_(std::make_shared<std::atomic<std::uint32_t>>(0)),
      lists_(std::make_unique<op_lists>()) {}
runtime_base::~runtime_base() = default;

runtime_base::poison* runtime_base::poison_of(const resource_state& state) noexcept {
  return static_cast<poison*>(state.attached.load(std::memory_order_acquire));  // pairs with poison_outputs()
}

void runtime_base::expect_outside_body(const char* what) {
  if (running_body == nullptr) return;
  if (is_recording()) {
    throw usage_error(
        misuse::while_recording,
        std::string(what) +
            " inside record(): only submit(), fill() and copy() within one runtime are recorded. "
            "Write what the ops start from before, and wait for what they leave after replay()");
  }
  throw usage_error(
      misuse::inside_body,
      std::string(what) + " inside the body of '" + *running_body +
          "': a body may not submit or wait. Submit what follows from the program's own threads "
          "(its bindings order it behind this op), or from then() of a future");
}

failure_ptr runtime_base::refuse(const op_info& op, std::span<const touched> uses) {
  const bool reads_poison = std::any_of(uses.begin(), uses.end(), [](const touched& u) {
    const poison* p = u.kind != access::write ? poison_of(*u.state) : nullptr;
    return p != nullptr && !p->is_empty.load(std::memory_order_relaxed);
  });
  if (!reads_poison && cancels_.load(std::memory_order_relaxed) == 0) return nullptr;
  failure_ptr why;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = lists_->to_cancel.find(op.point); found != lists_->to_cancel.end()) {
      lists_->to_cancel.erase(found);
      cancels_.fetch_sub(1, std::memory_order_relaxed);
      attention_->fetch_sub(1, std::memory_order_relaxed);
      auto made = std::make_shared<failure>();
      made->label = *op.label;
      made->text = "op '" + *op.label + "' was cancelled before it began";
      made->order = op.order;
      made->log = log_;
      why = std::move(made);
      cancelled_.fetch_add(1, std::memory_order_relaxed);
    } else {
      for (const touched& u : uses) {
        if (u.kind == access::write) continue;
        const poison* p = poison_of(*u.state);
        if (p == nullptr) continue;
        failure_ptr found_here = p->first_in(u.begin, u.end);
        if (found_here && (!why || found_here->order < why->order)) why = std::move(found_here);
      }
      if (!why) return nullptr;
      skipped_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  poison_outputs(op, uses, why);
  return why;
}

failure_ptr runtime_base::fail(const op_info& op, std::span<const touched> uses,
                               const std::exception_ptr& cause) {
  auto made = std::make_shared<failure>();
  made->label = *op.label;
  made->order = op.order;
  made->log = log_;
  if (const std::exception_ptr lost = device_failure(cause)) {
    made->cause = lost;  // which says what was in flight: this op may be innocent
    made->is_of_device = true;
  } else {
    made->cause = cause;
    made->text = "op '" + *op.label + "' failed: ";
  }
  try {
    std::rethrow_exception(made->cause);
  } catch (const std::exception& e) {
    made->text += e.what();
  } catch (...) {
    made->text += "its body threw something that is not a std::exception";
  }
  failed_.fetch_add(1, std::memory_order_relaxed);
  poison_outputs(op, uses, made);
  return made;
}

void runtime_base::pass_on(const op_info& op, std::span<const touched> uses, const failure_ptr& why) {
  skipped_.fetch_add(1, std::memory_order_relaxed);
  poison_outputs(op, uses, why);
}

void runtime_base::poison_outputs(const op_info& op, std::span<const touched> uses, const failure_ptr& why) {
  bool has_place = false;
  const std::scoped_lock lock(mutex_);
  for (const touched& u : uses) {
    if (u.kind == access::read || u.begin == u.end || u.is_scratch) continue;
    // Memory that nobody owns any more carries it for those who still depend on it; nobody will ask.
    has_place = has_place || u.base == nullptr ||
                static_cast<block*>(u.state)->is_owned.load(std::memory_order_relaxed);
    poison* p = poison_of(*u.state);
    if (p == nullptr) {
      p = new poison(attention_);
      u.state->attached.store(p, std::memory_order_release);  // pairs with poison_of()
    }
    p->set(u.begin, u.end, why);
  }
  if (lists_->recent.emplace(op.point, why).second) lists_->oldest.push_back(op.point);
  if (lists_->oldest.size() > most_recent) {
    lists_->recent.erase(lists_->oldest.front());
    lists_->oldest.pop_front();
  }
  if (!has_place && why->places.load(std::memory_order_relaxed) == 0) {
    why->report("no data carries it");  // whether somebody is going to wait for the op is not known
  }
}

void runtime_base::heal(std::span<const touched> uses) {
  for (const touched& u : uses) {
    if (u.kind != access::write) continue;  // what it read as well was good
    poison* p = poison_of(*u.state);
    if (p == nullptr || p->is_empty.load(std::memory_order_relaxed)) continue;
    const std::scoped_lock lock(mutex_);
    p->set(u.begin, u.end, nullptr);
  }
}

failure_ptr runtime_base::failure_of(resource_state& state, std::uint64_t begin, std::uint64_t end) {
  const poison* p = poison_of(state);
  if (p == nullptr) return nullptr;
  const std::scoped_lock lock(mutex_);
  return p->first_in(begin, end);
}

failure_ptr runtime_base::failure_of(op_point op) {
  if (failed() + skipped() + cancelled() == 0) return nullptr;
  const std::scoped_lock lock(mutex_);
  const auto found = lists_->recent.find(op);
  return found != lists_->recent.end() ? found->second : nullptr;
}

bool runtime_base::cancel(op_point op) {
  if (!may_cancel()) return false;
  forget_cancels();
  if (is_over(op)) return false;
  const std::scoped_lock lock(mutex_);
  if (!lists_->to_cancel.insert(op).second) return true;
  cancels_.fetch_add(1, std::memory_order_relaxed);  // an op that begins at this moment has begun
  attention_->fetch_add(1, std::memory_order_relaxed);
  return true;
}

void runtime_base::forget_cancels() {
  if (cancels_.load(std::memory_order_relaxed) == 0) return;
  std::vector<op_point> late;
  {
    const std::scoped_lock lock(mutex_);
    late.assign(lists_->to_cancel.begin(), lists_->to_cancel.end());
  }
  std::erase_if(late, [&](op_point each) { return !is_over(each); });  // may run ops: outside of the lock
  const std::scoped_lock lock(mutex_);
  for (const op_point each : late) {
    if (lists_->to_cancel.erase(each) == 0) continue;
    cancels_.fetch_sub(1, std::memory_order_relaxed);
    attention_->fetch_sub(1, std::memory_order_relaxed);
  }
}

void runtime_base::report_unasked(resource_state& state) noexcept {
  const poison* p = poison_of(state);
  if (p == nullptr || p->is_empty.load(std::memory_order_relaxed)) return;
  const std::scoped_lock lock(mutex_);
  for (const poison::part& part : p->parts) part.why->report();
}

// ---- Links.

namespace {
std::mutex links_mutex;
}

runtime_link runtime_link::open(runtime_base& of) {
  static std::vector<std::unique_ptr<place>>* all = new std::vector<std::unique_ptr<place>>;  // for good
  static std::uint64_t last = 0;
  const std::scoped_lock lock(links_mutex);
  const auto unused = [](const auto& p) { return p->runtime.load(std::memory_order_relaxed) == nullptr; };
  auto found = std::find_if(all->begin(), all->end(), unused);
  if (found == all->end()) found = all->insert(all->end(), std::make_unique<place>());
  runtime_link link;
  link.place_ = found->get();
  link.place_->runtime.store(&of, std::memory_order_relaxed);
  link.number_ = ++last;
  link.place_->number.store(link.number_, std::memory_order_release);  // pairs with get()
  return link;
}

void runtime_link::close() noexcept {
  if (place_ == nullptr) return;
  const std::scoped_lock lock(links_mutex);
  place_->number.store(0, std::memory_order_release);
  place_->runtime.store(nullptr, std::memory_order_relaxed);
}

runtime_base& runtime_link::expect(const char* what) const {
  if (runtime_base* found = get()) return *found;
  throw usage_error(
      place_ == nullptr ? misuse::null_resource : misuse::after_shutdown,
      place_ == nullptr
          ? std::string(what) + " of a null handle: only what a runtime made can be used"
          : std::string(what) + " after the runtime was destroyed: its handles do nothing any more");
}

}  // namespace braid::detail
