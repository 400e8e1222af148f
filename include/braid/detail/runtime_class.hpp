#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "braid/buffer.hpp"
#include "braid/detail/multi_stream_fwd.hpp"
#include "braid/detail/op_frame.hpp"
#include "braid/detail/open_reads.hpp"
#include "braid/detail/pack.hpp"
#include "braid/detail/recording_session.hpp"
#include "braid/detail/routine.hpp"
#include "braid/detail/runtime_base.hpp"
#include "braid/detail/time.hpp"
#include "braid/detail/trace_hooks.hpp"
#include "braid/future.hpp"
#include "braid/memory.hpp"
#include "braid/policies.hpp"
#include "braid/recording.hpp"
#include "braid/shutdown_report.hpp"
#include "braid/stream_stats.hpp"

// runtime.hpp without the engine and without the bodies of members that are no templates: where the library
// has compiled them for a backend, a program need not.

namespace braid {

/// What is not set comes from the settings of the process: environment, braid.toml, defaults.
struct runtime_options {
  std::optional<std::uint32_t> streams{};
  /// On the CPU: how many threads run ops, a thread of the program that waits being one of them: so one
  /// less is started, but at least one. Default: the cores of this process.
  std::optional<unsigned> workers{};
  std::optional<bool> pin_workers{};  ///< on the CPU: each to a core of its own
  std::optional<braid::placement> placement{};
  std::optional<bool> deterministic{};
  std::optional<mark_policy> marks{};
  std::optional<std::uint64_t> ops_in_flight{};    ///< 0: no limit
  std::optional<std::uint64_t> bytes_in_flight{};  ///< 0: no limit
  std::optional<std::uint64_t> memory_limit{};     ///< on what the pool reserves; 0: no limit
  std::optional<reuse_order> reuse{};
  std::shared_ptr<memory_source> memory{};  ///< where the pool takes memory from; null: the device's own
  /// On CUDA: the ordinals of the devices that are used, in turn by the streams. Default: the first.
  std::vector<int> devices{};
  /// On CUDA: of the streams in turn; a lower number goes first. Default: all the lowest.
  std::vector<int> priorities{};
  std::optional<bool> nvtx{};  ///< on CUDA: ranges with the labels of ops, for NVIDIA's profilers
  /// On OpenCL: its number, or a part of what it is called: see opencl::device_for(). On CUDA: its number.
  std::string device{};
  /// On OpenCL: memory at addresses that host and device share, where the device has it. Default: on NVIDIA's
  /// platform only.
  std::optional<bool> shared_virtual_memory{};
  std::shared_ptr<braid::logger> logger{};
};

struct runtime_stats {
  stream_stats streams;
  memory_usage memory;
  memory_usage staging;         ///< of read and write on the host's side
  std::uint64_t failed = 0;     ///< ops whose body threw
  std::uint64_t skipped = 0;    ///< ops that did not run because what they read was poisoned
  std::uint64_t cancelled = 0;  ///< ops that did not run because they were cancelled
};

struct zeroed_t {
  explicit zeroed_t() = default;
};
/// make_buffer<T>(n, zeroed): all bytes are 0, and count as written.
inline constexpr zeroed_t zeroed{};

/// What a runtime needs of its backend beside streams.
template <class B>
concept runtime_backend = event_stream_backend<B> && requires(B& b) {
  { b.memory() } -> std::same_as<std::shared_ptr<memory_source>>;
  { b.staging() } -> std::same_as<std::shared_ptr<memory_source>>;
};

/// An op that was submitted: two words and a number, which may be thrown away.
class submission {
 public:
  submission() noexcept = default;
  submission(detail::runtime_link runtime, detail::op_point op) noexcept : runtime_(runtime), op_(op) {}

  [[nodiscard]] bool is_over() const {
    detail::runtime_base* home = runtime_.get();
    return home == nullptr || home->is_over(op_);
  }
  /// Blocks until the op is over. Throws op_error if it failed, was skipped or was cancelled (of the last
  /// 65,536 such ops; data keeps its error for as long as it lives).
  void wait() const {
    detail::runtime_base& home = runtime_.expect("wait()");
    home.expect_outside_body("wait()");
    home.wait_for(op_);
    if (const auto why = home.failure_of(op_)) why->raise();
  }
  /// An op that has not begun does not run: what it would have written is poisoned, with an error that says
  /// so. Returns false if the op is over; true means that it was asked for, wait() tells what happened.
  bool cancel() const {
    detail::runtime_base* home = runtime_.get();
    return home != nullptr && home->cancel(op_);
  }
  [[nodiscard]] detail::op_point op() const noexcept { return op_; }

