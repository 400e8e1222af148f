#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "braid/backend.hpp"
#include "braid/detail/block.hpp"
#include "braid/detail/labels.hpp"
#include "braid/detail/pack.hpp"
#include "braid/detail/runtime_base.hpp"
#include "braid/detail/trace_hooks.hpp"
#include "braid/resource.hpp"

namespace braid::detail {

/// Marks the calling thread as running a body, for a scope.
class inside_body {
 public:
  explicit inside_body(const std::string& label) noexcept : outer_(std::exchange(running_body, &label)) {}
  ~inside_body() { running_body = outer_; }
  inside_body(const inside_body&) = delete;
  inside_body& operator=(const inside_body&) = delete;

 private:
  const std::string* outer_;
};

// What an op holds of each of its arguments between its submission and its run. It owns no memory: a block
// keeps the op in its history, and lives at least as long.

struct no_tag {
  operator std::uint32_t() const noexcept { return 0; }
};

template <class T, access Kind, bool IsScratch = false>
struct held_buffer {
  block* memory;
  T* data;
  std::uint64_t count;
  [[no_unique_address]] std::conditional_t<Kind == access::accumulate, std::uint32_t, no_tag> tag;

  static constexpr bool has_view = true;
  [[nodiscard]] std::span<T> view() const noexcept { return {data, count}; }
  [[nodiscard]] byte_range range() const noexcept {
    return {static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(data) - memory->data),
            count * sizeof(T)};
  }
  [[nodiscard]] touched touch() const noexcept {
    return {memory, memory->data, range().offset, range().end(), Kind, tag, IsScratch};
  }
  /// The block has at least the size of its buffer, and what is behind is nobody's: so `is_whole` may be said
  /// of all of the buffer.
  [[nodiscard]] braid::binding bind(bool is_whole) const noexcept {
    return {memory, Kind, range(), is_whole, tag};
  }
};

struct held_token {
  resource handle;  // kept alive: a failure may be noted with it
  braid::binding bound;

  static constexpr bool has_view = false;
  [[nodiscard]] touched touch() const noexcept {
    return {bound.state, nullptr, bound.range.offset, bound.range.end(), bound.kind, bound.tag, false};
  }
};

/// A body of braid's own that only moves bytes, which is possible between any two devices.
template <class Body>
constexpr bool is_moving = requires { std::decay_t<Body>::is_moving; };

/// A native stream that makes the arguments of a body itself, from spans: native.call(body, spans...).
template <class Native>
concept translating = requires(const Native& n, void (*body)(Native)) { n.call(body); };

/// Calls `f` with the views of those that have one.
template <class F>
void with_views(const F& f) {
  f();
}
template <class F, class First, class... Rest>
void with_views(const F& f, const First& first, const Rest&... rest) {
  if constexpr (First::has_view && (Rest::has_view && ...)) {
    f(first.view(), rest.view()...);
  } else if constexpr (First::has_view) {
    with_views([&](auto... more) { f(first.view(), more...); }, rest...);
  } else {
    with_views(f, rest...);
  }
}

/// All arguments of an op.
template <class... Held>
struct held_pack {
  pack<Held...> each;

  /// With what the backend hands to every body (a native stream, or nothing) in front.
  template <class Body, class... Native>
  void call(Body& body, Native... native) const {
    each.apply([&](const Held&... held) {
      with_views(
          [&](auto... spans) {
            if constexpr ((translating<Native> || ...)) {
              (native.call(body, spans...), ...);
            } else {
              body(std::move(native)..., std::move(spans)...);
            }
          },
          held...);
    });
  }
  /// Misuse that the body's parameters tell is found before the op is given.
  template <class Body, class B>
  void expect_usable(const B& backend) const {
    each.apply([&](const Held&... held) {
      with_views([&](const auto&... spans) { backend.template expect_usable<Body>(spans...); }, held...);
    });
  }
  [[nodiscard]] std::array<touched, sizeof...(Held)> touches() const noexcept {
    return each.apply(
        [](const Held&... held) { return std::array<touched, sizeof...(Held)>{held.touch()...}; });
  }
};

/// An op on its way: what is called when its turn comes, with its cursor. Of one buffer and a body without
/// captures it fits, with the record's head, in a cache line.
template <class Body, class Pack>
struct op_frame {
  runtime_base* home;
  label_ref label;
  op_rank rank;
  Pack held;
  [[no_unique_address]] Body body;

  template <class... Native>
  void operator()(std::uint64_t cursor, Native... native) noexcept {
    run(cursor, rank, native...);
  }
  /// Likewise, as an op of another rank: one that was recorded has a new one in each replay.
  template <class... Native>
  [[gnu::always_inline]] void run(std::uint64_t cursor, op_rank as, Native... native) noexcept {
    if (is_watched<sizeof...(Native) == 0>()) [[unlikely]]
      return run_watched(cursor, as, native...);
    try {
      call(native...);
    } catch (...) {
      return end(home->fail(info(cursor, as), held.touches(), std::current_exception()));
    }
    if (home->needs_attention()) [[unlikely]]
      home->heal(held.touches());
    end(nullptr);
  }

