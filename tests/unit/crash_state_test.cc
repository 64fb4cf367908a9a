// Goal: what an execution of a crash state has found out about it holds in the states that a
// failure inside that execution leaves: a record that was found torn is torn there as well, until
// it is written again; one that nobody looked at may be anything.
// Method: histories of a few writes, made by hand, and executions that go through all choices.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "crash_state.hpp"

namespace perdura::testing {
namespace {

constexpr u64 kPlace = 4096;
constexpr u64 kRecord = 1024;  ///< two sectors
const media::Site kSite{__FILE__, __LINE__, "a record"};

/// A failure after one write of sevens that no barrier covers.
CrashState one_write() {
  media::RecordedCall write;
  write.kind = media::RecordedCall::Kind::kWrite;
  write.succeeded = true;
  write.site = &kSite;
  write.offset = kPlace;
  write.bytes.assign(kRecord, std::byte{7});
  return CrashState(media::History(std::vector<std::byte>(3 * kPlace), 512, {write}), 1,
                    Tearing::kSectors512);
}

media::Geometry geometry() { return {.size = 3 * kPlace, .atomic_bytes = 512, .write_bytes = 512}; }

bool is_whole(media::Medium& medium) {
  AlignedBuffer bytes(kPlace);
  EXPECT_TRUE(medium.load_pages(kPlace, bytes.span()));
  return medium.whole(kPlace, bytes.data(), kRecord, kSite, [](const std::byte* at) {
    for (u64 i = 0; i < kRecord; ++i)
      if (at[i] != std::byte{7}) return false;
    return true;
  });
}

/// What the record may be found to be in this state.
std::set<bool> found_in(const CrashState& state) {
  std::set<bool> found;
  Choices choices;
  Execution execution(state, geometry(), choices, nullptr, {});
  do {
    execution.reset();
    found.insert(is_whole(*execution.medium()));
  } while (choices.advance());
  return found;
}

/// The same in states that a failure leaves at the barrier of a recovery, by whether that has found
/// the record whole; it has not looked where `looks` is not so. Before the barrier it writes.
std::set<std::pair<bool, bool>> found_again(bool looks, u64 written_at) {
  std::set<std::pair<bool, bool>> found;
  const CrashState state = one_write();
  Choices choices;
  bool before = false;
  Execution execution(state, geometry(), choices, nullptr, [&](Execution& at) {
    for (const bool now : found_in(at.crash_state())) found.emplace(before, now);
  });
  do {
    execution.reset();
    const auto medium = execution.medium();
    before = looks && is_whole(*medium);
    EXPECT_EQ(before, looks && is_whole(*medium)) << "it is what it was";
    AlignedBuffer zeros(512);
    std::memset(zeros.data(), 0, 512);
    EXPECT_TRUE(medium->write(written_at, zeros.span(), kSite));
    EXPECT_TRUE(medium->barrier(kSite));
  } while (choices.advance());
  return found;
}

using Pairs = std::set<std::pair<bool, bool>>;

TEST(CrashStates, ARecordIsWholeOrTorn) {
  EXPECT_EQ(found_in(one_write()), (std::set{false, true}));
}

TEST(CrashStates, WhatWasFoundHoldsAfterTheNextFailure) {
  EXPECT_EQ(found_again(true, 0), (Pairs{{false, false}, {true, true}}));
}

TEST(CrashStates, WhatNobodyLookedAtMayBeAnything) {
  EXPECT_EQ(found_again(false, 0), (Pairs{{false, false}, {false, true}}));
}

// A sector of zeros is on its way over it: the other one may be there, and the old one as well.
TEST(CrashStates, ATornRecordThatIsWrittenAgainMayBeAnything) {
  const Pairs found = found_again(true, kPlace);
  EXPECT_TRUE(found.contains({false, false}));
  EXPECT_TRUE(found.contains({true, true})) << "the zeros did not reach the medium";
  EXPECT_TRUE(found.contains({true, false}));
}

}  // namespace
}  // namespace perdura::testing
