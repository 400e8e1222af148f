#include "braid/resource.hpp"

#include <mutex>

#include "braid/detail/routine.hpp"
#include "braid/detail/stamp_pool.hpp"
#include "braid/error.hpp"

namespace braid {

namespace detail {

constinit thread_local open_op* innermost_open_op = nullptr;

namespace {
std::atomic<std::uint64_t> next_resource_id{1};
}

std::uint64_t reserve_resource_ids(std::uint64_t count) noexcept {
  return next_resource_id.fetch_add(count, std::memory_order_relaxed);  // only unique, orders nothing
}

resource_state::resource_state(std::uint64_t bytes, std::string text)
    : past(bytes),
      size(bytes),
      id(next_resource_id.fetch_add(1, std::memory_order_relaxed)),  // only unique, orders nothing
      name(std::move(text)) {}

resource_state::~resource_state() {
  // Of memory that goes with its pool: a thread may have noted it for a routine.
  if (routines.load(std::memory_order_acquire) != 0) end_routines_of(*this);
  stamp_arena* arena = owner.load(std::memory_order_acquire);
  past = history(0);  // gives its stamps back while their memory is there
  if (arena != nullptr) arena->release();
  delete attached.load(std::memory_order_acquire);
}

void dispose(resource_state* state) noexcept {
  if (state->routines.load(std::memory_order_acquire) != 0) end_routines_of(*state);
  for (open_op* op = innermost_open_op; op != nullptr; op = op->outer) {
    if (op->uses(state)) return op->adopt(state);
  }
  delete state;
}

}  // namespace detail

resource resource::make(std::uint64_t bytes, std::string_view name) {
  return resource(new detail::resource_state(bytes, std::string(name)));
}

const std::string& resource::name() const noexcept {
  static const std::string null = "null";
  return state_ != nullptr ? state_->name : null;
}

resource resource::hand_on(std::string_view name) {
  if (state_ == nullptr) {
    throw usage_error(misuse::null_resource,
                      "hand_on() of a null resource: only a resource that was made has a history");
  }
  detail::end_routine_inside();
  if (state_->routines.load(std::memory_order_acquire) != 0) detail::end_routines_of(*state_);
  for (const detail::open_op* op = detail::innermost_open_op; op != nullptr; op = op->outer) {
    if (op->uses(state_)) {
      throw usage_error(misuse::inside_guard, "hand_on() of '" + state_->name +
                                                  "' while a guard of this thread uses it: let the guard "
                                                  "commit first");
    }
  }
  resource next = make(state_->size, name);
  std::unique_lock<detail::spin_lock> lock(state_->lock);
  // One that began to note it meanwhile, and that only reads it.
  while (state_->routines.load(std::memory_order_acquire) != 0) {
    lock.unlock();
    detail::end_routines_of(*state_);
    lock.lock();
  }
  if (state_->handed_on) {
    throw usage_error(misuse::handed_on,
                      "'" + state_->name + "' was handed on before: use the handle that hand_on() returned");
  }
  state_->handed_on = true;
  detail::resource_state& to = *next.state_;
  std::swap(to.past, state_->past);
  to.past.hand_on();
  to.score = state_->score;
  if (detail::stamp_arena* arena = state_->owner.load(std::memory_order_acquire)) {
    arena->retain();
    to.owner.store(arena, std::memory_order_release);
  }
  return next;
}

}  // namespace braid
