#include "braid/detail/routine.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "braid/detail/shared_marks.hpp"

namespace braid::detail {

// ---- Noticing.

namespace {

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t word) noexcept {
  hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15U;
  return hash ^ hash >> 29;
}

constexpr std::size_t place_count = 2 * std::size_t{routine_finder::longest};
// So many ops that did not repeat what came before them: then there is a rest, the longer the more often.
constexpr std::uint32_t most_others = 2 * routine_finder::longest;
constexpr std::uint64_t least_rest = 8 * std::uint64_t{routine_finder::longest};
constexpr std::uint64_t least_penalty = 64;
constexpr std::uint64_t most_penalty = 1U << 18;

}  // namespace

void routine_finder::forget(std::uint32_t rest) noexcept {
  rest_ = rest;
  drop_round();
  is_ready_ = is_taking_down_ = false;
  period_ = run_ = others_ = 0;
  at_ += 2 * std::uint64_t{longest};  // what came before is not seen again: a routine may have been between
}

void routine_finder::begin_anew(std::uint64_t number) noexcept {
  forget();
  penalty_ = last_rest_ = 0;
  number_ = number;
}

void routine_finder::drop_round() noexcept {
  if (ops_.empty()) return;
  noted_.clear();
  ops_.clear();
  bindings_.clear();
}

void routine_finder::note_end(std::uint64_t ops, std::uint64_t round, std::uint64_t streams) noexcept {
  if (ops >= 64 + 8 * round * streams) {
    penalty_ = 0;
  } else {
    // To begin one takes the time of several rounds.
    round = std::max<std::uint64_t>(round, ops_.size());
    const std::uint64_t longer = std::max({least_penalty, 16 * round, std::uint64_t{penalty_} * 2});
    penalty_ = static_cast<std::uint32_t>(std::min(most_penalty, longer));
  }
  forget(penalty_);
}

void routine_finder::note_other() noexcept {
  if (++others_ < most_others) return;
  last_rest_ = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(std::uint64_t{last_rest_} * 2, least_rest, most_penalty));
  forget(last_rest_);
}

// An op is told from others together with the one before it: so a round may contain one op several times.
void routine_finder::look(const op& given, std::span<const binding> bindings) {
  std::uint64_t hash = mix(reinterpret_cast<std::uintptr_t>(given.slot), given.id.value);
  hash = mix(hash, reinterpret_cast<std::uintptr_t>(given.label));
  for (const binding& b : bindings) {
    if (!b.whole || b.kind == access::accumulate || b.state->is_passing) {
      const std::uint32_t others = others_;
      forget();
      others_ = others;
      return note_other();
    }
    hash = mix(hash, reinterpret_cast<std::uintptr_t>(b.state) ^ static_cast<std::uint64_t>(b.kind));
  }
  if (places_.empty()) {
    keys_.resize(2 * std::size_t{longest});
    places_.resize(place_count);  // the last one: there is memory for both then
  }
  const std::uint64_t key = mix(mix(0, hash), before_);
  before_ = hash;
  const auto key_at = [&](std::uint64_t at) -> std::uint64_t& { return keys_[at % keys_.size()]; };
  std::uint64_t& place = places_[key >> 8 & (place_count - 1)];
  const std::uint64_t last = std::exchange(place, ++at_);
  key_at(at_) = key;
  is_ready_ = false;
  if (period_ == 0 || at_ <= period_ || key_at(at_ - period_) != key) {
    // Two keys may share a place: then another op of the round tells.
    is_taking_down_ = false;
    run_ = 0;
    const bool is_seen = last != 0 && at_ - last <= longest && key_at(last) == key;
    period_ = is_seen ? static_cast<std::uint32_t>(at_ - last) : 0;
    note_other();
    if (!is_seen || rest_ != 0) return;
  }
  ++run_;
  if (is_taking_down_) {
    if (bindings_.size() + bindings.size() > most_bindings) return note_end(0);
    noted_.add(bindings);
    ops_.push_back(given);
    ops_.back().first = static_cast<std::uint32_t>(bindings_.size());
    ops_.back().count = static_cast<std::uint32_t>(bindings.size());
    bindings_.insert(bindings_.end(), bindings.begin(), bindings.end());
    is_ready_ = ops_.size() == period_;
    is_taking_down_ = !is_ready_;
  } else if (run_ >= period_) {
    is_taking_down_ = true;
    drop_round();
  }
}

// ---- What its ops wait for.

// Rounds are gone through until two of them, one after the other, are the same: what each op waits for, and
// what is known at the end, counted from the round. All that follow are the same then.
struct routine_plan::analysis {
  using cursor = std::int64_t;  // of a part's ops: 1 for the first of round 0; 0 and below: none
  struct at {
    std::uint32_t op;
    std::int64_t round;
  };
  struct state {
    std::vector<at> last;
    std::vector<at> readers;
  };

