#include "workloads/json_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "braid/error.hpp"

namespace braid::workloads {

namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t same = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({diagonal + 1, row[j] + 1, same});
    }
  }
  return row.back();
}

}  // namespace

std::string json_place::text() const {
  std::string to;
  if (list != nullptr) to += fmt::format("{}[{}]", list, index);
  if (field != nullptr) to += fmt::format("{}{}", to.empty() ? "" : ".", field);
  if (element) to += fmt::format("[{}]", *element);
  if (part != nullptr) to += fmt::format(".{}", part);
  return to;
}

void json_fields::fail(const node& at, const place& where, const std::string& text) const {
  const std::string field = where.text();
  throw usage_error(misuse::bad_settings,
                    fmt::format("{}:{}: {}{}{}", name_, at.line, field, field.empty() ? "" : ": ", text));
}

void json_fields::expect(const node& at, const place& where, kind type) const {
  if (at.type == type) return;
  fail(at, where,
       fmt::format("has to be {}, and is {}", json_tree::describe(type), json_tree::describe(at.type)));
}

std::uint64_t json_fields::natural(const node& at, const place& where, std::uint64_t least,
                                   std::uint64_t most) const {
  if (at.type == kind::negative || at.type == kind::real) {
    fail(at, where, fmt::format("has to be a whole number from {} to {}, and is {}", least, most, at.number));
  }
  expect(at, where, kind::natural);
  if (at.natural < least || at.natural > most) {
    fail(at, where, fmt::format("has to be from {} to {}, and is {}", least, most, at.natural));
  }
  return at.natural;
}

double json_fields::number(const node& at, const place& where, double least, double most) const {
  if (at.type != kind::natural && at.type != kind::negative) expect(at, where, kind::real);
  if (!(at.number >= least && at.number <= most)) {
    fail(at, where, fmt::format("has to be from {:.0f} to {:.0f}, and is {}", least, most, at.number));
  }
  return at.number;
}

std::string_view json_fields::text(const node& at, const place& where, std::uint64_t longest) const {
  expect(at, where, kind::text);
  if (at.text.empty()) fail(at, where, "is empty");
  if (at.text.size() > longest) fail(at, where, fmt::format("is longer than {} bytes", longest));
  return at.text;
}

void json_fields::find(const node& object, const place& where, std::span<const char* const> names,
                       std::span<const node*> found) const {
  expect(object, where, kind::object);
  for (const node* n = tree_.first(object); n != nullptr; n = tree_.next(*n)) {
    const auto at = static_cast<std::size_t>(std::ranges::find(names, n->key) - names.begin());
    if (at == names.size()) {
      const std::string guessed = guess(n->key, names);
      fail(*n, where,
           fmt::format("unknown field '{}'{}", shortened(n->key),
                       guessed.empty() ? "; there are " + joined(names) : guessed));
    }
    if (found[at] != nullptr) {
      fail(*n, where.at(names[at]), fmt::format("is given twice, first in line {}", found[at]->line));
    }
    found[at] = n;
  }
}

std::string json_fields::guess(std::string_view wrong, std::span<const std::string_view> names) {
  constexpr std::size_t most_compared = 1000;
  constexpr std::size_t longest = 64;
  if (wrong.size() > longest) return "";
  std::string_view best;
  std::size_t best_distance = wrong.size() / 3 + 2;
  for (const std::string_view each : names.first(std::min(names.size(), most_compared))) {
    if (each.size() > longest) continue;
    if (const std::size_t d = distance(wrong, each); d < best_distance) {
      best = each;
      best_distance = d;
    }
  }
  return best.empty() ? "" : fmt::format("; did you mean '{}'?", best);
}

std::string json_fields::guess(std::string_view wrong, std::span<const char* const> names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  return guess(wrong, std::span<const std::string_view>(views));
}

std::string json_fields::joined(std::span<const char* const> names) {
  std::string all;
  for (const char* each : names) all.append(all.empty() ? "" : ", ").append(each);
  return all;
}

}  // namespace braid::workloads
