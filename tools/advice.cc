#include "advice.hpp"

#include <algorithm>

namespace perdura::tools {
namespace {

using Json = nlohmann::ordered_json;

/// What checkpoints of an interval would find.
struct Load {
  double seen = 0;  ///< pages, or pages of aliases
  double lines = 0;
};

Load load_of(const Way& way, const Json& interval) {
  if (way.aliases == 0) {
    const double pages = interval.at("pages");
    return {pages, way.compare ? double{interval.at("lines")} : pages * kLinesPerPage};
  }
  for (const Json& parts : interval.at("parts"))
    if (parts.at("parts") == way.aliases) return {parts.at("faults"), parts.at("lines")};
  return {};
}

/// How many checkpoints of an interval the run shows: none where it was too short, or where a
/// sample took so long that what it calls an interval was more than two.
u64 checkpoints_seen(const Json& interval, const Json& sample) {
  const u64 checkpoints = interval.at("checkpoints");
  const double seen_ns = static_cast<double>(checkpoints) * double{interval.at("ms")} * 1e6;
  return seen_ns < double{sample.at("run_ns")} / 2 ? 0 : checkpoints;
}

}  // namespace

Advice advise_on(const Json& sample, std::vector<WayAdvice> ways) {
  Advice advice;
  advice.ways = std::move(ways);
  const Json& intervals = sample.at("intervals");
  // The first way is the one by which was sampled, and the first interval that of the samples.
  const double run_ns = double{sample.at("run_ns")} - double{sample.at("sampling_ns")};
  // Faults that the program meets while it is measured are hardly ever most of its time.
  advice.base_ns = std::max(
      run_ns - double{intervals.at(0).at("pages")} * advice.ways.front().costs.fault, run_ns / 10);
  const double heap_pages = double{sample.at("backed_bytes")} / kPageBytes;
  const double new_pages = sample.at("new_pages");
  for (const Json& interval : intervals) {
    advice.intervals_ms.push_back(interval.at("ms"));
    const u64 seen = checkpoints_seen(interval, sample);
    advice.checkpoints.push_back(seen);
    advice.changed_bytes.push_back(u64{interval.at("lines")} * kLineBytes);
    std::optional<size_t> best;
    for (size_t i = 0; i < advice.ways.size(); ++i) {
      WayAdvice& way = advice.ways[i];
      if (way.failure) continue;
      const Load load = load_of(way.way, interval);
      const Costs& costs = way.costs;
      const auto checkpoints = static_cast<double>(seen);
      const double extra = load.seen * (costs.fault + costs.page) + load.lines * costs.line +
                           checkpoints * (costs.fixed + costs.heap_page * heap_pages) +
                           new_pages * (costs.fresh - advice.ways.front().costs.fresh);
      way.predictions.push_back({.interval_ms = interval.at("ms"),
                                 .checkpoints = seen,
                                 .faults = static_cast<u64>(load.seen),
                                 .bytes = static_cast<u64>(load.lines) * kLineBytes,
                                 .slowdown = 1 + extra / advice.base_ns});
      // Something simpler is as good as what is hardly quicker.
      if (!best ||
          way.predictions.back().slowdown < 0.99 * advice.ways[*best].predictions.back().slowdown)
        best = i;
    }
    advice.best.push_back(seen == 0 ? std::nullopt : best);
  }
  return advice;
}

Json to_json(const Advice& advice, const Json& sample) {
  Json json = {{"run_ns", sample.at("run_ns")},
               {"base_ns", advice.base_ns},
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
      for (const Prediction& each : way.predictions)
        one["predictions"].push_back({{"interval_ms", each.interval_ms},
                                      {"checkpoints", each.checkpoints},
                                      {"faults", each.faults},
                                      {"bytes", each.bytes},
                                      {"slowdown", each.slowdown}});
    }
    json["ways"].push_back(one);
  }
  for (size_t i = 0; i < advice.intervals_ms.size(); ++i) {
    if (advice.best[i])
      json["recommended"].push_back({{"interval_ms", advice.intervals_ms[i]},
                                     {"way", advice.ways[*advice.best[i]].way.name}});
    json["changed_bytes"].push_back(
        {{"interval_ms", advice.intervals_ms[i]}, {"bytes", advice.changed_bytes[i]}});
  }
  return json;
}

}  // namespace perdura::tools
