#include "braid/detail/recording_session.hpp"

#include <new>
#include <unordered_map>
#include <utility>

#include "braid/detail/recorded.hpp"
#include "runtime/frame_memory.hpp"

namespace braid::detail {

spare_recorder::~spare_recorder() {
  delete kept_.load(std::memory_order_relaxed);
}

std::unique_ptr<recorder> spare_recorder::take(std::uint32_t streams) {
  // acquire: pairs with give()
  std::unique_ptr<recorder> kept(kept_.exchange(nullptr, std::memory_order_acquire));
  return kept ? std::move(kept) : std::make_unique<recorder>(streams);
}

void spare_recorder::give(std::unique_ptr<recorder> used) noexcept {
  try {
    if (!used->clear()) return;
  } catch (const std::bad_alloc&) {
    return;
  }
  delete kept_.exchange(used.release(), std::memory_order_acq_rel);  // release: pairs with take()
}

struct recording_session::state {
  state(spare_recorder& kept, std::uint32_t streams) : spare(kept), analysis(kept.take(streams)) {
    constexpr std::size_t few_ops = 64;
    made->sequence.reserve(few_ops);
    made->waits.reserve(few_ops);
    made->buffers.reserve(few_ops);
    made->memory = memory;
    buffers.reserve(2 * few_ops);
  }

  ~state() { spare.give(std::move(analysis)); }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  spare_recorder& spare;
  std::unique_ptr<recorder> analysis;
  std::shared_ptr<recorded_ops> made = std::make_shared<recorded_ops>();
  std::shared_ptr<frame_memory> memory = std::make_shared<frame_memory>();
  struct tracked {
    std::unique_ptr<buffer_core> written;  // tells what is written, by recorded ops as well; null: all
    recorded_place last_write;
  };
  std::unordered_map<buffer_core*, tracked> buffers;
  std::vector<std::uint64_t> ops_of;  // by part
};

recording_session::recording_session(spare_recorder& kept, std::uint32_t streams, std::uint32_t first)
    : state_(std::make_unique<state>(kept, streams)), rotation_(first) {}
recording_session::~recording_session() = default;

void recording_session::use(buffer_core& core, byte_range range, access kind) {
  const auto [at, is_new] = state_->buffers.try_emplace(&core);
  state::tracked& of = at->second;
  if (is_new) {
    core.refs.fetch_add(1, std::memory_order_relaxed);  // the caller holds a share
    state_->made->buffers.emplace_back(&core);
    if (!core.is_range_written({0, core.bytes})) {
      of.written = std::make_unique<buffer_core>(core.runtime, core.bytes, core.name);
      core.each_written([&](byte_range r) { of.written->note_written(r); });
    }
  }
  if (kind != access::write && of.written != nullptr && !of.written->is_range_written(range))
    throw_never_written(core, range);
}

void recording_session::keep(buffer_handle scratch) {
  state_->made->buffers.push_back(std::move(scratch));
}

std::optional<stream_id> recording_session::behind(std::span<buffer_core* const> used) const {
  for (buffer_core* core : used) {
    const recorded_place last = state_->buffers.at(core).last_write;
    if (last.index != 0 && state_->ops_of[last.part] == static_cast<std::uint64_t>(last.index))
      return state_->analysis->id_of(last.part);
  }
  return std::nullopt;
}

recorded_place recording_session::add(stream_id id, lane_id lane, std::span<const binding> bound,
                                      bool is_named, recorded_frame frame) {
  recorded_ops& made = *state_->made;
  const auto first_wait = static_cast<std::uint32_t>(made.waits.size());
  const recorded_place at = state_->analysis->add(lane, id, bound, made.waits);
  if (at.part == state_->ops_of.size()) state_->ops_of.push_back(0);
  state_->ops_of[at.part] = static_cast<std::uint64_t>(at.index);
  const auto waits = static_cast<std::uint32_t>(made.waits.size()) - first_wait;
  made.sequence.push_back({at, {first_wait, waits}, {}, is_named, std::move(frame)});
  return at;
}

void recording_session::note(buffer_core& core, byte_range range, access kind, recorded_place at) {
  if (kind == access::read) return;
  state::tracked& of = state_->buffers.at(&core);
  of.last_write = at;
  if (of.written == nullptr) return;
  of.written->note_written(range);
  state_->made->written.emplace_back(&core, range);
}

void* recording_session::room(lane_id lane, std::size_t size, std::size_t alignment) {
  return state_->memory->take(lane, size, alignment);
}

std::shared_ptr<recorded_ops> recording_session::finish() {
  state_->made->finish(*state_->analysis);
  return std::move(state_->made);
}

}  // namespace braid::detail
