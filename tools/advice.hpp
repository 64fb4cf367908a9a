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

/// A job of several processes of this program, whose points are all ranks' (docs/scale.md).
struct Job {
  u64 ranks = 0;          ///< 0: none was asked for
  double mtbf_hours = 0;  ///< of one rank, with its machine
  double restart_s = 60;  ///< from a failure to where the version was
};

/// When such a job is to take points.
struct JobAdvice {
  Job job;
  size_t way = 0;
  double failure_s = 0;   ///< between two of the job's, in the mean
  double interval_s = 0;  ///< of work, between two points
  double young_s = 0;     ///< the same by the simpler rule
  double point_s = 0;     ///< what a point takes then, on the slowest rank
  double slowdown = 1;    ///< with points, failures and what they lose, divided by without
};
/// kUnsupported where the run shows too little.
Result<JobAdvice> advise_job(const Advice& advice, const nlohmann::ordered_json& sample,
                             const Job& job);

nlohmann::ordered_json to_json(const Advice& advice, const nlohmann::ordered_json& sample);
nlohmann::ordered_json to_json(const JobAdvice& advice);
/// A page with plots.
std::string to_html(const Advice& advice, const nlohmann::ordered_json& sample,
                    const std::string& title);

}  // namespace perdura::tools
