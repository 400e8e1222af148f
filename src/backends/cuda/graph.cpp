#include "state.hpp"

namespace braid::cuda {

namespace detail {

graph_state::~graph_state() {
  if (home->is_orphaned()) return;
  const auto& cu = home->cu();
  const relaxed_capture relaxed;
  if (is_capturing) (void)cu.cuStreamEndCapture(streams.front()->native, &made);  // a body failed
  if (runnable != nullptr) (void)cu.cuGraphExecDestroy(runnable);
  if (made != nullptr) (void)cu.cuGraphDestroy(made);
  give_events();
  for (stream_state* s : streams) home->give_capture_stream(*s);
}

void graph_state::give_events() noexcept {
  for (const auto& [place, event] : places) event.stream->give_event(event.native);
  places.clear();
}

}  // namespace detail

void graph::launch(native_stream on) const {
  detail::shared_state& home = *state_->home;
  home.expect("cuGraphLaunch", home.cu().cuGraphLaunch(state_->runnable, on));
}

namespace {

// Places of the maker's own, which no op has.
constexpr std::size_t the_beginning = ~std::size_t{0};
constexpr std::size_t end_of(std::size_t stream) noexcept {
  return the_beginning - 1 - stream;
}

void* context_now() noexcept {
  CUcontext now = nullptr;
  (void)detail::driver().cuCtxGetCurrent(&now);
  return now;
}

}  // namespace

// Calls that cannot be captured are let through: a body may have to make a handle or to load a kernel first.
// What throws here finds a whole object, whose destructor makes the context current again that was.
graph_maker::graph_maker(std::shared_ptr<detail::graph_state> into)
    : graph_maker(std::move(into), context_now()) {
  detail::shared_state& home = *made_->home;
  home.expect("cuStreamBeginCapture",
              home.cu().cuStreamBeginCapture(native(0), CU_STREAM_CAPTURE_MODE_RELAXED));
  made_->is_capturing = true;
  // The others are captured as soon as they wait for the first.
  if (made_->streams.size() > 1) mark(0, the_beginning);
  for (std::size_t i = 1; i < made_->streams.size(); ++i) wait(i, the_beginning);
}

graph_maker::~graph_maker() {
  if (context_before_ != nullptr)
    (void)detail::driver().cuCtxSetCurrent(static_cast<CUcontext>(context_before_));
}

native_stream graph_maker::native(std::size_t stream) const noexcept {
  const detail::stream_state& s = *made_->streams[stream];
  (void)detail::driver().cuCtxSetCurrent(s.native_context());
  return s.native;
}

void graph_maker::mark(std::size_t stream, std::size_t place) {
  detail::shared_state& home = *made_->home;
  detail::stream_state& s = *made_->streams[stream];
  const auto [at, is_new] = made_->places.try_emplace(place, detail::graph_state::event_of{&s, nullptr});
  if (is_new) {
    try {
      at->second.native = s.take_event();
    } catch (...) {
      made_->places.erase(at);
      throw;
    }
  }
  home.expect("cuEventRecord", home.cu().cuEventRecord(at->second.native, s.native));
}

void graph_maker::wait(std::size_t stream, std::size_t place) {
  detail::shared_state& home = *made_->home;
  home.expect("cuStreamWaitEvent",
              home.cu().cuStreamWaitEvent(made_->streams[stream]->native, made_->places.at(place).native, 0));
}

graph graph_maker::finish() {
  detail::shared_state& home = *made_->home;
  for (std::size_t i = 1; i < made_->streams.size(); ++i) {
    mark(i, end_of(i));
    wait(0, end_of(i));
  }
  made_->is_capturing = false;
  home.expect("cuStreamEndCapture",
              home.cu().cuStreamEndCapture(made_->streams.front()->native, &made_->made));
  made_->give_events();
  home.expect("cuGraphInstantiate", home.cu().cuGraphInstantiateWithFlags(&made_->runnable, made_->made, 0));
  return graph(std::exchange(made_, nullptr));
}

}  // namespace braid::cuda
