#include "braid/detail/labels.hpp"

#include <array>
#include <cstring>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace braid::detail {

namespace {

constexpr std::size_t most_labels = 4096;

struct table {
  std::mutex mutex;
  std::unordered_map<std::string_view, std::unique_ptr<op_label>> labels;
};
// Never destroyed: engines of other static objects may still refer to labels.
table& labels() {
  static table* all = new table;
  return *all;
}

}  // namespace

constinit thread_local std::array<recent_label, 128> recent_labels;

op_label* label_ref::intern(std::string_view text) {
  table& all = labels();
  const std::scoped_lock lock(all.mutex);
  if (const auto found = all.labels.find(text); found != all.labels.end()) return found->second.get();
  if (all.labels.size() >= most_labels) return nullptr;
  auto made = std::make_unique<op_label>(std::string(text));
  const std::string_view key = made->name();
  return all.labels.emplace(key, std::move(made)).first->second.get();
}

// Null: there are too many labels.
op_label* label_ref::lasting_slowly(std::string_view text) {
  recent_label* const r = recent_label::places_of(text);
  if (r[1].is(text)) return r[1].label;
  op_label* const kept = intern(text);
  if (kept != nullptr) r[1] = std::exchange(r[0], {text.data(), text.size(), kept});
  return kept;
}

label_ref label_ref::of(std::string_view text) {
  if (op_label* const kept = lasting_of(text)) [[likely]]
    return label_ref(kept);
  return label_ref(std::make_unique<op_label>(std::string(text)));
}

}  // namespace braid::detail
