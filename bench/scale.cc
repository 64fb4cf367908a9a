// Goal: what `perdura advise --ranks` and docs/scale.md say of jobs that are larger than any
// machine here follows from how jobs fail. Method: jobs of 10 to 100,000 ranks are simulated, point
// by point, with failures by chance and a slowest rank that is another one at each point; the
// model's run times are held against theirs. Nothing of Perdura runs.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "../tools/interval.hpp"
#include "../tools/simulated_job.hpp"
#include "harness.hpp"
#include "plot.hpp"

namespace perdura::bench {
namespace {

using tools::JobModel;

constexpr double kPointS = 0.25;   // of one rank, in the mean
constexpr double kSpread = 0.1;    // its standard deviation ÷ the mean
constexpr double kRoundS = 20e-6;  // to agree, for each doubling of the ranks
constexpr double kRestartS = 60;
constexpr double kRankHours = 5 * 365 * 24;

double agreement_s(double ranks) { return kRoundS * std::ceil(std::log2(ranks)); }

JobModel model_of(double ranks) {
  return {.point_s = kPointS * (1 + kSpread * std::sqrt(2 * std::log(ranks))) + agreement_s(ranks),
          .restart_s = kRestartS,
          .mtbf_s = kRankHours * 3600 / ranks};
}

/// The slowest of so many normal ones, by the inverse of its distribution.
double slowest(std::mt19937_64& random, double ranks) {
  const double chance =
      std::pow(std::uniform_real_distribution<double>(1e-12, 1)(random), 1 / ranks);
  double low = -8, high = 9;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < chance ? low : high) = middle;
  }
  return kPointS * (1 + kSpread * low) + agreement_s(ranks);
}

void run(Context& context) {
  double worst = 0;
  Json detail = Json::object();
  for (const double ranks : {10.0, 1'000.0, 100'000.0}) {
    const JobModel model = model_of(ranks);
    Json points = Json::array();
    for (const double factor : {0.1, 0.2, 0.5, 1.0, 2.0, 5.0}) {
      const double interval_s = factor * model.daly_s();
      const double predicted = model.slowdown(interval_s);
      const double simulated = tools::simulated_slowdown(
          model, interval_s, context.scale(100'000, 20'000), 11,
          [&](std::mt19937_64& random) { return slowest(random, ranks); });
      worst = std::max(worst, std::abs(predicted / simulated - 1));
      points.push_back(
          {{"interval_s", interval_s}, {"predicted", predicted}, {"simulated", simulated}});
    }
    detail[std::to_string(static_cast<int>(ranks))] = {{"daly_s", model.daly_s()},
                                                       {"young_s", model.young_s()},
                                                       {"failure_s", model.mtbf_s},
                                                       {"points", points}};
  }
  context.figure("scale_model", "apart", Reach::at_most(0.03), {worst, detail});
}

void plot(const Json& figures, const std::string& folder) {
  AgreementChart chart{.title = "Jobs of 10 to 100,000 ranks, with points at several intervals",
                       .x_label = "predicted run time ÷ that of the work",
                       .y_label = "simulated",
                       .tolerance = 0.03,
                       .clouds = {}};
  for (const auto& [ranks, entry] : figures.at(0).at("detail").items()) {
    Cloud cloud{ranks + " ranks", {}};
    for (const Json& point : entry.at("points"))
      cloud.points.push_back({point.at("predicted"), point.at("simulated")});
    chart.clouds.push_back(cloud);
  }
  draw(chart, folder + "/scale.svg");
}

const Registration kScale("cluster_scale", "a model of large jobs against simulated ones", run,
                          plot);

}  // namespace
}  // namespace perdura::bench
