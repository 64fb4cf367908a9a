// Goal: who waits for space of the log gets what becomes free, what is kept for versions is there
// when they need it, and only what nobody may need is given back. Method: a log on a medium that
// stops growing when it is told to.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "commit/redo_log_engine.hpp"
#include "media/fault.hpp"
#include "support/files.hpp"
#include "support/log_volume.hpp"

namespace perdura::test {
namespace {

using log::Space;

constexpr u32 kRegion = 1;

class LogSpace : public testing::Test {
 protected:
  static constexpr u64 kSegment = format::kSegmentBytesMax;
  static constexpr u64 kLimit = 4 * kSegment;
  static constexpr u64 kNoLimit = 64 * kMiB;

  LogSpace()
      : volume_(open_volume(
            "file:" + folder_.path("log.pd"),
            [&](std::unique_ptr<media::Medium> inner) { return plan_.wrap(std::move(inner)); })),
        region_(add_region(*volume_, kMiB)) {
    open(kLimit);
  }
  void open(u64 limit_bytes) {
    log_ = std::make_unique<log::Space>(*volume_, kRegion, limit_bytes);
  }

  void fill_medium() {
    plan_.arm({.calls = media::kFaultGrow, .kind = media::FaultKind::kNoSpace, .for_ever = true});
  }
  void take(u64 count, u64 version) {
    for (u64 i = 0; i < count; ++i)
      taken_.push_back(value_or_throw(log_->take(log::Content::kVersions, version)));
  }
  void take_all(u64 version) {
    for (auto place = log_->take(log::Content::kVersions, version); place;
         place = log_->take(log::Content::kVersions, version))
      taken_.push_back(*place);
  }
  void release_all() {
    for (const log::Space::Place& each : taken_) log_->release(each.index);
  }
  /// Of a version that fits what is free.
  u64 lines_that_fit() {
    u64 lines = 0;
    for (u64 step = 1 << 20; step != 0; step /= 2)
      if (log_->fits(lines + step)) lines += step;
    return lines;
  }

  const TempDir folder_{TempDir::kMemory};
  media::FaultPlan plan_;
  const std::unique_ptr<region::Volume> volume_;
  const std::unique_ptr<region::Region> region_;
  std::unique_ptr<log::Space> log_;
  std::vector<log::Space::Place> taken_;
};

// A thread waits for a segment while another one has room kept for a larger version.
TEST_F(LogSpace, WhatIsKeptMeanwhileIsNotTaken) {
  open(kNoLimit);
  take(4, 1);
  fill_medium();
  take_all(1);
  u64 lines = 0;
  log_->on_shortage([&] {
    release_all();
    log_->retire(1);
    lines = lines_that_fit();
    return static_cast<bool>(log_->reserve(lines));
  });
  EXPECT_FALSE(log_->take(log::Content::kTransactions, 2));
  EXPECT_TRUE(log_->fits(lines));
}

TEST_F(LogSpace, ComesFromVersionsThatAreBroughtHome) {
  take(4, 1);
  fill_medium();
  take_all(1);
  u64 relieved = 0;
  log_->on_shortage([&] {
    ++relieved;
    release_all();
    log_->retire(1);
    return true;
  });
  EXPECT_TRUE(log_->take(log::Content::kVersions, 2));
  EXPECT_EQ(relieved, 1u);
}

// Else a full medium may refuse the version that the transactions of the session need.
TEST_F(LogSpace, OfTheSessionsLargestTransactionIsNotGivenBack) {
  take(8, 1);
  release_all();
  const u64 lines = lines_that_fit();
  log_->retire(1);
  ASSERT_LE(log_->capacity_bytes(), kLimit);
  ASSERT_TRUE(log_->reserve(lines + 8 * kSegment / kLineBytes));
  const u64 kept = log_->reserved_lines();
  log_->retire(2);
  EXPECT_GT(log_->capacity_bytes(), kLimit);
  fill_medium();
  EXPECT_TRUE(log_->fits(kept));
}

// Which of them transactions need is known when they have been repeated.
TEST_F(LogSpace, IsNotGivenBackWhileTransactionsAreRecovered) {
  take(8, 1);
  release_all();
  open(kLimit);  // as after a crash
  log_->adopt(taken_.front().offset, 1, log::Space::kHeld);
  const u64 capacity = log_->capacity_bytes();
  ASSERT_GT(capacity, kLimit);
  log_->retire(1);
  EXPECT_EQ(log_->capacity_bytes(), capacity);
  log_->free_held(2);
  log_->retire(2);
  EXPECT_LT(log_->capacity_bytes(), capacity);
}

// Segments whose transactions the version has are free when it is home, the others are not.
TEST_F(LogSpace, OfTransactionsThatAVersionHasIsFreeAfterACrash) {
  take(8, 1);
  release_all();
  open(kLimit);  // as after a crash
  u64 generation = 0;
  for (const log::Space::Place& each : taken_)
    log_->adopt(each.offset, ++generation, log::Space::kHeld);
  fill_medium();
  const u64 before = lines_that_fit();
  std::vector<u64> needed{taken_[1].offset, taken_[5].offset};
  std::ranges::sort(needed);
  log_->free_held(3, needed);
  log_->recycle(2);
  EXPECT_EQ(lines_that_fit(), before) << "the version is not home";
  log_->recycle(3);
  taken_.clear();
  take_all(4);
  for (const log::Space::Place& each : taken_)
    EXPECT_FALSE(std::ranges::binary_search(needed, each.offset));
  EXPECT_GE(taken_.size(), 6u);
  EXPECT_EQ(log_->live_generation_after(4), 2u);
}

// Of a version that is home nothing keeps a segment, its writer no more than others.
TEST_F(LogSpace, IsAllFreeWhenVersionsAreBroughtHome) {
  ASSERT_TRUE(region_->back(0, kPageBytes));
  commit::RedoLogEngine::Config config;
  config.volume = volume_.get();
  config.region = region_.get();
  config.space = log_.get();
  const auto guard = value_or_throw(commit::HomeGuard::create(*volume_, *region_, nullptr));
  config.guard = guard.get();
  commit::RedoLogEngine engine(config, 0, {});
  alignas(kLineBytes) const std::byte line[kLineBytes] = {};
  engine.begin(1);
  ASSERT_TRUE(engine.capture_selection({.numbers = {0}, .data = {line}}));
  ASSERT_TRUE(engine.prepare());
  engine.publish();
  fill_medium();
  const u64 before = lines_that_fit();
  ASSERT_TRUE(engine.bring_home());
  EXPECT_GT(lines_that_fit(), before);
  EXPECT_EQ(log_->live_generation_after(1), log_->live_generation_at_end());
}

}  // namespace
}  // namespace perdura::test
