// From what was sampled of a program, and what tracking costs here, to predictions and advice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "calibration.hpp"

namespace perdura::tools {

/// A way of tracking at an interval.
struct Prediction {
  u64 interval_ms = 0;
  u64 checkpoints = 0;  ///< that it is seen by; 0: nothing is said
  u64 faults = 0;       ///< a checkpoint; or reports
  u64 bytes = 0;        ///< copied by a checkpoint, in the mean
  double slowdown = 1;  ///< run time, divided by that without checkpoints
  double doubt = 0;     ///< it may be so much more, or less
};

struct WayAdvice {
  Way way;
  std::optional<Failure> failure;  ///< it is not to be had here
  Costs costs;
  std::vector<Prediction> predictions;  ///< by interval
};

/// What a run at an interval shows.
struct IntervalAdvice {
  u64 ms = 0;
  u64 checkpoints = 0;    ///< 0: nothing, since it is too short, or its sampling took most of it
  u64 changed_bytes = 0;  ///< lines that changed, by a checkpoint in the mean
  std::optional<size_t> best;  ///< of the ways
};

struct Advice {
  double base_ns = 0;   ///< run time on the store's heap, without checkpoints
  double doubt_ns = 0;  ///< of that
  std::vector<IntervalAdvice> intervals;
  std::vector<WayAdvice> ways;
};

/// `sample` is what libperdura_malloc.so wrote; nothing else is looked at. The first way is the one
/// by which was sampled. kUnsupported where what the sampling itself took is more than half of the
/// run, so that nobody knows what the program takes alone.
Result<Advice> advise_on(const nlohmann::ordered_json& sample,
                         const std::vector<Calibrated>& calibrated);

nlohmann::ordered_json to_json(const Advice& advice, const nlohmann::ordered_json& sample);
/// A page with plots.
std::string to_html(const Advice& advice, const nlohmann::ordered_json& sample,
                    const std::string& title);

}  // namespace perdura::tools
