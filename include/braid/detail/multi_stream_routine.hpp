#pragma once

// A routine of multi_stream (see routine.hpp): how it begins, and what its ops wait for; part of
// multi_stream.hpp. Where events are waited for. How it ends is in multi_stream_routine_end.hpp.

#include <algorithm>
#include <mutex>

#include "braid/detail/multi_stream_class.hpp"
#include "braid/detail/routine.hpp"

namespace braid {

/// One that is followed. What it is made of does not change; where it has got to changes under its lock.
///
/// An op that others wait for records an event. It is recorded again, by this op or by another one of the
/// stream, when all who wait for it have been told to: so there are few of them, and they stay near.
template <event_stream_backend B, class T>
class multi_stream<B, T>::routine final : public detail::routine_base {
 public:
  struct part {
    slot_type* slot;
    stream_id id;
    std::uint64_t base;  // its cursor when the routine began
  };
  struct alignas(32) wait {
    const detail::mark<B>* on;  // the op's, or in the first round one that its slot has
    const slot_type* origin;
    std::uint32_t op;
    std::uint16_t back;
    bool is_left_out;        // the last time, because the op was known to be over
    std::uint64_t left_out;  // how often
  };
  struct alignas(64) op {
    slot_type* slot;
    std::uint32_t first_wait, waits;
    detail::mark<B>* mark;                       // that it records, if others wait for it
    std::unique_ptr<detail::attachment> note{};  // of the layer above
    stream_id id;
    const op_label* label;
    std::uint32_t first_binding, bindings;
  };

  explicit routine(multi_stream& of) : engine_(of) {}
  ~routine() override { give_back_marks(); }

  /// Whether what was found can be a routine. Looks at no resource: they may have gone.
  [[nodiscard]] bool describe_ops(const detail::routine_finder& found);

  [[nodiscard]] bool expects(const slot_type& s, stream_id id, const op_label* label,
                             std::span<const binding> bindings) const noexcept {
    const op& o = *next_;
    if (o.slot != &s || o.id != id || o.label != label || o.bindings != bindings.size()) return false;
    const binding* mine = bindings_.data() + o.first_binding;
    for (const binding& b : bindings) {
      if (b.state != mine->state || b.kind != mine->kind || !b.whole) return false;
      ++mine;
    }
    return true;
  }

  /// The next op, which is the expected one: its stream waits. Under the lock.
  void open() {
    const op& o = *next_;
    if (o.waits == 0) return;
    for (wait *w = waits_.data() + o.first_wait, *const end = w + o.waits; w != end; ++w) {
      const detail::mark<B>& m = *w->on;
      w->is_left_out = w->origin->is_complete(m.cursor);
      if (w->is_left_out) [[unlikely]] {
        ++w->left_out;
        continue;
      }
      engine_.backend_.wait_event(o.slot->stream, m.recorded());
    }
  }
  /// It was handed over and committed. Under the lock.
  void close() {
    const op& o = *next_;
    detail::mark<B>* const m = o.mark;
    if (++next_ == end_) {
      next_ = ops_.data();
      if (++round_ == 2) return_borrowed();
    }
    if (m == nullptr) return;
    m->cursor = 0;  // if the backend throws there is none
    engine_.aligner_.flush(o.slot->stream, m->event);
    m->cursor = o.slot->cursor;
  }
  /// Under the lock: what was done is entered, and all is let go but for what the op that is open needs.
  void finish(bool is_open) noexcept;
  /// Of the op that is open.
  void describe(alignment& a) const;
  // By the thread that follows it: nobody else moves on.
  [[nodiscard]] detail::attachment* noted() const noexcept override { return next_->note.get(); }
  void note(std::unique_ptr<detail::attachment> of_next) noexcept { next_->note = std::move(of_next); }

