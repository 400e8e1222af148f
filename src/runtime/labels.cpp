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

// The labels that this thread used last, by where their text stands: most are literals.
struct recent {
  const char* at = nullptr;
  std::size_t size = 0;
  op_label* label = nullptr;
};
constinit thread_local std::array<recent, 128> recently;  // two places for each

recent* places_of(std::string_view text) {
  const auto at = reinterpret_cast<std::uintptr_t>(text.data());
  return &recently[(at * 0x9e37'79b9'7f4a'7c15U >> 58) * 2];
}

// The text is compared: memory at the same place may hold another label by now.
inline bool is_it(const recent& r, std::string_view text) noexcept {
  return r.at == text.data() && r.size == text.size() && is_same_text(text, r.label->name());
}

}  // namespace

op_label* label_ref::intern(std::string_view text) {
  table& all = labels();
  const std::scoped_lock lock(all.mutex);
  if (const auto found = all.labels.find(text); found != all.labels.end()) return found->second.get();
  if (all.labels.size() >= most_labels) return nullptr;
  auto made = std::make_unique<op_label>(std::string(text));
  const std::string_view key = made->name();
  return all.labels.emplace(key, std::move(made)).first->second.get();
}

label_ref label_ref::of(std::string_view text) {
  recent* r = places_of(text);
  if (r[0].label != nullptr && is_it(r[0], text)) [[likely]]
    return label_ref(r[0].label);
  if (r[1].label != nullptr && is_it(r[1], text)) return label_ref(r[1].label);
  if (op_label* kept = intern(text)) {
    r[1] = std::exchange(r[0], {text.data(), text.size(), kept});
    return label_ref(kept);
  }
  return label_ref(std::make_unique<op_label>(std::string(text)));
}

}  // namespace braid::detail