  explicit analysis(routine_plan& p, std::uint32_t part_count)
      : plan(p),
        parts(part_count),
        clock(std::size_t{parts} * parts, 0),
        before(clock),
        resources(p.resources.size()) {
    for (auto& each : snaps) each.assign(plan.ops.size() * parts, 0);
  }

  [[nodiscard]] cursor cursor_of(const at& a) const {
    const op& o = plan.ops[a.op];
    return a.round * plan.lengths[o.part] + o.rank;
  }
  [[nodiscard]] const cursor* snap_of(const at& a) const {
    return snaps[static_cast<std::size_t>(a.round % 2)].data() + std::size_t{a.op} * parts;
  }

  struct need {
    at on;
    std::uint32_t binding;
    hazard why;
    bool is_implied = false;
  };

  void add(op& o, std::int64_t round, const at& on, std::uint32_t binding, hazard why) {
    const op& origin = plan.ops[on.op];
    if (origin.part == o.part) {
      ++o.same;
      return;
    }
    if (clock[std::size_t{o.part} * parts + origin.part] >= cursor_of(on)) {
      ++o.known;
      return;
    }
    o.shared.push_back({on.op, static_cast<std::uint32_t>(round - on.round), binding, why, false});
    for (need& n : needs) {
      if (plan.ops[n.on.op].part != origin.part) continue;
      if (cursor_of(n.on) < cursor_of(on)) n = {on, binding, why};
      return;
    }
    needs.push_back({on, binding, why});
  }

  // False: it waits for a round that is too long ago.
  bool run_op(std::uint32_t index, std::int64_t round, bool& is_same) {
    op& o = plan.ops[index];
    needs.clear();
    o.same = o.known = 0;
    o.shared.clear();
    for (std::uint32_t i = 0; i < o.uses.size(); ++i) {
      const state& r = resources[o.uses[i].resource];
      const access kind = o.uses[i].kind;
      if (kind != access::read && !r.readers.empty()) {
        for (const at& a : r.readers) add(o, round, a, i, hazard::write_after_read);
      } else {
        const hazard why = kind == access::write ? hazard::write_after_write : hazard::read_after_write;
        for (const at& a : r.last) add(o, round, a, i, why);
      }
    }
    std::ranges::sort(needs, {}, [&](const need& n) { return plan.ops[n.on.op].part; });
    for (need& n : needs) {
      n.is_implied = std::ranges::any_of(needs, [&](const need& other) {
        return &other != &n && !other.is_implied &&
               snap_of(other.on)[plan.ops[n.on.op].part] >= cursor_of(n.on);
      });
    }
    waits.clear();
    for (const need& n : needs) {
      if (round - n.on.round > 1 || (round != n.on.round && n.on.op < index)) return false;
      waits.push_back(
          {n.on.op, static_cast<std::uint32_t>(round - n.on.round), n.binding, n.why, n.is_implied});
    }
    is_same = is_same && std::ranges::equal(waits, o.waits, [](const wait& a, const wait& b) {
                return a.op == b.op && a.back == b.back && a.binding == b.binding && a.why == b.why &&
                       a.is_implied == b.is_implied;
              });
    o.waits.assign(waits.begin(), waits.end());
    cursor* const mine = clock.data() + std::size_t{o.part} * parts;
    for (const need& n : needs) {
      if (n.is_implied) continue;
      const cursor* taught = snap_of(n.on);
      for (std::uint32_t p = 0; p < parts; ++p) {
        if (p != o.part) mine[p] = std::max(mine[p], taught[p]);
      }
      const std::uint32_t origin = plan.ops[n.on.op].part;
      mine[origin] = std::max(mine[origin], cursor_of(n.on));
    }
    cursor* const snap = snaps[static_cast<std::size_t>(round % 2)].data() + std::size_t{index} * parts;
    for (std::uint32_t p = 0; p < parts; ++p) {
      // Whether it was the same in the round before, counted from there.
      const cursor old = snaps[static_cast<std::size_t>((round + 1) % 2)][std::size_t{index} * parts + p];
      is_same = is_same && mine[p] == (old == 0 ? 0 : old + plan.lengths[p]);
      snap[p] = mine[p];
    }
    for (const use& u : o.uses) enter(resources[u.resource], u.kind, {index, round});
    return true;
  }

  void enter(state& r, access kind, const at& now) const {
    if (kind != access::read) {
      r.last = {now};
      r.readers.clear();
      return;
    }
    const auto mine = [&](const at& a) { return plan.ops[a.op].part == plan.ops[now.op].part; };
    std::erase_if(r.readers, mine);
    r.readers.push_back(now);
  }

