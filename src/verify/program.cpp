#include "verify/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <istream>
#include <random>
#include <sstream>

#include "braid/error.hpp"

namespace braid::verify {

std::size_t program::ops() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(steps.begin(), steps.end(), [](const step& s) { return s.what == step::kind::op; }));
}

namespace {

class dice {
 public:
  explicit dice(std::uint64_t seed) : engine_(seed) {}
  /// A number from 0 to n - 1.
  std::uint64_t roll(std::uint64_t n) { return engine_() % n; }
  bool chance(unsigned percent) { return roll(100) < percent; }

 private:
  std::mt19937_64 engine_;
};

bool overlaps(const use& a, const use& b) {
  return a.resource == b.resource && a.range.overlaps(b.range);
}

use random_use(dice& d, const std::vector<std::uint64_t>& sizes, unsigned whole_percent) {
  use u;
  u.resource = static_cast<std::uint32_t>(d.roll(sizes.size()));
  const std::uint64_t size = sizes[u.resource];
  u.range = {0, size};
  if (!d.chance(whole_percent)) {
    constexpr std::uint64_t grain = 4;
    const std::uint64_t grains = size / grain;
    const std::uint64_t first = d.roll(grains);
    u.range = {first * grain, (1 + d.roll(grains - first)) * grain};
  }
  const std::uint64_t kind = d.roll(10);
  u.kind = kind < 4   ? access::read
           : kind < 6 ? access::write
           : kind < 8 ? access::read_write
                      : access::accumulate;
  if (u.kind == access::accumulate) u.tag = static_cast<std::uint32_t>(d.roll(2));
  return u;
}

std::vector<use> random_uses(dice& d, const std::vector<std::uint64_t>& sizes, std::uint64_t most,
                             unsigned whole_percent) {
  std::vector<use> uses;
  for (std::uint64_t n = d.roll(most + 1); n > 0; --n) {
    const use u = random_use(d, sizes, whole_percent);
    const bool clashes = std::any_of(uses.begin(), uses.end(), [&](const use& each) {
      const bool both_read = each.kind == access::read && u.kind == access::read;
      return overlaps(each, u) && !both_read;
    });
    if (!clashes) uses.push_back(u);
  }
  return uses;
}

/// A few ops that one thread gives again and again: most of them such that the engine can follow a routine.
/// Now and then something comes between.
std::uint32_t add_loop(dice& d, const shape& of, program& p, std::uint64_t most_uses) {
  std::vector<step> round(1 + d.roll(8));
  const auto thread = static_cast<std::uint32_t>(d.roll(of.threads));
  const bool is_plain = d.chance(80);
  for (step& s : round) {
    s.thread = thread;
    s.stream = d.roll(of.streams);
    s.uses = random_uses(d, p.sizes, most_uses, is_plain ? 100 : 70);
    for (use& u : s.uses) {
      if (is_plain && u.kind == access::accumulate) u.kind = access::read_write;
      if (is_plain) u.tag = 0;
    }
  }
  std::uint32_t ops = 0;
  for (std::uint64_t rounds = 3 + d.roll(14); rounds > 0; --rounds) {
    for (const step& s : round) {
      if (d.chance(1)) break;
      p.steps.push_back(s);
      ++ops;
    }
  }
  return ops;
}

}  // namespace

