#pragma once

// The bodies of basic_runtime's members that are no templates; part of runtime.hpp. Where the library has
// compiled them for a backend, a program need not.

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <vector>

#include "braid/detail/multi_stream_class.hpp"
#include "braid/detail/pool.hpp"
#include "braid/detail/runtime_class.hpp"

namespace braid {

/// Tells a trace how long the program stood still.
template <runtime_backend B>
struct basic_runtime<B>::traced_host_wait {
  explicit traced_host_wait(const basic_runtime& runtime, detail::op_point op = {}) noexcept
      : of(runtime), on(op) {
    if (!of.is_traced()) [[likely]]
      return;
    began = detail::trace_now();
    used = detail::trace_thread_time();
  }
  ~traced_host_wait() {
    if (began != 0) [[unlikely]]
      detail::trace_host_wait(of.trace_number(), on, began, used);
  }
  traced_host_wait(const traced_host_wait&) = delete;
  traced_host_wait& operator=(const traced_host_wait&) = delete;
  const basic_runtime& of;
  detail::op_point on;
  std::int64_t began = 0;
  std::int64_t used = 0;
};

template <runtime_backend B>
basic_runtime<B>::basic_runtime(B backend, runtime_options options)
    : runtime_base(options.logger ? options.logger : logger::process()),
      placement_(options.placement.value_or(detail::process_defaults().placed)),
      deterministic_(options.deterministic.value_or(detail::process_defaults().deterministic)),
      width_(options.streams.value_or(detail::process_defaults().max_streams)),
      streams_(width_ + detail::process_defaults().special_streams) {
  const std::uint32_t most = width_;
  if constexpr (requires { backend.useful_streams(); }) width_ = std::min(width_, backend.useful_streams());
  if (options.memory) {
    pools_.push_back(std::make_unique<detail::pool>(options.memory, pool_options_of(options)));
  } else {
    for (auto& memory : memories_of(backend)) {
      pools_.push_back(std::make_unique<detail::pool>(std::move(memory), pool_options_of(options)));
    }
  }
  staging_ = std::make_unique<detail::pool>(backend.staging(), pool_options_of(options));
  engine_ = std::make_unique<engine_type>(std::move(backend),
                                          multi_stream_options{.max_streams = options.streams,
                                                               .special_streams = {},
                                                               .logger = options.logger,
                                                               .marks = options.marks,
                                                               .deterministic = options.deterministic,
                                                               .ops_in_flight = options.ops_in_flight,
                                                               .bytes_in_flight = options.bytes_in_flight});
  std::string backend_name;
  std::uint32_t workers = 0;
  if constexpr (requires { B::name; }) backend_name = B::name;
  if constexpr (requires { engine_->backend().workers(); }) workers = engine_->backend().workers();
  enter_traces(std::move(backend_name), workers, most, width_, to_string(placement_),
               [this] { return memory().live; });
  for (const auto& each : pools_) each->trace_as(trace_number());
  link_ = detail::runtime_link::open(*this);
}

template <runtime_backend B>
basic_runtime<B>::~basic_runtime() {
  const bool is_of_parent = is_orphaned();
  leave_traces(is_of_parent);
  if (is_of_parent) {
    // A child of fork() has neither the threads nor the device, and what was locked when it began stays so:
    // there is nothing to finish.
    (void)engine_.release();
    for (auto& each : pools_) (void)each.release();
    (void)staging_.release();
    link_.close();
    return;
  }
  // While the engine finishes its work, what follows that work still finds the engine here.
  engine_.get_deleter()(engine_.get());
  (void)engine_.release();
  link_.close();
}

template <runtime_backend B>
detail::pool_options basic_runtime<B>::pool_options_of(const runtime_options& options) {
  detail::pool_options made;
  made.limit = options.memory_limit.value_or(detail::process_defaults().memory_limit);
  made.deterministic = deterministic_;
  made.order = options.reuse.value_or(default_reuse_order);
  made.is_complete = [this](const detail::point& p) {
    if (engine_ == nullptr) return true;
    if constexpr (requires { B::runs_bodies_when_asked; }) {
      if (!detail::is_foreign(p.lane)) return engine_->is_known_over(p.lane, p.cursor);
    }
    return engine_->is_over(p.lane, p.cursor);
  };
  made.is_known_complete = [this](const detail::point& p) {
    return engine_ == nullptr || (!detail::is_foreign(p.lane) && engine_->is_known_over(p.lane, p.cursor));
  };
  made.lane_name = [this](detail::lane_id lane) {
    return detail::is_foreign(lane) ? std::string("foreign") : to_string(engine_->id_of(lane));
  };
  made.log = log_;
  return made;
}

// ---- Through the engine.

template <runtime_backend B>
B& basic_runtime<B>::backend() noexcept {
  return engine_->backend();
}

template <runtime_backend B>
detail::lane_id basic_runtime<B>::lane_of(stream_id id) {
  return engine_->lane_of(id);
}

template <runtime_backend B>
detail::lane_id basic_runtime<B>::lane_in(void* engine, stream_id id) {
  return static_cast<engine_type*>(engine)->lane_of(id);
}

template <runtime_backend B>
void basic_runtime<B>::own(std::span<const binding> bound) {
  for (const binding& b : bound) engine_->own(b);
}

template <runtime_backend B>
void basic_runtime<B>::retire_after(detail::retired object, stream_id after) {
  expect_process();
  engine_->retire(std::move(object), after);
}

template <runtime_backend B>
void basic_runtime<B>::admit(detail::lane_id lane) {
  if constexpr (requires { engine_->backend().admit(engine_->stream_of(lane)); }) {
    engine_->backend().admit(engine_->stream_of(lane));
  }
}

template <runtime_backend B>
void basic_runtime<B>::wait_for(stream_id stream, const typename B::event& event) {
  expect_outside_body("wait_for()");
  expect_process();
  admit(engine_->lane_of(stream));
  if constexpr (requires { engine_->backend().admit(event); }) engine_->backend().admit(event);
  engine_->wait_for(stream, event);
}

template <runtime_backend B>
void basic_runtime<B>::adopt(stream_id stream, typename B::stream native) {
  expect_process();
  engine_->adopt(stream, std::move(native));
  const std::scoped_lock lock(adopted_mutex_);
  adopted_lanes_.push_back(engine_->lane_of(stream));
  has_adopted_lanes_.store(true, std::memory_order_release);  // pairs with may_place()
}

template <runtime_backend B>
void basic_runtime<B>::wait(stream_id stream) {
  expect_outside_body("wait()");
  expect_process();
  const traced_host_wait traced(*this);
  engine_->wait(stream);
}

template <runtime_backend B>
void basic_runtime<B>::synchronize() {
  expect_outside_body("synchronize()");
  expect_process();
  const traced_host_wait traced(*this);
  engine_->wait_all();
  forget_cancels();
}

template <runtime_backend B>
shutdown_report basic_runtime<B>::shutdown(std::chrono::milliseconds timeout) {
  expect_outside_body("shutdown()");
  expect_process();
  return engine_->shutdown(timeout);
}

template <runtime_backend B>
runtime_stats basic_runtime<B>::stats() const {
  expect_process();
  return {engine_->stats(), memory(), staging_->usage(), failed(), skipped(), cancelled()};
}

// ---- An op is given.

/// Its stream is aligned; it is told to a trace.
template <runtime_backend B>
[[gnu::always_inline]] inline resolved_streams<B> basic_runtime<B>::begin(stream_id id, detail::lane_id lane,
                                                                          const detail::label_ref& label,
                                                                          std::span<const binding> bound,
                                                                          bool is_named) {
  const std::int64_t submitted = is_traced() ? detail::trace_now() : 0;
  if constexpr (requires { engine_->backend().admit(engine_->stream_of(lane)); }) {
    engine_->backend().admit(engine_->stream_of(lane));
  }
  // Points need no marks: there is nothing to learn.
  auto guard = engine_->resolve(lane, id, point_backend<B> ? nullptr : label.lasting(), bound);
  if (submitted != 0) [[unlikely]] {
    detail::trace_op({trace_number(), lane, id, guard.cursor(), label.name(), submitted, is_named}, bound,
                     guard.waits().waits, &lane_in, engine_.get());
  }
  return guard;
}

template <runtime_backend B>
[[gnu::flatten, gnu::hot]] auto basic_runtime<B>::give_now(stream_id id, detail::lane_id lane,
                                                           detail::any_frame& op,
                                                           const detail::label_ref& label,
                                                           std::span<const binding> bound, bool is_named)
    -> given_now
  requires detail::enqueueing_backend<B>
{
  auto guard = begin(id, lane, label, bound, is_named);
  given_now given{nullptr, nullptr, guard.cursor(), detail::op_rank(lane, ++detail::last_order)};
  if constexpr (detail::plainly_enqueueing<B>) {
    if (const auto* on = B::plain_native(guard.current())) [[likely]] {
      B::note_begin(guard.current(), given.cursor, label.lasting());
      given.native = on;
      given.slot = &engine_type::keep_open(guard);
      return given;
    }
  }
  engine_->backend().launch(guard.current(), given.cursor, detail::frame_call{this, &op, label, given.rank});
  return given;
}

inline detail::plain_note::plain_note(const runtime_link& runtime, void* on_slot, stream_id on, op_label& of,
                                      const plain_arguments& args)
    : home(runtime),
      slot(on_slot),
      id(on),
      shape(args.count),
      name(of.name().data()),
      size(of.name().size()),
      label(&of) {
  if (args.count > few.size()) many = std::make_unique<argument[]>(args.count);
  arguments = many ? many.get() : few.data();
  for (std::uint32_t i = 0; i < args.count; ++i) {
    const binding& b = args.bound[i];
    (many ? many[i] : few[i]) = {args.cores[i], b.range, args.data[i]};
    shape = shape << 2 | static_cast<std::uint64_t>(b.kind);  // as shape_of()
  }
}

// Whatever is unusual is left to the other way, which also says what is wrong. Hot, as those below: else g++
// takes an op that has to wait for unlikely, and copies what it needs for that with `rep movs`.
template <runtime_backend B>
[[gnu::flatten, gnu::hot]] bool basic_runtime<B>::begin_plain(const stream_id* where, std::string_view text,
                                                              const detail::plain_arguments& args,
                                                              given_plainly& given)
  requires detail::plainly_enqueueing<B>
{
  if (detail::running_body != nullptr || is_traced()) [[unlikely]]
    return false;
  stream_id id;
  if (where != nullptr) {
    id = *where;
  } else if (!place_plain(args, id)) [[unlikely]] {
    return false;
  }
  detail::slot<B>* on = engine_->find_used(id);
  if (on == nullptr) [[unlikely]] {
    if (is_orphaned()) return false;
    (void)engine_->lane_of(id);  // makes the stream
    on = engine_->find_used(id);
    if (on == nullptr) return false;
  }
  const auto* const native = B::plain_native(on->stream);
  if (native == nullptr) [[unlikely]]
    return false;
  engine_->backend().admit(on->stream);
  std::uint64_t order = detail::last_order;
  std::byte** data = args.data;
  detail::buffer_core* const* next = args.cores;
  for (binding& b : std::span(args.bound, args.count)) {
    detail::buffer_core* const core = *next++;
    if (core == nullptr || !(core->runtime == link_)) [[unlikely]]
      return false;
    detail::block* memory = core->memory.load(std::memory_order_acquire);  // pairs with take_memory()
    if (memory == nullptr) {
      if (b.kind != access::write) [[unlikely]]
        return false;
      memory = take_memory(*core, on->lane);
    } else if (!core->is_written.load(std::memory_order_acquire) && b.kind != access::write) [[unlikely]] {
      return false;  // perhaps a part of it is
    }
    b.state = memory;
    b.whole = b.range.size != 0 && b.range.size == core->bytes;
    *data++ = memory->data + b.range.offset;
    look_at_order_of(*core, order);
  }
  if (pools_.size() > 1 && find_unreachable(on->lane, {args.cores, args.count}) != nullptr) [[unlikely]]
    return false;
  op_label* const label = detail::label_ref::lasting_of(text);
  if (label == nullptr) [[unlikely]]
    return false;
  auto guard = engine_->resolve(*on, id, label, {args.bound, args.count});
  detail::last_order = ++order;
  const std::uint64_t cursor = guard.cursor();
  detail::buffer_core* const* core = args.cores;
  for (const binding& b : std::span(args.bound, args.count)) {
    if (b.kind != access::read) (*core)->note_written(b.range);
    ++core;
  }
  if (engine_type::is_followed(*on)) [[unlikely]]
    engine_->note_open(*on, std::make_unique<detail::plain_note>(link_, on, id, *label, args));
  B::note_begin(on->stream, cursor, label);
  (void)engine_type::keep_open(guard);  // nothing throws from here on
  given.slot = on;
  given.native = native;
  given.label = label;
  given.order = order;
  given.point = detail::op_point(on->lane, cursor);
  given.is_watched = needs_attention();
  return true;
}

template <runtime_backend B>
const detail::plain_note* basic_runtime<B>::turn_to_expected() const noexcept {
  return engine_->is_following() ? static_cast<const detail::plain_note*>(detail::here.expected) : nullptr;
}

template <runtime_backend B>
[[gnu::flatten, gnu::hot]] bool basic_runtime<B>::follow_plain(const detail::plain_note& note,
                                                               given_plainly& given)
  requires detail::plainly_enqueueing<B>
{
  if (detail::running_body != nullptr || is_traced()) [[unlikely]]
    return false;
  auto& on = *static_cast<detail::slot<B>*>(note.slot);
  const auto* const native = B::plain_native(on.stream);
  if (native == nullptr || !engine_->follow_next(on)) [[unlikely]]
    return false;
  B::note_begin(on.stream, on.cursor, note.label);
  given.slot = &on;
  given.native = native;
  given.label = note.label;
  given.order = ++detail::last_order;
  given.point = detail::op_point(on.lane, on.cursor);
  given.is_watched = needs_attention();
  return true;
}

template <runtime_backend B>
[[gnu::noinline]] bool basic_runtime<B>::place_plain(const detail::plain_arguments& args, stream_id& id) {
  constexpr std::uint32_t few = 16;
  if (args.count > few || is_orphaned()) return false;
  detail::op_point before[2 * few];
  detail::op_point* end = before;
  for (std::uint32_t i = 0; i < args.count; ++i) {
    detail::buffer_core* const core = args.cores[i];
    if (core == nullptr || !(core->runtime == link_)) return false;
    if (args.bound[i].kind != access::write && !core->is_written.load(std::memory_order_acquire))
      return false;
    add_points_of(*args.cores[i], args.bound[i].kind, end);
  }
  id = place({before, end}, {args.cores, args.count});
  return true;
}

namespace detail {

/// What the op touches, in words. Of few arguments without an allocation, which may fail.
class touches_of {
 public:
  explicit touches_of(const plain_arguments& args) {
    if (args.count > few_.size()) many_.resize(args.count);
    all_ = {args.count > few_.size() ? many_.data() : few_.data(), args.count};
    for (std::uint32_t i = 0; i < args.count; ++i) {
      const binding& b = args.bound[i];
      // Of an op of a routine the binding has no resource; the memory is the same as long as the buffer
      // lives.
      all_[i] = {args.cores[i]->memory.load(std::memory_order_acquire),
                 args.data[i] - b.range.offset,
                 b.range.offset,
                 b.range.end(),
                 b.kind,
                 b.tag,
                 false};
    }
  }
  touches_of(const touches_of&) = delete;
  touches_of& operator=(const touches_of&) = delete;
  operator std::span<const touched>() const noexcept { return all_; }