 private:
  detail::runtime_link runtime_;
  detail::op_point op_;
};

/// Bindings whose number is not known when the program is compiled. The body gets a span of `view`, in the
/// order of the bindings.
class bindings {
 public:
  template <class T, access Kind>
  bindings& add(const detail::buffer_argument<T, Kind>& b) {
    items_.push_back({share(b.core), b.range(), Kind, b.tag});
    return *this;
  }
  [[nodiscard]] std::size_t size() const noexcept { return items_.size(); }
  void clear() noexcept { items_.clear(); }

 private:
  template <runtime_backend B>
  friend class basic_runtime;
  struct item {
    detail::buffer_handle handle;
    byte_range range;
    access kind;
    std::uint32_t tag;
  };
  static detail::buffer_handle share(detail::buffer_core* core) noexcept {
    if (core != nullptr) core->refs.fetch_add(1, std::memory_order_relaxed);  // the caller holds a share
    return detail::buffer_handle(core);
  }
  std::vector<item> items_;
};

/// Bytes of one of the `bindings`.
class view {
 public:
  view() noexcept = default;
  view(std::byte* data, std::uint64_t bytes) noexcept : data_(data), bytes_(bytes) {}
  template <class T>
  [[nodiscard]] std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

namespace detail {

/// It can make one command of what bodies put on several streams:
///   B::graph                          launch(native) runs it
///   b.wants_graphs()                  whether that is to be done
///   b.make_graph(span of const stream*)    an object with native(i), mark(i, place), wait(i, place),
///   finish()
template <class B>
concept graph_backend = enqueueing_backend<B> && requires { typename B::graph; };
/// What was recorded, as such a command.
template <class B>
class graph_replay {};

struct held_list;
struct pool_options;

/// The arguments of an op on buffers alone: what the program says of each, and, when the op is given, where
/// its bytes are.
struct plain_arguments {
  binding* bound;  // without their resources at first
  buffer_core* const* cores;
  std::byte** data;
  std::uint32_t count;
};

/// What a submit says of an op on buffers alone, and what followed from that the last time: noted with an op
/// of a routine. While the routine is followed none of its buffers can have gone.
struct alignas(64) plain_note final : attachment {
  struct argument {
    const buffer_core* core;
    byte_range range;
    std::byte* data;
  };
  static constexpr std::size_t most = 29;  // arguments
  /// How many arguments, and how each is used, in one word.
  template <std::size_t Count>
  [[nodiscard]] static constexpr std::uint64_t shape_of(const std::array<access, Count>& kinds) noexcept {
    std::uint64_t shape = Count;
    for (const access kind : kinds) shape = shape << 2 | static_cast<std::uint64_t>(kind);
    return shape;
  }

  plain_note(const runtime_link& runtime, void* on_slot, stream_id on, op_label& of,
             const plain_arguments& args);

  /// Whether the submit says the same.
  template <class... Args>
  [[nodiscard, gnu::always_inline]] bool is(stream_id on, std::string_view text,
                                            const Args&... args) const noexcept {
    static_assert(sizeof...(Args) <= most);
    if (id != on || size != text.size() ||
        shape != shape_of(std::array<access, sizeof...(Args)>{Args::kind...}))
      return false;
    const argument* mine = arguments;
    return ((mine->core == args.core && (mine++)->range == args.range()) && ...) &&
           is_same_text(text, {name, size});
  }

  runtime_link home;  // not its address, which may be another one's by now
  void* slot;
  stream_id id;
  std::uint64_t shape;
  const char* name;  // the label's
  std::size_t size;
  op_label* label;
  const argument* arguments = nullptr;  // of `few`, or `many` if they are more
  std::array<argument, 3> few{};
  std::unique_ptr<argument[]> many;
};

}  // namespace detail

template <runtime_backend B>
class basic_runtime final : private detail::runtime_base {
 public:
  explicit basic_runtime(runtime_options options = {})
    requires std::constructible_from<B, const runtime_options&>
      : basic_runtime(B(options), options) {}
  basic_runtime(B backend, runtime_options options);
  ~basic_runtime() override;