program generate(const shape& of, std::uint64_t seed) {
  dice d(seed * 0x9e3779b97f4a7c15ULL + 1);
  program p;
  p.seed = seed;
  p.threads = of.threads;
  p.asked = dice(seed * 0x9e3779b97f4a7c15ULL + 2).chance(50);
  p.deterministic = d.chance(50);
  p.marks = std::array{mark_policy::learned, mark_policy::eager, mark_policy::lazy}[d.roll(3)];
  // Some programs use more ids than slots.
  p.max_streams =
      d.chance(80) ? of.streams
                   : std::max<std::uint32_t>(1, of.streams - static_cast<std::uint32_t>(d.roll(of.streams)));
  const std::uint64_t resources = 1 + d.roll(2 * std::uint64_t{of.streams});
  for (std::uint64_t i = 0; i < resources; ++i) p.sizes.push_back(8 + 4 * d.roll(15));
  const auto whole_percent = static_cast<unsigned>(d.roll(101));
  const std::uint64_t most_uses = 1 + d.roll(4);

  dice loops(seed * 0x9e3779b97f4a7c15ULL + 3);

  std::uint32_t ops = 0;
  while (ops < of.ops) {
    step s;
    s.thread = static_cast<std::uint32_t>(d.roll(of.threads));
    s.stream = d.roll(of.streams);
    // Completion that the retire thread sees would reach a program that consults completion at a random
    // moment; with one submitter each wait shall be accounted for.
    const bool may_retire = p.deterministic || of.threads > 1;
    const std::uint64_t other = d.roll(100);
    if (other < 3 && may_retire) {
      s.what = step::kind::retire;
    } else if (other < 6) {
      s.what = step::kind::hand_on;
      s.resource = static_cast<std::uint32_t>(d.roll(resources));
    } else if (other < 7) {
      s.what = step::kind::wait;
    } else {
      ++ops;
      s.uses = random_uses(d, p.sizes, most_uses, whole_percent);
    }
    p.steps.push_back(std::move(s));
    if (loops.chance(4)) ops += add_loop(loops, of, p, most_uses);
  }
  return p;
}

std::string to_text(const program& p) {
  const char* const mode = p.points ? "point" : (p.asked ? "event" : "unasked");
  std::string text =
      fmt::format("mode {}\nmarks {}\ndeterministic {}\nmax_streams {}\nthreads {}\nseed {}\n", mode,
                  to_string(p.marks), p.deterministic ? 1 : 0, p.max_streams, p.threads, p.seed);
  if (p.inject != sim::fault::none) text += fmt::format("inject {}\n", to_string(p.inject));
  for (std::size_t r = 0; r < p.sizes.size(); ++r) text += fmt::format("resource r{} {}\n", r, p.sizes[r]);
  for (const step& s : p.steps) {
    const std::string by = p.threads > 1 ? fmt::format("thread {} ", s.thread) : "";
    switch (s.what) {
      case step::kind::op:
        text += fmt::format("{}op stream {}", by, s.stream);
        for (const use& u : s.uses) {
          const std::string tag = u.kind == access::accumulate ? fmt::format(":{}", u.tag) : "";
          text += fmt::format(", {}{} r{}[{},{})", to_string(u.kind), tag, u.resource, u.range.offset,
                              u.range.end());
        }
        text += '\n';
        break;
      case step::kind::retire: text += fmt::format("{}retire stream {}\n", by, s.stream); break;
      case step::kind::hand_on: text += fmt::format("{}hand_on r{}\n", by, s.resource); break;
      case step::kind::wait: text += fmt::format("{}wait stream {}\n", by, s.stream); break;
    }
  }
  return text;
}

namespace {

class line_reader {
 public:
  line_reader(std::string name, std::size_t number, const std::string& text)
      : name_(std::move(name)), number_(number), text_(text) {}

  [[noreturn]] void fail(const std::string& expected) const {
    throw usage_error(misuse::bad_settings,
                      fmt::format("{}:{}:{}: expected {} in '{}'", name_, number_, at_ + 1, expected, text_));
  }
  bool accept(std::string_view word) {
    skip();
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) fail(fmt::format("'{}'", word));
  }
  std::uint64_t number(std::uint64_t most) {
    skip();
    std::uint64_t n = 0;
    const char* first = text_.data() + at_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), n);
    if (error != std::errc{} || n > most) fail(fmt::format("a whole number up to {}", most));
    at_ += static_cast<std::size_t>(end - first);
    return n;
  }
  void end() {
    skip();
    if (at_ != text_.size()) fail("the end of the line");
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string name_;
  std::size_t number_;
  const std::string& text_;
  std::size_t at_ = 0;
};

constexpr std::uint64_t most_streams = 4096;
constexpr std::uint64_t most_threads = 64;
constexpr std::uint64_t most_bytes = 1 << 20;

