#include "workloads/taskgraph_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <tuple>
#include <unordered_map>

#include "braid/error.hpp"
#include "workloads/json_fields.hpp"

namespace braid::workloads {

namespace {

constexpr std::uint64_t word = 8;
using node = json_fields::node;
using kind = json_fields::kind;
using place = json_fields::place;

class reader : private json_fields {
 public:
  reader(std::string_view text, const std::string& name, const graph_limits& limits)
      : json_fields(text, name), limits_(limits) {}

  graph read() {
    const place top{};
    const auto [version, resources, ops, repeat] =
        fields<4>(tree().root(), top, {"version", "resources", "ops", "repeat"});
    if (version == nullptr) fail(tree().root(), top.at("version"), "missing; this is version 1");
    if (natural(*version, top.at("version"), 0, limit_of_whole) != 1) {
      fail(*version, top.at("version"), fmt::format("{} is unknown; this is version 1", version->natural));
    }
    if (resources != nullptr) read_resources(*resources);
    if (ops == nullptr) fail(tree().root(), top.at("ops"), "missing; a list of ops");
    read_ops(*ops);
    if (repeat != nullptr) to_.repeat = natural(*repeat, top.at("repeat"), 1, limits_.runs);
    const node& blamed = repeat != nullptr ? *repeat : *ops;
    if (to_.repeat > limits_.runs / to_.ops.size()) {
      fail(blamed, top.at("repeat"),
           fmt::format("{} times {} ops are more than {}", to_.repeat, to_.ops.size(), limits_.runs));
    }
    if (seconds_ * static_cast<double>(to_.repeat) > limits_.seconds) {
      fail(
          blamed, top.at("repeat"),
          fmt::format("the durations of all ops, {} times, are more than {} s", to_.repeat, limits_.seconds));
    }
    cut(*ops);
    return std::move(to_);
  }

 private:
  static constexpr std::uint64_t limit_of_whole = std::uint64_t{1} << 53;

  std::uint64_t words(const node& n, const place& where, std::uint64_t least, std::uint64_t most) const {
    const std::uint64_t bytes = natural(n, where, least, most);
    if (bytes % word != 0) fail(n, where, fmt::format("has to be a multiple of {}, and is {}", word, bytes));
    return bytes / word;
  }
  std::string_view name_in(const node& n, const place& where) const { return text(n, where, limits_.name); }

  void read_resources(const node& list) {
    expect(list, place{.field = "resources"}, kind::list);
    if (list.count > limits_.resources) {
      fail(list, place{.field = "resources"}, fmt::format("more than {}", limits_.resources));
    }
    std::uint64_t bytes = 0;
    for (const node* n = tree().first(list); n != nullptr; n = tree().next(*n)) {
      const place where{.list = "resources", .index = to_.resources.size()};
      const auto [name, size] = fields<2>(*n, where, {"name", "bytes"});
      if (name == nullptr) fail(*n, where.at("name"), "missing");
      if (size == nullptr) fail(*n, where.at("bytes"), "missing");
      const std::string_view called = name_in(*name, where.at("name"));
      const auto [earlier, is_new] = by_name_.try_emplace(called, static_cast<std::uint32_t>(where.index));
      if (!is_new) {
        fail(*name, where.at("name"),
             fmt::format("'{}' is the name of resources[{}] already", called, earlier->second));
      }
      const std::uint64_t count = words(*size, where.at("bytes"), word, limits_.bytes / word * word);
      bytes += count * word;
      if (bytes > limits_.bytes) {
        fail(*size, where.at("bytes"),
             fmt::format("all resources together are larger than {} bytes", limits_.bytes));
      }
      to_.resources.push_back({std::string(called), count});
    }
  }

  void read_ops(const node& list) {
    expect(list, place{.field = "ops"}, kind::list);
    if (list.count == 0) fail(list, place{.field = "ops"}, "has to have at least one op");
    if (list.count > limits_.ops) fail(list, place{.field = "ops"}, fmt::format("more than {}", limits_.ops));
    to_.ops.reserve(list.count);
    for (const node* n = tree().first(list); n != nullptr; n = tree().next(*n)) read_op(*n);
  }

