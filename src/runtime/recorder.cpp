#include "braid/detail/recorder.hpp"

#include <algorithm>
#include <memory_resource>
#include <numeric>
#include <ranges>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "braid/detail/recorded.hpp"
#include "braid/multi_stream.hpp"

namespace braid::detail {

namespace {

/// Runs nothing: what it is told to wait for is read from the guard.
struct recorder_backend {
  struct stream {};
  struct event {};
  stream create_stream() { return {}; }
  event flush(stream&) { return {}; }
  void wait_event(stream&, const event&) {}
  void wait_event_sync(const event&) {}
  bool is_complete(const event&) { return true; }
  void wait_point(stream&, const stream&, std::uint64_t) {}
  bool is_point_complete(const stream&, std::uint64_t) { return true; }
  void wait_point_sync(const stream&, std::uint64_t) {}
};

bool contains(byte_range outer, byte_range inner) noexcept {
  return outer.offset <= inner.offset && inner.end() <= outer.end();
}
bool is_same(const replay_plan::use& a, const replay_plan::use& b) noexcept {
  return a.at.part == b.at.part && a.bound.kind == b.bound.kind && a.bound.tag == b.bound.tag &&
         a.bound.range.offset == b.bound.range.offset && a.bound.range.size == b.bound.range.size;
}
bool overwrites(access kind) noexcept {
  return kind == access::write || kind == access::read_write;
}

}  // namespace

struct recorder::state {
  /// What the sequence did to one resource so far.
  struct seen {
    seen(const resource_state& of, std::pmr::memory_resource* from)
        : shadow(of.size, of.name), overwritten(from), first(from), last(from) {
      first.reserve(4);
      last.reserve(4);
    }

    resource_state shadow;
    bool changed = false;
    std::pmr::vector<byte_range> overwritten;
    std::pmr::vector<replay_plan::use> first;
    std::pmr::vector<replay_plan::use> last;

    void note(recorded_place at, const binding& b);
    void note_first(const replay_plan::use& made);
  };

  explicit state(std::uint32_t streams)
      : engine({}, {.max_streams = streams,
                    .special_streams = 0,
                    .logger = std::make_shared<logger>(),
                    .marks = mark_policy::lazy,
                    .deterministic = true,
                    .ops_in_flight = 0,
                    .bytes_in_flight = 0}) {
    constexpr std::size_t few_ops = 64;
    given.reserve(few_ops);
    shadows.reserve(4 * few_ops);
    ids.reserve(4 * few_ops);
  }

  std::uint32_t part_of(lane_id lane, stream_id id) {
    const auto found =
        std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.lane == lane; });
    if (found != parts.end()) return static_cast<std::uint32_t>(found - parts.begin());
    parts.push_back({.lane = lane, .id = id});
    return static_cast<std::uint32_t>(parts.size() - 1);
  }

  struct resources_seen {
    explicit resources_seen(std::span<std::byte> room) : memory(room.data(), room.size()) {
      all.reserve(128);
    }
    std::pmr::monotonic_buffer_resource memory;
    std::pmr::unordered_map<resource_state*, seen> all{&memory};
  };
  [[nodiscard]] std::unique_ptr<resources_seen> make_about() const {
    return std::make_unique<resources_seen>(std::span(room.get(), room_size));
  }
  struct given_op {
    std::uint32_t part;
    std::uint32_t bindings;
  };
  /// Gives the op to the engine, in the sequence after this many. Returns its cursor.
  std::uint64_t give(given_op op, const binding* bound, std::vector<recorder::wait>& waits,
                     std::uint64_t sequences_before);

  static constexpr std::size_t room_size = std::size_t{64} * 1024;
  std::unique_ptr<std::byte[]> room = std::make_unique_for_overwrite<std::byte[]>(room_size);
  std::unique_ptr<resources_seen> about = make_about();
  std::vector<given_op> given;
  std::vector<binding> shadows;    // of all of them
  std::vector<std::uint64_t> ids;  // of the resources that these stand for
  std::vector<seen*> touched;      // by the op that is being added
  std::vector<replay_plan::part> parts;
  std::vector<std::uint64_t> before;  // by part: how many ops its stream had been given for sequences before
  multi_stream<recorder_backend, externally_synchronised> engine;
};

recorder::recorder(std::uint32_t streams) : state_(std::make_unique<state>(streams)) {}
recorder::~recorder() = default;