use parse_use(line_reader& in, const program& p) {
  use u;
  if (in.accept("read_write")) {
    u.kind = access::read_write;
  } else if (in.accept("read")) {
    u.kind = access::read;
  } else if (in.accept("write")) {
    u.kind = access::write;
  } else if (in.accept("accumulate")) {
    u.kind = access::accumulate;
    if (in.accept(":")) u.tag = static_cast<std::uint32_t>(in.number(~std::uint32_t{0}));
  } else {
    in.fail("read, write, read_write or accumulate");
  }
  in.expect("r");
  if (p.sizes.empty()) in.fail("a resource that was declared before");
  u.resource = static_cast<std::uint32_t>(in.number(p.sizes.size() - 1));
  in.expect("[");
  u.range.offset = in.number(p.sizes[u.resource]);
  in.expect(",");
  const std::uint64_t end = in.number(p.sizes[u.resource]);
  if (end < u.range.offset) in.fail("a range that does not end before it begins");
  u.range.size = end - u.range.offset;
  in.expect(")");
  return u;
}

template <class Enum>
Enum parse_word(line_reader& in, std::initializer_list<Enum> values) {
  std::string names;
  for (const Enum v : values) {
    if (in.accept(to_string(v))) return v;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", to_string(v));
  }
  in.fail("one of " + names);
}

bool parse_setting(line_reader& in, program& p) {
  if (in.accept("mode")) {
    p.points = in.accept("point");
    p.asked = p.points || !in.accept("unasked");
    if (!p.points && p.asked && !in.accept("event")) in.fail("one of event, unasked, point");
  } else if (in.accept("marks")) {
    p.marks = parse_word(in, {mark_policy::learned, mark_policy::eager, mark_policy::lazy});
  } else if (in.accept("deterministic")) {
    p.deterministic = in.number(1) == 1;
  } else if (in.accept("max_streams")) {
    p.max_streams = static_cast<std::uint32_t>(in.number(most_streams));
  } else if (in.accept("threads")) {
    p.threads = static_cast<std::uint32_t>(in.number(most_threads));
    if (p.threads == 0) in.fail("at least one thread");
  } else if (in.accept("seed")) {
    p.seed = in.number(~std::uint64_t{0});
  } else if (in.accept("inject")) {
    p.inject = parse_word(in, {sim::fault::missing, sim::fault::superfluous, sim::fault::stale_mark,
                               sim::fault::uncommitted_cursor});
  } else if (in.accept("resource")) {
    in.expect("r");
    if (in.number(p.sizes.size()) != p.sizes.size())
      in.fail(fmt::format("resource r{} next", p.sizes.size()));
    p.sizes.push_back(in.number(most_bytes));
  } else {
    return false;
  }
  return true;
}

}  // namespace

program parse(std::istream& in, const std::string& name) {
  program p;
  std::string text;
  for (std::size_t number = 1; std::getline(in, text); ++number) {
    if (const std::size_t comment = text.find('#'); comment != std::string::npos) text.resize(comment);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.pop_back();
    if (text.empty()) continue;
    line_reader line(name, number, text);
    step s;
    const bool has_thread = line.accept("thread ");
    if (has_thread) s.thread = static_cast<std::uint32_t>(line.number(p.threads - 1));
    if (!has_thread && parse_setting(line, p)) {
      line.end();
      continue;
    }
    if (line.accept("op")) {
      line.expect("stream");
      s.stream = line.number(~std::uint64_t{0} >> 1);
      while (line.accept(",")) s.uses.push_back(parse_use(line, p));
    } else if (line.accept("hand_on")) {
      s.what = step::kind::hand_on;
      line.expect("r");
      if (p.sizes.empty()) line.fail("a resource that was declared before");
      s.resource = static_cast<std::uint32_t>(line.number(p.sizes.size() - 1));
    } else if (line.accept("retire") || line.accept("wait")) {
      s.what = text.find("retire") != std::string::npos ? step::kind::retire : step::kind::wait;
      line.expect("stream");
      s.stream = line.number(~std::uint64_t{0} >> 1);
    } else {
      line.fail(
          "op, retire, hand_on, wait, or a setting (mode, marks, deterministic, max_streams, threads, seed, "
          "inject, resource)");
    }
    line.end();
    p.steps.push_back(std::move(s));
  }
  return p;
}

}  // namespace braid::verify
