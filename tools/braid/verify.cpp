#include <fmt/format.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "progress.hpp"
#include "verify/campaign.hpp"

namespace braid::tool {

namespace {

using verify::totals;

struct verify_options {
  verify::campaign_options campaign;
  std::string replay;
  bool json = false;
};

nlohmann::json to_json(const totals& t) {
  return {{"runs", t.runs},
          {"ops", t.ops},
          {"conflicts_checked", t.conflicts_checked},
          {"violations", t.violations},
          {"value_mismatches", t.value_mismatches},
          {"waits", t.waits},
          {"minimal_waits", t.minimal_waits},
          {"excess_orderings", t.excess_orderings},
          {"dropped_waits", t.dropped_waits},
          {"dropped_waits_detected", t.dropped_waits_detected},
          {"retire_failures", t.retire_failures},
          {"errors", t.errors}};
}

void print_totals(const char* mode, const totals& t) {
  if (t.runs == 0) return;
  fmt::print(
      "{:<6} {:>9} ops  {:>10} conflicts  {} violations  {} mismatches  {} waits  {} minimal  {} excess\n",
      mode, t.ops, t.conflicts_checked, t.violations, t.value_mismatches, t.waits, t.minimal_waits,
      t.excess_orderings);
}

void print_failure(const verify::failure& f) {
  fmt::print(
      "\nThe first failing program, made small ({} steps). Save it and run it again with\n"
      "`braid verify --replay FILE`:\n\n{}\n{}",
      f.shrunk.steps.size(), verify::to_text(f.shrunk), verify::describe(f.what));
}

int run_replay(const verify_options& options) {
  std::ifstream in(options.replay);
  if (!in) throw std::runtime_error("cannot read '" + options.replay + "'");
  const verify::program p = verify::parse(in, options.replay);
  const verify::outcome o = verify::run(p);
  if (options.json) {
    nlohmann::json out = {{"ops", o.ops},
                          {"violations", o.report.violations.size()},
                          {"value_mismatches", o.value_mismatches},
                          {"waits", o.report.waits},
                          {"minimal_waits", o.report.minimal_waits},
                          {"excess_orderings", o.report.excess_orderings},
                          {"failed", o.failed()}};
    fmt::print("{}\n", out.dump(2));
  } else {
    fmt::print("{} ops, {} conflicts, {} waits: {}\n{}", o.ops, o.report.conflicts_checked, o.report.waits,
               o.failed() ? "failed" : "all in order", verify::describe(o));
  }
  return o.failed() ? 1 : 0;
}

int run_verify(const verify_options& options) {
  if (!options.replay.empty()) return run_replay(options);
  if (options.campaign.inject != sim::fault::none && options.campaign.of.threads > 1) {
    throw std::runtime_error("--inject needs --threads 1: a fault is put at a place that a first run found");
  }
  verify::campaign_result result;
  {
    progress_bar bar("verify", options.campaign.programs);
    result = verify::run_campaign(options.campaign, [&](std::uint64_t done) { bar.show(done); });
  }
  const totals sum = result.all();
  const bool injecting = options.campaign.inject != sim::fault::none;
  if (options.json) {
    nlohmann::json out = to_json(sum);
    out["programs"] = result.programs;
    out["streams"] = options.campaign.of.streams;
    out["threads"] = options.campaign.of.threads;
    out["seed"] = options.campaign.seed;
    out["modes"] = {{"event", to_json(result.event)}, {"point", to_json(result.point)}};
    if (injecting) {
      out["inject"] = to_string(options.campaign.inject);
      out["injected"] = sum.injected;
      out["caught"] = sum.caught;
    }
    if (result.first) {
      out["failing_program"] = verify::to_text(result.first->shrunk);
      out["failure"] = verify::describe(result.first->what);
    }
    fmt::print("{}\n", out.dump(2));
  } else {
    fmt::print("{} programs from seed {}, {} streams, {} submitting thread{}\n", result.programs,
               options.campaign.seed, options.campaign.of.streams, options.campaign.of.threads,
               options.campaign.of.threads == 1 ? "" : "s");
    print_totals("event", result.event);
    print_totals("point", result.point);
    fmt::print("dropped waits: {}, detected: {}\n", sum.dropped_waits, sum.dropped_waits_detected);
    if (injecting) {
      fmt::print("fault '{}': injected in {} runs, caught in {}\n", to_string(options.campaign.inject),
                 sum.injected, sum.caught);
    }
    if (result.first) {
      print_failure(*result.first);
    } else {
      fmt::print("all in order\n");
    }
  }
  if (injecting && sum.caught < sum.injected) return 3;
  return result.failed() ? 1 : 0;
}

}  // namespace

void add_verify(CLI::App& app, int& status) {
  auto options = std::make_shared<verify_options>();
  CLI::App* sub = app.add_subcommand("verify",
                                     "Prove the rules: random programs on the simulated device, every "
                                     "conflict checked, every wait dropped in turn");
  verify::campaign_options& c = options->campaign;
  sub->add_option("--programs", c.programs, "How many random programs")->capture_default_str();
  sub->add_option("--ops", c.of.ops, "Operations in each")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  sub->add_option("--streams", c.of.streams, "Stream ids that they use")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  sub->add_option("--threads", c.of.threads, "Submitting threads")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  sub->add_option("--seed", c.seed, "The first program's seed; the next ones count up")
      ->capture_default_str();
  sub->add_option("--jobs", c.jobs, "Programs at a time; 0: one a core")->capture_default_str();
  const std::map<std::string, verify::backend_mode> modes = {{"both", verify::backend_mode::both},
                                                             {"event", verify::backend_mode::event},
                                                             {"point", verify::backend_mode::point}};
  sub->add_option_function<std::string>(
         "--mode", [&c, modes](const std::string& name) { c.mode = modes.at(name); },
         "Backends with events, with points, or both")
      ->check(CLI::IsMember(modes));
  const std::map<std::string, sim::fault> faults = {{"missing", sim::fault::missing},
                                                    {"superfluous", sim::fault::superfluous},
                                                    {"stale_mark", sim::fault::stale_mark},
                                                    {"uncommitted_cursor", sim::fault::uncommitted_cursor}};
  sub->add_option_function<std::string>(
         "--inject", [&c, faults](const std::string& name) { c.inject = faults.at(name); },
         "Build a fault into each program: it has to be caught")
      ->check(CLI::IsMember(faults));
  sub->add_option("--replay", options->replay, "Run the program in this file instead")
      ->check(CLI::ExistingFile);
  sub->add_flag("--json", options->json, "Print JSON");
  sub->footer(
      "Exit status: 0 all in order, 1 a violation, a mismatch or a superfluous wait was found, 2 wrong "
      "usage, "
      "3 an injected fault was missed.");
  sub->callback([options, &status] { status = run_verify(*options); });
}

}  // namespace braid::tool
