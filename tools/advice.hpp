// From what was sampled of a program, and what tracking costs here, to predictions and advice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "calibration.hpp"

namespace perdura::tools {

/// A way of tracking at an interval.
struct Prediction {
  u64 interval_ms = 0;
  u64 checkpoints = 0;
  u64 faults = 0;
  u64 bytes = 0;        ///< copied, by all checkpoints
  double slowdown = 1;  ///< run time, divided by that without checkpoints
};

struct WayAdvice {
  Way way;
  std::optional<Failure> failure;  ///< this system lacks it
  Costs costs;
  std::vector<Prediction> predictions;  ///< by interval
};

struct Advice {
  double base_ns = 0;  ///< run time on the store's heap, without checkpoints
  std::vector<u64> intervals_ms;
  std::vector<u64> changed_bytes;  ///< by interval: the lines that changed, as reports would say
  std::vector<u64> checkpoints;    ///< by interval; 0: the run shows nothing of it
  std::vector<WayAdvice> ways;
  std::vector<std::optional<size_t>> best;  ///< by interval: of `ways`; none: no checkpoint seen
};

/// `sample` is what libperdura_malloc.so wrote.
Advice advise_on(const nlohmann::ordered_json& sample, std::vector<WayAdvice> ways);

nlohmann::ordered_json to_json(const Advice& advice, const nlohmann::ordered_json& sample);
/// A page with plots.
std::string to_html(const Advice& advice, const nlohmann::ordered_json& sample,
                    const std::string& title);

}  // namespace perdura::tools