  bool holds(const detail::spin_lock& lock) const noexcept override {
    return std::ranges::any_of(parts_, [&](const part& p) { return &p.slot->lock == &lock; }) ||
           std::ranges::any_of(written_, [&](const detail::resource_state* r) { return &r->lock == &lock; });
  }
  bool uses(const detail::resource_state& state) const noexcept override {
    return std::ranges::find(written_, &state) != written_.end() ||
           std::ranges::any_of(read_, [&](const standing& r) { return r.state == &state; });
  }
  bool is_of(const void* engine) const noexcept override { return &engine_ == engine; }
  bool begin() override;
  struct extent_type {
    std::uint64_t ops, round, streams;
  };
  /// How many ops were given in it, and how many there are in a round on how many streams.
  [[nodiscard]] extent_type extent() const noexcept {
    return {(round_ - 1) * ops_.size() + at(), ops_.size(), parts_.size()};
  }
  /// Calls `visit(slot, cursor)` for the last op that writes the resource, and those that read it since. By
  /// the thread that follows it, which writes it.
  template <class Visit>
  void last_accesses(const detail::resource_state& of, Visit visit) const {
    const auto count = static_cast<std::uint32_t>(ops_.size());
    for (std::uint32_t back = 1, i = at(); back <= count; ++back) {
      i = i != 0 ? i - 1 : count - 1;
      const auto bound = std::span(bindings_).subspan(ops_[i].first_binding, ops_[i].bindings);
      const auto use = std::ranges::find(bound, &of, &binding::state);
      if (use == bound.end()) continue;
      visit(*ops_[i].slot, cursor_of(i, round_ - (i < at() ? 0 : 1)));
      if (use->kind != access::read) return;  // it came after all others
    }
  }
  void end() noexcept override {
    if (detail::here.is_inside) {
      if (detail::here.followed == this) return finish(true);
      detail::here.followed->end();  // two threads inside their ops may be about to end each other's routine
    }
    const std::scoped_lock lock(lock_);
    if (is_followed_) finish(false);
  }

  alignas(64) detail::spin_lock lock_;
  bool is_followed_ = false;  // under the lock

 private:
  // Beside the lock, because each op looks at them.
  op* next_ = nullptr;
  op* end_ = nullptr;
  std::uint64_t round_ = 1;

  struct standing {
    detail::resource_state* state;
    std::uint32_t part;
    std::uint32_t last;         // op of the part that reads it
    std::uint64_t before{0};    // the cursor of the part's reader when the routine began; 0: it had none
    std::uint32_t in_round{0};  // at the end: of those given in this round, counted from 1; 0: none
  };

  // Nobody needs what was recorded in round 0 any more.
  void return_borrowed() noexcept {
    if (borrowed_.empty()) return;
    for (wait& w : waits_) w.on = ops_[w.op].mark;
    for (detail::mark<B>* m : borrowed_) m->release();
    borrowed_.clear();
  }
  [[nodiscard]] std::uint32_t at() const noexcept { return static_cast<std::uint32_t>(next_ - ops_.data()); }
  void give_back_marks() noexcept {
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      if (marks_[i] == nullptr) continue;
      engine_.aligner_.give_back_mark(*parts_[plan_.marks[i]].slot, std::exchange(marks_[i], nullptr));
    }
  }
  [[nodiscard]] bool hold_all();
  [[nodiscard]] bool is_as_planned() const;
  [[nodiscard]] bool add_readers();
  [[nodiscard]] bool make_marks();
  void release(std::size_t slots, std::size_t resources) noexcept;
  [[nodiscard]] bool is_before(const part& of, detail::lane_id lane, std::uint64_t cursor) const {
    if (of.slot->lane == lane || of.slot->known.covers(lane, cursor)) return true;
    return !engine_.deterministic_ && !detail::is_foreign(lane) &&
           engine_.pool_.lane(lane).is_complete(cursor);
  }
  // Rounds are counted from 1; round 0 was given as any other ops.
  [[nodiscard]] std::uint64_t cursor_of(std::uint32_t index, std::uint64_t round) const noexcept {
    const auto& o = plan_.ops[index];
    return parts_[o.part].base + round * plan_.lengths[o.part] + o.rank - plan_.lengths[o.part];
  }
  void count_rounds(std::uint32_t end_at) noexcept;
  void enter_rounds(std::uint32_t end_at);
  using stamps_of_ops = std::vector<detail::stamp_handle>;
  void know_as_planned(std::uint64_t round, stamps_of_ops& stamps);
  void note_standing(std::uint32_t end_at) noexcept;
  void enter(std::uint32_t index, std::uint64_t cursor);
  void enter_surely(std::uint32_t index, std::uint64_t cursor) noexcept;
  void keep_marks(std::uint32_t of_part, const stamps_of_ops (&stamps)[2]);
  void list_uses(slot_type& s) const noexcept;
  static bool writes(const slot_type& s, const detail::resource_state& r) noexcept {
    return std::ranges::any_of(s.all_uses(), [&](const auto& u) { return u.state == &r && u.exclusive; });
  }

