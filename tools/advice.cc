#include "advice.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace perdura::tools {
namespace {

using Json = nlohmann::ordered_json;

/// What checkpoints of an interval would find, in all of those that were seen.
struct Load {
  double seen = 0;      ///< pages, pages of aliases, or reports
  double seen_new = 0;  ///< of these, in pages that were stored to for the first time: without
                        ///< checkpoints the program meets a fault there as well
  double lines = 0;
};

Load load_of(const Way& way, const Json& interval) {
  if (way.reported) return {interval.at("reports"), 0, interval.at("lines")};
  if (way.aliases == 0) {
    const double pages = interval.at("pages");
    return {pages, interval.at("new_pages"),
            way.compare ? double{interval.at("lines")} : pages * kLinesPerPage};
  }
  for (const Json& parts : interval.at("parts"))
    if (parts.at("parts") == way.aliases)
      return {parts.at("faults"), parts.at("new_faults"), parts.at("lines")};
  return {};
}

/// How long a program takes alone for what it did in a while, and how sure that is.
struct Base {
  double ns = 0;
  double doubt_ns = 0;
  double sampling_ns = 0;  ///< what was taken off for the sampling
};

/// What the sampling costs the program.
struct SamplingCosts {
  double fault_ns;
  double fault_doubt_ns;
  double report_ns;  ///< that is counted
};

// Time that it waited for a processor was never the program's, and the kernel knows it. Faults and
// reports are counted, and what they cost was measured in the same process. Of the time in which
// allocations had to wait nobody knows whether there were any: half of it, give or take the other
// half.
Base base_of(const Json& spent, double faults, double reports, const SamplingCosts& costs) {
  const double wall_ns = spent.at("wall_ns");
  const double own_ns = wall_ns - double{spent.at("waited_ns")};
  const double stopped_ns = std::min(double{spent.at("stopped_ns")}, own_ns);
  // Threads that run at once meet their faults at once.
  const double threads = std::max(1.0, own_ns == 0 ? 1 : double{spent.at("cpu_ns")} / own_ns);
  Base base;
  base.sampling_ns =
      (faults * costs.fault_ns + reports * costs.report_ns) / threads + stopped_ns / 2;
  base.ns = own_ns - base.sampling_ns;
  base.doubt_ns = faults * costs.fault_doubt_ns / threads + stopped_ns / 2;
  return base;
}

/// More than this part of the time that is not the program's, and nothing is said.
constexpr double kSamplingMax = 0.5;

bool is_known(const Base& base) {
  return base.ns > 0 && base.sampling_ns <= kSamplingMax * (base.ns + base.sampling_ns);
}

/// Stretches that were looked at stand for all others: how far their mean may be off, relatively.
double doubt_of_stretches(const Json& interval, double run_ns) {
  const double count = interval.at("checkpoints");
  const double mean = double{interval.at("pages")} / count;
  if (mean == 0 || count < 2) return 0;
  const double variance =
      std::max(0.0, double{interval.at("pages_squared")} / count - mean * mean) / (count - 1);
  const double seen = std::min(1.0, double{interval.at("spent").at("wall_ns")} / run_ns);
  return std::sqrt(variance * (1 - seen)) / mean;
}

/// Reports are collected while the program runs, but for the last of an epoch
/// (track/reported.cc).
constexpr double kReportsAtCheckpoint = 64 * 1024;

struct Run {
  Base base;
  double new_pages;
  double heap_pages;
};

Prediction predict(const WayAdvice& way, const Json& interval, const Base& base,
                   const Costs& sampled_by, const Run& run) {
  const Load load = load_of(way.way, interval);
  const double checkpoints = interval.at("checkpoints");
  const double captured =
      way.way.reported ? std::min(load.seen, checkpoints * kReportsAtCheckpoint) : load.seen;
  const Costs& costs = way.costs;
  const double extra_ns = (load.seen - load.seen_new) * costs.fault + captured * costs.page +
                          load.lines * costs.line +
                          checkpoints * (costs.fixed + costs.heap_page * run.heap_pages);
  const double fresh = run.new_pages * (costs.fresh - sampled_by.fresh) / run.base.ns;
  Prediction prediction;
  prediction.interval_ms = interval.at("ms");
  prediction.checkpoints = interval.at("checkpoints");
  prediction.faults = static_cast<u64>(load.seen / checkpoints);
  prediction.bytes = static_cast<u64>(load.lines / checkpoints) * kLineBytes;
  prediction.slowdown = std::max(1.0, 1 + extra_ns / base.ns + (way.way.reported ? 0 : fresh));
  // All of these are independent of each other.
  const double relative =
      std::hypot(costs.doubt, base.doubt_ns / base.ns, doubt_of_stretches(interval, run.base.ns));
  prediction.doubt = (prediction.slowdown - 1) * relative;
  return prediction;
}

/// The simplest, unless another is quicker beyond all doubt, and by more than next to nothing.
std::optional<size_t> best_of(const std::vector<WayAdvice>& ways, size_t interval) {
  constexpr double kHardly = 0.99;
  std::optional<size_t> best;
  for (size_t i = 0; i < ways.size(); ++i) {
    if (ways[i].failure) continue;
    const Prediction& each = ways[i].predictions[interval];
    if (!best) {
      best = i;
      continue;
    }
    const Prediction& so_far = ways[*best].predictions[interval];
    if (each.slowdown < kHardly * so_far.slowdown &&
        each.slowdown + each.doubt < so_far.slowdown - so_far.doubt)
      best = i;
  }
  return best;
}

}  // namespace

