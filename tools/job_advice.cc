#include <algorithm>
#include <cmath>
#include <utility>

#include "advice.hpp"
#include "interval.hpp"

namespace perdura::tools {

using Json = nlohmann::ordered_json;

namespace {

/// To agree on a point takes a round of messages for each doubling of the ranks.
constexpr double kRoundS = 20e-6;

/// What a point takes after so much work: between intervals that the run shows by the slope of what
/// it took there, and never more than all that is live.
class PointCosts {
 public:
  PointCosts(const Advice& advice, size_t way, double live_pages, u64 ranks) {
    // The slowest of so many, where each is off by its doubt.
    const double spread = std::sqrt(2 * std::log(std::max<double>(static_cast<double>(ranks), 1)));
    agreement_s_ = kRoundS * std::ceil(std::log2(std::max<double>(static_cast<double>(ranks), 1)));
    for (const Prediction& each : advice.ways[way].predictions) {
      if (each.checkpoints == 0) continue;
      const double interval_s = static_cast<double>(each.interval_ms) / 1e3;
      const double point_s = (each.slowdown - 1 + each.doubt * spread) * interval_s;
      shown_.push_back({interval_s, std::max(point_s, 1e-6)});
    }
    const Costs& costs = advice.ways[way].costs;
    most_s_ = live_pages *
              (costs.fault + costs.page + static_cast<double>(kLinesPerPage) * costs.line) / 1e9;
  }
  bool empty() const { return shown_.empty(); }
  double operator()(double interval_s) const {
    size_t i = 1;
    while (i + 1 < shown_.size() && shown_[i].first < interval_s) ++i;
    double point_s = shown_.front().second;
    if (shown_.size() > 1) {
      const auto& [from_s, from_point] = shown_[i - 1];
      const auto& [to_s, to_point] = shown_[i];
      const double slope =
          std::clamp(std::log(to_point / from_point) / std::log(to_s / from_s), 0.0, 1.0);
      point_s = from_point * std::pow(interval_s / from_s, slope);
    }
    return std::min(point_s, std::max(most_s_, shown_.front().second)) + agreement_s_;
  }

 private:
  std::vector<std::pair<double, double>> shown_;
  double most_s_ = 0;
  double agreement_s_ = 0;
};

}  // namespace

Result<JobAdvice> advise_job(const Advice& advice, const Json& sample, const Job& job) {
  JobAdvice result{.job = job};
  std::optional<size_t> way;
  for (const IntervalAdvice& each : advice.intervals)
    if (each.best) way = each.best;
  if (!way)
    return Failure{Code::kUnsupported,
                   "the run shows no interval of checkpoints, so nothing is said of a job; give it "
                   "more to do"};
  result.way = *way;
  const double live_pages = double{sample.at("live_bytes")} / kPageBytes;
  const PointCosts costs(advice, *way, live_pages, job.ranks);
  JobModel model{.restart_s = job.restart_s,
                 .mtbf_s = job.mtbf_hours * 3600 / static_cast<double>(job.ranks)};
  result.failure_s = model.mtbf_s;
  result.interval_s = best_interval(model, [&](double interval_s) { return costs(interval_s); });
  result.point_s = model.point_s = costs(result.interval_s);
  result.young_s = model.young_s();
  result.slowdown = model.slowdown(result.interval_s);
  return result;
}

Json to_json(const JobAdvice& advice) {
  return {{"ranks", advice.job.ranks},         {"mtbf_hours", advice.job.mtbf_hours},
          {"restart_s", advice.job.restart_s}, {"failure_s", advice.failure_s},
          {"interval_s", advice.interval_s},   {"young_s", advice.young_s},
          {"point_s", advice.point_s},         {"slowdown", advice.slowdown}};
}

}  // namespace perdura::tools