  multi_stream& engine_;
  detail::routine_plan plan_;
  std::vector<part> parts_;
  std::vector<op> ops_;
  std::vector<binding> bindings_;
  std::vector<wait> waits_;
  std::vector<detail::resource_state*> resources_;  // as the plan numbers them
  std::vector<detail::resource_state*> written_;
  std::vector<standing> read_;              // in the order of the resources
  std::vector<std::uint32_t> first_read_;   // by resource: the first of its readers there
  std::vector<detail::mark<B>*> marks_;     // as the plan numbers them: ours, in no list
  std::vector<detail::mark<B>*> borrowed_;  // of the slots, for the first round
  struct known_before {
    std::uint32_t op;
    detail::stamp_handle stamp;
  };
  std::vector<known_before>
      before_;                // the routine: what the ops of round 0 knew that the next round waits for
  std::size_t standing_ = 0;  // so many of them are in their histories
};

// ---- Beginning.

// If nothing else has happened on its streams and to its resources.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::routine::begin() {
  // Under the registry's mutex, as those look for it who end what was begun before: they closed it first.
  if (engine_.closed_.load(std::memory_order_relaxed) || !hold_all()) return false;
  try {
    if (is_as_planned() && add_readers() && make_marks()) {
      bool is_kept = true;
      for (const part& p : parts_) is_kept = is_kept && p.slot->lock.keep_for_routine();
      for (detail::resource_state* r : written_) is_kept = is_kept && r->lock.keep_for_routine();
      if (is_kept) {
        for (detail::resource_state* r : resources_) r->routines.fetch_add(1, std::memory_order_relaxed);
        for (const part& p : parts_) {
          p.slot->followed = this;
          p.slot->use_count = 0;
          p.slot->outer = nullptr;
        }
        is_followed_ = true;
        engine_.following_.fetch_add(1, std::memory_order_relaxed);
        return true;
      }
    }
  } catch (...) {
    // No memory, or no event: it is not followed. What the backend throws it will throw again where it
    // counts.
  }
  finish(false);
  return false;
}

