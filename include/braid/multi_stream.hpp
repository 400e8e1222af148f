#pragma once

// The engine: keeps the streams of one backend aligned with what the ops on them read and write.
//
//   multi_stream<backend> ms{backend{}};
//   resource x = resource::memory(1024, "x");
//   { auto op = ms.resolve(stream_id{1}, {write(x)}); launch(op.current(), fill); }
//   { auto op = ms.resolve(stream_id{2}, {read(x)});  launch(op.current(), scale); }   // waits for fill
//
// It guarantees that conflicting ops run in the order in which they were resolved, with no wait that is not
// needed for that. It does not look at what the ops do: an access that is not bound is not ordered. Programs
// that want buffers, futures and errors by value use a runtime, which stands on this.
//
// Locks, in this order: the slot's own; those of the op's resources, by address; then, for moments, the list
// lock of one slot. (An op on what its own stream alone has used only tries them, in any order, and waits for
// nothing while it has one.) A resource that the op writes stays locked until the op is committed; one that
// it only reads is locked for the moment of entering the reader. A writer that meets a reader that is not
// committed yet waits for that commit. So every point that can be found in a history has been handed to the
// backend, and an event recorded on its slot at any later time covers it.

#include "braid/detail/multi_stream_class.hpp"
#include "braid/detail/multi_stream_follow.hpp"
#include "braid/detail/multi_stream_give.hpp"
#include "braid/detail/multi_stream_impl.hpp"
#include "braid/detail/multi_stream_replay.hpp"
#include "braid/detail/multi_stream_routine.hpp"
