// Goal: what the system refuses or does only in part is done again or is an error that says what
// and where; a file without O_DIRECT or io_uring is as good as one with them.
// Method: a medium in a file, whose system calls fail on request.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/mapping.hpp"
#include "media/medium.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kHasRings = false;
#else
constexpr bool kHasRings = true;
#endif

class FileMediumTest : public testing::Test {
 protected:
  FileMediumTest() { arm_calls(nullptr); }
  ~FileMediumTest() override { disarm_calls(); }

  std::string path() const { return folder_.path("file"); }
  std::unique_ptr<media::Medium> open(const std::string& parameters = "") {
    auto medium = value_or_throw(media::open_medium("file:" + path() + parameters, {})).medium;
    value_or_throw(medium->grow(kMiB, true));
    return medium;
  }
  static void fail(Call call, int error, u64 nth = 1, bool for_ever = false) {
    const CallFault fault{.call = call, .nth = nth, .error = error, .for_ever = for_ever};
    arm_calls(&fault);
  }
  static AlignedBuffer filled(u64 length, int content) {
    AlignedBuffer bytes(length);
    std::memset(bytes.data(), content, length);
    return bytes;
  }
  static void expect_content(media::Medium& medium, u64 offset, u64 length, int content) {
    AlignedBuffer bytes(length);
    ASSERT_TRUE(medium.read(offset, bytes.span()));
    EXPECT_EQ(std::memcmp(bytes.data(), filled(length, content).data(), length), 0);
  }

  const TempDir folder_;
};

TEST_F(FileMediumTest, AnInterruptedCallIsMadeAgain) {
  const auto medium = open();
  const AlignedBuffer data = filled(2 * kPageBytes, 7);
  fail(Call::kWrite, EINTR);
  ASSERT_TRUE(medium->write(kPageBytes, data.span(), PERDURA_SITE("test")));
  EXPECT_EQ(calls_failed(), 1u);
  fail(Call::kRead, EINTR);
  expect_content(*medium, kPageBytes, 2 * kPageBytes, 7);
  EXPECT_EQ(calls_failed(), 1u);
}

TEST_F(FileMediumTest, AShortWriteIsCompleted) {
  const auto medium = open();
  const AlignedBuffer data = filled(8 * kPageBytes, 7);
  fail(Call::kShortWrite, 0);
  ASSERT_TRUE(medium->write(0, data.span(), PERDURA_SITE("test")));
  EXPECT_EQ(calls_failed(), 1u);
  expect_content(*medium, 0, 8 * kPageBytes, 7);
}

TEST_F(FileMediumTest, AWriteOfNothingIsAFullDisk) {
  const auto medium = open();
  const AlignedBuffer data = filled(kPageBytes, 7);
  fail(Call::kWrite, 0);
  expect_failure(medium->write(kPageBytes, data.span(), PERDURA_SITE("test")), Code::kNoSpace,
                 "cannot write 4096 bytes at offset 4096 of '" + path() + "'");
  expect_content(*medium, kPageBytes, kPageBytes, 0);
}

TEST_F(FileMediumTest, AFailedCallNamesItsPlace) {
  const auto medium = open();
  const AlignedBuffer data = filled(kPageBytes, 7);
  fail(Call::kWrite, EIO);
  expect_failure(medium->write(kPageBytes, data.span(), PERDURA_SITE("test")), Code::kIo,
                 "cannot write 4096 bytes at offset 4096 of '" + path() + "'");
  fail(Call::kRead, EIO);
  expect_failure(medium->read(0, data.span()), Code::kIo,
                 "cannot read 4096 bytes at offset 0 of '" + path() + "'");
}

TEST_F(FileMediumTest, AFailedFlushStays) {
  const auto medium = open();
  fail(Call::kFlush, EIO);
  expect_failure(medium->barrier(PERDURA_SITE("test")), Code::kIo, "cannot flush '" + path() + "'");
  EXPECT_EQ(flushes_failed(), 1u);
  for (int i = 0; i < 2; ++i)
    expect_failure(medium->barrier(PERDURA_SITE("test")), Code::kIo, "an earlier flush of");
  EXPECT_EQ(calls_counted(Call::kFlush), 1u) << "asked the system again";
}

