#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

// A JSON text as a tree whose nodes know their line, which nlohmann's own values do not: for errors that tell
// people where to look.

namespace braid::workloads {

class json_tree {
 public:
  enum class kind : std::uint8_t { null, boolean, natural, negative, real, text, list, object };
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct node {
    kind type = kind::null;
    std::uint32_t line = 0;
    std::uint32_t first = none;  ///< child
    std::uint32_t next = none;   ///< sibling
    std::uint32_t count = 0;     ///< of children
    std::string_view key{};      ///< in its object
    std::string_view text{};
    std::uint64_t natural = 0;
    double number = 0.0;  ///< of every number
  };

  /// Throws usage_error(bad_settings) with `name` and the line if it is not JSON or too deep.
  json_tree(std::string_view text, const std::string& name);
  json_tree(const json_tree&) = delete;
  json_tree& operator=(const json_tree&) = delete;

  [[nodiscard]] const node& root() const { return nodes_.front(); }
  [[nodiscard]] const node* first(const node& of) const { return at(of.first); }
  [[nodiscard]] const node* next(const node& of) const { return at(of.next); }

  /// "a list", for errors.
  static const char* describe(kind type) noexcept;

  static constexpr std::size_t most_depth = 16;
  static constexpr std::size_t most_nodes = 20'000'000;

 private:
  class builder;
  [[nodiscard]] const node* at(std::uint32_t i) const { return i == none ? nullptr : &nodes_[i]; }

  std::vector<node> nodes_;
  std::unordered_set<std::string> strings_;  // each once: names occur again and again
};

}  // namespace braid::workloads