  bool run() {
    const std::int64_t most = 4 + static_cast<std::int64_t>(parts);
    for (std::int64_t round = 0; round < most; ++round) {
      bool is_same = round > 0;
      for (std::uint32_t i = 0; i < plan.ops.size(); ++i) {
        if (!run_op(i, round, is_same)) return false;
      }
      for (std::size_t i = 0; i < clock.size(); ++i) {
        const cursor shifted = before[i] == 0 ? 0 : before[i] + plan.lengths[i % parts];
        is_same = is_same && clock[i] == shifted;
      }
      before = clock;
      if (is_same) return finish(round);
    }
    return false;
  }

  bool finish(std::int64_t round) {
    for (op& o : plan.ops) {
      for (const wait& w : o.waits) {
        if (w.is_implied) continue;
        plan.ops[w.op].is_awaited = true;
        if (w.back == 1) plan.ops[w.op].is_awaited_later = true;
      }
    }
    for (std::size_t i = 0; i < resources.size(); ++i) {
      for (const at& a : resources[i].last) plan.resources[i].last.push_back(a.op);
      for (const at& a : resources[i].readers) plan.resources[i].readers.push_back(a.op);
    }
    plan.known.assign(clock.size(), never);
    for (std::size_t i = 0; i < clock.size(); ++i) {
      if (clock[i] != 0) plan.known[i] = back(round, i % parts, clock[i]);
    }
    for (std::uint32_t i = 0; i < plan.ops.size(); ++i) {
      if (!plan.ops[i].is_awaited_later) continue;
      const cursor* const snap = snap_of({i, round});
      plan.ops[i].knew.assign(parts, never);
      for (std::uint32_t p = 0; p < parts; ++p) {
        if (snap[p] != 0) plan.ops[i].knew[p] = back(round, p, snap[p]);
      }
    }
    plan.assign_marks();
    return true;
  }
  [[nodiscard]] cursor back(std::int64_t round, std::size_t part, cursor to) const {
    return (round + 1) * plan.lengths[part] - to;
  }

  routine_plan& plan;
  const std::uint32_t parts;
  std::vector<cursor> clock;     // by part and part
  std::vector<cursor> before;    // of the round before
  std::vector<cursor> snaps[2];  // by op and part: of this round, and of the one before
  std::vector<state> resources;
  std::vector<need> needs;  // of the op that is looked at
  std::vector<wait> waits;
};

void routine_plan::assign_marks() {
  std::vector<shared_marks::op> all;
  all.reserve(ops.size());
  for (const op& o : ops) all.push_back({o.part, o.is_awaited, o.is_awaited_later});
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    for (const wait& w : ops[i].waits) {
      if (!w.is_implied) all[w.op].until = std::max(all[w.op].until, i);
    }
  }
  shared_marks assigned(all, lengths.size());
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    if (ops[i].is_awaited) ops[i].mark = assigned.of_op[i];
  }
  marks = std::move(assigned.parts);
}

bool routine_plan::analyse(std::vector<op> given, std::uint32_t parts, std::uint32_t resource_count) {
  ops = std::move(given);
  resources.assign(resource_count, {});
  lengths.assign(parts, 0);
  for (const op& o : ops) {
    lengths[o.part] = std::max(lengths[o.part], o.rank);
    for (const use& u : o.uses) {
      if (u.kind != access::read) resources[u.resource].is_written = true;
    }
  }
  return analysis(*this, parts).run();
}

// ---- Finding those that are followed.

/// Of the process. Its mutex comes before the locks of slots and resources, which are only tried under it,
/// and is not held while a routine is ended.
struct routine_registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<routine_base>> followed;
  std::vector<noted_resources*> noted;

  // Never destroyed: resources of static objects may be.
  static routine_registry& get() {
    static auto* all = new routine_registry;
    return *all;
  }
  template <class Which>
  [[nodiscard]] std::shared_ptr<routine_base> find(Which which) {
    const std::scoped_lock lock(mutex);
    const auto found = std::ranges::find_if(followed, [&](const auto& each) { return which(*each); });
    return found != followed.end() ? *found : nullptr;
  }
  void note_gone(const resource_state& state) noexcept {
    const std::scoped_lock lock(mutex);
    for (noted_resources* each : noted) {
      if (std::ranges::find(each->all_, &state) == each->all_.end()) continue;
      each->let_go();
      each->is_one_gone_ = true;
    }
  }
  static bool has_all(const noted_resources& resources) noexcept { return !resources.is_one_gone_; }
};

void noted_resources::add(std::span<const binding> bindings) {
  auto& registry = routine_registry::get();
  const std::scoped_lock lock(registry.mutex);
  if (is_one_gone_) return;
  if (all_.empty() && std::ranges::find(registry.noted, this) == registry.noted.end())
    registry.noted.push_back(this);
  if (all_.capacity() - all_.size() < bindings.size())
    all_.reserve(std::max(2 * all_.size(), all_.size() + bindings.size()));
  for (const binding& b : bindings) {
    all_.push_back(b.state);
    b.state->routines.fetch_add(1, std::memory_order_relaxed);
  }
}