  // ---- Buffers.

  /// `count` elements. Takes memory when it is first written, on that stream; nothing may read what nothing
  /// wrote. Throws usage_error if the size does not fit in 64 bits.
  template <element T>
  buffer<T> make_buffer(std::uint64_t count, std::string_view name = {}) {
    return buffer<T>(make_core(bytes_of<T>(count), name));
  }
  template <element T>
  buffer<T> make_buffer(std::uint64_t count, zeroed_t, std::string_view name = {}) {
    auto made = make_buffer<T>(count, name);
    if (count != 0) fill_bytes("zero", detail::as_bytes(braid::write(made)), detail::fill_value("", 1));
    return made;
  }
  /// Memory that braid did not allocate, with what is in it. It has to stay until the work on the buffer is
  /// over (wait(buffer) tells); `owner`, if given, is kept until then. Throws usage_error if it overlaps
  /// memory that is adopted already.
  template <element T>
  buffer<T> adopt(std::span<T> memory, std::string_view name = {}, std::shared_ptr<void> owner = nullptr) {
    return buffer<T>(adopt_core(memory.data(), memory.size_bytes(), name, std::move(owner)));
  }

  // ---- Operations.

  /// submit([stream,] label, bindings..., body): the body is called with a view of each buffer, in the order
  /// of the bindings: a span, of const for read(). Bindings of bare resources order the op and have no view.
  template <class... Args>
    requires(sizeof...(Args) >= 1)
  submission submit(std::string_view label, Args&&... args) {
    return split(nullptr, label, detail::pack<Args&&...>{{std::forward<Args>(args)}...},
                 std::make_index_sequence<sizeof...(Args) - 1>{});
  }
  template <class... Args>
    requires(sizeof...(Args) >= 1)
  submission submit(stream_id stream, std::string_view label, Args&&... args) {
    return split(&stream, label, detail::pack<Args&&...>{{std::forward<Args>(args)}...},
                 std::make_index_sequence<sizeof...(Args) - 1>{});
  }

  /// Calls `fn`, and records the ops that it submits on this thread instead of running them: submit(), fill()
  /// and copy() within this runtime. Bodies are kept, and called once in each replay, always one replay after
  /// the other; on CUDA see record_options. What orders the ops among themselves is found here, once. Throws
  /// usage_error for a wait or another runtime inside.
  template <class F>
  [[nodiscard]] recording record(F&& fn, record_options options = {});

  /// A copy of what the buffer holds after all that was submitted so far.
  template <element T>
  future<std::vector<T>> read(const buffer_slice<T>& from) {
    auto state = std::make_shared<detail::future_state<std::vector<T>>>(link_, detail::op_point{});
    read_bytes(detail::as_bytes(braid::read(from)), {state, &detail::take_vector<T>});
    return future<std::vector<T>>(std::move(state));
  }
  template <element T>
  future<std::vector<T>> read(const buffer<T>& from) {
    return read(buffer_slice<T>(from));
  }
  /// Likewise, into memory that has to stay until the future is ready.
  template <element T>
  future<void> read(const buffer_slice<T>& from, std::span<T> to) {
    expect_length("read()", from.handle().get(), from.size(), to.size());
    auto state = std::make_shared<detail::future_state<void>>(link_, detail::op_point{});
    read_bytes(detail::as_bytes(braid::read(from)), {state, &detail::take_bytes, to.data()});
    return future<void>(std::move(state));
  }
  template <element T>
  future<void> read(const buffer<T>& from, std::span<T> to) {
    return read(buffer_slice<T>(from), to);
  }

  /// Copies the source before it returns. Throws usage_error if the lengths differ.
  template <element T>
  submission write(const buffer_slice<T>& to, std::span<const std::type_identity_t<T>> from) {
    expect_length("write()", to.handle().get(), to.size(), from.size());
    return write_bytes(detail::as_bytes(braid::write(to)), from.data());
  }
  template <element T>
  submission write(const buffer<T>& to, std::span<const std::type_identity_t<T>> from) {
    return write(buffer_slice<T>(to), from);
  }
  /// Keeps the source instead of copying it: a container that is moved in.
  template <element T, class Owner>
  submission write_from(const buffer_slice<T>& to, Owner owner) {
    expect_length("write_from()", to.handle().get(), to.size(),
                  std::span<const T>(std::as_const(owner)).size());
    auto kept = std::make_shared<Owner>(std::move(owner));
    const std::span<const T> from(std::as_const(*kept));
    return write_kept(detail::as_bytes(braid::write(to)), from.data(), std::move(kept));
  }
  template <element T, class Owner>
  submission write_from(const buffer<T>& to, Owner owner) {
    return write_from(buffer_slice<T>(to), std::move(owner));
  }