template <event_stream_backend B, class T>
bool multi_stream<B, T>::routine::describe_ops(const detail::routine_finder& found) {
  constexpr std::size_t most_parts = 32;
  constexpr std::size_t most_work = 1U << 16;  // at the end, in ops
  std::vector<detail::routine_plan::op> planned;
  planned.reserve(found.ops().size());
  ops_.reserve(found.ops().size());
  for (const auto& taken : found.ops()) {
    for (const binding& b : found.bindings_of(taken)) resources_.push_back(b.state);
  }
  bindings_.reserve(resources_.size());
  std::ranges::sort(resources_);
  resources_.erase(std::ranges::unique(resources_).begin(), resources_.end());
  std::vector<std::size_t> last_user(resources_.size(), 0);
  for (const auto& taken : found.ops()) {
    auto* const s = static_cast<slot_type*>(taken.slot);
    auto at = std::ranges::find(parts_, s, &part::slot);
    if (at == parts_.end()) at = parts_.insert(at, {s, taken.id, 0});
    if (at->id != taken.id || s->is_adopted) return false;
    planned.push_back({.part = static_cast<std::uint32_t>(at - parts_.begin()),
                       .rank = 0,
                       .uses = {},
                       .shared = {},
                       .waits = {}});
    const auto bound = found.bindings_of(taken);
    const auto first = static_cast<std::uint32_t>(bindings_.size());
    for (const binding& b : bound) {
      const auto number =
          static_cast<std::uint32_t>(std::ranges::lower_bound(resources_, b.state) - resources_.begin());
      if (std::exchange(last_user[number], planned.size()) == planned.size()) return false;  // bound twice
      planned.back().uses.push_back({number, b.kind});
      bindings_.push_back(b);
    }
    ops_.push_back({.slot = s,
                    .first_wait = 0,
                    .waits = 0,
                    .mark = nullptr,
                    .id = taken.id,
                    .label = taken.label,
                    .first_binding = first,
                    .bindings = static_cast<std::uint32_t>(bound.size())});
    if (parts_.size() > most_parts) return false;
  }
  if (ops_.size() * detail::routine_plan::settled_after(parts_.size()) > most_work) return false;
  // In the order of the lanes, as waits come.
  std::vector<part> sorted = parts_;
  std::ranges::sort(sorted, {}, [](const part& p) { return p.slot->lane; });
  std::vector<std::uint32_t> ranks(parts_.size());
  for (auto& o : planned) {
    o.part = static_cast<std::uint32_t>(std::ranges::find(sorted, parts_[o.part].slot, &part::slot) -
                                        sorted.begin());
    o.rank = ++ranks[o.part];
  }
  parts_ = std::move(sorted);
  if (!plan_.analyse(std::move(planned), static_cast<std::uint32_t>(parts_.size()),
                     static_cast<std::uint32_t>(resources_.size())))
    return false;
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const auto& o = plan_.ops[i];
    ops_[i].first_wait = static_cast<std::uint32_t>(waits_.size());
    for (const auto& w : o.waits) {
      if (!w.is_implied)
        waits_.push_back({nullptr, ops_[w.op].slot, w.op, static_cast<std::uint16_t>(w.back), false, 0});
    }
    ops_[i].waits = static_cast<std::uint32_t>(waits_.size()) - ops_[i].first_wait;
    // The last round was all that happened.
    parts_[o.part].base = found.ops()[i].cursor;
  }
  next_ = ops_.data();
  end_ = next_ + ops_.size();
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    first_read_.push_back(static_cast<std::uint32_t>(read_.size()));
    if (plan_.resources[r].is_written) {
      written_.push_back(resources_[r]);
      continue;
    }
    for (const std::uint32_t reader : plan_.resources[r].readers)
      read_.push_back({resources_[r], plan_.ops[reader].part, reader});
  }
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    if (cursor_of(static_cast<std::uint32_t>(i), 0) != found.ops()[i].cursor) return false;
  }
  return true;
}

// Nobody is waited for.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::routine::hold_all() {
  std::size_t slots = 0;
  std::size_t resources = 0;
  while (slots < parts_.size() && parts_[slots].slot->lock.try_lock()) ++slots;
  if (slots == parts_.size()) {
    while (resources < written_.size() && written_[resources]->lock.try_lock()) ++resources;
    if (resources == written_.size()) return true;
  }
  release(slots, resources);
  return false;
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::routine::release(std::size_t slots, std::size_t resources) noexcept {
  while (resources > 0) written_[--resources]->lock.unlock();
  while (slots > 0) parts_[--slots].slot->lock.unlock();
}

template <event_stream_backend B, class T>
bool multi_stream<B, T>::routine::is_as_planned() const {
  for (const part& p : parts_) {
    if (p.slot->committed.load(std::memory_order_relaxed) != p.base || p.slot->last_id != p.id) return false;
  }
  for (std::size_t a = 0; a < parts_.size(); ++a) {
    for (std::size_t b = 0; b < parts_.size(); ++b) {
      const std::int64_t back = plan_.known[a * parts_.size() + b];
      if (back == detail::routine_plan::never) continue;
      if (static_cast<std::uint64_t>(back) >= parts_[b].base) continue;  // before its first op
      if (!is_before(parts_[a], parts_[b].slot->lane, parts_[b].base - static_cast<std::uint64_t>(back)))
        return false;
    }
  }
  const auto is_op = [&](const detail::point& p, const std::vector<std::uint32_t>& among) {
    return std::ranges::any_of(
        among, [&](std::uint32_t i) { return ops_[i].slot->lane == p.lane && cursor_of(i, 0) == p.cursor; });
  };
  for (std::size_t i = 0; i < resources_.size(); ++i) {
    detail::resource_state& r = *resources_[i];
    const auto& expected = plan_.resources[i];
    if (!expected.is_written) continue;  // see add_readers()
    if (r.handed_on || r.writers_waiting.load(std::memory_order_relaxed) != 0 ||
        !r.past.consists_of([&](const detail::point& p) { return is_op(p, expected.last); },
                            [&](const detail::point& p) { return is_op(p, expected.readers); },
                            expected.readers.size()))
      return false;
  }
  return true;
}

