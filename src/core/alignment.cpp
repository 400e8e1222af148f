#include "braid/alignment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "braid/detail/aligner.hpp"

namespace braid {

std::string to_string(const alignment& a) {
  if (a.shared.empty()) return "nothing shared\n";
  std::string text;
  for (const shared_binding& s : a.shared) {
    text += fmt::format("binding {} needs op {} of stream {} ({})\n", s.binding, s.cursor,
                        to_string(s.origin), to_string(s.why));
  }
  for (const stream_wait& w : a.waits) {
    text += fmt::format("waits for op {} of stream {} ({}, binding {})", w.cursor, to_string(w.origin),
                        to_string(w.why), w.binding);
    if (w.reached > w.cursor) text += fmt::format(", reaching op {}", w.reached);
    text += '\n';
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const alignment& a) {
  return out << to_string(a);
}

void detail::log_wait(logger& log, stream_id waiting, std::uint64_t cursor, const stream_wait& wait,
                      const std::string& resource) {
  std::string text = fmt::format("stream {} waits on stream {}", to_string(waiting), to_string(wait.origin));
  if (!log.is_enabled(log_area::streaming, log_level::full)) {
    return log.write(log_area::streaming, log_level::basic, text);
  }
  text += fmt::format(": op {} needs op {} there, reaching op {} ({} on '{}')", cursor, wait.cursor,
                      wait.reached, to_string(wait.why), resource);
  log.write(log_area::streaming, log_level::full, text);
}

namespace detail {

void sort(std::vector<need>& needs) noexcept {
  std::sort(needs.begin(), needs.end(), comes_before);
}

void sort(std::span<resource_use> uses) noexcept {
  std::sort(uses.begin(), uses.end(), [](const resource_use& x, const resource_use& y) {
    return x.state != y.state ? x.state < y.state : x.binding < y.binding;
  });
}

}  // namespace detail

}  // namespace braid