bool recorder::clear() {
  constexpr std::size_t many = 4096;
  constexpr std::size_t many_streams =
      256;  // each of which would have to forget what it waited for, each time
  state& s = *state_;
  if (s.given.size() > many || s.shadows.size() > 4 * many || s.parts.size() > many_streams) return false;
  s.about.reset();  // before its memory is used again
  s.about = s.make_about();
  s.given.clear();
  s.shadows.clear();
  s.ids.clear();
  s.parts.clear();
  s.before.clear();
  return s.engine.forget_synced();
}

recorded_place recorder::add(lane_id lane, stream_id id, std::span<const binding> bound,
                             std::vector<wait>& waits) {
  state& s = *state_;
  const std::size_t first = s.shadows.size();
  const std::size_t first_wait = waits.size();
  s.touched.clear();
  for (const binding& b : bound) {
    state::seen& of = s.about->all.try_emplace(b.state, *b.state, &s.about->memory).first->second;
    s.shadows.push_back({&of.shadow, b.kind, b.range, b.whole, b.tag});
    s.ids.push_back(b.state->id);
    s.touched.push_back(&of);
  }
  recorded_place at;
  at.part = s.part_of(lane, id);
  s.given.push_back({at.part, static_cast<std::uint32_t>(bound.size())});
  try {
    at.index = static_cast<std::int64_t>(s.give(s.given.back(), s.shadows.data() + first, waits, 0));
  } catch (...) {
    s.given.pop_back();
    if (s.parts.back().ops == 0) {  // it was made for this op
      s.parts.pop_back();
      s.before.resize(s.parts.size());
    }
    s.shadows.erase(s.shadows.begin() + static_cast<std::ptrdiff_t>(first), s.shadows.end());
    s.ids.resize(first);
    throw;
  }
  auto& part = s.parts[at.part];
  part.ops = static_cast<std::uint64_t>(at.index);
  for (std::size_t i = first_wait; i < waits.size(); ++i) ++part.waits[static_cast<unsigned>(waits[i].why)];
  for (std::size_t i = 0; i < bound.size(); ++i) s.touched[i]->note(at, bound[i]);
  return at;
}

std::uint64_t recorder::state::give(given_op op, const binding* bound, std::vector<recorder::wait>& waits,
                                    std::uint64_t sequences_before) {
  const auto guard = engine.resolve(stream_id{op.part}, std::span<const binding>(bound, op.bindings));
  if (op.part == before.size()) before.push_back(guard.cursor() - 1);
  for (const stream_wait& w : guard.waits().waits) {
    recorded_place on{static_cast<std::uint32_t>(w.origin.value), static_cast<std::int64_t>(w.cursor)};
    on.index -= static_cast<std::int64_t>(before[on.part] + sequences_before * parts[on.part].ops);
    const std::size_t at = static_cast<std::size_t>(bound - shadows.data()) + w.binding;
    waits.push_back({on, w.why, ids[at], w.binding});
  }
  return guard.cursor() - before[op.part];
}

stream_id recorder::id_of(std::uint32_t part) const noexcept {
  return state_->parts[part].id;
}

void recorder::state::seen::note(recorded_place at, const binding& b) {
  if (b.range.size == 0) return;
  const replay_plan::use made{at, b};
  const bool is_covered =
      std::any_of(overwritten.begin(), overwritten.end(), [&](byte_range r) { return contains(r, b.range); });
  if (!is_covered) note_first(made);
  // An overwrite takes the place of all before it there; else the newest of several like it stands for them.
  std::erase_if(last, [&](const replay_plan::use& u) {
    return overwrites(b.kind) ? contains(b.range, u.bound.range) : is_same(u, made);
  });
  last.push_back(made);
  changed = changed || b.kind != access::read;
  if (!overwrites(b.kind) || is_covered) return;
  std::erase_if(overwritten, [&](byte_range r) { return contains(b.range, r); });
  overwritten.push_back(b.range);
}

void recorder::state::seen::note_first(const replay_plan::use& made) {
  if (std::any_of(first.begin(), first.end(), [&](const auto& u) { return is_same(u, made); })) return;
  // The part waits for all that it needs before it begins: an overwrite needs what a reader does, and more.
  if (overwrites(made.bound.kind)) {
    std::erase_if(first, [&](const replay_plan::use& u) {
      return u.at.part == made.at.part && u.bound.kind == access::read &&
             contains(made.bound.range, u.bound.range);
    });
  }
  first.push_back(made);
}

