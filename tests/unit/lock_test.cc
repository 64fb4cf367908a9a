// Goal: a lock is had on the very file that was opened, or there is an error that says why not; one
// writes, any number read, and the writer finds what they have pinned; whoever locks the whole
// file, as earlier versions of the library do, keeps them out and is kept out. Method: files
// exchanged between opening and locking, and system calls that fail on request; locks of one
// process on several open files, which are to each other as those of several processes.
#include <gtest/gtest.h>

#include <fcntl.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "media/lock.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

/// As whoever opens the file to write.
Result<media::FileLock> lock_exclusively(const std::string& path, int file) {
  return media::lock_file(path, file, O_RDWR, {});
}

class LockTest : public testing::Test {
 protected:
  LockTest() { arm_calls(nullptr); }
  ~LockTest() override { disarm_calls(); }

  static void fail(Call call, int error, u64 nth = 1) {
    const CallFault fault{.call = call, .nth = nth, .error = error};
    arm_calls(&fault);
  }
  static UniqueFd create(const std::string& path) {
    return UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }

  const TempDir folder_;
  const std::string path_ = folder_.path("file");
  const UniqueFd file_ = create(path_);
};

// A child knows nothing yet, and its threads ask at once.
TEST(Owner, IsTheSameForThreadsThatAskTogether) {
  for (int i = 0; i < 50; ++i) {
    Child child([] {
      constexpr size_t kThreads = 4;
      std::atomic<size_t> ready = 0;
      std::array<const media::OwnerPage*, kThreads> pages{};
      std::vector<std::thread> threads;
      for (const media::OwnerPage*& page : pages)
        threads.emplace_back([&] {
          ++ready;
          while (ready != kThreads) std::this_thread::yield();
          page = &media::describe_owner();
        });
      for (std::thread& each : threads) each.join();
      const std::set<const media::OwnerPage*> all(pages.begin(), pages.end());
      return std::string(all.size() == 1 ? "" : "threads have descriptions of their own");
    });
    ASSERT_EQ(child.wait(), "");
  }
}

TEST_F(LockTest, AFileExchangedMeanwhileIsRefused) {
  const UniqueFd other = create(folder_.path("other"));
  expect_failure(lock_exclusively(path_, other.get()), Code::kLocked,
                 "'" + path_ + "' was replaced while it was being opened");
  const TempDir memory(TempDir::kMemory);
  const UniqueFd elsewhere = create(memory.path("file"));
  expect_failure(lock_exclusively(path_, elsewhere.get()), Code::kLocked, "was replaced");
  EXPECT_TRUE(lock_exclusively(path_, file_.get()));
}

TEST_F(LockTest, WhatTheSystemRefusesIsAnError) {
  fail(Call::kOpen, EMFILE);
  expect_failure(lock_exclusively(path_, file_.get()), Code::kIo,
                 "cannot open '" + path_ + "' to lock it");
  for (const u64 nth : {1, 2}) {
    fail(Call::kInspect, EIO, nth);
    expect_failure(lock_exclusively(path_, file_.get()), Code::kIo,
                   "cannot inspect '" + path_ + "'");
  }
  fail(Call::kInspect, ENOLCK, 3);
  expect_failure(lock_exclusively(path_, file_.get()), Code::kIo, "cannot lock '" + path_ + "'");
  disarm_calls();
  EXPECT_TRUE(lock_exclusively(path_, file_.get()));
}

// POSIX lets a system say either.
TEST_F(LockTest, BothErrorsOfALockedFileMeanThat) {
  for (const int error : {EAGAIN, EACCES}) {
    fail(Call::kInspect, error, 3);
    expect_failure(lock_exclusively(path_, file_.get()), Code::kLocked,
                   "another process that has not signed it yet");
  }
}

TEST_F(LockTest, AnOwnerThatCannotBeReadIsUnknown) {
  const auto lock = value_or_throw(lock_exclusively(path_, file_.get()));
  fail(Call::kRead, EIO);
  expect_failure(lock_exclusively(path_, file_.get()), Code::kLocked,
                 "another process that has not signed it yet");
}

class ReadersLock : public LockTest {
 protected:
  Result<media::FileLock> write() { return lock_exclusively(path_, file_.get()); }
  Result<media::FileLock> read() {
    return media::lock_file(path_, file_.get(), O_RDONLY, {.reads = true});
  }
  /// As earlier versions of the library did it: 0 where the lock was had on `fd`.
  static int lock_whole(int fd, short type) {
    struct flock lock{};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    return ::fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
  }
};

