#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "braid/detail/recorded_place.hpp"
#include "braid/detail/stamp.hpp"
#include "braid/hazard.hpp"
#include "braid/resource.hpp"
#include "braid/stream_id.hpp"

// From a sequence of ops to what an engine has to know of it.
//
// The ops of one lane are a part; within the sequence an op is named by its part and its place there, from 1.
// What orders the ops among themselves is found once, by an engine of the recorder's own; and once more for a
// sequence that follows on itself. That holds for each one that follows, too: what conflicts with an op of
// two sequences ago conflicts with the same op of the last one, which runs on the same lane. Towards what was
// before and what comes after only some of their accesses count: the first ones, which nothing of the
// sequence stands in front of, and the last ones, which nothing of it takes the place of.

namespace braid::detail {

/// What a replay does to an engine.
struct replay_plan {
  struct part {
    lane_id lane;
    stream_id id;
    std::uint64_t ops = 0;
    using counts = std::array<std::uint64_t, hazard_count>;
    counts waits{};  // for other parts, by their reason
    counts again{};  // likewise, in a sequence that follows on itself
  };
  struct use {
    recorded_place at;
    binding bound;
    bool is_changed = false;  // the resource, by any op of the sequence
  };
  struct knowledge {
    std::uint32_t part;
    recorded_place of;  // the newest op of another part that the part has waited for in the end
  };
  std::vector<part> parts;         // in the order of their lanes
  std::uint32_t leader = 0;        // of these, where all ops are one command: it runs there,
  bool is_one_command = false;     // after what the other parts' streams hold, and before what they get
  std::vector<binding> resources;  // each once, as a whole, by address; read_write where an op changes it
  std::vector<use> first;
  std::vector<use> last;
  std::vector<knowledge> learned;
};

class recorder {
 public:
  explicit recorder(std::uint32_t streams);
  ~recorder();
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  struct wait {
    recorded_place on;
    hazard why;
    std::uint64_t resource;
    std::size_t binding;
  };
  /// Forgets the sequence, so that another one can be added. False if it was long: the memory that would be
  /// kept for the next is then better given back, with the recorder.
  bool clear();
  /// One more op; what it waits for is put behind `waits`. Throws usage_error for bindings that conflict;
  /// then it was not added. Parts are numbered in the order of their first use until finish().
  recorded_place add(lane_id lane, stream_id id, std::span<const binding> bound, std::vector<wait>& waits);
  /// That the part was first used with.
  [[nodiscard]] stream_id id_of(std::uint32_t part) const noexcept;
  /// The plan, and for each part the number that it has there. For each op, what it waits for when the
  /// sequence follows on itself is put behind `waits`, which begins there in `firsts`.
  replay_plan finish(std::vector<std::uint32_t>& numbers, std::vector<wait>& waits,
                     std::vector<std::uint32_t>& firsts);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace braid::detail
