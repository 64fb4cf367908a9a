// Goal: every reported line is in the change set of the epoch in which it was reported and in no
// other, though a background thread collects reports at any moment, cuts included.
// Method: mutators report random lines and keep what they reported; a collector never rests; after
// each cut the change set must equal what was kept. Some epochs are short, so that cuts are many,
// some longer than a step of the collector or than a report buffer. Some versions fail, before
// their change set was looked at or after: their lines belong to the next.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "support/slice.hpp"
#include "track/reported.hpp"

namespace perdura::test {
namespace {

class Epochs : public testing::Test {
 protected:
  static constexpr u64 kLines = 1 << 16;
  static constexpr u64 kThreads = 2;

  Epochs()
      : memory_(value_or_throw(Mapping::anonymous(kLines * kLineBytes))),
        mutators_(value_or_throw(track::Mutators::create(nullptr, nullptr))),
        tracker_(value_or_throw(track::Reported::create(*mutators_, memory_.as(), memory_.length(),
                                                        Tracking::kReported, kLineBytes))) {}

  void mutate(u64 thread);
  void check(u64 epochs, u64 reports_max);

  Mapping memory_;
  std::unique_ptr<track::Mutators> mutators_;
  std::unique_ptr<track::Reported> tracker_;
  std::atomic<bool> stop_{false};
  std::atomic<u64> allowed_{0};          ///< reports of a thread so far, at most
  std::atomic<u64> reported_[kThreads];  ///< by each
  std::vector<u64> kept_[kThreads];      ///< lines of the running epoch; owned by mutators
};

void Epochs::mutate(u64 thread) {
  std::mt19937_64 random(thread);
  detail::Mutator& mutator = mutators_->this_thread();
  while (!stop_) {
    if (reported_[thread] >= allowed_) {
      std::this_thread::yield();
      continue;
    }
    detail::enter(mutator);
    // Some come again and again, and are not reported again behind the last ones.
    const bool again = random() % 2 == 0;
    const u64 line = again ? random() % 3 : random() % kLines;
    std::byte* const place = memory_.as() + line * kLineBytes;
    if (again) detail::report_lines(mutator, place + random() % 32, 1 + random() % 32);
    else detail::report(mutator, place, kLineBytes);
    kept_[thread].push_back(line);
    detail::leave(mutator);
    ++reported_[thread];
  }
}

void Epochs::check(u64 epochs, u64 reports_max) {
  std::vector<std::thread> threads;
  for (u64 i = 0; i < kThreads; ++i) threads.emplace_back([this, i] { mutate(i); });
  threads.emplace_back([this] {
    while (!stop_) tracker_->collect_ahead();
  });
  std::mt19937_64 random(reports_max);
  std::vector<u64> expected;
  u64 lines = 0;
  for (u64 epoch = 0; epoch < epochs && !HasFailure(); ++epoch) {
    allowed_ += random() % (reports_max / kThreads);
    const u64 enough = allowed_ - random() % 8;
    while (epoch % 4 == 0 && (reported_[0] < enough || reported_[1] < enough))
      std::this_thread::yield();
    mutators_->stop();
    EXPECT_TRUE(tracker_->cut());
    for (std::vector<u64>& kept : kept_) {
      expected.insert(expected.end(), kept.begin(), kept.end());
      kept.clear();
    }
    mutators_->resume();
    std::sort(expected.begin(), expected.end());
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    if (random() % 16 == 0) {
      tracker_->settle(false);  // the version failed before its change set was looked at
      continue;
    }
    std::vector<u64> collected;
    tracker_->collect().for_each_page([&](u64 page, u64 mask) {
      for (; mask != 0; mask &= mask - 1)
        collected.push_back(page * kLinesPerPage + static_cast<u64>(std::countr_zero(mask)));
    });
    EXPECT_TRUE(collected == expected)
        << "epoch " << epoch << ": " << expected.size() << " lines were reported, "
        << collected.size() << " are in its change set";
    lines += collected.size();
    const bool durable = random() % 8 != 0;
    tracker_->settle(durable);
    if (durable) expected.clear();
  }
  stop_ = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(lines, epochs);
}

TEST_F(Epochs, ShortOnes) { check(10'000 / kSlower, 64); }
TEST_F(Epochs, LongerThanAStepOfTheCollector) { check(300 / kSlower, 40'000); }
TEST_F(Epochs, LongerThanABuffer) { check(4, 4 * track::MutatorSlot::kBufferEntries); }

}  // namespace
}  // namespace perdura::test
