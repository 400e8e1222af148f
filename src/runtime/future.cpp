#include "braid/future.hpp"

#include <cstring>

namespace braid::detail {

future_state_base::~future_state_base() = default;

void future_state_base::wait() {
  runtime_base::expect_outside_body("waiting for a future");
  if (is_ready()) return;
  runtime_base& home = runtime_.expect("waiting for a future");
  if (op_.bits != 0) {
    try {
      home.wait_for(op_);
    } catch (const execution_error&) {
      // finish() brings the error of an op that is over, and of a lost device. An op that runs uses the
      // stage.
      const bool is_lost = home.device_failure(std::current_exception()) != nullptr;
      if (is_finished_.load(std::memory_order_relaxed) || (!is_lost && !home.is_over(op_))) throw;
    }
  }
  finish();
  if (!is_ready()) home.wait_while(word_, pending);
}

void future_state_base::finish() noexcept {
  // acq_rel: who calls it sees it set
  if (!is_finished_.exchange(true, std::memory_order_acq_rel)) std::exchange(finisher_, nullptr)();
}

void future_state_base::run_when_ready(retired task) {
  {
    const std::lock_guard<spin_lock> lock(lock_);
    if (!is_ready()) {
      waiting_.push_back(std::move(task));
      return;
    }
  }
  post(std::move(task));
}

void future_state_base::post(retired task) noexcept {
  // Without a runtime there is no braid thread: the task runs here, as it is destroyed.
  if (runtime_base* home = runtime_.get()) home->post(std::move(task));
}

void future_state_base::set_ready() noexcept {
  std::vector<retired> tasks;
  {
    const std::lock_guard<spin_lock> lock(lock_);
    word_.store(ready);  // pairs with is_ready(); seq_cst for notify()
    tasks.swap(waiting_);
  }
  if (runtime_base* home = runtime_.get()) home->notify(word_);
  for (retired& task : tasks) post(std::move(task));
}

void future_state_base::set_error(std::exception_ptr error) noexcept {
  error_ = std::move(error);
  set_ready();
}

void future_state_base::set_failure(failure_ptr why) noexcept {
  failure_ = std::move(why);
  set_ready();
}

bool future_state_base::pass_failure_on(future_state_base& next) noexcept {
  if (!failure_) return false;
  next.set_failure(std::move(failure_));
  return true;
}

void future_state_base::rethrow() const {
  if (failure_) failure_->raise();
  if (error_) std::rethrow_exception(error_);
}

void take_bytes(future_state_base& state, void* to, std::span<const std::byte> data) {
  if (!data.empty()) std::memcpy(to, data.data(), data.size());
  (void)static_cast<future_state<void>&>(state).prepare();
}

void throw_empty_future() {
  throw usage_error(misuse::null_resource,
                    "this future holds no result: it is empty, or get(), then() or co_await took the result");
}

}  // namespace braid::detail
