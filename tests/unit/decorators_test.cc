// Goal: a recording says what a crash at any moment may have left, and a plan makes fail what it
// names and nothing else; tests of everything above rely on both.
// Method: calls of a recorded medium on a real one, of which some fail; the content that the
// history rebuilds, byte by byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "media/fault.hpp"
#include "media/record.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"

namespace perdura::test {
namespace {

using media::Fault;
using media::FaultKind;
using media::History;
using media::Site;

constexpr Site kData{__FILE__, __LINE__, "data"};
constexpr Site kOtherData{__FILE__, __LINE__, "other data"};
constexpr Site kBarrier{__FILE__, __LINE__, "barrier"};
constexpr Site kOtherBarrier{__FILE__, __LINE__, "other barrier"};

class DecoratorsTest : public testing::Test {
 protected:
  /// A recorded medium, whose calls below the recording fail as planned.
  std::unique_ptr<media::Medium> open() {
    auto medium = value_or_throw(media::open_medium("file:" + folder_.path("file"), {})).medium;
    return recording_.wrap(plan_.wrap(std::move(medium)));
  }
  static AlignedBuffer page_of(int content) {
    AlignedBuffer page(kPageBytes);
    std::memset(page.data(), content, page.size());
    return page;
  }
  /// What fills each page, -1 where that is not one byte.
  static std::vector<int> pages(const History::Content& content) {
    std::vector<int> found;
    for (size_t at = 0; at < content.size(); at += kPageBytes) {
      const bool same = std::all_of(&content[at], &content[at] + kPageBytes,
                                    [&](std::byte byte) { return byte == content[at]; });
      found.push_back(same ? static_cast<int>(content[at]) : -1);
    }
    return found;
  }
  static std::vector<int> none_kept(const History& history) {
    return pages(history.after_crash(history.calls().size(), [](size_t, u64) { return false; }));
  }
  static std::vector<int> all_kept(const History& history) {
    return pages(history.after_crash(history.calls().size(), [](size_t, u64) { return true; }));
  }

