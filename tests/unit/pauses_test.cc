// Goal: a percentile is an upper bound of the pauses of its share, at most 6 % too large.
// Method: pauses of all lengths beside a sorted list of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "commit/pauses.hpp"

namespace perdura::test {
namespace {

using commit::Pauses;

TEST(Pauses, NoneHaveNoLength) {
  const Pauses pauses;
  EXPECT_EQ(pauses.count(), 0u);
  EXPECT_EQ(pauses.max_ns(), 0u);
  for (const double share : {0.0, 0.5, 0.99, 1.0}) EXPECT_EQ(pauses.percentile_ns(share), 0u);
}

TEST(Pauses, ShortOnesAreExact) {
  for (u64 ns = 0; ns < 16; ++ns) {
    Pauses pauses;
    pauses.add(ns);
    EXPECT_EQ(pauses.percentile_ns(0.99), ns);
  }
}

TEST(Pauses, PercentilesAreCloseFromAbove) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    Pauses pauses;
    std::vector<u64> sorted;
    for (int i = 0; i < 500; ++i) {
      sorted.push_back(random() >> random() % 64);
      pauses.add(sorted.back());
    }
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(pauses.count(), sorted.size());
    EXPECT_EQ(pauses.max_ns(), sorted.back());
    for (const double share : {0.5, 0.9, 0.99}) {
      const auto above = static_cast<size_t>(static_cast<double>(sorted.size()) * (1 - share));
      const u64 exact = sorted[sorted.size() - 1 - above];
      EXPECT_GE(pauses.percentile_ns(share), exact);
      EXPECT_LE(static_cast<double>(pauses.percentile_ns(share)),
                static_cast<double>(exact) * 1.0626);
    }
  }
}

}  // namespace
}  // namespace perdura::test
