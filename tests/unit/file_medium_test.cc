// Goal: what the system refuses or does only in part is done again or is an error that says what
// and where; a file without O_DIRECT or io_uring is as good as one with them.
// Method: a medium in a file, whose system calls fail on request.
#include <gtest/gtest.h>

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/mapping.hpp"
#include "base/unique_fd.hpp"
#include "format/format.hpp"
#include "media/lock.hpp"
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

/// What another thread does, in the middle of a flush.
class Interlude final : public DiskModel {
 public:
  explicit Interlude(std::function<Status()> body) : body_(std::move(body)) { model_disk(this); }
  ~Interlude() override { model_disk(nullptr); }

  void before_write(int, u64, u64) override {}
  void cache_dropped(int) override {}
  void flushed(int) override { begin(); }
  void flush_failed(int) override { begin(); }

  /// Of the body, when it has ended.
  Status result() {
    thread_.join();
    return result_;
  }

 private:
  // Until it is done, or waits for what is in the middle of its flush.
  void begin() {
    if (begun_.exchange(true)) return;
    thread_ = std::thread([this] {
      thread_id_ = ::gettid();
      result_ = body_();
      done_ = true;
    });
    while (!done_ && (thread_id_ == 0 || !is_asleep(thread_id_))) std::this_thread::yield();
  }

  const std::function<Status()> body_;
  std::atomic<bool> begun_{false};
  std::thread thread_;
  std::atomic<pid_t> thread_id_{0};
  std::atomic<bool> done_{false};
  Status result_;
};

// The kernel tells one of them that the disk failed, and drops what it could not write.
TEST_F(FileMediumTest, ABarrierBesideAFailedOneFails) {
  const auto medium = open();
  Interlude other([&] { return medium->barrier(PERDURA_SITE("test")); });
  fail(Call::kFlush, EIO);
  expect_failure(medium->barrier(PERDURA_SITE("test")), Code::kIo, "cannot flush '" + path() + "'");
  expect_failure(other.result(), Code::kIo, "an earlier flush of");
  EXPECT_EQ(calls_counted(Call::kFlush), 1u);
}

// What was written while a flush was under way, that flush may have left out.
TEST_F(FileMediumTest, ABarrierBesideAnotherFlushesByItself) {
  const auto medium = open();
  Interlude other([&] { return medium->barrier(PERDURA_SITE("test")); });
  arm_calls(nullptr);
  EXPECT_TRUE(medium->barrier(PERDURA_SITE("test")));
  EXPECT_TRUE(other.result());
  EXPECT_EQ(calls_counted(Call::kFlush), 2u);
}