  /// The op cannot run, whatever it reads: the device is gone.
  void give_up(std::uint64_t cursor, const std::exception_ptr& cause) noexcept {
    give_up(cursor, rank, cause);
  }
  void give_up(std::uint64_t cursor, op_rank as, const std::exception_ptr& cause) noexcept {
    end(home->fail(info(cursor, as), held.touches(), cause));
  }

  [[nodiscard]] op_info info(std::uint64_t cursor) const noexcept { return info(cursor, rank); }
  [[nodiscard]] op_info info(std::uint64_t cursor, op_rank as) const noexcept {
    return {&label.name(), as.order(), op_point(as.lane(), cursor)};
  }

 private:
  /// Something may be poisoned or cancelled, or the body can refuse to run; or a trace wants to know how long
  /// it takes, where the body is the work.
  template <bool IsWork>
  [[nodiscard]] bool is_watched() const noexcept {
    if constexpr (requires { body.refuse(); }) return true;
    return home->needs_attention() || (IsWork && home->is_traced());
  }
  template <class... Native>
  [[gnu::noinline]] void run_watched(std::uint64_t cursor, op_rank as, Native... native) noexcept {
    const std::int64_t began = sizeof...(Native) == 0 && home->is_traced() ? trace_now() : 0;
    failure_ptr why;
    if (home->needs_attention()) why = home->refuse(info(cursor, as), held.touches());
    if constexpr (requires { body.refuse(); }) {
      if (!why) {
        why = body.refuse();
        if (why) home->pass_on(info(cursor, as), held.touches(), why);
      }
    }
    const bool is_refused = why != nullptr;
    if (!is_refused) {
      try {
        call(native...);
      } catch (...) {
        why = home->fail(info(cursor, as), held.touches(), std::current_exception());
      }
      if (!why && home->needs_attention()) home->heal(held.touches());
    }
    end(why);
    if (began != 0) {
      trace_run(home->trace_number(), as.lane(), cursor, began, trace_now(),
                is_refused ? traced_outcome::skipped : (why ? traced_outcome::failed : traced_outcome::done));
    }
  }
  template <class... Native>
  void call(Native... native) {
    const inside_body mark(label.name());
    held.call(body, native...);
  }
  void end(const failure_ptr& why) noexcept {
    if constexpr (requires { body.finish(why); }) body.finish(why);
  }
};

/// An op of any arguments and any body.
class any_frame {
 public:
  virtual ~any_frame() = default;
  /// `native`: what the backend hands to every body, if it does.
  virtual void run(std::uint64_t cursor, op_rank rank, const void* native) noexcept = 0;
  /// Calls the body alone, which may throw.
  virtual void enqueue(const void* native) = 0;
  /// The op cannot run: see op_frame.
  virtual void give_up(std::uint64_t cursor, op_rank rank, const std::exception_ptr& cause) noexcept = 0;
  [[nodiscard]] virtual const label_ref& label() const noexcept = 0;
  [[nodiscard]] virtual std::vector<touched> touches() const = 0;
};

/// Where bodies are the work it stands on lines of its own: a body may change what it captured, and what
/// stands beside it is another core's when its stream has moved there.
template <class B, class Body, class Pack>
class alignas(enqueueing_backend<B> ? alignof(void*) : 64) any_frame_of final : public any_frame {
 public:
  using frame = op_frame<Body, Pack>;
  explicit any_frame_of(frame&& f) : frame_(std::move(f)) {}
  /// Inlined where the frame's type is known: see basic_runtime::launch().
  [[gnu::always_inline]] void run(std::uint64_t cursor, op_rank rank,
                                  [[maybe_unused]] const void* native) noexcept override {
    if constexpr (enqueueing_backend<B>) {
      frame_.run(cursor, rank, *static_cast<const typename B::native_stream*>(native));
    } else {
      frame_.run(cursor, rank);
    }
  }
  void enqueue([[maybe_unused]] const void* native) override {
    if constexpr (enqueueing_backend<B>) {
      const inside_body mark(frame_.label.name());
      frame_.held.call(frame_.body, *static_cast<const typename B::native_stream*>(native));
    }
  }
  void give_up(std::uint64_t cursor, op_rank rank, const std::exception_ptr& cause) noexcept override {
    frame_.give_up(cursor, rank, cause);
  }
  [[nodiscard]] const label_ref& label() const noexcept override { return frame_.label; }
  [[nodiscard]] std::vector<touched> touches() const override {
    const auto all = frame_.held.touches();
    return {all.begin(), all.end()};
  }

 private:
  frame frame_;
};

/// An op whose body is called at once, as a backend's launch() takes it.
struct frame_call {
  runtime_base* home;
  any_frame* frame;
  const label_ref& label;
  op_rank rank;

  template <class Native>
  void operator()(std::uint64_t cursor, const Native& native) noexcept {
    frame->run(cursor, rank, &native);
  }
  void give_up(std::uint64_t cursor, const std::exception_ptr& cause) noexcept {
    frame->give_up(cursor, rank, cause);
  }
};

}  // namespace braid::detail