  template <element T>
  submission fill(const buffer_slice<T>& to, const std::type_identity_t<T>& value) {
    return fill_bytes("fill", detail::as_bytes(braid::write(to)), detail::fill_value(&value, sizeof(T)));
  }
  template <element T>
  submission fill(const buffer<T>& to, const std::type_identity_t<T>& value) {
    return fill(buffer_slice<T>(to), value);
  }
  /// The source may belong to another runtime with a backend of the same kind: both sides are ordered. The
  /// target has to be this runtime's.
  template <element T>
  submission copy(const buffer_slice<T>& to, const buffer_slice<std::type_identity_t<T>>& from) {
    if (!to.handle() || !from.handle()) detail::throw_null_buffer();
    if (!(to.handle()->runtime == link_)) detail::throw_foreign_target(*to.handle().get());
    expect_length("copy()", to.handle().get(), to.size(), from.size());
    return copy_bytes(detail::as_bytes(braid::write(to)), detail::as_bytes(braid::read(from)));
  }
  template <element T>
  submission copy(const buffer<T>& to, const buffer<T>& from) {
    return copy(buffer_slice<T>(to), buffer_slice<T>(from));
  }

  // ---- Work that braid does not submit.

  /// Enters an access that is over at `event`: whatever conflicts with it from now on waits for it.
  template <class T, access Kind>
  void note(const detail::buffer_argument<T, Kind>& a, typename B::event event) {
    note_bytes(a.core, a.range(), Kind, a.tag, std::move(event));
  }
  /// An event behind all writes to the buffer that were submitted so far, for a stream that is not braid's to
  /// wait on. The event is the caller's; what the caller then does with the buffer, note() tells.
  template <element T>
  typename B::event last_write(const buffer<T>& of) {
    return event_after("last_write()", of.handle().get(), access::read);
  }
  /// Likewise behind all reads as well: for one that is to write there. Later accesses of braid's come after
  /// it, and after what note() tells.
  template <element T>
  typename B::event last_access(const buffer<T>& of) {
    return event_after("last_access()", of.handle().get(), access::read_write);
  }
  /// Later ops of the stream come after `event`.
  void wait_for(stream_id stream, const typename B::event& event);
  /// The stream of this id is one that the program made, and keeps until this runtime is gone. Before its
  /// first use. Of ops that name no stream the placement `automatic` gives it none, as long as there are
  /// others.
  void adopt(stream_id stream, typename B::stream native);

  // ---- Waiting. A thread that waits runs ready ops meanwhile where the backend runs on this machine's
  // cores.

  /// Blocks until all that was submitted on the buffer is over. Throws op_error if what it holds then is
  /// poisoned.
  template <element T>
  void wait(const buffer<T>& b) {
    wait_for_buffer(b.handle().get());
  }
  /// Blocks until all that was submitted to the stream is over, well or not.
  void wait(stream_id stream);
  /// Likewise, for all streams.
  void synchronize();
  /// Waits up to `timeout` for submitted work and what follows it, and says what is stuck. If nothing is, the
  /// runtime refuses submits from then on; else it goes on.
  shutdown_report shutdown(std::chrono::milliseconds timeout);

  // ---- About it.

  /// Destroys the object after all work now on `after`, on a braid thread.
  template <class T>
  void retire(T&& object, stream_id after) {
    retire_after(detail::retired::of(std::forward<T>(object)), after);
  }
  [[nodiscard]] runtime_stats stats() const;
  /// Gives free memory that nobody can touch any more back to the system, until at most `keep` bytes are
  /// reserved. Returns how many bytes went.
  std::uint64_t trim(std::uint64_t keep = 0);
  /// See braid/multi_stream.hpp, which not every backend's header includes.
  [[nodiscard]] multi_stream<B>& engine() noexcept { return *engine_; }
  [[nodiscard]] B& backend() noexcept;

 private:
  using engine_type = multi_stream<B>;