// Asking for them makes each write that follows more expensive (file_space.cc).
TEST_F(FileMediumTest, NoBarrierAsksForTheTimesOfTheFile) {
  const auto medium = open();
  arm_calls(nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(medium->barrier(PERDURA_SITE("test")));
  EXPECT_EQ(calls_counted(Call::kFlush), 3u);
  EXPECT_EQ(calls_counted(Call::kInspect), 0u);
}

/// Knows the open file that the last write went through.
class LastWrite final : public DiskModel {
 public:
  LastWrite() { model_disk(this); }
  ~LastWrite() override { model_disk(nullptr); }
  void before_write(int fd, u64, u64) override { fd_ = fd; }
  void flushed(int) override {}
  void flush_failed(int) override {}
  void cache_dropped(int) override {}
  int fd() const { return fd_; }

 private:
  std::atomic<int> fd_{-1};
};

/// Puts a descriptor into a socket, which uses the open file as a write in flight does: until the
/// socket's other end is closed, also when this process is dead.
bool put_into(int socket, int fd) {
  char byte = 0;
  iovec piece{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return ::sendmsg(socket, &message, 0) == 1;
}

// Else a write of the dead process comes after those of whoever opens the file next.
TEST_F(FileMediumTest, TheLockOfAKilledWriterStaysUntilItsWritesAreDone) {
  for (const bool direct : {true, false})
    for (const std::string parameters : {"", "?io_uring=0"}) {
      SCOPED_TRACE((direct ? "direct " : "cached ") + parameters);
      int ends[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      UniqueFd in_flight(ends[0]);
      UniqueFd child_end(ends[1]);
      Child writer([&]() -> std::string {
        in_flight.reset();
        if (!direct) refuse_direct_io();
        const auto medium = open(parameters);
        const auto queue = medium->queue();
        if (!medium->write(format::kOwnerOffset, media::describe_owner().bytes,
                           PERDURA_SITE("test")))
          return "cannot sign it";
        const AlignedBuffer data = filled(kPageBytes, 7);
        const LastWrite last;
        if (!queue->submit(0, data.span(), PERDURA_SITE("test"))) return "cannot write";
        if (!put_into(child_end.get(), last.fd())) return "cannot send a descriptor";
        for (;;) ::pause();
      });
      child_end.reset();
      pollfd waiting{.fd = in_flight.get(), .events = POLLIN, .revents = 0};
      ASSERT_EQ(::poll(&waiting, 1, -1), 1);
      ASSERT_EQ(waiting.revents, POLLIN);
      const std::string writer_text = "process " + std::to_string(writer.pid());
      expect_failure(media::open_medium("file:" + path(), {}), Code::kLocked,
                     "is open in " + writer_text);
      writer.kill();
      siginfo_t ignored;
      ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(writer.pid()), &ignored, WEXITED | WNOWAIT), 0);
      for (const bool waited_for : {false, true}) {
        if (waited_for) {
          ASSERT_EQ(writer.wait(), "");
        }
        expect_failure(media::open_medium("file:" + path() + "?timeout_ms=1", {}), Code::kLocked,
                       "the last one known was " + writer_text);
      }
      in_flight.reset();
      EXPECT_TRUE(media::open_medium("file:" + path(), {}));
    }
}

// The same with writes that are in flight indeed, as far as the disk lets them be.
TEST_F(FileMediumTest, NoWriteOfAKilledProcessComesLater) {
  constexpr u64 kWrites = 16;
  constexpr u64 kLength = 256 * kKiB;
  const auto open_large = [this] {
    auto opened = media::open_medium("file:" + path(), {});
    while (!opened && opened.failure().code == Code::kLocked)
      opened = media::open_medium("file:" + path(), {});
    auto medium = value_or_throw(std::move(opened)).medium;
    value_or_throw(medium->grow(kWrites * kLength, true));
    return medium;
  };
  open_large();
  const AlignedBuffer theirs = filled(kLength, 1);
  const AlignedBuffer ours = filled(kLength, 2);
  for (int round = 0; round < 20; ++round) {
    ToldProcess writer([&](ToldProcess::Ends ends) -> std::string {
      const auto medium = open_large();
      const auto queue = medium->queue();
      for (u64 i = 0; i < kWrites; ++i)
        if (!queue->submit(i * kLength, theirs.span(), PERDURA_SITE("test"))) return "cannot write";
      if (::write(ends.replies, "", 1) != 1) return "cannot say so";
      ::raise(SIGKILL);
      return "lives";
    });
    char has_submitted = 0;
    ASSERT_TRUE(writer.get(has_submitted)) << writer.wait();
    const auto medium = open_large();
    for (u64 i = 0; i < kWrites; ++i)
      ASSERT_TRUE(medium->write(i * kLength, ours.span(), PERDURA_SITE("test")));
    ASSERT_EQ(writer.wait(), "");
    ASSERT_TRUE(writer.killed());
    for (u64 i = 0; i < kWrites; ++i) expect_content(*medium, i * kLength, kLength, 2);
  }
}

// A killed reader's reads may be in flight for a while, and nobody need wait for them.
TEST_F(FileMediumTest, AKilledReaderIsGoneWhenItIsWaitedFor) {
  constexpr u64 kReads = 32;
  constexpr u64 kLength = 256 * kKiB;
  const auto medium = open();
  value_or_throw(medium->grow(kReads * kLength, true));
  const AlignedBuffer data = filled(kReads * kLength, 1);
  ASSERT_TRUE(medium->write(0, data.span(), PERDURA_SITE("test")));
  for (int round = 0; round < 100; ++round) {
    ToldProcess reader([&](ToldProcess::Ends ends) -> std::string {
      const auto read_only = media::open_medium("file:" + path(), {.read_only = true});
      if (!read_only) return read_only.failure().message;
      AlignedBuffer into(kReads * kLength);
      std::vector<media::ReadRequest> requests;
      for (u64 i = 0; i < kReads; ++i)
        requests.push_back({i * kLength, into.span().subspan(i * kLength, kLength)});
      if (::write(ends.replies, "", 1) != 1) return "cannot say so";
      for (;;)
        if (!read_only->medium->read_all(requests)) return "cannot read";
    });
    char reads_now = 0;
    ASSERT_TRUE(reader.get(reads_now)) << reader.wait();
    EXPECT_TRUE(medium->has_readers());
    std::this_thread::sleep_for(std::chrono::microseconds(500 + 70 * round));
    ASSERT_EQ(reader.kill(), "");
    ASSERT_FALSE(medium->has_readers()) << "round " << round;
  }
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
  expect_failure(medium->linear()->map_home(view.as(), kPageBytes, kPageBytes), Code::kNoMemory,
                 "cannot map 4096 bytes of '" + path() + "' at offset 4096");
}

}  // namespace
}  // namespace perdura::test
