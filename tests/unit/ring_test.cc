// Goal: what a ring refuses to start never happens, and what fails later is reported by a drain.
// Method: a file medium on io_uring, whose submissions fail on request as the kernel's do: refused,
// with the entry left in the ring, or accepted and failed afterwards.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/unique_fd.hpp"
#include "media/medium.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"

namespace perdura::test {
namespace {

class Ring : public testing::Test {
 protected:
  Ring() : medium_(value_or_throw(media::open_medium("file:" + folder_.path("file"), {})).medium) {
    EXPECT_TRUE(medium_->grow(kMiB, true));
    queue_ = medium_->queue();
    arm_calls(nullptr);
  }
  ~Ring() override { disarm_calls(); }
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the medium does without rings under ThreadSanitizer";
#endif
  }

  void fail(Call call, int error, bool for_ever = false) {
    const CallFault fault{.call = call, .nth = 1, .error = error, .for_ever = for_ever};
    arm_calls(&fault);
  }
  Status submit(u64 offset, AlignedBuffer& data, int content) {
    std::memset(data.data(), content, data.size());
    return queue_->submit(offset, data.span(), PERDURA_SITE("test"));
  }
  /// The byte that fills `length` bytes, or -1.
  int content(u64 offset, u64 length) {
    AlignedBuffer bytes(length);
    value_or_throw(medium_->read(offset, bytes.span()));
    for (std::byte byte : bytes.span())
      if (byte != bytes.data()[0]) return -1;
    return static_cast<int>(bytes.data()[0]);
  }

