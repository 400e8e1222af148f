#pragma once

// How multi_stream gives a recorded sequence of ops again; part of multi_stream.hpp.

#include "braid/detail/multi_stream_class.hpp"
#include "braid/detail/recorder.hpp"

namespace braid {

// All slots of the sequence are locked, in the order of their lanes, then all resources, by address, as an op
// with all their accesses would do it. What the parts need from before stands in front of each part. Between
// themselves the ops are ordered by waits that were found when they were recorded.
template <event_stream_backend B, class T>
template <class HandOver>
void multi_stream<B, T>::replay(const detail::replay_plan& plan, std::uint64_t times, HandOver hand_over) {
  static_assert(points, "parts wait for points of each other");
  expect_outside_guards("replay()");
  if (closed_.load(std::memory_order_acquire)) throw_closed();
  if (plan.parts.empty() || times == 0) return;
  const std::uint64_t bytes = in_flight_ ? admit(plan.resources) : 0;
  try {
    replay_locks held(*this, plan);
    std::vector<std::uint64_t> before;  // each part's cursor
    for (const auto& part : plan.parts) {
      slot_type& s = pool_.lane(part.lane);
      before.push_back(s.committed.load(std::memory_order_relaxed));  // written under the slot's lock only
      s.cursor = before.back() + 1;
      if (s.last_id != part.id) prepare(s, part.id);
      s.forget_waits();
      s.use_count = 0;
    }
    try {
      std::vector<tally> seen(plan.parts.size());
      for (std::uint32_t i = 0; i < plan.first.size(); ++i) {
        const auto& use = plan.first[i];
        collect(pool_.lane(plan.parts[use.at.part].lane), use.bound, i, seen[use.at.part]);
      }
      for (std::size_t i = 0; i < plan.parts.size(); ++i) {
        slot_type& s = pool_.lane(plan.parts[i].lane);
        note(s, seen[i]);
        if (!s.needs.empty()) align(s, {});
      }
      hand_over(std::span<const std::uint64_t>(before));
    } catch (...) {
      for (std::size_t i = 0; i < plan.parts.size(); ++i) {
        slot_type& s = pool_.lane(plan.parts[i].lane);
        s.release_needs();
        s.forget_waits();
        s.cursor = before[i];
      }
      throw;
    }
    commit_replay(plan, times, before);
    if (in_flight_) {
      const slot_type& s = pool_.lane(plan.parts.back().lane);
      in_flight_->add(detail::in_flight::op{s.lane, s.cursor, bytes});
    }
  } catch (...) {
    if (in_flight_) in_flight_->abandon(bytes);
    throw;
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::commit_replay(const detail::replay_plan& plan, std::uint64_t times,
                                       std::span<const std::uint64_t> before) noexcept {
  bool is_entered = true;
  const auto cursor_of = [&](const detail::recorded_place& at) {  // in the last sequence
    return before[at.part] + (times - 1) * plan.parts[at.part].ops + static_cast<std::uint64_t>(at.index);
  };
  try {
    // With what each part knew at its beginning: an op in its middle may not have waited for more.
    for (const auto& use : plan.last) {
      const slot_type& s = pool_.lane(plan.parts[use.at.part].lane);
      const binding& b = use.bound;
      if (b.state->past.apply(b.kind, b.tag, b.range, b.whole, cursor_of(use.at), s.now, s.lane)) {
        ++pool_.lane(s.lane).coarsened;
      }
    }
  } catch (const std::bad_alloc&) {
    is_entered = false;
  }
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    slot_type& s = pool_.lane(plan.parts[i].lane);
    s.cursor = before[i] + times * plan.parts[i].ops;
    s.committed.store(s.cursor, std::memory_order_release);  // as in commit()
    for (unsigned h = 0; h < hazard_count; ++h) {
      s.waits[h] += plan.parts[i].waits[h] + (times - 1) * plan.parts[i].again[h];
    }
  }
  for (const auto& learned : plan.learned) {
    pool_.lane(plan.parts[learned.part].lane)
        .known.learn(plan.parts[learned.of.part].lane, cursor_of(learned.of));
  }
  for (const auto& part : plan.parts) {
    slot_type& s = pool_.lane(part.lane);
    aligner_.publish(s);
    s.leave_before();
  }
  if (is_entered) return;
  // What no history could be told of has to be over before anybody else may look.
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    slot_type& s = pool_.lane(plan.parts[i].lane);
    try {
      host_wait(s, s.cursor);
    } catch (const std::exception& e) {
      log_error(e.what());
    }
  }
}

template <event_stream_backend B, class T>
struct multi_stream<B, T>::replay_locks {
  replay_locks(multi_stream& engine, const detail::replay_plan& of) : self(engine), plan(of) {
    try {
      for (; slots < plan.parts.size(); ++slots) {
        if constexpr (sync) self.pool_.lane(plan.parts[slots].lane).lock.lock();
      }
      for (; resources < plan.resources.size(); ++resources) {
        const binding& b = plan.resources[resources];
        self.locks_.lock_for_replay(self.pool_.lane(plan.parts.front().lane), *b.state,
                                    b.kind != access::read);
      }
    } catch (...) {
      release();
      throw;
    }
  }
  ~replay_locks() { release(); }
  replay_locks(const replay_locks&) = delete;
  replay_locks& operator=(const replay_locks&) = delete;

  void release() noexcept {
    if constexpr (sync) {
      while (resources > 0) plan.resources[--resources].state->lock.unlock();
      while (slots > 0) self.pool_.lane(plan.parts[--slots].lane).lock.unlock();
    }
  }

  multi_stream& self;
  const detail::replay_plan& plan;
  std::size_t slots = 0;
  std::size_t resources = 0;
};

}  // namespace braid
