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
    text += fmt::format("binding {} needs {} ({})\n", s.binding, detail::name_of_op(s.origin, s.cursor),
                        to_string(s.why));
  }
  for (const stream_wait& w : a.waits) {
    text += fmt::format("waits for {} ({}, binding {})", detail::name_of_op(w.origin, w.cursor),
                        to_string(w.why), w.binding);
    if (w.reached > w.cursor) text += fmt::format(", reaching op {}", w.reached);
    text += '\n';
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const alignment& a) {
  return out << to_string(a);
}

namespace detail {

bool is_foreign(stream_id origin) noexcept {
  return origin.is_special() && origin.special_index() >= index_of(first_foreign_lane);
}

std::string name_of_op(stream_id origin, std::uint64_t cursor) {
  if (is_foreign(origin)) return foreign_work;
  return fmt::format("op {} of stream {}", cursor, to_string(origin));
}

void log_wait(logger& log, stream_id waiting, std::uint64_t cursor, const stream_wait& wait,
              const std::string& resource) {
  const bool is_ours = !is_foreign(wait.origin);
  std::string text = fmt::format("stream {} waits on {}", to_string(waiting),
                                 is_ours ? "stream " + to_string(wait.origin) : foreign_work);
  if (!log.is_enabled(log_area::streaming, log_level::full)) {
    return log.write(log_area::streaming, log_level::basic, text);
  }
  text += is_ours
              ? fmt::format(": op {} needs op {} there, reaching op {}", cursor, wait.cursor, wait.reached)
              : fmt::format(": op {} needs it", cursor);
  text += wait.why == hazard::user ? fmt::format(" ({})", to_string(wait.why))
                                   : fmt::format(" ({} on '{}')", to_string(wait.why), resource);
  log.write(log_area::streaming, log_level::full, text);
}

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