  const TempDir folder_{TempDir::kMemory};
  media::Recording recording_;
  media::FaultPlan plan_;
  const AlignedBuffer one_ = page_of(1);
  const AlignedBuffer two_ = page_of(2);
};

using Pages = std::vector<int>;

TEST_F(DecoratorsTest, OnlyABarrierThatSucceededMakesDurable) {
  const auto medium = open();
  ASSERT_TRUE(medium->grow(2 * kPageBytes, true));
  ASSERT_TRUE(medium->write(0, one_.span(), kData));
  ASSERT_TRUE(medium->barrier(kBarrier));
  ASSERT_TRUE(medium->write(kPageBytes, two_.span(), kData));
  plan_.arm({.calls = media::kFaultBarrier});
  expect_failure(medium->barrier(kBarrier), Code::kIo, "injected fault: cannot flush");
  const History history = recording_.history();
  EXPECT_EQ(history.crash_points().size(), 2u) << "the one that succeeded, and the end";
  EXPECT_EQ(none_kept(history), (Pages{1, 0}));
  EXPECT_EQ(all_kept(history), (Pages{1, 2}));
}

TEST_F(DecoratorsTest, AFailedWriteIsNeverDurableButMayHaveHappened) {
  const auto medium = open();
  ASSERT_TRUE(medium->grow(2 * kPageBytes, true));
  plan_.arm({.calls = media::kFaultWrite});
  EXPECT_FALSE(medium->write(0, one_.span(), kData));
  ASSERT_TRUE(medium->barrier(kBarrier));
  EXPECT_EQ(none_kept(recording_.history()), (Pages{0, 0}));
  EXPECT_EQ(all_kept(recording_.history()), (Pages{1, 0}));
}

TEST_F(DecoratorsTest, ASubmittedWriteIsDurableOnceADrainCoversIt) {
  const auto medium = open();
  ASSERT_TRUE(medium->grow(3 * kPageBytes, true));
  const auto queue = medium->queue();
  ASSERT_TRUE(queue->submit(0, one_.span(), kData));
  ASSERT_TRUE(queue->submit(kPageBytes, two_.span(), kData));
  ASSERT_TRUE(queue->drain(2));
  ASSERT_TRUE(medium->barrier(kBarrier));
  EXPECT_EQ(none_kept(recording_.history()), (Pages{0, 0, 0})) << "two may be pending";
  ASSERT_TRUE(queue->drain(1));
  ASSERT_TRUE(medium->barrier(kBarrier));
  EXPECT_EQ(none_kept(recording_.history()), (Pages{1, 0, 0})) << "the youngest may be pending";
  plan_.arm({.calls = media::kFaultDrain});
  EXPECT_FALSE(queue->drain());
  ASSERT_TRUE(medium->barrier(kBarrier));
  EXPECT_EQ(none_kept(recording_.history()), (Pages{1, 0, 0})) << "a failed drain covers nothing";
  plan_.arm({.calls = media::kFaultSubmit});
  EXPECT_FALSE(queue->submit(2 * kPageBytes, one_.span(), kData));
  ASSERT_TRUE(queue->drain());
  ASSERT_TRUE(medium->barrier(kBarrier));
  const History history = recording_.history();
  EXPECT_EQ(none_kept(history)[1], 2);
  EXPECT_TRUE(std::none_of(history.calls().begin(), history.calls().end(), [](const auto& call) {
    return call.kind == media::RecordedCall::Kind::kSubmit && call.offset == 2 * kPageBytes &&
           call.succeeded;
  }));
}

TEST_F(DecoratorsTest, SitesCanBeTakenOut) {
  const auto medium = open();
  ASSERT_TRUE(medium->grow(3 * kPageBytes, true));
  ASSERT_TRUE(medium->write(0, one_.span(), kData));
  ASSERT_TRUE(medium->barrier(kBarrier));
  ASSERT_TRUE(medium->write(kPageBytes, one_.span(), kOtherData));
  ASSERT_TRUE(medium->barrier(kOtherBarrier));
  const History history = recording_.history();
  const auto durable = [&](const Site* no_barrier, const Site* never_covered) {
    std::string found;
    const auto writes = history.durable_writes(history.calls().size(), no_barrier, never_covered);
    for (size_t i = 0; i < writes.size(); ++i)
      if (history.calls()[i].kind == media::RecordedCall::Kind::kWrite)
        found += writes[i] ? '1' : '0';
    return found;
  };
  EXPECT_EQ(durable(nullptr, nullptr), "11");
  EXPECT_EQ(durable(&kOtherBarrier, nullptr), "10");
  EXPECT_EQ(durable(&kBarrier, nullptr), "11") << "the later barrier covers both";
  EXPECT_EQ(durable(nullptr, &kData), "01");
  EXPECT_EQ(durable(&kOtherBarrier, &kData), "00");
}

TEST_F(DecoratorsTest, TheSizeIsWhatTheLastSuccessfulGrowthMadeIt) {
  const auto medium = open();
  ASSERT_TRUE(medium->grow(2 * kPageBytes, true));
  ASSERT_TRUE(medium->barrier(kBarrier));
  ASSERT_TRUE(medium->grow(kPageBytes, true)) << "smaller than it is: nothing to do";
  ASSERT_TRUE(medium->grow(4 * kPageBytes, true));
  plan_.arm({.calls = media::kFaultGrow | media::kFaultBarrier, .for_ever = true});
  EXPECT_FALSE(medium->grow(8 * kPageBytes, true));
  EXPECT_FALSE(medium->barrier(kBarrier));
  const History history = recording_.history();
  const size_t end = history.calls().size();
  EXPECT_EQ(history.size_after(end), 4 * kPageBytes);
  EXPECT_EQ(history.covered_size(end), 2 * kPageBytes);
  EXPECT_EQ(history.covered_size(0), 0u);
  EXPECT_EQ(all_kept(history), (Pages{0, 0, 0, 0}));
}

TEST_F(DecoratorsTest, AHistoryStartsFromWhatTheMediumHolds) {
  {
    const auto medium = open();
    ASSERT_TRUE(medium->grow(2 * kPageBytes, true));
    ASSERT_TRUE(medium->write(0, one_.span(), kData));
  }
  const auto medium = open();
  EXPECT_TRUE(recording_.history().calls().empty());
  EXPECT_EQ(pages(recording_.history().initial()), (Pages{1, 0}));
  EXPECT_EQ(none_kept(recording_.history()), (Pages{1, 0}));
}

TEST_F(DecoratorsTest, OnlyThePlannedCallsFail) {
  const auto medium = open();
  ASSERT_TRUE(medium->grow(2 * kPageBytes, true));
  AlignedBuffer into(2 * kPageBytes);
  const media::ReadRequest requests[] = {{0, into.first(kPageBytes)},
                                         {kPageBytes, into.span().subspan(kPageBytes)}};
  plan_.arm({.calls = media::kFaultRead, .nth = 2});
  EXPECT_TRUE(medium->read(0, into.span()));
  EXPECT_TRUE(medium->barrier(kBarrier));
  expect_failure(medium->read(0, into.span()), Code::kIo, "injected fault: cannot read");
  EXPECT_TRUE(medium->read(0, into.span()));
  EXPECT_EQ(plan_.fired(), 1u);
  plan_.arm({.calls = media::kFaultRead, .for_ever = true});
  for (int i = 0; i < 2; ++i) {
    expect_failure(medium->read_all(requests), Code::kIo, "injected fault: cannot read");
    expect_failure(medium->load(requests), Code::kIo, "injected fault: cannot read");
    EXPECT_FALSE(medium->read(0, into.span()));
  }
  EXPECT_EQ(plan_.count(media::kFaultRead), 6u);
  plan_.disarm();
  EXPECT_TRUE(medium->read_all(requests));
  EXPECT_TRUE(medium->load(requests));
}

TEST_F(DecoratorsTest, AShortWriteDoesHalf) {
  const auto medium = open();
  ASSERT_TRUE(medium->grow(8 * kPageBytes, true));
  AlignedBuffer data(4 * kPageBytes);
  std::memset(data.data(), 1, data.size());
  AlignedBuffer there(8 * kPageBytes);
  plan_.arm({.calls = media::kFaultWrite, .kind = FaultKind::kShort});
  expect_failure(medium->write(0, data.span(), kData), Code::kNoSpace, "injected fault");
  const auto queue = medium->queue();
  plan_.arm({.calls = media::kFaultSubmit, .kind = FaultKind::kShort});
  expect_failure(queue->submit(4 * kPageBytes, data.span(), kData), Code::kNoSpace, "injected");
  EXPECT_TRUE(queue->drain());
  // Of what cannot be halved nothing is done.
  plan_.arm({.calls = media::kFaultWrite, .kind = FaultKind::kShort});
  EXPECT_FALSE(medium->write(2 * kPageBytes, two_.span(), kData));
  plan_.arm({.calls = media::kFaultSubmit, .kind = FaultKind::kShort});
  EXPECT_FALSE(queue->submit(2 * kPageBytes, two_.span(), kData));
  EXPECT_TRUE(queue->drain());
  ASSERT_TRUE(medium->read(0, there.span()));
  EXPECT_EQ(pages({there.data(), there.data() + there.size()}), (Pages{1, 1, 0, 0, 1, 1, 0, 0}));
}

TEST_F(DecoratorsTest, ALateFailureShowsAtTheNextDrain) {
  const auto medium = open();
  ASSERT_TRUE(medium->grow(2 * kPageBytes, true));
  const auto queue = medium->queue();
  plan_.arm({.calls = media::kFaultSubmit, .kind = FaultKind::kLate});
  EXPECT_TRUE(queue->submit(0, one_.span(), kData));
  expect_failure(queue->drain(), Code::kIo, "injected fault: cannot write to");
  EXPECT_TRUE(queue->drain()) << "is reported once";
}

TEST_F(DecoratorsTest, ABarrierThatFailedFailsFromThenOn) {
  const auto medium = open();
  ASSERT_TRUE(medium->grow(kPageBytes, true));
  plan_.arm({.calls = media::kFaultBarrier, .nth = 2});
  EXPECT_TRUE(medium->barrier(kBarrier));
  EXPECT_FALSE(plan_.barrier_failed());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(medium->barrier(kBarrier));
  EXPECT_TRUE(plan_.barrier_failed());
}

}  // namespace
}  // namespace perdura::test
