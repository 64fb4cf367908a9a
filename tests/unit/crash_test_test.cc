// Goal: a program that tests its own structure with perdura::testing learns of its mistakes, and a
// right one passes.
// Method: a pair of counters that must be equal, kept right, with a store that is not reported, and
// changed in two operations, or transactions, instead of one.
#include <gtest/gtest.h>

#include <perdura/testing.hpp>
#include <perdura/transaction.hpp>

#include "support/slice.hpp"

namespace perdura::test {
namespace {

struct Pair {
  std::uint64_t left = 0;
  std::uint64_t padding[15] = {};  // another line
  std::uint64_t right = 0;
};

std::string check(Store& store) {
  const Pair* pair = store.find_root<Pair>("pair");
  if (pair == nullptr || pair->left == pair->right) return {};
  return std::to_string(pair->left) + " on the left, " + std::to_string(pair->right) +
         " on the right";
}

const u64 kSteps = slice_or_whole(7, 20);

template <class Step>
testing::CrashTestReport test_of(Step&& step) {
  return testing::crash_test(
      {},
      [&](Store& store) {
        Pair& pair = store.root<Pair>("pair");
        for (u64 i = 0; i < kSteps; ++i) step(store, pair);
      },
      check);
}

/// Each side by itself, and no checkpoint but the last one.
template <class Step>
testing::CrashTestReport test_of_own_checkpoints(Step&& step) {
  testing::CrashTestOptions options;
  options.checkpoint_everywhere = false;
  return testing::crash_test(
      options,
      [&](Store& store) {
        Pair& pair = store.root<Pair>("pair");
        for (std::uint64_t* each : {&pair.left, &pair.right}) step(store, *each);
      },
      check);
}

TEST(CrashTest, ARightStructurePasses) {
  const auto report = test_of([](Store& store, Pair& pair) {
    const auto op = store.operation();
    op.touch(&pair, sizeof pair);
    ++pair.left;
    ++pair.right;
  });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_GE(report.versions, kSteps) << report.text();
  EXPECT_GT(report.executions, report.states);
}

TEST(CrashTest, AStoreThatIsNotReportedIsFound) {
  const auto report = test_of([](Store& store, Pair& pair) {
    const auto op = store.operation();
    op.touch(&pair.left, sizeof pair.left);
    ++pair.left;
    ++pair.right;
  });
  EXPECT_FALSE(report.ok());
  EXPECT_NE(report.text().find("on the left"), std::string::npos) << report.text();
}

TEST(CrashTest, ACheckpointInTheMiddleOfAStepIsFound) {
  const auto report = test_of([](Store& store, Pair& pair) {
    {
      const auto op = store.operation();
      op.touch(&pair.left, sizeof pair.left);
      ++pair.left;
    }
    const auto op = store.operation();
    op.touch(&pair.right, sizeof pair.right);
    ++pair.right;
  });
  EXPECT_FALSE(report.ok());
}

TEST(CrashTest, ATransactionPasses) {
  const auto report = test_of([](Store& store, Pair& pair) {
    atomically(store, [&](Transaction& tx) {
      tx.write(pair.left, tx.read(pair.left) + 1);
      tx.write(pair.right, tx.read(pair.right) + 1);
    });
  });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_GE(report.versions, 2 * kSteps) << report.text();  // before the next, and in it
}

TEST(CrashTest, TwoTransactionsInsteadOfOneAreFound) {
  const auto report = test_of_own_checkpoints([](Store& store, std::uint64_t& each) {
    atomically(store, [&](Transaction& tx) { tx.write(each, tx.read(each) + 1); });
  });
  EXPECT_FALSE(report.ok());
  EXPECT_NE(report.text().find("on the left"), std::string::npos) << report.text();
}

TEST(CrashTest, WithoutCheckpointsEverywhereOnlyTheProgramsOwnCount) {
  const auto report = test_of_own_checkpoints([](Store& store, std::uint64_t& each) {
    store.touch(&each, sizeof each);
    ++each;
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

}  // namespace
}  // namespace perdura::test
