#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "braid/error.hpp"
#include "braid/settings.hpp"
#include "commands.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "trace/analysis.hpp"
#include "trace/model.hpp"
#include "trace/recorder.hpp"
#include "trace/timeline.hpp"
#include "workloads/workload.hpp"

namespace braid::tool {

namespace {

struct asked {
  std::string workload;
  workloads::options with;
  std::string placement;
  std::string trace;
  std::string html;
  bool json = false;
};

/// What a run did, put together from a plain run and one that was traced.
struct figures {
  workloads::result plain;
  workloads::result traced;
  trace::time_ns op_times = 0;  ///< of the traced run
  trace::time_ns makespan = 0;
  std::uint64_t dropped = 0;

  [[nodiscard]] std::uint64_t ops() const { return plain.after.streams.ops - plain.before.streams.ops; }
  [[nodiscard]] std::uint64_t waits(hazard why) const {
    return plain.after.streams.waits_for(why) - plain.before.streams.waits_for(why);
  }
  /// How much of the workers' time went into ops; on a device, how many ops ran at a time.
  [[nodiscard]] double efficiency() const {
    const double all = static_cast<double>(makespan) * std::max(1U, traced.workers);
    return all > 0 ? static_cast<double>(op_times) / all : 0.0;
  }
  [[nodiscard]] double overhead_ns() const {
    return ops() == 0 ? 0.0 : plain.submit_seconds * 1e9 / static_cast<double>(ops());
  }
  [[nodiscard]] bool is_verified() const { return plain.verified && traced.verified; }
};

std::string size_text(std::uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib >= 1024 ? fmt::format("{:.2f} GiB", mib / 1024) : fmt::format("{:.1f} MiB", mib);
}

std::string time_text(double seconds) {
  return trace::to_text(static_cast<trace::time_ns>(seconds * 1e9));
}

void print_report(const figures& f) {
  const workloads::result& r = f.plain;
  fmt::print("{} on {} ({}): {}\n{} stream{}, placement {}\n\n", r.workload, r.backend, r.device, r.problem,
             r.streams, r.streams == 1 ? "" : "s", r.placement);
  const auto line = [](const char* what, const std::string& text) {
    fmt::print("  {:<14} {}\n", what, text);
  };
  line("verified", fmt::format("{}: {}", f.is_verified() ? "yes" : "NO",
                               f.is_verified() || r.verified ? f.traced.check : r.check));
  line("time", time_text(r.seconds));
  line("throughput", fmt::format("{:.4g} {}/s", r.seconds > 0 ? r.work / r.seconds : 0.0, r.unit));
  if (r.workers != 0) {
    line("efficiency", fmt::format("{:.3f}: ops took {} in all, on {} worker{} in {}", f.efficiency(),
                                   trace::to_text(f.op_times), r.workers, r.workers == 1 ? "" : "s",
                                   trace::to_text(f.makespan)) +
                           (f.efficiency() > 1 ? "; threads that wait run ops as well" : ""));
  } else {
    line("efficiency", fmt::format("{:.2f} ops at a time: they took {} in all, in {}", f.efficiency(),
                                   trace::to_text(f.op_times), trace::to_text(f.makespan)));
  }
  line("ops", fmt::format("{}", f.ops()));
  line("overhead", fmt::format("{:.0f} ns an op, to submit it", f.overhead_ns()));
  std::uint64_t sum = 0;
  std::string by;
  for (unsigned i = 0; i < hazard_count; ++i) {
    const std::uint64_t n = f.waits(static_cast<hazard>(i));
    sum += n;
    if (n != 0) by += fmt::format(", {} {}", n, to_string(static_cast<hazard>(i)));
  }
  line("waits", fmt::format("{}{}", sum, by.empty() ? "" : ": " + by.substr(2)));
  const stream_stats& a = r.after.streams;
  const stream_stats& b = r.before.streams;
  const std::uint64_t same = a.elided_same_stream - b.elided_same_stream;
  const std::uint64_t known = a.elided_known - b.elided_known;
  const std::uint64_t implied = a.elided_implied - b.elided_implied;
  const std::uint64_t complete = a.elided_complete - b.elided_complete;
  line("waits saved",
       fmt::format(
           "{}: {} by the order of a stream, {} known already, {} implied by another wait, {} complete",
           same + known + implied + complete, same, known, implied, complete));
  line("peak memory", fmt::format("{} in use, {} reserved", size_text(r.after.memory.peak_live),
                                  size_text(r.after.memory.peak_reserved)));
}

nlohmann::json to_json(const figures& f) {
  const workloads::result& r = f.plain;
  const stream_stats& a = r.after.streams;
  const stream_stats& b = r.before.streams;
  nlohmann::json out = {
      {"workload", r.workload},
      {"backend", r.backend},
      {"device", r.device},
      {"problem", r.problem},
      {"streams", r.streams},
      {"workers", r.workers},
      {"placement", r.placement},
      {"verified", f.is_verified()},
      {"check", r.check},
      {"seconds", r.seconds},
      {"work", r.work},
      {"unit", r.unit},
      {"throughput", r.seconds > 0 ? r.work / r.seconds : 0.0},
      {"efficiency", f.efficiency()},
      {"op_seconds", static_cast<double>(f.op_times) * 1e-9},
      {"traced_seconds", f.traced.seconds},
      {"makespan_seconds", static_cast<double>(f.makespan) * 1e-9},
      {"ops", f.ops()},
      {"overhead_ns", f.overhead_ns()},
      {"waits_saved",
       {{"same_stream", a.elided_same_stream - b.elided_same_stream},
        {"known", a.elided_known - b.elided_known},
        {"implied", a.elided_implied - b.elided_implied},
        {"complete", a.elided_complete - b.elided_complete}}},
      {"marks", a.marks - b.marks},
      {"excess_orderings", a.excess_orderings - b.excess_orderings},
      {"peak_memory_bytes", r.after.memory.peak_live},
      {"peak_reserved_bytes", r.after.memory.peak_reserved},
      {"trace_dropped", f.dropped},
  };
  for (unsigned i = 0; i < hazard_count; ++i) {
    out["waits"][to_string(static_cast<hazard>(i))] = f.waits(static_cast<hazard>(i));
  }
  return out;
}

placement parse_placement(const std::string& text) {
  for (const placement p : {placement::automatic, placement::per_thread, placement::single}) {
    if (text == to_string(p)) return p;
  }
  throw usage_error(misuse::bad_settings,
                    fmt::format("--placement {}: is not one of automatic, per_thread, single", text));
}

int run_workload(const asked& a) {
  if (!settings::process().trace_to.value.empty()) {
    throw usage_error(misuse::bad_settings,
                      "`braid run` records a trace of its own: use --trace in place of BRAID_TRACE");
  }
  // Files that cannot be written are better known before the work than after it.
  expect_writable(a.trace);
  expect_writable(a.html);

  figures f;
  std::string recorded;
  {
    // A run that is short is thrown away and made again: the machine warms up with it.
    constexpr double is_short = 0.5;  // s
    progress_bar bar(a.workload.c_str(), 300);
    std::uint64_t done = 0;
    const auto progress = [&](double share) { bar.show(done + static_cast<std::uint64_t>(share * 100)); };
    const auto end = [&] {
      const trace::recording all = trace::stop_recording();
      f.dropped = all.dropped;
      (void)trace::write_events(recorded, all);
    };
    f.plain = workloads::run(a.workload, a.with, {.progress = progress});
    done += 100;
    f.traced = workloads::run(a.workload, a.with,
                              {.begin = [] { trace::start_recording(); }, .end = end, .progress = progress});
    done += 100;
    if (f.plain.seconds < is_short) f.plain = workloads::run(a.workload, a.with, {.progress = progress});
  }
  if (!a.trace.empty()) {
    write_output(a.trace, [&](std::ostream& out) { out << recorded; });
  }
  std::istringstream in(std::move(recorded));
  const trace::trace t = trace::read(in, "the trace of this run");
  f.makespan = t.makespan();
  for (const trace::op& o : t.ops) f.op_times += o.end - o.start;
  if (!a.html.empty()) {
    const std::string title = fmt::format("{} on {}", f.traced.workload, f.traced.backend);
    write_output(a.html, [&](std::ostream& out) { trace::write_timeline(out, t, title); });
  }
  if (a.json) {
    fmt::print("{}\n", to_json(f).dump(2));
  } else {
    print_report(f);
    if (!a.trace.empty() && a.trace != "-") {
      fmt::print("\n  {} has the trace: `braid explain {}` says where the time went.\n", a.trace, a.trace);
    }
    if (!a.html.empty() && a.html != "-")
      fmt::print("{}  {} shows it: open it in a browser.\n", a.trace.empty() ? "\n" : "", a.html);
  }
  const auto wrong = trace::violations(t);
  for (const std::string& each : wrong) fmt::print(stderr, "braid: out of order: {}\n", each);
  return f.is_verified() && wrong.empty() ? 0 : 1;
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  auto with = std::make_shared<asked>();
  CLI::App* sub =
      app.add_subcommand("run", "Run a workload on the best backend, check its result, and report");
  std::string names;
  std::string about = "Workloads:\n";
  for (const auto& each : workloads::list()) {
    names += (names.empty() ? "" : ", ") + each.name;
    about += fmt::format("  {:<18} {}\n{:>21}{}\n", each.name + (each.takes_file ? " FILE" : ""), each.what,
                         "", each.size);
  }
  about +=
      "It runs plain, for the time, and traced, for the times of ops.\n"
      "Exit status: 0 if the result is right, 1 if not, 2 for options that cannot be.";
  sub->add_option("WORKLOAD", with->workload, names)->required();
  sub->add_option("FILE", with->with.file, "Of taskgraph");
  sub->add_option("--backend", with->with.backend, "auto (a GPU where there is one), cpu, cuda or opencl")
      ->capture_default_str();
  sub->add_option("--device", with->with.device,
                  "On CUDA a number; on OpenCL a number or a part of a name, see `braid info`");
  sub->add_option("--streams", with->with.streams, "How many; default: the workload's choice");
  sub->add_option("--workers", with->with.workers, "Threads that run ops, on the CPU; default: the cores");
  sub->add_option("--size", with->with.size, "Of the problem, see below");
  sub->add_option(
      "--placement", with->placement,
      "automatic, per_thread or single; default: the streams that the workload names, else automatic");
  sub->add_option("--seed", with->with.seed, "Of the data")->capture_default_str();
  sub->add_option("--trace", with->trace, "Write a trace (Chrome trace events)");
  sub->add_option("--html", with->html, "Write a page that shows the trace");
  sub->add_flag("--json", with->json, "Print JSON");
  sub->footer(about);
  sub->callback([with, &status] {
    if (!with->placement.empty()) with->with.placement = parse_placement(with->placement);
    status = run_workload(*with);
  });
}

}  // namespace braid::tool