void noted_resources::let_go() noexcept {
  for (resource_state* r : all_) r->routines.fetch_sub(1, std::memory_order_release);
  all_.clear();
}

void noted_resources::clear() noexcept {
  auto& registry = routine_registry::get();
  const std::scoped_lock lock(registry.mutex);
  let_go();
  is_one_gone_ = false;
}

bool noted_resources::has_all() const noexcept {
  const std::scoped_lock lock(routine_registry::get().mutex);
  return routine_registry::has_all(*this);
}

noted_resources::~noted_resources() {
  clear();
  auto& registry = routine_registry::get();
  const std::scoped_lock lock(registry.mutex);
  std::erase(registry.noted, this);
}

bool begin_routine(const std::shared_ptr<routine_base>& routine, const noted_resources& resources) {
  auto& registry = routine_registry::get();
  const std::scoped_lock lock(registry.mutex);
  registry.followed.reserve(registry.followed.size() + 1);
  if (!routine_registry::has_all(resources) || !routine->begin()) return false;
  registry.followed.push_back(routine);
  return true;
}

void leave_routine(const routine_base& routine) noexcept {
  std::shared_ptr<routine_base> kept;  // not destroyed under the mutex
  auto& registry = routine_registry::get();
  const std::scoped_lock lock(registry.mutex);
  const auto found =
      std::ranges::find_if(registry.followed, [&](const auto& each) { return each.get() == &routine; });
  if (found == registry.followed.end()) return;
  kept = std::move(*found);
  registry.followed.erase(found);
}

void end_routine_of(const spin_lock& lock) noexcept {
  const auto holds = [&](const routine_base& r) { return r.holds(lock); };
  // All: one that has let go of the lock, and is about to leave, may stand before the one that has it by now.
  while (const auto found = routine_registry::get().find(holds)) found->end();
}

void end_routines_of(const resource_state& state) noexcept {
  auto& registry = routine_registry::get();
  registry.note_gone(state);
  while (const auto found = registry.find([&](const routine_base& r) { return r.uses(state); })) found->end();
}

void end_routines_of(const void* engine) noexcept {
  const auto is_its = [&](const routine_base& r) { return r.is_of(engine); };
  while (const auto found = routine_registry::get().find(is_its)) found->end();
}

void end_all_routines() noexcept {
  while (const auto found = routine_registry::get().find([](const routine_base&) { return true; }))
    found->end();
}

// ---- Of a thread.

alignas(64) constinit thread_local routine_here here;

namespace {

/// What it keeps until it ends.
struct thread_share {
  static constexpr std::size_t most = 32;
  struct entry {
    std::uint64_t number;
    std::shared_ptr<routine_base> routine;
  };
  routine_finder finder;
  std::vector<entry> followed;  // the last ones

  thread_share() { followed.reserve(most); }  // so that to keep one cannot fail
  ~thread_share() { here = {.is_ending = true}; }
  void note() noexcept {
    here.missed = 0;
    here.others = static_cast<std::uint32_t>(followed.size()) - (here.number != 0 ? 1 : 0);
  }
};
thread_share& share() {
  thread_local thread_share mine;
  return mine;
}

}  // namespace

routine_finder* make_finder() {
  if (!here.is_ending) here.finder = &share().finder;
  return here.finder;
}

void keep_followed(std::uint64_t number, std::shared_ptr<routine_base> routine) {
  thread_share& mine = share();
  std::erase_if(mine.followed, [&](const auto& e) { return e.number == number; });
  if (mine.followed.size() == thread_share::most) mine.followed.erase(mine.followed.begin());
  here.followed = routine.get();
  here.expected = nullptr;
  here.number = number;
  mine.followed.push_back({number, std::move(routine)});
  mine.note();
}

void forget_followed() noexcept {
  thread_share& mine = share();
  std::erase_if(mine.followed, [](const auto& e) { return e.number == here.number; });
  here.number = 0;
  here.followed = nullptr;
  here.expected = nullptr;
  mine.note();
}

bool turn_to_followed(std::uint64_t number) noexcept {
  thread_share& mine = share();
  const auto found = std::ranges::find(mine.followed, number, &thread_share::entry::number);
  const bool is_found = found != mine.followed.end();
  if (is_found) {
    here.number = number;
    here.followed = found->routine.get();
    here.expected = here.followed->noted();
  } else {
    std::erase_if(mine.followed,
                  [](const auto& e) { return e.routine->is_over() && e.number != here.number; });
  }
  mine.note();
  if (!is_found) here.missed = number;
  return is_found;
}

}  // namespace braid::detail