  void read_op(const node& n) {
    const place where{.list = "ops", .index = to_.ops.size()};
    const auto [label, reads, writes, read_writes, accumulates, duration, kernel, stream] = fields<8>(
        n, where,
        {"label", "reads", "writes", "read_writes", "accumulates", "duration_us", "kernel", "stream"});
    if (label == nullptr) fail(n, where.at("label"), "missing");
    graph::op op;
    op.label = name_in(*label, where.at("label"));
    op.first_access = to_.accesses.size();
    read_accesses(reads, where.at("reads"), braid::access::read);
    read_accesses(writes, where.at("writes"), braid::access::write);
    read_accesses(read_writes, where.at("read_writes"), braid::access::read_write);
    read_accesses(accumulates, where.at("accumulates"), braid::access::accumulate);
    const std::uint64_t count = to_.accesses.size() - op.first_access;
    if (count > limits_.accesses_of_op) {
      fail(n, where, fmt::format("{} accesses; at most {} are possible", count, limits_.accesses_of_op));
    }
    op.accesses = static_cast<std::uint32_t>(count);
    if (duration != nullptr && kernel != nullptr) {
      fail(*kernel, where.at("kernel"), "an op has a duration_us or a kernel, not both");
    }
    if (duration != nullptr) op.nanoseconds = nanoseconds(*duration, where.at("duration_us"));
    if (kernel != nullptr) op.kernel = kernel_of(*kernel, where.at("kernel"), reads, writes, read_writes);
    if (stream != nullptr) op.stream = natural(*stream, where.at("stream"), 0, 0xffff'ffff);
    check_conflicts(n, where, op);
    to_.ops.push_back(std::move(op));
  }

  std::uint64_t nanoseconds(const node& n, const place& where) {
    const double us = number(n, where, 0.0, limits_.seconds * 1e6);
    seconds_ += us * 1e-6;
    return static_cast<std::uint64_t>(std::llround(us * 1e3));
  }
  graph_kernel kernel_of(const node& n, const place& where, const node* reads, const node* writes,
                         const node* read_writes) const {
    static constexpr std::array<const char*, 3> names{"fill", "copy", "sum"};
    const std::string_view asked = name_in(n, where);
    const auto has = [](const node* list) { return list != nullptr && list->count != 0; };
    if (asked == "fill") {
      if (!has(writes)) fail(n, where, "fill needs something in writes");
      return graph_kernel::fill;
    }
    if (asked == "copy") {
      if (!has(reads) || !has(writes)) fail(n, where, "copy needs something in reads and in writes");
      return graph_kernel::copy;
    }
    if (asked == "sum") {
      if (!has(reads) && !has(read_writes)) fail(n, where, "sum needs something in reads or read_writes");
      return graph_kernel::sum;
    }
    fail(n, where, fmt::format("there is no kernel '{}'; there are {}", shortened(asked), joined(names)));
  }

  void read_accesses(const node* list, place where, braid::access kind_of_access) {
    if (list == nullptr) return;
    expect(*list, where, kind::list);
    std::uint64_t element = 0;
    for (const node* n = tree().first(*list); n != nullptr; n = tree().next(*n)) {
      where.element = element++;
      to_.accesses.push_back(read_access(*n, where, kind_of_access));
    }
  }
  graph::access read_access(const node& n, const place& where, braid::access kind_of_access) {
    graph::access of;
    of.kind = kind_of_access;
    const node* name = &n;
    const node* offset = nullptr;
    const node* bytes = nullptr;
    const node* tag = nullptr;
    place name_at = where;
    if (n.type == kind::object) {
      if (kind_of_access == braid::access::accumulate) {
        const auto found = fields<4>(n, where, {"name", "offset", "bytes", "tag"});
        std::tie(name, offset, bytes, tag) = std::tuple_cat(found);
      } else {
        const auto found = fields<3>(n, where, {"name", "offset", "bytes"});
        std::tie(name, offset, bytes) = std::tuple_cat(found);
      }
      name_at = where.at("name");
      if (name == nullptr) fail(n, name_at, "missing");
    } else if (n.type != kind::text) {
      fail(n, where, fmt::format("has to be a name or an object, and is {}", json_tree::describe(n.type)));
    }
    const std::string_view called = name_in(*name, name_at);
    const auto found = by_name_.find(called);
    if (found == by_name_.end()) {
      std::vector<std::string_view> names;
      names.reserve(to_.resources.size());
      for (const auto& r : to_.resources) names.emplace_back(r.name);
      fail(*name, name_at,
           fmt::format("there is no resource '{}'{}", shortened(called), guess(called, names)));
    }
    of.resource = found->second;
    const std::uint64_t all = to_.resources[of.resource].words;
    if (offset != nullptr) of.first = words(*offset, where.at("offset"), 0, (all - 1) * word);
    of.words =
        bytes != nullptr ? words(*bytes, where.at("bytes"), word, (all - of.first) * word) : all - of.first;
    if (tag != nullptr) of.tag = static_cast<std::uint32_t>(natural(*tag, where.at("tag"), 0, 0xffff'ffff));
    return of;
  }

  /// What one op does to the same bytes has to have no order.
  void check_conflicts(const node& n, const place& where, const graph::op& op) {
    sorted_.assign(to_.accesses.begin() + static_cast<std::ptrdiff_t>(op.first_access), to_.accesses.end());
    std::ranges::sort(sorted_, {}, [](const graph::access& a) { return std::pair(a.resource, a.first); });
    std::uint32_t resource = 0;
    std::uint64_t read_to = 0, written_to = 0;              // the ends of those before
    std::map<std::uint32_t, std::uint64_t> accumulated_to;  // by tag
    for (const graph::access& a : sorted_) {
      if (a.resource != resource) {
        resource = a.resource;
        read_to = written_to = 0;
        accumulated_to.clear();
      }
      const bool is_read = a.kind == braid::access::read;
      const bool accumulates = a.kind == braid::access::accumulate;
      bool conflicts = a.first < written_to || (!is_read && a.first < read_to);
      for (const auto& [tag, end] : accumulated_to) {
        conflicts = conflicts || (a.first < end && !(accumulates && tag == a.tag));
      }
      if (conflicts) {
        fail(n, where,
             fmt::format("names bytes of '{}' from {} on twice, and not only to read them: use "
                         "read_writes, or ranges that do not overlap",
                         to_.resources[resource].name, a.first * word));
      }
      std::uint64_t& end = is_read ? read_to : accumulates ? accumulated_to[a.tag] : written_to;
      end = std::max(end, a.first + a.words);
      if (accumulated_to.size() > most_tags) fail(n, where, fmt::format("more than {} tags", most_tags));
    }
  }
  static constexpr std::size_t most_tags = 16;  // of one op on one resource

  void cut(const node& ops) {
    for (const graph::access& a : to_.accesses) {
      std::vector<std::uint64_t>& cuts = to_.resources[a.resource].cuts;
      cuts.push_back(a.first);
      if (a.first + a.words < to_.resources[a.resource].words) cuts.push_back(a.first + a.words);
    }
    for (graph::resource& r : to_.resources) {
      std::ranges::sort(r.cuts);
      r.cuts.erase(std::unique(r.cuts.begin(), r.cuts.end()), r.cuts.end());
    }
    std::uint64_t all = 0;
    for (graph::access& a : to_.accesses) {
      const std::vector<std::uint64_t>& cuts = to_.resources[a.resource].cuts;
      const auto begin = std::ranges::lower_bound(cuts, a.first);
      const auto end = std::lower_bound(begin, cuts.end(), a.first + a.words);
      a.first_cut = static_cast<std::uint32_t>(begin - cuts.begin());
      a.cuts = static_cast<std::uint32_t>(end - begin);
      all += a.cuts;
    }
    if (all > limits_.cuts) {
      fail(ops, place{.field = "ops"}, "the ranges cut the resources into too many pieces: use fewer ranges");
    }
  }

  const graph_limits& limits_;
  graph to_;
  double seconds_ = 0.0;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
  std::vector<graph::access> sorted_;
};

}  // namespace

graph parse_taskgraph(std::string_view text, const std::string& name, const graph_limits& limits) {
  if (text.size() > limits.text) {
    throw usage_error(misuse::bad_settings, fmt::format("{}:1: longer than {} bytes", name, limits.text));
  }
  return reader(text, name, limits).read();
}

graph read_taskgraph(const std::string& file, const graph_limits& limits) {
  const auto fail = [&](const std::string& why) {
    throw usage_error(misuse::bad_settings, fmt::format("{}: {}", file, why));
  };
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) fail("is a directory");
  errno = 0;
  std::ifstream from(file, std::ios::binary);
  if (!from) fail(std::system_category().message(errno != 0 ? errno : ENOENT));
  std::string text;
  std::array<char, 65'536> part{};
  while (from && text.size() <= limits.text) {
    from.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(from.gcount()));
  }
  if (from.bad()) fail("cannot be read to its end");
  return parse_taskgraph(text, file, limits);
}

}  // namespace braid::workloads