// Nobody is waited for here either: others may hold one of them and wait for what the routine holds. What
// came before is looked at under the lock under which the reader is entered: nobody writes in between.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::routine::add_readers() {
  for (; standing_ < read_.size(); ++standing_) {
    standing& s = read_[standing_];
    detail::resource_state& r = *s.state;
    const std::unique_lock lock(r.lock, std::try_to_lock);
    if (!lock || r.handed_on || r.writers_waiting.load(std::memory_order_relaxed) != 0 ||
        !r.past.is_in_one_piece())
      return false;
    for (const detail::point& p : *r.past.before_whole(access::read).points) {
      if (!is_before(parts_[s.part], p.lane, p.cursor)) return false;
    }
    // Not always the one of the round before: another thread may have written it since.
    r.past.readers(0, ~std::uint64_t{0}, [&](const detail::point& p) {
      if (p.lane == parts_[s.part].slot->lane) s.before = p.cursor;
    });
    r.past.read_all(detail::standing_cursor, nullptr, parts_[s.part].slot->lane);
  }
  return true;
}

// What is waited for in the next round has a mark, as what other streams wait for mostly has, or is the last
// op of its stream and gets one. Else it cannot be followed: a mark at the tail would reach too far.
template <event_stream_backend B, class T>
bool multi_stream<B, T>::routine::make_marks() {
  before_.reserve(ops_.size());
  borrowed_.reserve(ops_.size());
  marks_.resize(plan_.marks.size());
  for (std::size_t i = 0; i < marks_.size(); ++i)
    marks_[i] = engine_.aligner_.take_mark(*parts_[plan_.marks[i]].slot);
  std::vector<const detail::mark<B>*> first(ops_.size());  // in the first round
  for (std::uint32_t i = 0; i < ops_.size(); ++i) {
    op& o = ops_[i];
    if (!plan_.ops[i].is_awaited) continue;
    first[i] = o.mark = marks_[plan_.ops[i].mark];
    if (!plan_.ops[i].is_awaited_later) continue;
    const locked lock(o.slot->list_lock);
    const std::uint64_t cursor = cursor_of(i, 0);
    if (detail::mark<B>* found = o.slot->marks.covering(cursor);
        found != nullptr && found->cursor == cursor) {
      found->retain();
      borrowed_.push_back(found);
      first[i] = found;
      found->clock->retain();
      before_.push_back({i, detail::stamp_handle(found->clock)});
    } else if (cursor == o.slot->committed.load(std::memory_order_relaxed)) {
      engine_.aligner_.flush(o.slot->stream, o.mark->event);
      o.mark->cursor = cursor;
      o.slot->now->retain_under_list_lock();
      before_.push_back({i, detail::stamp_handle(o.slot->now)});
    } else {
      return false;
    }
  }
  for (wait& w : waits_) w.on = w.back != 0 ? first[w.op] : ops_[w.op].mark;
  return true;
}

template <event_stream_backend B, class T>
void multi_stream<B, T>::routine::describe(alignment& a) const {
  const auto& planned = plan_.ops[at()];
  const auto origin_of = [&](const auto& w) { return parts_[plan_.ops[w.op].part].id; };
  const auto resource_of = [&](const auto& w) {
    return bindings_[next_->first_binding + w.binding].state->id;
  };
  auto shared = planned.shared;
  std::ranges::stable_sort(shared, {}, [&](const auto& w) { return plan_.ops[w.op].part; });
  for (const auto& w : shared)
    a.shared.push_back({origin_of(w), cursor_of(w.op, round_ - w.back), w.binding, resource_of(w), w.why});
  const wait* made = waits_.data() + next_->first_wait;
  for (const auto& w : planned.waits) {
    if (w.is_implied) continue;
    if (!made->is_left_out) {
      const std::uint64_t cursor = cursor_of(w.op, round_ - w.back);
      a.waits.push_back({origin_of(w), cursor, cursor, w.binding, resource_of(w), w.why});
    }
    ++made;
  }
}

}  // namespace braid
