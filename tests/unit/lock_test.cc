// Goal: a lock is had on the very file that was opened, or there is an error that says why not.
// Method: files exchanged between opening and locking, and system calls that fail on request.
#include <gtest/gtest.h>

#include <fcntl.h>

#include "media/lock.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"

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

}  // namespace
}  // namespace perdura::test
