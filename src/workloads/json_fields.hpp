#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "workloads/json_tree.hpp"

// Fields of a JSON text with checks whose errors name the file, the line and the field:
// "g.json:12: ops[3].reads[0]: there is no resource 'z'; did you mean 'x'?"

namespace braid::workloads {

/// A field, as errors write it: list[index].field[element].part
struct json_place {
  const char* list = nullptr;
  std::uint64_t index = 0;
  const char* field = nullptr;
  std::optional<std::uint64_t> element{};
  const char* part = nullptr;

  [[nodiscard]] std::string text() const;
  /// A field of what is here.
  [[nodiscard]] json_place at(const char* inner) const {
    json_place to = *this;
    (to.field != nullptr ? to.part : to.field) = inner;
    return to;
  }
};

class json_fields {
 public:
  using node = json_tree::node;
  using kind = json_tree::kind;
  using place = json_place;

  json_fields(std::string_view text, const std::string& name) : tree_(text, name), name_(name) {}
  [[nodiscard]] const json_tree& tree() const noexcept { return tree_; }

  // Each throws usage_error(bad_settings).
  [[noreturn]] void fail(const node& at, const place& where, const std::string& text) const;
  void expect(const node& at, const place& where, kind type) const;
  std::uint64_t natural(const node& at, const place& where, std::uint64_t least, std::uint64_t most) const;
  double number(const node& at, const place& where, double least, double most) const;
  std::string_view text(const node& at, const place& where, std::uint64_t longest) const;

  /// The fields of an object by their names; null where one is absent. There may be no others.
  template <std::size_t Count>
  std::array<const node*, Count> fields(const node& object, const place& where,
                                        const std::array<const char*, Count>& names) const {
    std::array<const node*, Count> found{};
    find(object, where, names, found);
    return found;
  }

  /// "; did you mean 'x'?", or nothing where none of the names is near.
  static std::string guess(std::string_view wrong, std::span<const std::string_view> names);
  static std::string guess(std::string_view wrong, std::span<const char* const> names);
  /// "a, b, c"
  static std::string joined(std::span<const char* const> names);
  /// For texts in errors.
  static std::string_view shortened(std::string_view s) noexcept { return s.substr(0, 64); }

 private:
  void find(const node& object, const place& where, std::span<const char* const> names,
            std::span<const node*> found) const;

  json_tree tree_;
  const std::string& name_;
};

}  // namespace braid::workloads
