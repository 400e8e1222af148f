#include "braid/settings.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "braid/error.hpp"

namespace braid {

const char* to_string(mark_policy policy) noexcept {
  switch (policy) {
    case mark_policy::learned: return "learned";
    case mark_policy::eager: return "eager";
    case mark_policy::lazy: return "lazy";
  }
  return "unknown";
}

const char* to_string(placement where) noexcept {
  switch (where) {
    case placement::automatic: return "automatic";
    case placement::per_thread: return "per_thread";
    case placement::single: return "single";
  }
  return "unknown";
}

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& text) {
  throw usage_error(misuse::bad_settings, text);
}

// One line a key: visits the field with its key and its help. The only list of what can be set.
template <class Settings, class Visit>
void each_setting(Settings& s, Visit&& visit) {
  visit("streams.max", s.max_streams, "streams of an engine; ids share them, id % max");
  visit("streams.special", s.special_streams, "streams beside the regular ones");
  visit("streams.marks", s.marks, "when events are recorded: learned, eager or lazy");
  visit("streams.deterministic", s.deterministic, "never consult completion: the same waits every time");
  visit("streams.placement", s.placed, "where ops without a stream go: automatic, per_thread or single");
  visit("cpu.workers", s.workers,
        "threads that run ops, a waiting one included; 0 is the cores of this process");
  visit("cpu.pin_workers", s.pin_workers, "each worker stays on a core of its own");
  visit("cuda.nvtx", s.nvtx, "ranges with the labels of ops, for NVIDIA's profilers");
  visit("cuda.graphs", s.graphs, "recordings are replayed as CUDA graphs, where they can be");
  visit("opencl.device", s.opencl_device,
        "a number of `braid info`, or a part of the name of a device or platform");
  visit("opencl.svm", s.opencl_svm, "shared virtual memory where the device has it");
  visit("memory.limit", s.memory_limit, "bytes that a pool may reserve; 0 is no limit");
  visit("limits.ops_in_flight", s.ops_in_flight, "submitters wait beyond this; 0 is no limit");
  visit("limits.bytes_in_flight", s.bytes_in_flight, "submitters wait beyond this; 0 is no limit");
  visit("trace.to", s.trace_to, "a file that a trace of the whole program is written to");
  visit("trace.buffer", s.trace_buffer, "bytes for each thread's records; when full, the oldest are dropped");
  visit("trace.cupti", s.trace_cupti, "on CUDA, times of ops by CUPTI where it is found; else by events");
  visit("log.to", s.log_to, "stdout, stderr or a file");
  visit("log.streaming", s.log_streaming, "who waits on whom: disabled, basic or full (why)");
  visit("log.memory", s.log_memory, "what the pools do: disabled, basic or full");
  visit("log.errors", s.log_errors, "errors that nobody asked about: disabled, basic or full");
}

std::string variable_of(std::string_view key) {
  if (key == "trace.to") return "BRAID_TRACE";
  std::string name = "BRAID_";
  for (const char c : key) {
    name += c == '.' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string nearest_key(std::string_view key) {
  settings s;
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  each_setting(s, [&](const char* each, const auto&, const char*) {
    if (const std::size_t d = distance(key, each); d < best_distance) {
      best = each;
      best_distance = d;
    }
  });
  return best;
}

template <class Enum>
std::string names_of(std::initializer_list<Enum> values) {
  std::string text;
  for (const Enum v : values) text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(v));
  return text;
}

constexpr std::initializer_list<log_level> log_levels = {log_level::disabled, log_level::basic,
                                                         log_level::full};
constexpr std::initializer_list<placement> placements = {placement::automatic, placement::per_thread,
                                                         placement::single};
constexpr std::initializer_list<mark_policy> mark_policies = {mark_policy::learned, mark_policy::eager,
                                                              mark_policy::lazy};

template <class Enum>
Enum parse_name(std::string_view text, std::initializer_list<Enum> values, const std::string& where) {
  for (const Enum v : values) {
    if (text == to_string(v)) return v;
  }
  fail(fmt::format("{}: '{}' is not one of {}", where, text, names_of(values)));
}

template <class T>
T parse_text(std::string_view text, const std::string& where) {
  if constexpr (std::is_same_v<T, std::string>) {
    if (text.empty()) fail(fmt::format("{}: is empty", where));
    return std::string(text);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text == "true" || text == "1") return true;
    if (text == "false" || text == "0") return false;
    fail(fmt::format("{}: '{}' is not true or false", where, text));
  } else if constexpr (std::is_same_v<T, log_level>) {
    return parse_name(text, log_levels, where);
  } else if constexpr (std::is_same_v<T, mark_policy>) {
    return parse_name(text, mark_policies, where);
  } else if constexpr (std::is_same_v<T, placement>) {
    return parse_name(text, placements, where);
  } else {
    T number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) {
      fail(fmt::format("{}: '{}' is not a whole number from 0 to {}", where, text,
                       std::numeric_limits<T>::max()));
    }
    return number;
  }
}

