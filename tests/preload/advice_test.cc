// Goal: what perdura advise predicts follows from what was measured, whatever else the machine did
// meanwhile: costs are found again of which measured epochs were made up, a machine that is busy
// changes neither these nor the program's own run time, and nothing is recommended, or said, that
// the measurements do not carry.
// Method: samples of programs and measurements of epochs are given to the model
// (tools/costs.cc, tools/advice.cc), which looks at nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/advice.hpp"
#include "tools/interval.hpp"
#include "tools/simulated_job.hpp"

namespace perdura::tools {
namespace {

using Json = nlohmann::ordered_json;

// --- costs ---------------------------------------------------------------------------------------

/// Of all ways, as they might be; a line that is captured with its neighbours costs all of them the
/// same.
std::vector<Costs> real_costs() {
  constexpr double kTogether = 12;
  constexpr double kAlone = 40;
  std::vector<Costs> all;
  for (const Way& way : ways()) {
    const bool alone = way.compare || way.reported;
    all.push_back({.fault = way.reported ? 2.0 : 600.0,
                   .page = way.reported  ? 1.5
                           : way.compare ? 300.0
                                         : 90.0,
                   .line = alone ? kAlone : kTogether,
                   .heap_page = 0.4 * (way.aliases + 1),
                   .fixed = 15'000,
                   .fresh = 1500});
  }
  return all;
}

/// Takes `ns`, and in all but the third of the rounds some other machine's work as well.
std::vector<double> rounds_of(double ns, double others_ns) {
  std::vector<double> rounds;
  for (int i = 0; i < 9; ++i) rounds.push_back(ns + (i % 3 == 2 ? 0 : others_ns * (1 + i)));
  return rounds;
}

Epochs epochs_of(const Costs& costs, double seen, double lines, double pages, double others_ns) {
  constexpr double kStoreNs = 3;
  return {seen, lines, rounds_of(seen * (costs.fault + kStoreNs), others_ns),
          rounds_of(seen * kStoreNs, others_ns),
          rounds_of(costs.fixed + costs.heap_page * pages + costs.page * seen + costs.line * lines,
                    others_ns)};
}

/// As the epochs of calibration.cc come out: 1024 pages of 16 blocks of 4 lines.
Measurements measurements_of(const Way& way, const Costs& costs, double others_ns) {
  constexpr double kPages = 1024;
  constexpr double kMore = 4096;
  const double parts = way.aliases == 0 ? 1 : std::min<double>(way.aliases, 16);
  Measurements all;
  all.pages = kPages;
  all.more_pages = kMore;
  all.idle = epochs_of(costs, 0, 0, kPages, others_ns);
  all.idle_large = epochs_of(costs, 0, 0, kPages + kMore, others_ns);
  const auto add = [&](double seen, double lines) {
    return epochs_of(costs, seen, lines, kPages, others_ns);
  };
  if (way.reported) {
    all.sparse = add(kPages, kPages);
    all.dense = add(16 * kPages, 16 * kPages);
    all.thin = add(16 * kPages, kPages);
  } else if (way.compare) {
    all.sparse = add(kPages, kPages);
    all.dense = add(kPages, 16 * kPages);
    all.thin = add(kPages / 2, 8 * kPages);
  } else if (way.aliases == 0) {
    all.sparse = all.dense = add(kPages, 64 * kPages);
    all.thin = add(kPages / 2, 32 * kPages);
  } else {
    all.sparse = add(kPages, 64 * kPages / parts);
    all.dense = add(kPages * parts, 64 * kPages);
    all.thin = add(kPages * parts / 2, 8 * kPages);
  }
  all.fresh_ns = rounds_of(costs.fresh, others_ns / 1000);
  return all;
}

std::vector<Measurements> all_measurements(double others_ns) {
  std::vector<Measurements> all;
  const std::vector<Costs> costs = real_costs();
  for (size_t i = 0; i < costs.size(); ++i)
    all.push_back(measurements_of(ways()[i], costs[i], others_ns));
  return all;
}

void expect_costs(const std::vector<Costs>& found, double doubt_max) {
  const std::vector<Costs> real = real_costs();
  ASSERT_EQ(found.size(), real.size());
  for (size_t i = 0; i < real.size(); ++i) {
    const std::string& name = ways()[i].name;
    EXPECT_NEAR(found[i].fault, real[i].fault, 1e-6 * real[i].fault) << name;
    EXPECT_NEAR(found[i].page, real[i].page, 0.001 * real[i].page) << name;
    EXPECT_NEAR(found[i].line, real[i].line, 0.001 * real[i].line) << name;
    EXPECT_NEAR(found[i].heap_page, real[i].heap_page, 1e-6) << name;
    EXPECT_NEAR(found[i].fixed, real[i].fixed, 1e-6 * real[i].fixed) << name;
    EXPECT_NEAR(found[i].fresh, real[i].fresh, 1e-6 * real[i].fresh) << name;
    EXPECT_LE(found[i].doubt, doubt_max) << name;
  }
}

// Pages and lines are told apart for ways that capture all lines of what is seen as well.
TEST(CostsTest, AreFoundThatEpochsWereMadeOf) {
  expect_costs(costs_of(ways(), all_measurements(0)), 0.001);
}

TEST(CostsTest, OtherWorkOfTheMachineIsNotTaken) {
  expect_costs(costs_of(ways(), all_measurements(5e7)), 0.001);
}

// Where the machine left no two rounds alone it is not known how near the best of them is.
TEST(CostsTest, TimesThatDifferAreDoubted) {
  std::vector<Measurements> measured = all_measurements(0);
  std::vector<double>& rounds = measured[0].dense.checkpoint_ns;
  for (size_t i = 0; i < rounds.size(); ++i) rounds[i] *= 1 + 0.1 * static_cast<double>(i);
  const std::vector<Costs> costs = costs_of(ways(), measured);
  EXPECT_GT(costs[0].doubt, 0.15);
  EXPECT_LT(costs[3].doubt, 0.001);
}

// One of the ways that met a busy machine in all of its rounds is not another price of the medium.
TEST(CostsTest, WhatIsTheMediumsIsTheSameForAllWays) {
  std::vector<Measurements> measured = all_measurements(0);
  for (double& ns : measured[4].dense.checkpoint_ns) ns *= 1.6;
  const std::vector<Costs> costs = costs_of(ways(), measured);
  for (const size_t i : {0U, 2U, 3U, 4U, 5U, 6U}) EXPECT_NEAR(costs[i].line, 12, 0.1) << i;
  EXPECT_GT(costs[4].doubt, 0.15);
}

// --- predictions ---------------------------------------------------------------------------------

constexpr double kSecond = 1e9;

Json spent(double wall_ns, double cpu_ns, double waited_ns) {
  return {{"wall_ns", wall_ns}, {"cpu_ns", cpu_ns}, {"waited_ns", waited_ns}, {"stopped_ns", 0}};
}

/// A program of one thread that stores to `pages` again and again, of each to a line, and was seen
/// in `checkpoints` stretches of 64 ms.
struct Sampled {
  double own_s = 4;
  double waited_s = 0;
  double pages = 1000;
  double checkpoints = 10;
  double fault_ns = 600;  ///< as it was measured in the process
  double real_fault_ns = 600;
  double reports = 0;  ///< of a stretch
  double counting_ns = 0;
  double stretches = 50;  ///< of all of the run, in each of which its pages were met again