  struct traced_host_wait;

  // Of runtime_base.
  void wait_for(detail::op_point op) override;
  bool may_cancel() const noexcept override { return !detail::enqueueing_backend<B>; }
  bool is_over(detail::op_point op) override;
  void wait_while(const std::atomic<std::uint32_t>& word, std::uint32_t old) override;
  void notify(std::atomic<std::uint32_t>& word) noexcept override;
  void post(detail::retired object) override;
  std::exception_ptr device_failure(const std::exception_ptr& thrown) override;
  void release(detail::buffer_core& dead) noexcept override;
  const void* kind() const noexcept override {
    static constexpr char here = 0;  // its address tells runtimes with one backend from others
    return &here;
  }

  template <class T>
  static std::uint64_t bytes_of(std::uint64_t count);
  detail::buffer_handle make_core(std::uint64_t bytes, std::string_view name);
  detail::buffer_handle adopt_core(void* data, std::uint64_t bytes, std::string_view name,
                                   std::shared_ptr<void> owner);
  [[gnu::always_inline]] inline void expect_ours(const detail::buffer_core* core) const;
  void wait_for_buffer(detail::buffer_core* core);
  /// Throws if no op can run on the device any more.
  void expect_device() const;
  /// Whether this process is a child of fork() of the one that made the runtime. Asked before any lock.
  [[nodiscard]] bool is_orphaned() const noexcept;
  /// Throws if it is.
  void expect_process() const;
  void release_adopted(detail::buffer_core& dead, detail::block& memory) noexcept;
  [[nodiscard]] detail::pool_options pool_options_of(const runtime_options& options);

  // Arguments: checked, then held (which may take memory on the lane), then noted as accessed.
  [[gnu::always_inline]] inline void check_range(detail::buffer_core* core, byte_range range,
                                                 access kind) const;
  template <class T, access Kind>
  [[gnu::always_inline]] void check(const detail::buffer_argument<T, Kind>& a) const {
    check_range(a.core, a.range(), Kind);
  }
  template <class T>
  void check(const detail::scratch_argument<T>&) const {}
  void check(const binding&) const {}

  /// The scratch memory of an op that is being given. When it has been, or could not be, the memory is free
  /// again: the op is in its history.
  template <std::size_t Count>
  struct scratch_blocks {
    basic_runtime& of;
    std::array<detail::block*, Count> blocks{};
    std::size_t taken = 0;
    ~scratch_blocks() {
      for (std::size_t i = 0; i < taken; ++i) detail::give_back(blocks[i]);
    }
  };
  template <class A>
  struct is_scratch : std::false_type {};
  template <class T>
  struct is_scratch<detail::scratch_argument<T>> : std::true_type {};

  template <class Blocks, class T, access Kind>
  detail::held_buffer<T, Kind> hold(Blocks&, detail::lane_id lane, const detail::buffer_argument<T, Kind>& a);
  template <class Blocks, class T>
  detail::held_buffer<T, access::write, true> hold(Blocks& blocks, detail::lane_id lane,
                                                   const detail::scratch_argument<T>& a);
  template <class Blocks>
  detail::held_token hold(Blocks&, detail::lane_id, const binding& b) {
    return {share_of(b), b};
  }
  static resource share_of(const binding& b);
  /// The arguments of an op with `bindings`, as the body gets them and as the engine does.
  detail::held_list hold_list(detail::lane_id lane, const bindings& list, std::vector<binding>& bound);

  template <class T, access Kind, class Held>
  static binding bind(const detail::buffer_argument<T, Kind>& a, const Held& held) noexcept {
    return held.bind(a.count != 0 && a.count * sizeof(T) == a.core->bytes);
  }
  template <class T, class Held>
  static binding bind(const detail::scratch_argument<T>& a, const Held& held) noexcept {
    return held.bind(a.count != 0);
  }
  static binding bind(const binding& b, const detail::held_token&) noexcept { return b; }

