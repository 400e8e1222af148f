#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "braid/op_label.hpp"

namespace braid::detail {

template <class Word>
[[nodiscard]] bool differs(const char* a, const char* b) noexcept {
  Word x{};
  Word y{};
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  return x != y;
}

/// Of texts of the same size. Labels are short: a call costs more than comparing. Two words that may overlap
/// cover up to twice their size.
[[nodiscard]] inline bool is_same_text(std::string_view x, std::string_view y) noexcept {
  const char* a = x.data();
  const char* b = y.data();
  std::size_t size = x.size();
  for (; size > 16; size -= 8, a += 8, b += 8) {
    if (differs<std::uint64_t>(a, b)) return false;
  }
  const auto is_covered = [&]<class Word>(Word) {
    const std::size_t last = size - sizeof(Word);
    return !differs<Word>(a, b) && !differs<Word>(a + last, b + last);
  };
  if (size >= 8) return is_covered(std::uint64_t{});
  if (size >= 4) return is_covered(std::uint32_t{});
  if (size >= 2) return is_covered(std::uint16_t{});
  return size == 0 || *a == *b;
}

/// The labels that the calling thread used last, by where their text stands: most are literals. Two places
/// for each, the newer one first.
struct recent_label {
  const char* at = nullptr;
  std::size_t size = 0;
  op_label* label = nullptr;

  /// The text is compared: memory at the same place may hold another label by now.
  [[nodiscard, gnu::always_inline]] bool is(std::string_view text) const noexcept {
    return at == text.data() && size == text.size() && label != nullptr && is_same_text(text, label->name());
  }
  static recent_label* places_of(std::string_view text) noexcept;
};
extern constinit thread_local std::array<recent_label, 128> recent_labels;

inline recent_label* recent_label::places_of(std::string_view text) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(text.data());
  return &recent_labels[(at * 0x9e37'79b9'7f4a'7c15U >> 58) * 2];
}

/// The label of one op. Those of a program are few and kept for good, so that a submit neither copies nor
/// allocates; when a program makes up new ones all the time, the surplus belongs to its op and dies with it.
class label_ref {
 public:
  /// Of the process's labels, or a new one of its own when there are too many.
  static label_ref of(std::string_view text);
  /// As of(text).lasting().
  [[nodiscard, gnu::always_inline]] static op_label* lasting_of(std::string_view text) {
    const recent_label* const found = recent_label::places_of(text);
    return found->is(text) ? found->label : lasting_slowly(text);
  }

  label_ref(label_ref&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
  label_ref& operator=(label_ref&&) = delete;
  ~label_ref() {
    if (is_owned()) delete get();
  }

  [[nodiscard]] op_label* get() const noexcept {
    return reinterpret_cast<op_label*>(is_owned() ? at_ - 1 : at_);
  }
  /// For the engine to learn from; null for a label that dies with its op.
  [[nodiscard]] op_label* lasting() const noexcept { return is_owned() ? nullptr : get(); }
  [[nodiscard]] const std::string& name() const noexcept { return get()->name(); }

 private:
  explicit label_ref(op_label* kept) noexcept : at_(reinterpret_cast<char*>(kept)) {}
  label_ref(std::unique_ptr<op_label> own) noexcept : at_(reinterpret_cast<char*>(own.release()) + 1) {}
  [[nodiscard]] bool is_owned() const noexcept { return (reinterpret_cast<std::uintptr_t>(at_) & 1) != 0; }
  static op_label* intern(std::string_view text);
  static op_label* lasting_slowly(std::string_view text);

  char* at_;  // the label, or the byte behind its first one if it is this op's own
};

}  // namespace braid::detail