  const TempDir folder_;
  std::unique_ptr<media::Medium> medium_;
  std::unique_ptr<media::WriteQueue> queue_;
};

TEST_F(Ring, ARefusedWriteNeverHappens) {
  AlignedBuffer first(8 * kPageBytes);
  AlignedBuffer second(2 * kPageBytes);
  fail(Call::kRingSubmit, EBUSY);
  EXPECT_FALSE(submit(0, first, 1));
  ASSERT_EQ(calls_failed(), 1u);  // else there is no io_uring here
  std::memset(first.data(), 2, first.size());
  for (u64 i = 0; i < 4; ++i) {
    EXPECT_TRUE(submit(64 * kKiB, second, 3 + static_cast<int>(i)));
    EXPECT_TRUE(queue_->drain());
    EXPECT_EQ(content(64 * kKiB, second.size()), 3 + static_cast<int>(i));
  }
  EXPECT_EQ(content(0, first.size()), 0);
}

TEST_F(Ring, AWriteThatFailsLaterIsReportedOnce) {
  AlignedBuffer data(kPageBytes);
  fail(Call::kRingLate, EBADF);
  EXPECT_TRUE(submit(0, data, 1));
  EXPECT_FALSE(queue_->drain());
  ASSERT_EQ(calls_failed(), 1u);
  EXPECT_TRUE(queue_->drain());
  EXPECT_TRUE(submit(kPageBytes, data, 2));
  EXPECT_TRUE(queue_->drain());
  EXPECT_EQ(content(0, kPageBytes), 0);
  EXPECT_EQ(content(kPageBytes, kPageBytes), 2);
}

TEST_F(Ring, AShortWriteIsCompleted) {
  AlignedBuffer data(16 * kPageBytes);
  fail(Call::kShortWrite, 0);
  EXPECT_TRUE(submit(0, data, 1));
  EXPECT_TRUE(queue_->drain());
  ASSERT_EQ(calls_failed(), 1u);
  EXPECT_EQ(content(0, data.size()), 1);
}

TEST_F(Ring, OfSeveralFailuresTheFirstIsReported) {
  AlignedBuffer data(kPageBytes);
  fail(Call::kRingLate, EBADF, true);
  for (u64 i = 0; i < 3; ++i) EXPECT_TRUE(submit(i * kPageBytes, data, 1));
  expect_failure(queue_->drain(), Code::kIo, "cannot write 4096 bytes at offset 0 of");
  EXPECT_EQ(calls_failed(), 3u);
  EXPECT_TRUE(queue_->drain());
}

TEST_F(Ring, WhatTheSystemPutsOffIsMadeAgain) {
  AlignedBuffer data(kPageBytes);
  for (const Call call : {Call::kRingSubmit, Call::kRingLate})
    for (const int error : {EINTR, EAGAIN}) {
      fail(call, error);
      EXPECT_TRUE(submit(0, data, error));
      EXPECT_TRUE(queue_->drain());
      ASSERT_EQ(calls_failed(), 1u);
      EXPECT_EQ(content(0, kPageBytes), error);
    }
}

TEST_F(Ring, AWriteOfNothingIsAFullDisk) {
  AlignedBuffer data(kPageBytes);
  fail(Call::kRingLate, ENOSPC);
  EXPECT_TRUE(submit(0, data, 1));
  expect_failure(queue_->drain(), Code::kNoSpace, "cannot write");
  EXPECT_EQ(content(0, kPageBytes), 0);
}

TEST_F(Ring, AReadOfNothingIsTheEndOfTheFile) {
  AlignedBuffer into(2 * kPageBytes);
  const media::ReadRequest requests[] = {{0, into.first(kPageBytes)},
                                         {kPageBytes, into.span().subspan(kPageBytes)}};
  fail(Call::kRingLate, ENOSPC);
  expect_failure(medium_->read_all(requests), Code::kIo, "cannot read");
}

// Whoever ends a queue takes the data back.
TEST_F(Ring, AQueueThatEndsWaitsForItsWrites) {
  AlignedBuffer data(64 * kPageBytes);
  EXPECT_TRUE(submit(0, data, 1));
  queue_.reset();
  std::memset(data.data(), 2, data.size());
  EXPECT_EQ(content(0, data.size()), 1);
}

// The others are done, the one that never ends is reported, and nobody waits for it for ever.
TEST_F(Ring, ARingThatDiesIsAnError) {
  AlignedBuffer data(kPageBytes);
  EXPECT_TRUE(submit(0, data, 1));
  EXPECT_TRUE(queue_->drain());
  fail(Call::kRingDead, EBADR);
  EXPECT_TRUE(submit(0, data, 2));
  expect_failure(queue_->drain(), Code::kIo, "cannot wait for I/O on");
  EXPECT_EQ(content(0, kPageBytes), 1);
  queue_.reset();
}

// The place of a write that nobody could wait for may be given away before it lands: what is there
// then is not to be acknowledged.
TEST_F(Ring, NothingIsDurableBehindAWriteThatNobodyCouldWaitFor) {
  AlignedBuffer data(kPageBytes);
  fail(Call::kRingDead, EBADR);
  EXPECT_TRUE(submit(0, data, 1));
  expect_failure(queue_->drain(), Code::kIo, "cannot wait for I/O on");
  expect_failure(medium_->barrier(PERDURA_SITE("test")), Code::kIo,
                 "an earlier write of '" + folder_.path("file") + "' to its disk failed");
}

// Who opens the file next shall not find it changing.
TEST_F(Ring, WhatADeadRingLeavesBehindKeepsTheLock) {
  struct Pinned final : DiskModel {
    void before_write(int fd, u64, u64) override { held = UniqueFd(::dup(fd)); }
    void flushed(int) override {}
    void flush_failed(int) override {}
    void cache_dropped(int) override {}
    UniqueFd held;  ///< as a write in flight holds it
  } pinned;
  model_disk(&pinned);
  AlignedBuffer data(kPageBytes);
  fail(Call::kRingDead, EBADR);
  EXPECT_TRUE(submit(0, data, 2));
  model_disk(nullptr);
  queue_.reset();
  medium_.reset();
  const std::string uri = "file:" + folder_.path("file");
  expect_failure(media::open_medium(uri, {}), Code::kLocked, "is open in");
  pinned.held.reset();
  EXPECT_TRUE(media::open_medium(uri, {}));
}

TEST_F(Ring, ADeadRingTakesNoMoreThanItHolds) {
  AlignedBuffer data(kPageBytes);
  fail(Call::kRingDead, EBADR, true);
  u64 submitted = 0;
  while (submit(0, data, 1)) ASSERT_LT(++submitted, 1000u);
  EXPECT_GT(submitted, 0u);
  EXPECT_EQ(content(0, kPageBytes), 0);
  queue_.reset();
}

TEST_F(Ring, ARingThatDiesAfterAFailureReportsThat) {
  AlignedBuffer data(kPageBytes);
  fail(Call::kRingLate, EBADF);
  EXPECT_TRUE(submit(kPageBytes, data, 1));
  fail(Call::kRingDead, EBADR);
  EXPECT_TRUE(submit(0, data, 2));
  expect_failure(queue_->drain(), Code::kIo, "cannot write 4096 bytes at offset 4096 of");
  queue_.reset();
}

}  // namespace
}  // namespace perdura::test