  Json json() const {
    const double faults_s = pages * real_fault_ns / 1e9;
    const double stretch_s = 0.064 + faults_s;
    const double run_s = own_s + stretches * faults_s;
    const auto parts = [&](double count, double lines) {
      return Json{{"parts", count},
                  {"faults", pages * checkpoints},
                  {"new_faults", 0},
                  {"lines", lines * pages * checkpoints}};
    };
    Json interval = {
        {"ms", 64},
        {"checkpoints", checkpoints},
        {"spent", spent(checkpoints * stretch_s * kSecond * (1 + waited_s / own_s),
                        checkpoints * stretch_s * kSecond,
                        checkpoints * stretch_s * kSecond * waited_s / own_s)},
        {"faults", pages * checkpoints},
        {"reports", reports * checkpoints},
        {"pages", pages * checkpoints},
        {"new_pages", 0},
        {"pages_squared", pages * pages * checkpoints},
        {"lines", pages * checkpoints},
        {"parts", {parts(1, 64), parts(2, 32), parts(4, 16), parts(8, 8), parts(256, 4)}}};
    const double waited_ns = run_s * kSecond * waited_s / own_s;
    return {{"run_ns", run_s * kSecond + waited_ns},
            {"spent", spent(run_s * kSecond + waited_ns, run_s * kSecond, waited_ns)},
            {"faults", pages * stretches},
            {"fault_ns", {{"least", fault_ns}, {"median", fault_ns}}},
            {"counting_ns", counting_ns},
            {"reports", reports * stretches},
            {"new_pages", 0},
            {"backed_bytes", pages * kPageBytes},
            {"intervals", Json::array({interval})}};
  }
};

std::vector<Calibrated> calibrated(double doubt = 0) {
  std::vector<Calibrated> all;
  const std::vector<Costs> costs = real_costs();
  for (size_t i = 0; i < costs.size(); ++i) {
    all.push_back({ways()[i], std::nullopt, costs[i]});
    all.back().costs.doubt = doubt;
  }
  return all;
}

Advice advice_on(const Sampled& sampled, const std::vector<Calibrated>& ways = calibrated()) {
  return value_or_throw(advise_on(sampled.json(), ways));
}

TEST(AdviceTest, SumsUpWhatWasSeen) {
  const Advice advice = advice_on({});
  EXPECT_NEAR(advice.base_ns, 4 * kSecond, 1);
  const Prediction& pages = advice.ways[0].predictions.at(0);
  // Of 64 ms: 1000 faults, pages, 64 lines each, and a checkpoint.
  const double extra_ns = 1000 * (600 + 90 + 64 * 12) + 15'000 + 0.4 * 1000;
  EXPECT_NEAR(pages.slowdown, 1 + extra_ns / 64e6, 1e-6);
  EXPECT_EQ(pages.bytes, 1000 * kPageBytes);
  EXPECT_EQ(pages.faults, 1000U);
}

// It waits as long as it runs, since the processors have something else to do.
TEST(AdviceTest, ABusyMachineIsNotThePrograms) {
  const Advice alone = advice_on({});
  const Advice busy = advice_on({.waited_s = 4.7});
  EXPECT_NEAR(busy.base_ns, alone.base_ns, 1);
  for (size_t i = 0; i + 1 < alone.ways.size(); ++i)
    EXPECT_NEAR(busy.ways[i].predictions[0].slowdown, alone.ways[i].predictions[0].slowdown, 1e-6);
}

// Pauses are in the run, so that the sampling's own faults are a small part of it.
TEST(AdviceTest, TheCostOfAFaultHardlyMovesTheRunTime) {
  const Sampled heavy{.pages = 25'000, .stretches = 63};
  Sampled wrong = heavy;
  wrong.fault_ns *= 1.08;
  const Advice right = advice_on(heavy);
  const Advice off = advice_on(wrong);
  EXPECT_NEAR(off.base_ns / right.base_ns, 1, 0.03);
  EXPECT_NEAR(off.ways[0].predictions[0].slowdown / right.ways[0].predictions[0].slowdown, 1, 0.03);
}

TEST(AdviceTest, NothingIsSaidWhereMostOfTheRunWasTheSamplings) {
  const auto advice = advise_on(Sampled{.pages = 200'000, .stretches = 63}.json(), calibrated());
  ASSERT_FALSE(advice);
  EXPECT_EQ(advice.failure().code, Code::kUnsupported);
  EXPECT_NE(advice.failure().message.find("what it takes alone is not known"), std::string::npos);
}

// The run as a whole is known, of which those stretches are a small part.
TEST(AdviceTest, NothingIsSaidOfAnIntervalWhoseStretchesWereMostlyFaults) {
  const Advice advice = advice_on({.own_s = 40, .pages = 200'000, .stretches = 63});
  EXPECT_EQ(advice.intervals.at(0).checkpoints, 0U);
  EXPECT_FALSE(advice.intervals[0].best);
  EXPECT_EQ(to_json(advice,
                    [] {
                      Json sample = Sampled{}.json();
                      sample["live_bytes"] = sample["live_blocks"] = 0;
                      return sample;
                    }())
                .at("recommended")
                .size(),
            0U);
}

TEST(AdviceTest, NothingIsRecommendedThatLiesWithinTheDoubt) {
  std::vector<Calibrated> ways = calibrated();
  // A way that seems to be quicker than the simplest.
  const auto compared = [&](double doubt) {
    for (Calibrated& each : ways) {
      each.costs.doubt = doubt;
      if (!each.way.compare && each.way.aliases != 0)
        each.failure = Failure{Code::kUnsupported, ""};
    }
    ways[1].costs = ways[0].costs;
    ways[1].costs.line *= 0.5;
    ways[1].costs.page = 64 * 10;
    const Advice advice = advice_on({.pages = 10'000}, ways);
    EXPECT_LT(advice.ways[1].predictions[0].slowdown, advice.ways[0].predictions[0].slowdown);
    return advice.intervals[0].best;
  };
  EXPECT_EQ(compared(0.01), 1U);
  EXPECT_EQ(compared(0.5), 0U);
}

// What counting reports takes is not the program's, and less than making them.
TEST(AdviceTest, WhatTheCompilerReportsCostsWhatItsStoresAreCounted) {
  const Advice none = advice_on({});
  ASSERT_TRUE(none.ways.back().failure);
  EXPECT_NE(none.ways.back().failure->message.find("perdura-clang"), std::string::npos);

  constexpr double kReports = 1e6;
  const Advice advice = advice_on({.reports = kReports, .counting_ns = 1});
  ASSERT_FALSE(advice.ways.back().failure);
  const Prediction& compiled = advice.ways.back().predictions.at(0);
  const double base_ns = 64e6 - kReports * 1;
  // Most reports are collected meanwhile; lines are captured one by one.
  const double extra_ns = kReports * 2 + 64 * 1024 * 1.5 + 1000 * 40 + 15'000 + 0.4 * 1000;
  EXPECT_NEAR(compiled.slowdown, 1 + extra_ns / base_ns, 1e-6);
  EXPECT_EQ(compiled.bytes, 1000 * kLineBytes);
}

// --- jobs ----------------------------------------------------------------------------------------

TEST(JobTest, TheModelIsWhatSimulatedJobsTake) {
  for (const auto& [point_s, restart_s, mtbf_s] : {std::array{0.01, 60.0, 36'000.0},
                                                   {1.0, 60.0, 3'600.0},
                                                   {30.0, 120.0, 900.0},
                                                   {0.1, 1.0, 60.0}}) {
    const JobModel job{point_s, restart_s, mtbf_s};
    const double best = job.daly_s();
    for (const double factor : {0.3, 1.0, 3.0}) {
      const double predicted = job.slowdown(factor * best);
      const double simulated = simulated_slowdown(job, factor * best, 40'000, 7);
      EXPECT_NEAR(predicted / simulated, 1, 0.03)
          << "a point takes " << point_s << " s, after " << factor * best << " s";
    }
    EXPECT_LE(job.slowdown(best), job.slowdown(0.7 * best));
    EXPECT_LE(job.slowdown(best), job.slowdown(1.4 * best));
  }
}

TEST(JobTest, MoreRanksTakePointsMoreOften) {
  const Advice advice = advice_on({});
  Json sample = Sampled{}.json();
  sample["live_bytes"] = u64{1} << 30;
  double interval_s = 1e9;
  double slowdown = 1;
  for (const u64 ranks : {1, 100, 10'000, 100'000}) {
    const auto job = advise_job(advice, sample, {ranks, 5 * 365 * 24.0, 60});
    ASSERT_TRUE(job);
    EXPECT_LT(job->interval_s, interval_s);
    EXPECT_GT(job->slowdown, slowdown);
    EXPECT_NEAR(job->interval_s, job->young_s, 0.2 * job->young_s);
    interval_s = job->interval_s;
    slowdown = job->slowdown;
  }
  EXPECT_LT(slowdown, 1.5);
}

// The more work there was, the more has changed; but not more than there is.
TEST(JobTest, TheIntervalFitsWhatAPointTakesThen) {
  const JobModel job{.restart_s = 10, .mtbf_s = 1000};
  const auto point_s = [](double interval_s) { return std::min(0.5, 0.1 * std::sqrt(interval_s)); };
  const double interval_s = best_interval(job, point_s);
  const JobModel then{point_s(interval_s), 10, 1000};
  EXPECT_NEAR(interval_s, then.daly_s(), 1e-3 * interval_s);
}

}  // namespace
}  // namespace perdura::tools