  template <class T, access Kind>
  static void note_use(const detail::buffer_argument<T, Kind>& a, detail::op_point op) {
    note_access(*a.core, a.range(), Kind, op);
  }
  template <class T>
  static void note_use(const detail::scratch_argument<T>&, detail::op_point) noexcept {}
  static void note_use(const binding&, detail::op_point) noexcept {}
  [[gnu::always_inline]] static void note_given(detail::buffer_core& core, access kind, detail::op_point op,
                                                std::uint64_t order) noexcept {
    // relaxed: hints
    (kind == access::read ? core.last_read : core.last_write).store(op.bits, std::memory_order_relaxed);
    core.last_order.store(order, std::memory_order_relaxed);
  }
  [[gnu::always_inline]] static inline void note_access(detail::buffer_core& core, byte_range range,
                                                        access kind, detail::op_point op);

  // `newest`: the order that the op comes after.
  template <class T, access Kind>
  static void look_at_order(const detail::buffer_argument<T, Kind>& a, std::uint64_t& newest) noexcept {
    look_at_order_of(*a.core, newest);
  }
  template <class T>
  static void look_at_order(const detail::scratch_argument<T>&, std::uint64_t&) noexcept {}
  static void look_at_order(const binding&, std::uint64_t&) noexcept {}
  static void look_at_order_of(const detail::buffer_core& core, std::uint64_t& newest) noexcept {
    // relaxed: a lower bound is good enough
    const std::uint64_t last = core.last_order.load(std::memory_order_relaxed);
    if (last > newest) newest = last;
  }

  detail::block* memory_of(detail::buffer_core& core, detail::lane_id lane) {
    detail::block* found = core.memory.load(std::memory_order_acquire);  // pairs with take_memory()
    return found != nullptr ? found : take_memory(core, lane);
  }
  [[gnu::noinline]] detail::block* take_memory(detail::buffer_core& core, detail::lane_id lane);
  detail::block* take_block(detail::lane_id lane, std::uint64_t bytes);
  detail::block* take_scratch(detail::lane_id lane, std::uint64_t bytes);
  [[nodiscard]] detail::pool& pool_of(detail::lane_id lane) noexcept;
  static std::vector<std::shared_ptr<memory_source>> memories_of(B& backend);
  [[nodiscard]] memory_usage memory() const;
  detail::block* take_stage(detail::lane_id lane, std::uint64_t bytes);

  template <class Pack, std::size_t... I>
  submission split(const stream_id* where, std::string_view label, const Pack& args,
                   std::index_sequence<I...>) {
    return give(where, label, detail::get<sizeof...(I)>(args), detail::get<I>(args)...);
  }
  template <class Body, class... Args>
  submission give(const stream_id* where, std::string_view text, Body&& body, const Args&... args);
  template <class Body>
  submission give(const stream_id* where, std::string_view text, Body&& body, const bindings& list);
  static detail::lane_id lane_in(void* engine, stream_id id);
  [[nodiscard]] detail::lane_id lane_of(stream_id id);
  void retire_after(detail::retired object, stream_id after);
  template <class Body, class Pack>
  detail::op_point launch(stream_id id, detail::lane_id lane, std::string_view label, Body&& body,
                          Pack&& held, std::span<const binding> bound, bool is_named = false);
  resolved_streams<B> begin(stream_id id, detail::lane_id lane, const detail::label_ref& label,
                            std::span<const binding> bound, bool is_named);
  /// Where bodies are called at once: an op that is given but for its body.
  struct given_now {
    detail::slot<B>* slot;
    const void* native;  // of B::native_stream, for the body; null: it was called, and all is done
    std::uint64_t cursor;
    detail::op_rank rank;
  };
  /// Likewise, for an op on buffers alone, which needs no frame. Written where it is read: it is not copied.
  struct given_plainly {
    detail::slot<B>* slot;
    const void* native;
    const op_label* label;
    std::uint64_t order;
    detail::op_point point;
    bool is_watched;  // something may be poisoned

