#pragma once

// How a routine of multi_stream ends; part of multi_stream.hpp. What its rounds did is entered into clocks
// and histories, so that nobody can tell that there was one.

#include <algorithm>
#include <utility>
#include <vector>

#include "braid/detail/multi_stream_routine.hpp"

namespace braid {

// Who looks whether a resource or a lock is a routine's does so before it goes on with them: so the resources
// are told, and the registry is left, when nothing of them is touched any more.
template <event_stream_backend B, class T>
void multi_stream<B, T>::routine::finish(bool is_open) noexcept {
  // An op that is open stands in histories as any other one does.
  const std::uint32_t end_at = at() + (is_open ? 1 : 0);
  slot_type* const open_slot = is_open ? next_->slot : nullptr;
  if (standing_ != 0) note_standing(end_at);
  for (std::size_t i = 0; i < standing_; ++i) {
    const standing& r = read_[i];
    const locked lock(r.state->lock);
    r.state->past.move_reader(parts_[r.part].slot->lane, detail::standing_cursor,
                              r.in_round != 0 ? cursor_of(r.in_round - 1, round_)
                              : round_ != 1   ? cursor_of(r.last, round_ - 1)
                                              : r.before);
  }
  if (is_followed_ && (end_at != 0 || round_ != 1)) {
    count_rounds(end_at);
    try {
      enter_rounds(end_at);
    } catch (const std::exception& e) {
      engine_.log_error(e.what());
      // What no history could be told of has to be over before anybody else may look.
      for (const part& p : parts_)
        engine_.wait_surely(*p.slot, p.slot->committed.load(std::memory_order_relaxed));
      if (is_open) enter_surely(at(), open_slot->cursor);
    }
  }
  return_borrowed();
  give_back_marks();
  before_.clear();
  for (const part& p : parts_) {
    p.slot->followed = nullptr;  // an op that is open is committed as any other one
    if (p.slot != open_slot) p.slot->cursor = p.slot->committed.load(std::memory_order_relaxed);
  }
  if (is_open) list_uses(*open_slot);
  for (detail::resource_state* r : written_) {
    if (!is_open || !writes(*open_slot, *r)) r->lock.unlock();
  }
  for (const part& p : parts_) {
    if (p.slot != open_slot) p.slot->lock.unlock();
  }
  if (std::exchange(is_followed_, false)) {
    // release: pairs with the acquire of those who ask before a resource goes
    for (detail::resource_state* r : resources_) r->routines.fetch_sub(1, std::memory_order_release);
    is_over_.store(true, std::memory_order_relaxed);
    engine_.following_.fetch_sub(1, std::memory_order_relaxed);
    detail::leave_routine(*this);
  }
  if (!is_open) return;
  detail::here.is_inside = false;
  lock_.unlock();
}

// The open op goes on as one that was given in the usual way.
template <event_stream_backend B, class T>
void multi_stream<B, T>::routine::list_uses(slot_type& s) const noexcept {
  const op& o = *next_;
  for (std::uint32_t i = 0; i < o.bindings; ++i) {
    const binding& b = bindings_[o.first_binding + i];
    s.use_list[i] = {b.state, i, b.kind != access::read};
  }
  s.use_count = o.bindings;
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::routine::count_rounds(std::uint32_t end_at) noexcept {
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    const std::uint64_t times = round_ - 1 + (i < end_at ? 1 : 0);
    const auto& planned = plan_.ops[i];
    slot_type& s = *ops_[i].slot;
    s.followed_ops += times;
    s.elided_same_stream += times * planned.same;
    s.elided_known += times * planned.known;
    const wait* made = waits_.data() + ops_[i].first_wait;
    for (const auto& w : planned.waits) {
      if (w.is_implied) {
        s.elided_implied += times;
        continue;
      }
      const std::uint64_t left_out =
          std::min(made->left_out, times);  // another wait of the op may have failed
      s.elided_complete += left_out;
      s.waits[static_cast<unsigned>(w.why)] += times - left_out;
      s.marks_reused += times - left_out;
      ++made;
    }
    if (!planned.is_awaited) continue;
    const locked lock(s.list_lock);
    s.marks_recorded += round_ - 1 + (i < at() ? 1 : 0);
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::routine::note_standing(std::uint32_t end_at) noexcept {
  for (standing& r : read_) r.in_round = 0;
  for (std::uint32_t i = 0; i < end_at; ++i) {
    const auto& planned = plan_.ops[i];
    for (const auto& use : planned.uses) {
      if (plan_.resources[use.resource].is_written) continue;
      std::size_t k = first_read_[use.resource];
      while (read_[k].part != planned.part) ++k;  // it is one of them
      read_[k].in_round = i + 1;
    }
  }
}

// The rounds are gone through again. Of many only the last two: what was known before them the plan tells.
template <event_stream_backend B, class T>
void multi_stream<B, T>::routine::enter_rounds(std::uint32_t end_at) {
  // What the ops that are waited for knew, in every other round.
  stamps_of_ops stamps[2];
  for (auto& each : stamps) {
    each.reserve(ops_.size());
    for (const op& o : ops_) {
      const locked lock(o.slot->list_lock);
      o.slot->now->retain_under_list_lock();
      each.emplace_back(o.slot->now);
    }
  }
  std::uint64_t first = 1;
  if (round_ >= detail::routine_plan::settled_after(parts_.size()) + 2) {
    first = round_ - 1;
    know_as_planned(first - 1, stamps[(first - 1) & 1]);
  } else {
    for (const auto& [index, known] : before_) stamps[0][index] = detail::stamp_handle(known.share());
  }
  for (std::uint64_t round = first; round <= round_; ++round) {
    const std::uint32_t count = round == round_ ? end_at : static_cast<std::uint32_t>(ops_.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      slot_type& s = *ops_[i].slot;
      for (const wait& w : std::span(waits_).subspan(ops_[i].first_wait, ops_[i].waits)) {
        slot_type& origin = *ops_[w.op].slot;
        const std::uint64_t cursor = cursor_of(w.op, round - w.back);
        s.known.learn(origin.lane, cursor);
        s.known.learn(stamps[(round - w.back) & 1][w.op].get(), s.lane);
        const locked lock(origin.list_lock);
        origin.note_learned(cursor);
      }
      if (plan_.ops[i].is_awaited) {
        const locked lock(s.list_lock);
        stamps[round & 1][i] = detail::stamp_handle(s.stamps.make(s.known));
      }
      if (round + 1 >= round_) enter(i, cursor_of(i, round));
    }
  }
  for (std::uint32_t p = 0; p < parts_.size(); ++p) {
    keep_marks(p, stamps);
    (void)engine_.aligner_.publish(*parts_[p].slot);
  }
}

// The clocks after a round, of which there were enough, and the stamps of the ops that are awaited in the one
// after it.
template <event_stream_backend B, class T>
void multi_stream<B, T>::routine::know_as_planned(std::uint64_t round, stamps_of_ops& stamps) {
  const std::size_t count = parts_.size();
  // What a part knew before the routine has come to all who wait for it.
  std::vector<std::uint64_t> sources(count);  // by part: the parts that it waits for
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    for (const wait& w : std::span(waits_).subspan(ops_[i].first_wait, ops_[i].waits))
      sources[plan_.ops[i].part] |= std::uint64_t{1} << plan_.ops[w.op].part;
  }
  for (std::size_t through = 0; through < count; ++through) {
    for (std::uint64_t& each : sources) {
      if ((each >> through & 1) != 0) each |= sources[through];
    }
  }
  stamps_of_ops before;
  before.reserve(count);
  for (const part& p : parts_) {
    const locked lock(p.slot->list_lock);
    before.emplace_back(p.slot->stamps.make(p.slot->known));
  }
  for (std::size_t p = 0; p < count; ++p) {
    slot_type& s = *parts_[p].slot;
    for (std::size_t of = 0; of < count; ++of) {
      if (of != p && (sources[p] >> of & 1) != 0) s.known.learn(before[of].get(), s.lane);
    }
  }
  const auto learn = [&](detail::clock& known, const std::int64_t* back) {
    for (std::size_t of = 0; of < count; ++of) {
      if (back[of] != detail::routine_plan::never)
        known.learn(parts_[of].slot->lane,
                    parts_[of].base + round * plan_.lengths[of] - static_cast<std::uint64_t>(back[of]));
    }
  };
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    if (!plan_.ops[i].is_awaited_later) continue;
    slot_type& s = *ops_[i].slot;
    detail::clock known = s.known;
    learn(known, plan_.ops[i].knew.data());
    const locked lock(s.list_lock);
    stamps[i] = detail::stamp_handle(s.stamps.make(known));
  }
  for (std::size_t p = 0; p < count; ++p) learn(parts_[p].slot->known, plan_.known.data() + p * count);
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::routine::enter(std::uint32_t index, std::uint64_t cursor) {
  const op& o = ops_[index];
  for (std::uint32_t i = 0; i < o.bindings; ++i) {
    const auto& use = plan_.ops[index].uses[i];
    if (!plan_.resources[use.resource].is_written) continue;  // a standing reader told it
    detail::history& past = resources_[use.resource]->past;
    if (use.kind == access::read) {
      past.read_all(cursor, nullptr, o.slot->lane);
    } else {
      past.write_all(cursor, nullptr, o.slot->lane);
    }
  }
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::routine::enter_surely(std::uint32_t index, std::uint64_t cursor) noexcept {
  for (detail::backoff pause;; pause.pause()) {
    try {
      return enter(index, cursor);
    } catch (const std::bad_alloc&) {
      continue;  // until there is memory
    }
  }
}

// What was recorded serves those who come later.
template <event_stream_backend B, class T>
void multi_stream<B, T>::routine::keep_marks(std::uint32_t of_part, const stamps_of_ops (&stamps)[2]) {
  slot_type& s = *parts_[of_part].slot;
  std::vector<std::pair<detail::mark<B>**, const detail::stamp_handle*>> recorded;
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    if (plan_.ops[i].part != of_part || !plan_.ops[i].is_awaited) continue;
    detail::mark<B>*& m = marks_[plan_.ops[i].mark];
    for (const std::uint64_t round : {round_ - 1, round_}) {
      if (m->cursor == cursor_of(i, round)) recorded.emplace_back(&m, &stamps[round & 1][i]);
    }
  }
  std::ranges::sort(recorded, {}, [](const auto& each) { return (*each.first)->cursor; });
  const locked lock(s.list_lock);
  for (const auto& [m, known] : recorded) {
    if (aligner_type::is_worth_keeping(s, **m))
      aligner_type::keep_mark(s, std::exchange(*m, nullptr), known->share());
  }
}

}  // namespace braid
