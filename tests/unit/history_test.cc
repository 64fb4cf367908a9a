// Goal: what barriers cover is what was done before they began, whatever overlaps.
// Method: histories made by hand.
#include <gtest/gtest.h>

#include "media/record.hpp"

namespace perdura::test {
namespace {

using media::History;
using media::RecordedCall;
using Kind = RecordedCall::Kind;

RecordedCall write_at(u64 offset) {
  return {.kind = Kind::kWrite,
          .succeeded = true,
          .site = &PERDURA_SITE("written"),
          .offset = offset,
          .bytes = std::vector<std::byte>(8)};
}

RecordedCall barrier_after(size_t calls) {
  return {.kind = Kind::kBarrier,
          .succeeded = true,
          .site = &PERDURA_SITE("passed"),
          .bytes = {},
          .covers = calls};
}

TEST(History, ABarrierThatBeganEarlierAndEndsLaterTakesNothingBack) {
  const History history({}, 8, {write_at(0), write_at(8), barrier_after(2), barrier_after(1)});
  EXPECT_EQ(history.durable_writes(2), (std::vector<bool>{false, false}));
  EXPECT_EQ(history.durable_writes(3), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(history.durable_writes(4), (std::vector<bool>{true, true, false, false}));
}

TEST(History, TheSizeThatIsCoveredIsThatOfTheBarrierThatBeganLast) {
  const RecordedCall grown{.kind = Kind::kGrow, .succeeded = true, .bytes = {}, .size = 4096};
  const History history({}, 8, {grown, barrier_after(1), barrier_after(0)});
  EXPECT_EQ(history.covered_size(1), 0u);
  EXPECT_EQ(history.covered_size(3), 4096u);
}

TEST(History, AWriteThatIsNotDrainedIsNotCovered) {
  RecordedCall submitted = write_at(0);
  submitted.kind = Kind::kSubmit;
  const RecordedCall drained{.kind = Kind::kDrain, .succeeded = true, .bytes = {}};
  const History history({}, 8, {submitted, barrier_after(1), drained, barrier_after(3)});
  EXPECT_FALSE(history.durable_writes(2)[0]);
  EXPECT_FALSE(history.durable_writes(3)[0]);
  EXPECT_TRUE(history.durable_writes(4)[0]);
}

TEST(History, FailuresAreTriedBeforeEachBarrierAndAtTheEnd) {
  RecordedCall failed = barrier_after(1);
  failed.succeeded = false;
  const History history({}, 8, {write_at(0), barrier_after(1), failed, write_at(8)});
  EXPECT_EQ(history.crash_points(), (std::vector<size_t>{1, 4}));
}

}  // namespace
}  // namespace perdura::test