TEST_F(FileMediumTest, MemoryNeedNotBeAlignedToReadInto) {
  const auto medium = open();
  const AlignedBuffer data = filled(2 * kPageBytes, 7);
  ASSERT_TRUE(medium->write(0, data.span(), PERDURA_SITE("test")));
  AlignedBuffer into(2 * kPageBytes);
  ASSERT_TRUE(medium->read(0, into.span().subspan(24, kPageBytes)));
  EXPECT_EQ(std::memcmp(into.data() + 24, data.data(), kPageBytes), 0);
}

TEST_F(FileMediumTest, WithoutARingQueuesWriteAllTheSame) {
  if (!kHasRings) GTEST_SKIP() << "the medium does without rings under ThreadSanitizer";
  const auto medium = open();
  fail(Call::kRingSetup, EPERM, 1, true);
  const auto queue = medium->queue();
  const AlignedBuffer data = filled(kPageBytes, 7);
  ASSERT_TRUE(queue->submit(0, data.span(), PERDURA_SITE("test")));
  ASSERT_TRUE(queue->drain());
  AlignedBuffer into(2 * kPageBytes);
  const media::ReadRequest requests[] = {{0, into.first(kPageBytes)},
                                         {kPageBytes, into.span().subspan(kPageBytes)}};
  ASSERT_TRUE(medium->read_all(requests));
  EXPECT_EQ(calls_failed(), 2u);
  EXPECT_EQ(std::memcmp(into.data(), data.data(), kPageBytes), 0);
}

TEST_F(FileMediumTest, AReadThatARingRefusesIsAnError) {
  if (!kHasRings) GTEST_SKIP() << "the medium does without rings under ThreadSanitizer";
  const auto medium = open();
  AlignedBuffer into(2 * kPageBytes);
  const media::ReadRequest requests[] = {{0, into.first(kPageBytes)},
                                         {kPageBytes, into.span().subspan(kPageBytes)}};
  fail(Call::kRingSubmit, EBUSY, 2);
  expect_failure(medium->read_all(requests), Code::kIo,
                 "cannot read 4096 bytes at offset 4096 of '" + path() + "'");
  fail(Call::kRingLate, EBADF, 2);
  expect_failure(medium->read_all(requests), Code::kIo, "cannot read");
  disarm_calls();
  EXPECT_TRUE(medium->read_all(requests));
}

// As on file systems without O_DIRECT: everything goes through the page cache, which is dropped
// when the file is opened, for it may show what the disk lacks.
TEST_F(FileMediumTest, AFileWithoutDirectIoIsAsGood) {
  EXPECT_EQ(in_child([&]() -> std::string {
              refuse_direct_io();
              {
                const auto medium = open();
                const AlignedBuffer data = filled(kPageBytes, 7);
                if (!medium->write(0, data.span(), PERDURA_SITE("test"))) return "cannot write";
                if (!medium->barrier(PERDURA_SITE("test"))) return "cannot flush";
              }
              const auto medium = open();
              char some[10];
              if (!medium->read(5, std::as_writable_bytes(std::span(some)))) return "cannot read";
              return std::ranges::count(some, 7) == 10 ? "" : "holds something else";
            }),
            "");
}

TEST_F(FileMediumTest, ACacheThatCannotBeDroppedIsAnError) {
  open();
  const std::pair<Call, std::string> calls[] = {
      {Call::kFlush, "cannot flush '" + path() + "' to its disk"},
      {Call::kAdvise, "cannot drop '" + path() + "' from the page cache"}};
  for (const auto& [call, sentence] : calls)
    EXPECT_EQ(in_child([&]() -> std::string {
                refuse_direct_io();
                fail(call, EIO);
                const auto opened = media::open_medium("file:" + path(), {});
                if (opened) return "was opened";
                const Failure& failure = opened.failure();
                return failure.code == Code::kIo && failure.message.starts_with(sentence)
                           ? ""
                           : failure.message;
              }),
              "");
}

TEST_F(FileMediumTest, ARefusedMappingIsAnError) {
  const auto medium = open();
  const Mapping view = value_or_throw(Mapping::reserve(nullptr, kPageBytes));
  fail(Call::kMap, ENOMEM);
  expect_failure(medium->map_home(view.as(), kPageBytes, kPageBytes), Code::kNoMemory,
                 "cannot map 4096 bytes of '" + path() + "' at offset 4096");
}

}  // namespace
}  // namespace perdura::test