Result<Advice> advise_on(const Json& sample, const std::vector<Calibrated>& calibrated) {
  Advice advice;
  for (const Calibrated& each : calibrated)
    advice.ways.push_back({each.way, each.failure, each.costs, {}});
  const Json& fault_ns = sample.at("fault_ns");
  const double median_ns = fault_ns.at("median");
  const SamplingCosts sampling{median_ns, median_ns - double{fault_ns.at("least")},
                               sample.at("counting_ns")};
  for (WayAdvice& way : advice.ways) {
    if (!way.way.reported || way.failure) continue;
    if (sample.at("reports") == 0)
      way.failure = Failure{Code::kUnsupported,
                            "the program reports no stores; compile it with perdura-clang, and "
                            "advise on that"};
  }
  const Run run{base_of(sample.at("spent"), sample.at("faults"), sample.at("reports"), sampling),
                sample.at("new_pages"), double{sample.at("backed_bytes")} / kPageBytes};
  if (!is_known(run.base))
    return Failure{
        Code::kUnsupported,
        fmt::format("of the {:.2f} s that the program ran, {:.2f} s are what looking at "
                    "it took: what it takes alone is not known, and nothing is advised; "
                    "give it less to change at a time, or measure it with "
                    "libperdura_malloc.so",
                    (run.base.ns + run.base.sampling_ns) / 1e9, run.base.sampling_ns / 1e9)};
  advice.base_ns = run.base.ns;
  advice.doubt_ns = run.base.doubt_ns;
  const Costs sampled_by = advice.ways.front().costs;
  for (const Json& interval : sample.at("intervals")) {
    const Base base =
        base_of(interval.at("spent"), interval.at("faults"), interval.at("reports"), sampling);
    const u64 checkpoints = is_known(base) ? u64{interval.at("checkpoints")} : 0;
    IntervalAdvice one;
    one.ms = interval.at("ms");
    one.checkpoints = checkpoints;
    if (checkpoints != 0) one.changed_bytes = u64{interval.at("lines")} / checkpoints * kLineBytes;
    for (WayAdvice& way : advice.ways) {
      if (way.failure) continue;
      way.predictions.push_back(checkpoints == 0 ? Prediction{.interval_ms = one.ms}
                                                 : predict(way, interval, base, sampled_by, run));
    }
    if (checkpoints != 0) one.best = best_of(advice.ways, advice.intervals.size());
    advice.intervals.push_back(one);
  }
  return advice;
}

Json to_json(const Advice& advice, const Json& sample) {
  Json json = {{"run_ns", sample.at("run_ns")},
               {"base_ns", advice.base_ns},
               {"base_doubt_ns", advice.doubt_ns},
               {"waited_ns", sample.at("spent").at("waited_ns")},
               {"reports", sample.at("reports")},
               {"live_bytes", sample.at("live_bytes")},
               {"live_blocks", sample.at("live_blocks")},
               {"ways", Json::array()},
               {"recommended", Json::array()}};
  for (const WayAdvice& way : advice.ways) {
    Json one = {{"name", way.way.name},
                {"tracking", name_of(way.way.tracking)},
                {"aliases", way.way.aliases},
                {"compare", way.way.compare}};
    if (way.failure) {
      one["unavailable"] = way.failure->message;
    } else {
      one["costs_ns"] = {{"fault", way.costs.fault},      {"page", way.costs.page},
                         {"line", way.costs.line},        {"heap_page", way.costs.heap_page},
                         {"checkpoint", way.costs.fixed}, {"new_page", way.costs.fresh}};
      one["costs_doubt"] = way.costs.doubt;
      for (const Prediction& each : way.predictions)
        if (each.checkpoints != 0)
          one["predictions"].push_back({{"interval_ms", each.interval_ms},
                                        {"checkpoints", each.checkpoints},
                                        {"faults", each.faults},
                                        {"bytes", each.bytes},
                                        {"slowdown", each.slowdown},
                                        {"doubt", each.doubt}});
    }
    json["ways"].push_back(one);
  }
  for (const IntervalAdvice& each : advice.intervals) {
    if (each.best)
      json["recommended"].push_back(
          {{"interval_ms", each.ms}, {"way", advice.ways[*each.best].way.name}});
    if (each.checkpoints != 0)
      json["changed_bytes"].push_back({{"interval_ms", each.ms}, {"bytes", each.changed_bytes}});
  }
  return json;
}

}  // namespace perdura::tools
