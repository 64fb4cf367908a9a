// A job that takes points and fails by chance, step by step: what the model is held against.
#pragma once

#include <cstdint>
#include <random>

#include "interval.hpp"

namespace perdura::tools {

/// How much longer such a job takes than its work, with so many points. `point_s(random)`: what one
/// takes, on the slowest rank.
template <class PointS>
double simulated_slowdown(const JobModel& job, double interval_s, int points, std::uint64_t seed,
                          PointS&& point_s) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> life(1 / job.mtbf_s);
  double now = 0;
  double fails_at = life(random);
  // Until `end`, unless it fails before.
  const auto lives_until = [&](double end) {
    if (fails_at > end) {
      now = end;
      return true;
    }
    now = fails_at;
    fails_at = now + life(random);
    return false;
  };
  for (int done = 0; done < points;) {
    if (lives_until(now + interval_s + point_s(random))) {
      ++done;
      continue;
    }
    while (!lives_until(now + job.restart_s)) {
    }
  }
  return now / (points * interval_s);
}

inline double simulated_slowdown(const JobModel& job, double interval_s, int points,
                                 std::uint64_t seed) {
  return simulated_slowdown(job, interval_s, points, seed,
                            [&](std::mt19937_64&) { return job.point_s; });
}

}  // namespace perdura::tools
