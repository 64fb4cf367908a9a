// Goal: who waits for space of the log gets what becomes free, what is kept for versions is there
// when they need it, and only what nobody may need is given back. Method: a log on a medium that
// stops growing when it is told to, or tells of it.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "commit/redo_log_engine.hpp"
#include "media/decorator.hpp"
#include "media/fault.hpp"
#include "support/files.hpp"
#include "support/log_volume.hpp"
#include "support/threads.hpp"

namespace perdura::test {
namespace {

using log::Space;

constexpr u32 kRegion = 1;

/// Tells before it grows.
class TellingMedium final : public media::Decorator {
 public:
  TellingMedium(std::unique_ptr<Medium> inner, const std::function<void()>& tell)
      : Decorator(std::move(inner)), tell_(tell) {}
  Status grow(u64 size, bool prewrite) override {
    if (tell_) tell_();
    return Decorator::grow(size, prewrite);
  }

 private:
  const std::function<void()>& tell_;
};

class LogSpace : public testing::Test {
 protected:
  static constexpr u64 kSegment = format::kSegmentBytesMax;
  static constexpr u64 kLimit = 4 * kSegment;
  static constexpr u64 kNoLimit = 64 * kMiB;

  LogSpace()
      : volume_(open_volume("file:" + folder_.path("log.pd"),
                            [&](std::unique_ptr<media::Medium> inner) {
                              return plan_.wrap(std::make_unique<TellingMedium>(std::move(inner),
                                                                                before_growth_));
                            })),
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
  std::function<void()> before_growth_;
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

// So that nobody waits while the medium grows.
TEST_F(LogSpace, IsTakenBeforeItIsWanted) {
  constexpr u64 kMany = 64 * kSegment;
  open(kMany);
  u64 told = 0;
  u64 waited = 0;
  log_->on_scarcity([&] { ++told; });
  before_growth_ = [&] { ++waited; };
  take(4, 1);  // who comes first waits: there was nothing yet
  log_->grow_ahead();
  waited = told = 0;
  for (u64 capacity = log_->capacity_bytes(); capacity + 16 * kMiB <= kMany;
       capacity = log_->capacity_bytes()) {
    while (told == 0) take(1, 1);
    EXPECT_EQ(waited, 0u) << "who took segment " << taken_.size() << " waited for space";
    take(1, 1);
    EXPECT_EQ(told, 1u) << "of the same scarcity";
    log_->grow_ahead();
    EXPECT_EQ(waited, 1u);
    EXPECT_GT(log_->capacity_bytes(), capacity);
    told = waited = 0;
  }
}

TEST_F(LogSpace, IsNotTakenAheadBeyondTheLimit) {
  open(kLimit);
  u64 told = 0;
  log_->on_scarcity([&] { ++told; });
  while (log_->capacity_bytes() < kLimit) take(1, 1);
  told = 0;
  const u64 capacity = log_->capacity_bytes();
  while (lines_that_fit() != 0) take(1, 1);
  EXPECT_EQ(told, 0u);
  log_->grow_ahead();
  EXPECT_EQ(log_->capacity_bytes(), capacity);
}

// Whoever needs the space has an error, or finds that there is some by now.
TEST_F(LogSpace, ThatCannotBeTakenAheadIsTakenInNeed) {
  open(kNoLimit);
  u64 told = 0;
  log_->on_scarcity([&] { ++told; });
  while (told == 0) take(1, 1);
  const u64 capacity = log_->capacity_bytes();
  fill_medium();
  log_->grow_ahead();
  EXPECT_EQ(log_->capacity_bytes(), capacity);
  take_all(1);
  EXPECT_EQ(told, 1u) << "nobody has found space since";
  EXPECT_EQ(taken_.size(), capacity / kSegment);
  plan_.disarm();
  take(1, 1);
  EXPECT_GT(log_->capacity_bytes(), capacity);
}

// While it grows others take what is free and give back what they have; who finds nothing waits for
// it and does not take as much again.
TEST_F(LogSpace, GrowsWhileOthersUseWhatThereIs) {
  open(kNoLimit);
  bool is_scarce = false;
  log_->on_scarcity([&] { is_scarce = true; });
  while (!is_scarce) take(1, 1);
  u64 growths = 0;
  std::optional<Space::Place> last;
  std::thread waiting;
  before_growth_ = [&] {
    if (++growths != 1) return;
    while (lines_that_fit() != 0) take(1, 1);
    const u64 capacity = log_->capacity_bytes();
    EXPECT_EQ(taken_.size(), capacity / kSegment);
    std::atomic<pid_t> id = 0;
    waiting = std::thread([&] {
      id = ::gettid();
      last = value_or_throw(log_->take(log::Content::kVersions, 1));
    });
    while (id == 0) std::this_thread::yield();
    await_asleep(id);
  };
  log_->grow_ahead();
  waiting.join();
  EXPECT_EQ(growths, 1u);
  EXPECT_TRUE(last);
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