 private:
  std::array<touched, 8> few_;
  std::vector<touched> many_;
  std::span<touched> all_;
};

}  // namespace detail

template <runtime_backend B>
bool basic_runtime<B>::refuse_plain(const given_plainly& op, const detail::plain_arguments& args)
  requires detail::plainly_enqueueing<B>
{
  try {
    return refuse(op.info(), detail::touches_of(args)) != nullptr;
  } catch (...) {
    end_plain(op);  // no memory: it stays as an op without work
    throw;
  }
}

template <runtime_backend B>
void basic_runtime<B>::note_plain(const given_plainly& op, const detail::plain_arguments& args,
                                  const std::exception_ptr& thrown) noexcept
  requires detail::plainly_enqueueing<B>
{
  if (thrown) {
    fail(op.info(), detail::touches_of(args), thrown);
  } else {
    heal(detail::touches_of(args));
  }
}

template <runtime_backend B>
[[gnu::flatten, gnu::hot]] void basic_runtime<B>::end_plain(const given_plainly& op) noexcept
  requires detail::plainly_enqueueing<B>
{
  B::note_end(op.slot->stream, op.point.cursor());
  engine_->commit_kept(*op.slot);
}

template <runtime_backend B>
void basic_runtime<B>::end_now(const given_now& op) noexcept
  requires detail::plainly_enqueueing<B>
{
  B::note_end(op.slot->stream, op.cursor);
  engine_->commit_kept(*op.slot);
}

// ---- Of runtime_base.

template <runtime_backend B>
bool basic_runtime<B>::is_over(detail::op_point op) {
  expect_process();
  return engine_->is_over(op.lane(), op.cursor());
}

template <runtime_backend B>
std::exception_ptr basic_runtime<B>::device_failure([[maybe_unused]] const std::exception_ptr& thrown) {
  if constexpr (requires { engine_->backend().note_thrown(thrown); }) engine_->backend().note_thrown(thrown);
  if constexpr (requires { engine_->backend().failure(); }) {
    return engine_->backend().failure();
  } else {
    return nullptr;
  }
}

template <runtime_backend B>
void basic_runtime<B>::expect_device() const {
  if constexpr (requires { engine_->backend().failure(); }) {
    if (const std::exception_ptr lost = engine_->backend().failure()) std::rethrow_exception(lost);
  }
}

template <runtime_backend B>
bool basic_runtime<B>::is_orphaned() const noexcept {
  if constexpr (requires { engine_->backend().is_orphaned(); }) {
    return engine_->backend().is_orphaned();
  } else {
    return false;
  }
}

template <runtime_backend B>
void basic_runtime<B>::expect_process() const {
  if (is_orphaned()) [[unlikely]]
    expect_device();
}

template <runtime_backend B>
void basic_runtime<B>::post(detail::retired object) {
  engine_->post(std::move(object));
}

template <runtime_backend B>
void basic_runtime<B>::wait_for(detail::op_point op) {
  const traced_host_wait traced(*this, op);
  engine_->wait(op.lane(), op.cursor());
}

template <runtime_backend B>
void basic_runtime<B>::wait_while(const std::atomic<std::uint32_t>& word, std::uint32_t old) {
  const traced_host_wait traced(*this);
  if constexpr (requires { engine_->backend().help_while(word, old); }) {
    engine_->backend().help_while(word, old);
  } else {
    if constexpr (requires { B::runs_bodies_when_asked; }) engine_->wait_all();
    word.wait(old, std::memory_order_acquire);
  }
}

template <runtime_backend B>
void basic_runtime<B>::notify(std::atomic<std::uint32_t>& word) noexcept {
  if constexpr (requires { engine_->backend().help_while(word, 0); }) {
    engine_->backend().notify(word);
  } else {
    word.notify_all();
  }
}

template <runtime_backend B>
void basic_runtime<B>::release(detail::buffer_core& dead) noexcept {
  if (is_orphaned()) [[unlikely]]
    return;
  detail::block* memory = dead.memory.load(std::memory_order_acquire);  // pairs with take_memory()
  if (memory == nullptr) return;
  if (memory->routines.load(std::memory_order_acquire) != 0) detail::end_routines_of(*memory);
  memory->is_owned.store(false, std::memory_order_relaxed);  // read by ops that fail, under their mutex
  if (needs_attention()) report_unasked(*memory);
  if (memory->is == detail::block::kind::adopted) release_adopted(dead, *memory);
  memory->home->give(memory);
}

// The owner of adopted memory goes soon after the last op on it.
template <runtime_backend B>
void basic_runtime<B>::release_adopted(detail::buffer_core& dead, detail::block& memory) noexcept {
  {
    const std::scoped_lock lock(adopted_mutex_);
    adopted_.remove(memory.data, dead.bytes);
  }
  if (dead.owner.use_count() == 0) return;
  try {
    memory.past.all([&](const detail::point& p) { engine_->retire(detail::retired::of(dead.owner), p); });
  } catch (const usage_error&) {
    // Shut down: all work is over.
  } catch (const std::exception&) {
    engine_->wait_all();  // out of memory: the owner goes at once, and may not go earlier
  }
}

// ---- Buffers.

template <runtime_backend B>
detail::buffer_handle basic_runtime<B>::make_core(std::uint64_t bytes, std::string_view name) {
  return detail::buffer_handle(new detail::buffer_core(link_, bytes, name));
}

template <runtime_backend B>
detail::buffer_handle basic_runtime<B>::adopt_core(void* data, std::uint64_t bytes, std::string_view name,
                                                   std::shared_ptr<void> owner) {
  if (data == nullptr) detail::throw_null_memory(name);
  expect_process();
  const auto* begin = static_cast<const std::byte*>(data);
  detail::buffer_handle made = make_core(bytes, name);
  {
    const std::scoped_lock lock(adopted_mutex_);
    adopted_.add(begin, bytes, name);
  }
  try {
    if constexpr (requires { engine_->backend().reach(data, bytes); }) {
      // Kept with the owner, until the work on it is over.
      owner = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(
          engine_->backend().reach(data, bytes), std::move(owner));
    }
    detail::block* memory = pools_[device_of_memory(data)]->adopt(data, bytes);
    memory->name = name;
    if constexpr (requires { engine_->backend().is_of_all_devices(data); }) {
      memory->is_of_all_devices = pools_.size() > 1 && engine_->backend().is_of_all_devices(data);
    }
    memory->is_owned.store(true, std::memory_order_relaxed);
    made->owner = std::move(owner);
    made->is_written.store(true, std::memory_order_relaxed);
    made->memory.store(memory, std::memory_order_release);  // pairs with memory_of()
  } catch (...) {
    const std::scoped_lock lock(adopted_mutex_);
    adopted_.remove(begin, bytes);
    throw;
  }
  return made;
}

template <runtime_backend B>
void basic_runtime<B>::wait_for_buffer(detail::buffer_core* core) {
  expect_outside_body("wait()");
  expect_process();
  expect_ours(core);
  detail::block* memory = core->memory.load(std::memory_order_acquire);  // pairs with take_memory()
  if (memory == nullptr) return;
  engine_->wait(*memory);
  if (!needs_attention()) [[likely]]
    return;
  // Only what this buffer wrote: the rest of the memory may carry what became of a previous owner's ops.
  detail::failure_ptr first;
  core->each_written([&](byte_range r) {
    auto why = failure_of(*memory, r.offset, r.end());
    if (why && (!first || why->order < first->order)) first = std::move(why);
  });
  if (first) first->raise();
}

template <runtime_backend B>
detail::held_list basic_runtime<B>::hold_list(detail::lane_id lane, const bindings& list,
                                              std::vector<binding>& bound) {
  detail::held_list held;
  for (const auto& item : list.items_) {
    detail::block* memory = memory_of(*item.handle.get(), lane);
    held.all.push_back(
        {memory, memory->data, item.range.offset, item.range.end(), item.kind, item.tag, false});
    held.views.emplace_back(memory->data + item.range.offset, item.range.size);
    bound.push_back({memory, item.kind, item.range,
                     item.range.size != 0 && item.range.size == item.handle->bytes, item.tag});
  }
  return held;
}

// ---- Memory.

template <runtime_backend B>
std::size_t basic_runtime<B>::device_of_memory([[maybe_unused]] const void* data) const noexcept {
  if constexpr (requires { engine_->backend().device_of_memory(data); }) {
    if (pools_.size() > 1) return engine_->backend().device_of_memory(data);
  }
  return 0;
}

template <runtime_backend B>
detail::pool& basic_runtime<B>::pool_of(detail::lane_id lane) noexcept {
  if constexpr (requires { engine_->backend().device_of(engine_->stream_of(lane)); }) {
    if (pools_.size() > 1) return *pools_[engine_->backend().device_of(engine_->stream_of(lane))];
  }
  return *pools_.front();
}

template <runtime_backend B>
std::vector<std::shared_ptr<memory_source>> basic_runtime<B>::memories_of(B& backend) {
  if constexpr (requires { backend.memories(); }) {
    return backend.memories();
  } else {
    return {backend.memory()};
  }
}

template <runtime_backend B>
detail::block* basic_runtime<B>::take_memory(detail::buffer_core& core, detail::lane_id lane) {
  const std::lock_guard<detail::spin_lock> lock(core.lock);
  if (detail::block* found = core.memory.load(std::memory_order_relaxed)) return found;
  detail::block* taken = take_block(lane, std::max<std::uint64_t>(1, core.bytes));
  taken->home->note_owner(*taken, core.name);
  taken->is_owned.store(true, std::memory_order_relaxed);
  core.memory.store(taken, std::memory_order_release);  // pairs with memory_of()
  return taken;
}

template <runtime_backend B>
detail::block* basic_runtime<B>::take_block(detail::lane_id lane, std::uint64_t bytes) {
  std::optional<detail::stamp_handle> known;  // asked for at the first question
  const auto is_ordered = [&](const detail::point& p) {
    if (!known) known.emplace(engine_->knowledge_of(lane));
    return (*known)->covers(p.lane, p.cursor);
  };
  detail::pool& from = pool_of(lane);
  try {
    return from.take(lane, bytes, is_ordered);
  } catch (const out_of_memory&) {
    // That may be why: a source of the program's does not tell.
    if constexpr (requires { engine_->backend().look_for_loss(); }) engine_->backend().look_for_loss();
    expect_device();
    // What is still in use cannot be merged: wait for it, and try once more.
    engine_->wait_all();
    (void)from.trim(std::numeric_limits<std::uint64_t>::max());
    return from.take(lane, bytes, is_ordered);
  }
}

template <runtime_backend B>
detail::block* basic_runtime<B>::take_scratch(detail::lane_id lane, std::uint64_t bytes) {
  detail::block* taken = take_block(lane, std::max<std::uint64_t>(1, bytes));
  taken->home->note_owner(*taken, "scratch");
  taken->is_passing = true;
  return taken;
}

template <runtime_backend B>
detail::block* basic_runtime<B>::take_stage(detail::lane_id lane, std::uint64_t bytes) {
  const auto is_complete = [&](const detail::point& p) {
    return deterministic_ && !detail::is_foreign(p.lane) ? engine_->is_known_over(p.lane, p.cursor)
                                                         : engine_->is_over(p.lane, p.cursor);
  };
  bytes = std::max<std::uint64_t>(1, bytes);
  detail::block* taken = staging_->take_idle(lane, bytes, is_complete);
  for (detail::backoff pause; taken == nullptr; pause.pause()) {
    const memory_usage before = staging_->usage();
    engine_->wait_all();
    open_reads_.wait();
    taken = staging_->take_idle(lane, bytes, is_complete);
    if (taken != nullptr) break;
    // A stage has an owner for the time of one read or write only: those of others come back.
    if (before.live_blocks != 0 && bytes <= before.limit) continue;
    expect_device();
    throw out_of_memory(bytes, "staging", staging_->usage(), staging_->last_error());
  }
  taken->name = "staging";
  taken->is_passing = true;
  return taken;
}

template <runtime_backend B>
memory_usage basic_runtime<B>::memory() const {
  memory_usage sum = pools_.front()->usage();
  for (std::size_t i = 1; i < pools_.size(); ++i) sum += pools_[i]->usage();
  return sum;
}

template <runtime_backend B>
std::uint64_t basic_runtime<B>::trim(std::uint64_t keep) {
  expect_process();
  std::uint64_t went = staging_->trim(0);
  for (const auto& each : pools_) went += each->trim(keep / pools_.size());
  return went;
}

}  // namespace braid