template <class T>
T parse_node(const toml::node& node, const std::string& where) {
  if constexpr (std::is_same_v<T, bool>) {
    if (const auto v = node.value_exact<bool>()) return *v;
    fail(fmt::format("{}: is not true or false", where));
  } else if constexpr (std::is_integral_v<T>) {
    const auto v = node.value_exact<std::int64_t>();
    if (!v || *v < 0 || static_cast<std::uint64_t>(*v) > std::numeric_limits<T>::max()) {
      fail(fmt::format("{}: is not a whole number from 0 to {}", where, std::numeric_limits<T>::max()));
    }
    return static_cast<T>(*v);
  } else {
    const auto v = node.value_exact<std::string>();
    if (!v) fail(fmt::format("{}: is not a text in quotes", where));
    return parse_text<T>(*v, where);
  }
}

std::string place(const fs::path& file, const toml::source_region& source) {
  return fmt::format("{}:{}:{}", file.string(), source.begin.line, source.begin.column);
}

std::optional<fs::path> find_upwards(fs::path from) {
  for (;;) {
    std::error_code ignored;
    fs::path candidate = from / "braid.toml";
    if (fs::is_regular_file(candidate, ignored)) return candidate;
    if (!from.has_relative_path() || from == from.parent_path()) return std::nullopt;
    from = from.parent_path();
  }
}

void read_file(settings& s, const fs::path& file) {
  toml::table root;
  try {
    root = toml::parse_file(file.string());
  } catch (const toml::parse_error& e) {
    fail(fmt::format("{}: {}", place(file, e.source()), e.description()));
  }
  const auto read_key = [&](const std::string& key, const toml::node& node, const toml::source_region& at) {
    bool found = false;
    each_setting(s, [&](const char* name, auto& field, const char*) {
      if (key != name) return;
      found = true;
      const std::string where = fmt::format("{}: {}", place(file, node.source()), key);
      field.value = parse_node<std::remove_cvref_t<decltype(field.value)>>(node, where);
      field.source = fmt::format("{}:{}", file.string(), node.source().begin.line);
    });
    if (!found) {
      fail(fmt::format("{}: unknown key '{}'; did you mean '{}'?", place(file, at), key, nearest_key(key)));
    }
  };
  for (const auto& [section, node] : root) {
    const std::string name(section.str());
    if (const toml::table* table = node.as_table()) {
      for (const auto& [key, value] : *table) {
        read_key(name + "." + std::string(key.str()), value, key.source());
      }
    } else {
      read_key(name, node, section.source());
    }
  }
}

}  // namespace

settings settings::load(const fs::path& from, const environment& env) {
  settings s;
  s.file = find_upwards(fs::absolute(from));
  if (s.file) read_file(s, *s.file);
  each_setting(s, [&](const char* key, auto& field, const char*) {
    const std::string variable = variable_of(key);
    const char* text = env(variable.c_str());
    if (text == nullptr) return;
    field.value = parse_text<std::remove_cvref_t<decltype(field.value)>>(text, variable);
    field.source = variable;
  });
  return s;
}

const settings& settings::process() {
  const auto variable = [](const char* name) -> const char* {
    return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read once; braid never sets a variable
  };
  static const settings s = load(fs::current_path(), variable);
  return s;
}

const detail::defaults& detail::process_defaults() {
  static const defaults all = [] {
    const settings& s = settings::process();
    return defaults{s.max_streams.value,   s.special_streams.value, s.marks.value,
                    s.deterministic.value, s.placed.value,          s.memory_limit.value,
                    s.ops_in_flight.value, s.bytes_in_flight.value};
  }();
  return all;
}

std::vector<settings::row> settings::rows() const {
  std::vector<row> all;
  each_setting(*this, [&](const char* key, const auto& field, const char* help) {
    std::string text;
    using value_type = std::remove_cvref_t<decltype(field.value)>;
    if constexpr (std::is_enum_v<value_type>) {
      text = to_string(field.value);
    } else {
      text = fmt::format("{}", field.value);
    }
    all.push_back({key, text, field.source, variable_of(key), help});
  });
  return all;
}

}  // namespace braid