    [[nodiscard]] detail::op_info info() const noexcept { return {&label->name(), order, point}; }
  };
  template <class>
  struct is_buffer : std::false_type {};
  template <class T, access Kind>
  struct is_buffer<detail::buffer_argument<T, Kind>> : std::true_type {};
  /// Whether an op can be given plainly, and what is not told by its types allows it.
  template <class Body, class... Args>
  static constexpr bool is_plain_op =
      detail::plainly_enqueueing<B> && sizeof...(Args) <= detail::plain_note::most &&
      (is_buffer<Args>::value && ...) && !requires(std::decay_t<Body>& b) { b.refuse(); } &&
      !requires(std::decay_t<Body>& b, detail::failure_ptr why) { b.finish(why); };
  template <class Body, std::size_t... I, class... Args>
  detail::op_point give_plain(const stream_id* where, std::string_view text, Body&& body,
                              std::index_sequence<I...>, const Args&... args);
  /// False: it was not given, and is to be given in the other way.
  [[nodiscard]] bool begin_plain(const stream_id* where, std::string_view text,
                                 const detail::plain_arguments& args, given_plainly& given)
    requires detail::plainly_enqueueing<B>;
  /// What was noted with the op that this thread is expected to give next.
  [[nodiscard, gnu::always_inline]] const detail::plain_note* expected_note() const noexcept {
    const auto* const note = static_cast<const detail::plain_note*>(detail::here.expected);
    if (note != nullptr && note->home == link_) [[likely]]
      return note;
    return detail::here.others != 0 ? turn_to_expected() : nullptr;
  }
  [[nodiscard]] const detail::plain_note* turn_to_expected() const noexcept;
  /// Gives that op, about which nothing has to be looked at again. False: it was not given.
  [[nodiscard]] bool follow_plain(const detail::plain_note& note, given_plainly& given)
    requires detail::plainly_enqueueing<B>;
  /// The stream for an op that names none. False, and none was chosen: it is not to be given plainly.
  bool place_plain(const detail::plain_arguments& args, stream_id& id);
  /// Whether the op must not run, because of what it reads. Its outputs are poisoned then.
  bool refuse_plain(const given_plainly& op, const detail::plain_arguments& args)
    requires detail::plainly_enqueueing<B>;
  /// The body threw, or, with null, did not.
  void note_plain(const given_plainly& op, const detail::plain_arguments& args,
                  const std::exception_ptr& thrown) noexcept
    requires detail::plainly_enqueueing<B>;
  void end_plain(const given_plainly& op) noexcept
    requires detail::plainly_enqueueing<B>;
  given_now give_now(stream_id id, detail::lane_id lane, detail::any_frame& op,
                     const detail::label_ref& label, std::span<const binding> bound, bool is_named)
    requires detail::enqueueing_backend<B>;
  /// Its body was called.
  void end_now(const given_now& op) noexcept
    requires detail::plainly_enqueueing<B>;

  // Recording: see runtime_record.hpp.
  struct sequence;
  template <class>
  friend class detail::graph_replay;
  [[nodiscard]] bool is_recorded() const noexcept { return detail::recording_runtime == this; }
  template <class Body, class... Args>
  submission record_op(const stream_id* where, std::string_view text, Body&& body, const Args&... args);
  template <class Body>
  submission record_list(const stream_id* where, std::string_view text, Body&& body, const bindings& list);
  template <class Body, class Pack>
  detail::recorded_place record_frame(stream_id id, detail::lane_id lane, std::string_view text, Body&& body,
                                      Pack&& held, std::span<const binding> bound, bool is_named);
  void own(std::span<const binding> bound);
  recording finish_record(detail::recording_session& session, record_options options);
  stream_id place_recorded(std::span<detail::buffer_core* const> used);
  template <class T, access Kind>
  void check_recorded(const detail::buffer_argument<T, Kind>& a) const;
  template <class A>
  void check_recorded(const A&) const {}
  template <class T, access Kind>
  detail::held_buffer<T, Kind> hold_recorded(detail::lane_id lane,
                                             const detail::buffer_argument<T, Kind>& a) {
    scratch_blocks<0> none{*this};
    return hold(none, lane, a);
  }
  template <class T>
  detail::held_buffer<T, access::write, true> hold_recorded(detail::lane_id lane,
                                                            const detail::scratch_argument<T>& a);
  detail::held_token hold_recorded(detail::lane_id, const binding& b) { return {share_of(b), b}; }
  template <class T, access Kind>
  static void note_recorded(const detail::buffer_argument<T, Kind>& a, detail::recorded_place at) {
    detail::inside_record::session->note(*a.core, a.range(), Kind, at);
  }
  template <class A>
  static void note_recorded(const A&, detail::recorded_place) noexcept {}
  // Placement.
  [[nodiscard]] stream_id place(std::span<const detail::op_point> before,
                                std::span<detail::buffer_core* const> used);
  template <class T, access Kind>
  static void add_points(const detail::buffer_argument<T, Kind>& a, detail::op_point*& out) noexcept {
    add_points_of(*a.core, Kind, out);
  }
  template <class T>
  static void add_points(const detail::scratch_argument<T>&, detail::op_point*&) noexcept {}
  static void add_points(const binding&, detail::op_point*&) noexcept {}
  static void add_points_of(detail::buffer_core& core, access kind, detail::op_point*& out) noexcept;
  static constexpr std::size_t any_device = ~std::size_t{0};
  [[nodiscard]] bool may_place(stream_id id, std::size_t device = any_device);
  // Devices are numbered as the pools are.
  [[nodiscard]] std::size_t device_of(const detail::block& memory) const noexcept;
  [[nodiscard]] std::size_t device_of_memory(const void* data) const noexcept;
  /// That has most of these; any, if there is one device, or none of these has memory yet.
  [[nodiscard]] std::size_t device_near(std::span<detail::buffer_core* const> used) const;
  /// One of these that bodies on the stream cannot use, or null.
  [[nodiscard]] const detail::buffer_core* find_unreachable(
      detail::lane_id lane, std::span<detail::buffer_core* const> used) const noexcept;
  void expect_reachable(std::string_view label, stream_id id, detail::lane_id lane,
                        std::span<detail::buffer_core* const> used) const;
  template <class T, access Kind>
  static detail::buffer_core* core_of(const detail::buffer_argument<T, Kind>& a) noexcept {
    return a.core;
  }
  template <class A>
  static detail::buffer_core* core_of(const A&) noexcept {
    return nullptr;
  }
  [[nodiscard]] bool is_adopted(detail::lane_id lane);
  /// About how many ops the stream has still to run.
  [[nodiscard]] std::uint64_t length_of(stream_id id) noexcept;

