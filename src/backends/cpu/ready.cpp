#include "braid/detail/cpu_ready.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <mutex>
#include <utility>

#include "braid/detail/cpu_queue.hpp"

namespace braid::detail {

namespace {

constexpr unsigned one_take_in = 8;  // begins with another list

thread_local cpu_worker* this_worker = nullptr;

long futex(const std::atomic<std::uint32_t>& word, int op, std::uint32_t value,
           const timespec* most = nullptr) {
  return syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), op | FUTEX_PRIVATE_FLAG, value,
                 most, nullptr, 0);
}

// Under a lock, for others that look without it.
void add(std::atomic<std::uint32_t>& to, std::uint32_t by) noexcept {
  to.store(to.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace

cpu_ready::cpu_ready(std::size_t workers)
    : count_(workers + 1),
      lists_(std::make_unique<cpu_ready_list[]>(count_)),
      workers_(std::make_unique<cpu_worker[]>(workers)) {
  for (std::size_t i = 0; i < workers; ++i) {
    workers_[i].of = this;
    workers_[i].number = i;
  }
}

void cpu_ready::enter(std::size_t number) noexcept {
  this_worker = &workers_[number];
}

std::size_t cpu_ready::own_number() const noexcept {
  return this_worker != nullptr && this_worker->of == this ? this_worker->number : count_ - 1;
}

// As soon as somebody else may have the stream, it may be run to its end, and this be gone.
void cpu_ready::push(cpu_queue& q, bool is_for_anybody) noexcept {
  // relaxed: a hint; who comes to rest at this moment finds the stream in its list
  if (!is_for_anybody && idle_.load(std::memory_order_relaxed) != 0 && give_to_resting(q)) return;
  cpu_ready_list& to = own();
  to.lock.lock();
  q.next = nullptr;
  q.previous = to.last;
  (to.last != nullptr ? to.last->next : to.first) = &q;
  to.last = &q;
  q.listed_in.store(&to, std::memory_order_relaxed);  // looked at again under the lock
  if (q.has_many) add(to.with_many, 1);
  to.count.store(to.count.load(std::memory_order_relaxed) + 1);  // seq_cst: see add_idle()
  const std::atomic<std::uint32_t>* asleep = nullptr;
  if (idle_.load() != 0) {
    const std::lock_guard<spin_lock> lock(lock_);
    asleep = call_somebody();
  }
  to.lock.unlock();
  if (asleep != nullptr) wake(*asleep);  // the address alone is used: a waiter may be gone
}

// To the worker that came to rest last. False: none rests, or all sleep; before they are awake somebody else
// may have come by.
bool cpu_ready::give_to_resting(cpu_queue& q) noexcept {
  lock_.lock();
  cpu_worker* w = resting_;
  if (w != nullptr && w->word.load(std::memory_order_relaxed) == cpu_worker::asleep) w = nullptr;
  if (w != nullptr) {
    resting_ = w->next;
    add_idle(-1U);
  }
  lock_.unlock();
  if (w == nullptr) return false;
  q.state.store(cpu_queue::running, std::memory_order_relaxed);  // handed over with the word
  w->given = &q;
  // release: pairs with the acquire of the worker
  if (w->word.exchange(cpu_worker::called, std::memory_order_release) == cpu_worker::asleep) wake(w->word);
  return true;
}

// The worker that came to rest last, if one rests; else a thread that waits and could help. Under the lock.
// The word to wake, if it sleeps.
const std::atomic<std::uint32_t>* cpu_ready::call_somebody() noexcept {
  if (cpu_worker* w = resting_) {
    resting_ = w->next;
    add_idle(-1U);
    // release: pairs with the acquire of the worker
    return w->word.exchange(cpu_worker::called, std::memory_order_release) == cpu_worker::asleep ? &w->word
                                                                                                 : nullptr;
  }
  cpu_waiter* helper = helpers_;
  if (helper == nullptr) return nullptr;
  helpers_ = helper->next_helper;
  helper->is_helper = false;
  add_idle(-1U);
  std::uint32_t was = cpu_waiter::asleep;
  helper->word.compare_exchange_strong(was, cpu_waiter::called);
  return &helper->word;
}

void cpu_ready::unlink(cpu_ready_list& from, cpu_queue& q) noexcept {
  (q.previous != nullptr ? q.previous->next : from.first) = q.next;
  (q.next != nullptr ? q.next->previous : from.last) = q.previous;
  q.listed_in.store(nullptr, std::memory_order_relaxed);
  if (q.has_many) add(from.with_many, -1U);
  add(from.count, -1U);
  q.state.store(cpu_queue::running, std::memory_order_relaxed);  // the list's lock orders it
}

cpu_queue* cpu_ready::take_from(cpu_ready_list& list) noexcept {
  if (list.count.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard<spin_lock> lock(list.lock);
  cpu_queue* q = list.first;
  if (q != nullptr) unlink(list, *q);
  return q;
}

cpu_queue* cpu_ready::take(cpu_queue* preferred) noexcept {
  if (preferred != nullptr) {
    if (cpu_ready_list* in = preferred->listed_in.load(std::memory_order_relaxed)) {
      const std::lock_guard<spin_lock> lock(in->lock);
      if (preferred->listed_in.load(std::memory_order_relaxed) == in) {
        unlink(*in, *preferred);
        return preferred;
      }
    }
  }
  static thread_local unsigned takes = 0;
  std::size_t at = ++takes % one_take_in == 0 ? takes / one_take_in % count_ : own_number();
  for (std::size_t i = 0; i < count_; ++i) {
    if (cpu_queue* q = take_from(lists_[at])) return q;
    if (++at == count_) at = 0;
  }
  return nullptr;
}

bool cpu_ready::has_any() const noexcept {
  for (std::size_t i = 0; i < count_; ++i)
    if (lists_[i].count.load() != 0) return true;  // seq_cst: see add_idle()
  return false;
}

bool cpu_ready::has_long() const noexcept {
  for (std::size_t i = 0; i < count_; ++i)
    if (lists_[i].with_many.load(std::memory_order_relaxed) != 0) return true;
  return false;
}

bool cpu_ready::rest(cpu_worker& self) noexcept {
  lock_.lock();
  const bool is_over = is_stopped();  // set before the lock was taken to call all
  if (!is_over) {
    self.word.store(cpu_worker::resting, std::memory_order_relaxed);  // seen under the lock
    self.next = std::exchange(resting_, &self);
    add_idle(1);
  }
  lock_.unlock();
  if (is_over) return has_any();
  if (has_any() && remove_resting(self)) self.word.store(cpu_worker::called, std::memory_order_relaxed);
  return true;
}

// False: it was called.
bool cpu_ready::remove_resting(cpu_worker& self) noexcept {
  const std::lock_guard<spin_lock> lock(lock_);
  for (cpu_worker** link = &resting_; *link != nullptr; link = &(*link)->next) {
    if (*link != &self) continue;
    *link = self.next;
    add_idle(-1U);
    return true;
  }
  return false;
}

void cpu_ready::stop() noexcept {
  stop_.store(true);
  const std::lock_guard<spin_lock> lock(lock_);
  while (resting_ != nullptr)
    if (const std::atomic<std::uint32_t>* asleep = call_somebody()) wake(*asleep);
}

void cpu_ready::withdraw_help(cpu_waiter& w) noexcept {
  const std::lock_guard<spin_lock> lock(lock_);
  for (cpu_waiter** link = &helpers_; w.is_helper && *link != nullptr;) {
    if (*link != &w) {
      link = &(*link)->next_helper;
      continue;
    }
    *link = w.next_helper;
    w.is_helper = false;
    add_idle(-1U);
  }
}

void cpu_ready::notify(const std::atomic<std::uint32_t>& word) noexcept {
  const std::lock_guard<spin_lock> lock(lock_);
  for (cpu_waiter** link = &helpers_; *link != nullptr;) {
    cpu_waiter& w = **link;
    if (w.watched != &word) {
      link = &w.next_helper;
      continue;
    }
    *link = w.next_helper;
    w.is_helper = false;
    add_idle(-1U);
    w.word.store(cpu_waiter::called, std::memory_order_release);  // pairs with the sleeper's acquire
    wake(w.word);                                                 // it comes for the lock before it goes
  }
}

void cpu_ready::wake(const std::atomic<std::uint32_t>& word) noexcept {
  futex(word, FUTEX_WAKE, 1);
}
void cpu_ready::sleep(const std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept {
  futex(word, FUTEX_WAIT, value);
}
void cpu_ready::nap(const std::atomic<std::uint32_t>& word, std::uint32_t value, unsigned ms) noexcept {
  const timespec most{static_cast<std::time_t>(ms / 1000), static_cast<long>(ms % 1000) * 1'000'000};
  futex(word, FUTEX_WAIT, value, &most);
}

}  // namespace braid::detail
