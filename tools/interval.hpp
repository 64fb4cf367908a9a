// How often a job of many ranks should take points: what points cost against what failures lose.
//
// Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974: the
// square root of twice the cost of a point times the mean time between failures. Daly, "A higher
// order estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006: the same
// where a point is not small against that time. docs/scale.md holds them against simulated jobs.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>

namespace perdura::tools {

/// What a job of `ranks` loses, of times in seconds.
struct JobModel {
  double point_s = 0;    ///< what the program waits for at a point, on its slowest rank
  double restart_s = 0;  ///< from a failure to where the version was
  double mtbf_s = 0;     ///< mean time between failures of the job: of one rank ÷ ranks

  /// Between the ends of two points: work, and none of what a point takes.
  double young_s() const { return std::sqrt(2 * point_s * mtbf_s); }
  double daly_s() const {
    if (point_s >= 2 * mtbf_s) return mtbf_s;
    const double x = std::sqrt(point_s / (2 * mtbf_s));
    return std::max(0.0, std::sqrt(2 * point_s * mtbf_s) * (1 + x / 3 + x * x / 9) - point_s);
  }
  /// Time that the job takes ÷ time that its work takes, with points after each `interval_s` of
  /// work. Failures come at random with the same rate at each moment; those during a restart as
  /// well (Daly's complete model).
  double slowdown(double interval_s) const {
    const double segment = interval_s + point_s;
    return mtbf_s * std::exp(restart_s / mtbf_s) * std::expm1(segment / mtbf_s) / interval_s;
  }
};

/// Where what a point takes depends on how long ago the last one was, as more has changed: the
/// interval at which it is the optimum. `point_s(interval_s)` grows more slowly than the interval.
inline double best_interval(JobModel job, const std::function<double(double)>& point_s) {
  double interval = 1;
  for (int i = 0; i < 100; ++i) {
    job.point_s = point_s(interval);
    const double next = std::max(job.daly_s(), 1e-3);
    if (std::abs(next - interval) < 1e-6 * interval) break;
    interval = std::sqrt(next * interval);  // it may swing around it
  }
  return interval;
}

}  // namespace perdura::tools