replay_plan recorder::finish(std::vector<std::uint32_t>& numbers, std::vector<wait>& waits,
                             std::vector<std::uint32_t>& firsts) {
  state& s = *state_;
  std::vector<std::uint32_t> order(s.parts.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return s.parts[a].lane < s.parts[b].lane; });
  numbers.resize(order.size());
  replay_plan plan;
  plan.parts.reserve(order.size());
  for (std::uint32_t n = 0; n < order.size(); ++n) {
    numbers[order[n]] = n;
    plan.parts.push_back(s.parts[order[n]]);
  }
  std::vector<std::pair<resource_state*, const state::seen*>> sorted;
  sorted.reserve(s.about->all.size());
  for (const auto& [of, what] : s.about->all) {
    if (!what.last.empty()) sorted.emplace_back(of, &what);  // else no op has it, or no bytes of it
  }
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  plan.resources.reserve(sorted.size());
  plan.first.reserve(2 * sorted.size());
  plan.last.reserve(2 * sorted.size());
  for (const auto& [of, seen] : sorted) {
    const state::seen& what = *seen;
    plan.resources.push_back(
        {of, what.changed ? access::read_write : access::read, byte_range{0, of->size}, of->size != 0});
    for (replay_plan::use u : what.first) {
      u.at.part = numbers[u.at.part];
      plan.first.push_back(u);
    }
    for (replay_plan::use u : what.last) {
      u.at.part = numbers[u.at.part];
      u.is_changed = what.changed;
      plan.last.push_back(u);
    }
  }
  for (std::uint32_t a = 0; a < order.size(); ++a) {
    // Before the sequence is given once more: what is known after the first is known after each.
    s.engine.each_synced(stream_id{a}, [&](stream_id origin, std::uint64_t known) {
      const auto index = static_cast<std::int64_t>(known - s.before[origin.value]);
      plan.learned.push_back({numbers[a], {numbers[origin.value], index}});
    });
  }
  const binding* bound = s.shadows.data();
  for (const state::given_op& op : s.given) {
    firsts.push_back(static_cast<std::uint32_t>(waits.size()));
    s.give(op, bound, waits, 1);
    bound += op.bindings;
    for (std::size_t i = firsts.back(); i < waits.size(); ++i)
      ++plan.parts[numbers[op.part]].again[static_cast<unsigned>(waits[i].why)];
  }
  firsts.push_back(static_cast<std::uint32_t>(waits.size()));
  return plan;
}

void recorded_ops::finish(recorder& analysis) {
  constexpr std::uint32_t most_reads = 8;  // that are worth fetching while an op waits
  std::vector<std::uint32_t> numbers;
  std::vector<std::uint32_t> firsts;
  inner_waits = waits.size();
  plan = analysis.finish(numbers, waits, firsts);
  parts.resize(plan.parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].reserve(plan.parts[i].ops);
  for (recorder::wait& w : waits) w.on.part = numbers[w.on.part];
  for (std::uint32_t n = 0; n < sequence.size(); ++n) {
    described& each = sequence[n];
    each.at.part = numbers[each.at.part];
    each.again = {firsts[n], firsts[n + 1] - firsts[n]};
    recorded_op& op = parts[each.at.part].emplace_back(
        recorded_op{each.frame.get(), n, false, false, each.once, each.again});
    if (each.once.count + each.again.count == 0) continue;
    op.first_read = static_cast<std::uint32_t>(reads.size());
    for (const touched& t : each.frame->touches()) {
      if (t.base == nullptr || t.kind == access::write || op.reads == most_reads) continue;
      reads.push_back(t.base + t.begin);
      ++op.reads;
    }
  }
  for (const auto& part : parts) begins.push_back(begins.empty() ? 0 : begins.back() + (&part - 1)->size());
  for (const recorder::wait& w : waits)
    parts[w.on.part][place_of(w.on) - begins[w.on.part]].is_awaited = true;
  for (const replay_plan::use& u : plan.last)
    parts[u.at.part][static_cast<std::size_t>(u.at.index) - 1].is_last = true;
  for (auto& part : parts) part.back().is_last = true;
}

