// Goal: what is staged is what memory was at the cut, whatever is stored to it afterwards; where
// there is no memory for it, or not enough, the mutators stand still instead, and later it is
// staged again; memory that is not needed any more is given back. Method: real pages under
// userfault, and a system that refuses memory.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "commit/staged_snapshot.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "track/mutators.hpp"
#include "track/userfault.hpp"

namespace perdura::test {
namespace {

class StagedSnapshotTest : public testing::Test {
 protected:
  static constexpr u64 kPages = 2048;
  static constexpr u64 kPiecePages = 2 * kMiB / kPageBytes;

  void SetUp() override {
    mutators_ = value_or_throw(track::Mutators::create(this, [](detail::Mutator&) noexcept {}));
    memory_ = value_or_throw(Mapping::aligned(kPages * kPageBytes, 2 * kMiB));
    auto tracker =
        track::Userfault::create(memory_.as(), memory_.length(), track::Memory::kAnonymous);
    if (!tracker) GTEST_SKIP() << tracker.failure().message;
    tracker_ = std::move(*tracker);
    const track::Part part{memory_.as(), memory_.length(), true};
    value_or_throw(tracker_->backed({&part, 1}));
  }
  void make(u64 memory_max, u64 unit_bytes = kPageBytes) {
    snapshot_ = value_or_throw(commit::StagedSnapshot::create(*tracker_, *mutators_, memory_.as(),
                                                              unit_bytes, memory_max));
  }
  void store(u64 pages, char value) {
    for (u64 page = 0; page < pages; ++page) std::memset(at(page), value, kPageBytes);
  }
  std::byte* at(u64 page) const { return memory_.as() + page * kPageBytes; }

  /// Whether it was staged; then each of so many pages is `value`, whatever is stored meanwhile.
  bool cut(u64 pages, char value) {
    mutators_->stop();
    value_or_throw(tracker_->cut());
    const bool opened = value_or_throw(snapshot_->open());
    mutators_->resume();
    if (opened) {
      store(pages, '?');
      const std::vector<std::byte> expected(kPageBytes, std::byte(value));
      std::vector<u64> units(pages);
      for (u64 i = 0; i < pages; ++i) units[i] = i;
      u64 taken = 0;
      value_or_throw(snapshot_->write_units(units, [&](u64 unit, const std::byte* bytes) -> Status {
        EXPECT_EQ(unit, taken++);
        EXPECT_EQ(std::memcmp(bytes, expected.data(), kPageBytes), 0) << "page " << unit;
        return {};
      }));
      EXPECT_EQ(taken, pages);
    }
    snapshot_->close();
    tracker_->settle(true);
    return opened;
  }

  Mapping memory_;
  std::unique_ptr<track::Mutators> mutators_;
  std::unique_ptr<track::Userfault> tracker_;
  std::unique_ptr<commit::StagedSnapshot> snapshot_;
};

TEST_F(StagedSnapshotTest, WhatDoesNotFitIsNotStaged) {
  make(2 * kMiB);
  store(kPiecePages + 1, 'a');
  EXPECT_FALSE(cut(kPiecePages + 1, 'a'));
  store(kPiecePages, 'b');
  EXPECT_TRUE(cut(kPiecePages, 'b'));
}

TEST_F(StagedSnapshotTest, WhereMemoryIsRefusedNothingIsStagedUntilThereIsSome) {
  make(8 * kMiB);
  store(700, 'a');
  const CallFault refused{.call = Call::kAdvise, .error = ENOMEM, .for_ever = true};
  arm_calls(&refused);
  bool staged = true;
  in_library([&] { staged = cut(700, 'a'); });
  disarm_calls();
  EXPECT_FALSE(staged);
  EXPECT_EQ(snapshot_->held_bytes(), 0u);
  store(700, 'b');
  EXPECT_TRUE(cut(700, 'b'));
}

TEST_F(StagedSnapshotTest, ThreadsOfItsOwnHelpWhereTheyAreNotRefused) {
  make(0);
  for (const bool refused : {true, false}) {
    const CallFault fault{.call = Call::kThread, .error = EAGAIN, .for_ever = true};
    if (refused) arm_calls(&fault);
    in_library([&] {
      const track::Mutators::Helpers helpers(*mutators_, 3);
      disarm_calls();
      store(kPages, 'a');
      EXPECT_TRUE(cut(kPages, 'a'));
    });
  }
}

// Half as much as was needed is there beside it: for the next one, if that needs more.
TEST_F(StagedSnapshotTest, WhatLaterOnesDoNotNeedIsGivenBack) {
  make(0);
  store(kPages * 2 / 3, 'a');
  EXPECT_TRUE(cut(kPages * 2 / 3, 'a'));
  const u64 held = snapshot_->held_bytes();
  EXPECT_EQ(held, round_up(kPages * 2 / 3 * kPageBytes * 3 / 2, 2 * kMiB));
  EXPECT_GE(held, kPages * kPageBytes);
  store(kPages, 'a');
  EXPECT_TRUE(cut(kPages, 'a'));
  EXPECT_EQ(snapshot_->held_bytes(), kPages * kPageBytes * 3 / 2);
  for (int i = 0; i < 40; ++i) {
    store(3, 'b');
    EXPECT_TRUE(cut(3, 'b'));
  }
  EXPECT_EQ(snapshot_->held_bytes(), 2 * kMiB);
  store(kPages, 'c');
  EXPECT_TRUE(cut(kPages, 'c'));
}

}  // namespace
}  // namespace perdura::test