  // Data: see runtime_data.hpp.
  using bytes_read = detail::buffer_argument<const std::byte, access::read>;
  using bytes_written = detail::buffer_argument<std::byte, access::write>;
  struct staged;
  template <access StageKind, class T, access Kind, class Prepare, class Body>
  staged give_staged(std::string_view label, const detail::buffer_argument<T, Kind>& a, Prepare prepare,
                     Body&& body);
  void expect_length(const char* what, const detail::buffer_core* core, std::uint64_t expected,
                     std::uint64_t given) const;
  void read_bytes(bytes_read from, detail::read_result into);
  submission write_bytes(bytes_written to, const void* from);
  submission write_kept(bytes_written to, const void* from, std::shared_ptr<void> owner);
  submission fill_bytes(std::string_view label, bytes_written to, detail::fill_value value);
  submission copy_bytes(bytes_written to, bytes_read from);
  void note_bytes(detail::buffer_core* core, byte_range range, access kind, std::uint32_t tag,
                  typename B::event event);
  typename B::event event_after(const char* what, detail::buffer_core* core, access kind);
  /// For an op without work that stands for an access by somebody else: a stream on which it waits for least.
  [[nodiscard]] stream_id aside_for(const detail::buffer_core& core, access kind, byte_range range) const;
  /// Behind an op that is being given, or was: for others, who may keep it for longer than this runtime
  /// lives.
  typename B::event event_behind(typename B::stream& stream, std::uint64_t cursor);
  /// Throws where the stream may not be given anything now.
  void admit(detail::lane_id lane);
  submission copy_between(basic_runtime& other, bytes_written target, bytes_read source);
  submission carry_over(basic_runtime& other, bytes_written to, bytes_read from)
    requires detail::enqueueing_backend<B>;

  // The engine goes first, while everything else is still there; then the pools.
  const placement placement_;
  const bool deterministic_;
  std::uint32_t width_;          // streams that the placement spreads ops over
  const std::uint32_t streams_;  // that there may be
  detail::runtime_link link_;
  std::mutex adopted_mutex_;
  detail::adopted_ranges adopted_;
  std::vector<detail::lane_id> adopted_lanes_;
  std::atomic<bool> has_adopted_lanes_{false};
  std::vector<std::unique_ptr<detail::pool>> pools_;  // one for each device
  std::unique_ptr<detail::pool> staging_;
  detail::open_reads open_reads_;
  std::atomic<std::uint32_t> rotation_{0};  // the next stream to try
  detail::spare_recorder recorders_;
  std::unique_ptr<engine_type> engine_;
};

}  // namespace braid

#include "braid/detail/runtime_record.hpp"
#include "braid/detail/runtime_submit.hpp"