void recorded_ops::assign_marks() {
  if (waits.empty()) return;
  std::vector<shared_marks::op> all;
  all.reserve(sequence.size());
  std::vector<std::uint32_t> numbers(sequence.size());  // by place
  for (const described& each : sequence) {
    const recorded_op& op = parts[each.at.part][static_cast<std::size_t>(each.at.index) - 1];
    numbers[place_of(each.at)] = op.number;
    all.push_back({each.at.part, op.is_awaited, op.is_last});
  }
  // Of a part's marks so many serve who comes later.
  std::vector<std::uint32_t> kept(parts.size());
  for (shared_marks::op& op : std::views::reverse(all))
    op.keeps = op.keeps && op.is_awaited && kept[op.part]++ < most_kept_marks;
  for (std::uint32_t n = 0; n < sequence.size(); ++n) {
    for (const recorded_waits some : {sequence[n].once, sequence[n].again}) {
      for (const recorder::wait& w : std::span(waits).subspan(some.first, some.count)) {
        shared_marks::op& on = all[numbers[place_of(w.on)]];
        on.until = std::max(on.until, n);
        on.keeps = on.keeps || w.on.index <= 0;  // of the sequence before
      }
    }
  }
  shared_marks assigned(all, parts.size());
  for (std::uint32_t n = 0; n < sequence.size(); ++n) sequence[n].mark = assigned.of_op[n];
  for (const recorder::wait& w : waits) awaited_marks.push_back(assigned.of_op[numbers[place_of(w.on)]]);
  mark_parts = std::move(assigned.parts);
  std::vector<std::uint32_t> in_order(mark_parts.size());
  std::iota(in_order.begin(), in_order.end(), 0U);
  std::ranges::sort(in_order, {},
                    [&](std::uint32_t m) { return std::pair(mark_parts[m], assigned.last[m]); });
  for (std::size_t i = 0; i < in_order.size(); ++i) {
    const std::size_t newest = i + most_kept_marks;
    if (newest >= in_order.size() || mark_parts[in_order[newest]] != mark_parts[in_order[i]])
      last_marks.push_back(in_order[i]);
  }
}

void find_bindings(std::vector<stream_wait>& waits, std::span<const binding> bound) noexcept {
  for (stream_wait& w : waits) {
    const auto found =
        std::find_if(bound.begin(), bound.end(), [&](const binding& b) { return b.state->id == w.resource; });
    w.binding = static_cast<std::size_t>(found - bound.begin());
  }
}

replay_plan recorded_ops::as_one_command() const {
  std::vector<bool> is_named(parts.size());
  for (const described& each : sequence) is_named[each.at.part] = is_named[each.at.part] || each.is_named;
  const std::uint32_t first_part = sequence.front().at.part;
  replay_plan made;
  made.is_one_command = true;
  made.resources = plan.resources;
  for (std::uint32_t i = 0; i < parts.size(); ++i) {
    if (i == first_part) made.leader = static_cast<std::uint32_t>(made.parts.size());
    if (i != first_part && !is_named[i]) continue;
    auto& part = made.parts.emplace_back();
    part.lane = plan.parts[i].lane;
    part.id = plan.parts[i].id;
    part.ops = 1;
    part.waits[static_cast<unsigned>(hazard::user)] = i == first_part ? 0 : 1;
  }
  for (std::uint32_t i = 0; i < made.parts.size(); ++i) {
    if (i == made.leader) continue;
    made.learned.push_back({i, {made.leader, 1}});
    made.learned.push_back({made.leader, {i, 1}});
  }
  const auto add = [&](std::vector<replay_plan::use>& to, replay_plan::use u) {
    u.at = {made.leader, 1};
    for (auto known = to.rbegin(); known != to.rend() && known->bound.state == u.bound.state; ++known) {
      if (is_same(*known, u)) return;
    }
    to.push_back(u);
  };
  for (const auto& u : plan.first) add(made.first, u);
  for (const auto& u : plan.last) add(made.last, u);
  return made;
}

std::uint64_t recorded_ops::order_before() const noexcept {
  std::uint64_t order = last_order;
  // relaxed, here and below: as for an op that is submitted
  for (const buffer_handle& each : buffers)
    order = std::max(order, each->last_order.load(std::memory_order_relaxed));
  return order;
}

void recorded_ops::note_given(std::uint64_t last) const {
  last_order = last;
  for (const buffer_handle& each : buffers) each->last_order.store(last, std::memory_order_relaxed);
  for (const auto& [core, range] : written) core->note_written(range);
}

std::string recorded_ops::name() const {
  constexpr std::size_t most = 4;
  std::vector<std::string_view> names;
  for (const described& each : sequence) {
    const std::string& name = each.frame->label().name();
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    if (names.size() > most) break;
  }
  std::string text = "replay of " + std::to_string(sequence.size()) + " ops: ";
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text.append(i == 0 ? "" : ", ").append(names[i]);
  return names.size() > most ? text + ", ..." : text;
}

}  // namespace braid::detail