TEST_F(ReadersLock, OneWritesAndAnyNumberReads) {
  std::vector<media::FileLock> readers;
  for (int i = 0; i < 3; ++i) readers.push_back(value_or_throw(read()));
  EXPECT_FALSE(readers[0].has_writer());
  {
    const auto writer = value_or_throw(write());
    EXPECT_TRUE(writer.has_readers());
    for (const media::FileLock& each : readers) EXPECT_TRUE(each.has_writer());
    readers.push_back(value_or_throw(read()));
    expect_failure(write(), Code::kLocked, "a store has one writer at a time");
    readers.clear();
    EXPECT_FALSE(writer.has_readers());
  }
  EXPECT_FALSE(value_or_throw(read()).has_writer());
  EXPECT_TRUE(write());
}

TEST_F(ReadersLock, PinsAreFoundFromTheLowestOn) {
  const auto writer = value_or_throw(write());
  constexpr u64 kNone = media::FileLock::kNoPin;
  std::mt19937_64 random(3);
  struct Reader {
    media::FileLock lock;
    std::array<u64, 2> pins{kNone, kNone};
  };
  std::vector<Reader> readers;
  const auto expect_lowest = [&] {
    std::array<u64, 2> lowest{kNone, kNone};
    const u64 from = random() % 30;
    u64 lowest_from = kNone;
    for (const Reader& each : readers) {
      for (size_t i = 0; i < 2; ++i) lowest[i] = std::min(lowest[i], each.pins[i]);
      if (each.pins[0] >= from) lowest_from = std::min(lowest_from, each.pins[0]);
    }
    ASSERT_EQ(writer.lowest_pin(1, from), lowest_from) << from;
    ASSERT_EQ(writer.lowest_pin(1, 0), lowest[0]);
    ASSERT_EQ(writer.lowest_pin(format::kRegionsMax, 0), lowest[1]);
    ASSERT_EQ(writer.lowest_pin(2, 0), kNone);
  };
  for (int round = 0; round < 2000; ++round) {
    const u64 action = random() % 8;
    if (action == 0 && readers.size() < 20) {
      readers.push_back({value_or_throw(read())});
    } else if (action == 1 && !readers.empty()) {
      std::vector<Reader> others;
      const size_t goes = random() % readers.size();
      for (size_t i = 0; i < readers.size(); ++i)
        if (i != goes) others.push_back(std::move(readers[i]));
      readers.swap(others);
    } else if (!readers.empty()) {
      Reader& reader = readers[random() % readers.size()];
      const size_t region = random() % 2;
      // Neighbours, so that locks grow together; and the ends.
      const u64 version = random() % 16 == 0 ? random() % 2 * format::kCounterMax : random() % 30;
      ASSERT_TRUE(reader.lock.pin(path_, region == 0 ? 1 : format::kRegionsMax, version));
      reader.pins[region] = version;
    }
    expect_lowest();
  }
}

TEST_F(ReadersLock, WhereTheSystemDoesNotSayAllIsKept) {
  const auto writer = value_or_throw(write());
  auto reader = value_or_throw(read());
  fail(Call::kInspect, ENOLCK);
  expect_failure(reader.pin(path_, 1, 7), Code::kIo, "cannot pin version 7 of '" + path_ + "'");
  disarm_calls();
  EXPECT_EQ(writer.lowest_pin(1, 0), media::FileLock::kNoPin);
  fail(Call::kInspect, EINVAL);
  EXPECT_EQ(writer.lowest_pin(1, 0), 0u);
  fail(Call::kInspect, EINVAL);
  EXPECT_EQ(writer.lowest_pin(1, 5), 5u);
  disarm_calls();
  EXPECT_TRUE(reader.pin(path_, 1, 7));
  EXPECT_EQ(writer.lowest_pin(1, 0), 7u);
}

TEST_F(ReadersLock, KeepsEarlierVersionsOutAndIsKeptOut) {
  const UniqueFd earlier = create(path_);
  ASSERT_EQ(lock_whole(earlier.get(), F_WRLCK), 0);
  expect_failure(write(), Code::kLocked, "is open in another process");
  expect_failure(read(), Code::kLocked, "an earlier Perdura, which nobody can read beside");
  ASSERT_EQ(lock_whole(earlier.get(), F_RDLCK), 0);
  expect_failure(write(), Code::kLocked, "is being looked at by an earlier Perdura");
  EXPECT_TRUE(read());
  ASSERT_EQ(lock_whole(earlier.get(), F_UNLCK), 0);
  {
    const auto writer = value_or_throw(write());
    EXPECT_EQ(lock_whole(earlier.get(), F_WRLCK), EAGAIN);
    EXPECT_EQ(lock_whole(earlier.get(), F_RDLCK), EAGAIN);
  }
  {
    const auto reader = value_or_throw(read());
    EXPECT_EQ(lock_whole(earlier.get(), F_WRLCK), EAGAIN);
    EXPECT_EQ(lock_whole(earlier.get(), F_RDLCK), 0);
    ASSERT_EQ(lock_whole(earlier.get(), F_UNLCK), 0);
  }
  EXPECT_EQ(lock_whole(earlier.get(), F_WRLCK), 0);
}

}  // namespace
}  // namespace perdura::test
