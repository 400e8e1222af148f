#include "workloads/json_tree.hpp"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "braid/error.hpp"

namespace braid::workloads {

namespace {

/// How far the lexer has read. After a number it has read one character too many, which may be the end of the
/// line; no token ends with one. So a newline counts when the character behind it is read.
struct position {
  std::uint32_t line = 1;
  char last = ' ';
  void pass(char c) noexcept {
    if (last == '\n') ++line;
    last = c;
  }
};

class counting_iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  counting_iterator(const char* at, position* where) noexcept : at_(at), where_(where) {}
  reference operator*() const noexcept { return *at_; }
  counting_iterator& operator++() noexcept {
    where_->pass(*at_++);
    return *this;
  }
  counting_iterator operator++(int) noexcept {
    counting_iterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const counting_iterator& other) const noexcept { return at_ == other.at_; }
  bool operator!=(const counting_iterator& other) const noexcept { return at_ != other.at_; }

 private:
  const char* at_;
  position* where_;
};

[[noreturn]] void fail(const std::string& name, std::uint32_t line, const std::string& text) {
  throw usage_error(misuse::bad_settings, fmt::format("{}:{}: {}", name, line, text));
}

}  // namespace

/// What nlohmann's parser calls.
class json_tree::builder {
 public:
  using json = nlohmann::json;
  builder(json_tree& to, const std::string& name, const position& where)
      : to_(to), name_(name), where_(where) {}

  bool null() { return add({}); }
  bool boolean(bool) { return add({.type = kind::boolean}); }
  bool number_integer(json::number_integer_t n) {
    return add({.type = kind::negative, .number = static_cast<double>(n)});
  }
  bool number_unsigned(json::number_unsigned_t n) {
    return add({.type = kind::natural, .natural = n, .number = static_cast<double>(n)});
  }
  bool number_float(json::number_float_t n, const json::string_t&) {
    return add({.type = kind::real, .number = n});
  }
  bool string(json::string_t& s) { return add({.type = kind::text, .text = keep(s)}); }
  bool binary(json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open({.type = kind::object}); }
  bool start_array(std::size_t) { return open({.type = kind::list}); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(json::string_t& s) {
    key_ = keep(s);
    return true;
  }
  template <class Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& e) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...": the end is for
    // people.
    std::string_view text = e.what();
    if (const auto end = text.find("] "); end != text.npos) text.remove_prefix(end + 2);
    if (const auto end = text.find(": "); text.starts_with("parse error") && end != text.npos) {
      text.remove_prefix(end + 2);
    }
    fail(name_, where_.line, std::string(text));
  }

 private:
  struct level {
    std::uint32_t node;
    std::uint32_t last_child = none;
  };

  std::string_view keep(std::string& s) { return *to_.strings_.insert(std::move(s)).first; }

  bool add(node made) {
    if (to_.nodes_.size() >= most_nodes) {
      fail(name_, where_.line, fmt::format("too long: more than {} values", most_nodes));
    }
    made.line = where_.line;
    made.key = std::exchange(key_, {});
    const auto index = static_cast<std::uint32_t>(to_.nodes_.size());
    if (!open_.empty()) {
      level& in = open_.back();
      (in.last_child == none ? to_.nodes_[in.node].first : to_.nodes_[in.last_child].next) = index;
      in.last_child = index;
      ++to_.nodes_[in.node].count;
    }
    to_.nodes_.push_back(made);
    return true;
  }
  bool open(node made) {
    if (open_.size() == most_depth) {
      fail(name_, where_.line, fmt::format("lists and objects in more than {} levels", most_depth));
    }
    add(made);
    open_.push_back({static_cast<std::uint32_t>(to_.nodes_.size() - 1)});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  json_tree& to_;
  const std::string& name_;
  const position& where_;
  std::string_view key_;
  std::vector<level> open_;
};

json_tree::json_tree(std::string_view text, const std::string& name) {
  position where;
  builder sax(*this, name, where);
  const char* const end = text.data() + text.size();
  if (!nlohmann::json::sax_parse(counting_iterator(text.data(), &where), counting_iterator(end, &where),
                                 &sax)) {
    fail(name, where.line, "not JSON");
  }
}

const char* json_tree::describe(kind type) noexcept {
  switch (type) {
    case kind::null: return "null";
    case kind::boolean: return "true or false";
    case kind::natural: return "a whole number";
    case kind::negative: return "a negative number";
    case kind::real: return "a number";
    case kind::text: return "a text";
    case kind::list: return "a list";
    default: return "an object";
  }
}

}  // namespace braid::workloads
