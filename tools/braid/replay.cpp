#include "trace/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "braid/error.hpp"
#include "commands.hpp"
#include "progress.hpp"
#include "trace/analysis.hpp"

namespace braid::tool {

namespace {

using placing = trace::replay_setting::placing;

constexpr std::uint32_t most_streams = 4096;

std::uint32_t number_of(std::string_view text, const std::string& all) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0 || value > most_streams) {
    throw usage_error(
        misuse::bad_settings,
        fmt::format("--streams {}: '{}' is not a number from 1 to {}; right are 4, 1,2,4 or 1..16", all, text,
                    most_streams));
  }
  return value;
}

/// "1,2,4", "1..16": the latter by doubling.
std::set<std::uint32_t> parse_streams(const std::string& text) {
  std::set<std::uint32_t> all;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view item = std::string_view(text).substr(at, comma - at);
    if (const std::size_t dots = item.find(".."); dots != std::string_view::npos) {
      const std::uint32_t first = number_of(item.substr(0, dots), text);
      const std::uint32_t last = number_of(item.substr(dots + 2), text);
      if (last < first) {
        throw usage_error(misuse::bad_settings,
                          fmt::format("--streams {}: {} is above {}", text, first, last));
      }
      for (std::uint32_t n = first; n < last; n *= 2) all.insert(n);
      all.insert(last);
    } else {
      all.insert(number_of(item, text));
    }
    at = comma + 1;
  }
  return all;
}

placing parse_placing(const std::string& text) {
  for (const placing p : {placing::recorded, placing::automatic, placing::per_thread, placing::single}) {
    if (text == to_string(p)) return p;
  }
  throw usage_error(
      misuse::bad_settings,
      fmt::format("--placement {}: is not one of recorded, automatic, per_thread, single", text));
}

struct asked_replay {
  std::string file;
  std::string streams = "1..16";
  std::vector<std::string> placements;
  std::uint32_t workers = 0;
  bool json = false;
};

std::string text_of(const trace::replay_setting& s) {
  return fmt::format("{} stream{}, placement {}", s.streams, s.streams == 1 ? "" : "s", to_string(s.placed));
}

int run_replay(const asked_replay& with) {
  const trace::trace t = trace::read_file(with.file);
  if (t.ops.empty()) throw trace::trace_error(with.file + ": has no ops to replay");
  const trace::replay_setting own = trace::own_setting(t);
  std::vector<placing> placements;
  placements.reserve(with.placements.size());
  for (const std::string& each : with.placements) placements.push_back(parse_placing(each));
  if (placements.empty()) {
    placements = {placing::recorded, placing::automatic};
    if (!trace::names_streams(t)) placements = {placing::automatic};
  }
  std::vector<trace::replay_setting> settings;
  for (const placing p : placements) {
    if (p == placing::single) {
      settings.push_back({1, p, with.workers});
      continue;
    }
    for (const std::uint32_t n : parse_streams(with.streams)) settings.push_back({n, p, with.workers});
  }
  const trace::prediction as_recorded = trace::replay(t, own);
  std::vector<trace::prediction> all;
  {
    progress_bar bar("replaying", settings.size());
    for (const auto& s : settings) {
      all.push_back(trace::replay(t, s));
      bar.show(all.size());
    }
  }
  const std::size_t chosen = trace::recommend(all, as_recorded);
  const bool stays = chosen == all.size();
  const double measured = static_cast<double>(t.makespan());
  const double own_ratio = static_cast<double>(as_recorded.makespan) / measured;
  if (with.json) {
    nlohmann::json out;
    out["measured_us"] = measured / 1000.0;
    out["own"] = {{"streams", own.streams},
                  {"predicted_us", static_cast<double>(as_recorded.makespan) / 1000.0},
                  {"predicted_to_measured", own_ratio}};
    for (const auto& p : all) {
      out["predictions"].push_back({{"streams", p.with.streams},
                                    {"placement", to_string(p.with.placed)},
                                    {"predicted_us", static_cast<double>(p.makespan) / 1000.0},
                                    {"waits", p.waits},
                                    {"streams_used", p.streams_used}});
    }
    const trace::replay_setting& best = stays ? own : all[chosen].with;
    out["recommended"] = {{"streams", best.streams}, {"placement", to_string(best.placed)}, {"stay", stays}};
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  fmt::print("measured {}; replayed as it was {} ({:.3f} of it)\n\n", trace::to_text(t.makespan()),
             trace::to_text(as_recorded.makespan), own_ratio);
  fmt::print("{:>12} {:>8} {:>14} {:>12} {:>8}\n", "placement", "streams", "predicted", "of as it was",
             "waits");
  const auto of_own = [&](const trace::prediction& p) {
    return static_cast<double>(p.makespan) /
           static_cast<double>(std::max<trace::time_ns>(1, as_recorded.makespan));
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    fmt::print("{:>12} {:>8} {:>14} {:>12.3f} {:>8}{}\n", to_string(all[i].with.placed), all[i].with.streams,
               trace::to_text(all[i].makespan), of_own(all[i]), all[i].waits,
               i == chosen ? "  <- recommended" : "");
  }
  if (stays) {
    fmt::print("\nStay as you are: no other setting gains 2 %.\n");
  } else {
    fmt::print("\nTry {}: {:.0f} % less time.\n", text_of(all[chosen].with),
               100.0 * (1.0 - of_own(all[chosen])));
  }
  return 0;
}

}  // namespace

void add_replay(CLI::App& app, int& status) {
  auto with = std::make_shared<asked_replay>();
  CLI::App* sub = app.add_subcommand(
      "replay", "Predict how long a trace would have taken with other streams or another placement");
  sub->add_option("TRACE", with->file, "The file that --trace or BRAID_TRACE wrote")->required();
  sub->add_option("--streams", with->streams, "How many: a list (1,2,4) or a range by doubling (1..16)")
      ->capture_default_str();
  sub->add_option("--placement", with->placements,
                  "recorded (the streams that ops went to), automatic, per_thread, single; default: recorded "
                  "and automatic")
      ->delimiter(',');
  sub->add_option("--workers", with->workers, "Workers of the CPU; default: as many as in the trace");
  sub->add_flag("--json", with->json, "Print JSON");
  sub->callback([with, &status] { status = run_replay(*with); });
}

}  // namespace braid::tool
