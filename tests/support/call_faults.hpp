// Calls of the system and of the allocator that fail on request, for programs linked with
// call_faults.cc and its --wrap options (tests/CMakeLists.txt).
//
// Only calls made by the library count: those of its own threads, and those that a test's thread
// makes while it holds an InLibrary.
#pragma once

#include <utility>

#include "base/bits.hpp"

namespace perdura::test {

enum class Call : unsigned {
  kAllocate,    ///< operator new, aligned_alloc
  kMap,         ///< mmap
  kRemap,       ///< mremap
  kProtect,     ///< mprotect
  kAdvise,      ///< madvise, posix_fadvise
  kExtend,      ///< fallocate, posix_fallocate, ftruncate
  kFlush,       ///< fdatasync, fsync
  kRead,        ///< pread
  kWrite,       ///< pwrite
  kShortWrite,  ///< pwrite, sendmsg and writes on a ring do half of it, and say so
  kOpen,        ///< open
  kInspect,     ///< fstat, fstatfs, fcntl, getrandom
  kControl,     ///< ioctl
  kRingSetup,   ///< io_uring_queue_init
  kRingSubmit,  ///< io_uring_submit
  kRingLate,    ///< what was submitted to a ring fails later, with EBADF, EAGAIN or EINTR; with
                ///< ENOSPC as done, but nothing of it
  kRingDead,    ///< what was submitted to a ring never ends: waiting is interrupted, then fails
  kThread,      ///< std::thread
  kMembarrier,  ///< membarrier by syscall()
  kUserfault,   ///< userfaultfd by syscall()
  kSocket,      ///< socket
  kConnect,     ///< connect
  kSend,        ///< sendmsg
  kReceive,     ///< recv; with error 0 the other side has closed the connection
  kPoll,        ///< poll; with error 0 the time is over
  kCount
};
constexpr unsigned kCalls = static_cast<unsigned>(Call::kCount);
const char* name_of(Call call);

struct CallFault {
  Call call = Call::kAllocate;
  u64 nth = 1;  ///< from 1, counted from arming
  int error = 0;
  bool for_ever = false;       ///< also every one after it
  bool own = false;            ///< only calls of the thread that arms, not of the library's own
  void (*before)() = nullptr;  ///< is called before the call, which then does not fail
};

/// Count calls from now on, and let one fail. One fault at a time.
void arm_calls(const CallFault* fault);
/// No call fails any more. Counters stay.
void disarm_calls();
u64 calls_counted(Call call);
u64 calls_failed();
/// Flushes of files that failed since arming.
u64 flushes_failed();

/// Files are opened without O_DIRECT from now on, as on file systems that have none.
void refuse_direct_io();
/// Files are on a file system with this number (linux/magic.h) from now on; 0: on their own.
void pretend_filesystem(u64 magic);

/// This thread is a test's: its calls count only inside of InLibrary.
class TestThread {
 public:
  TestThread();
};
class InLibrary {
 public:
  InLibrary();
  ~InLibrary();
  InLibrary(const InLibrary&) = delete;

 private:
  const bool before_;
};
template <class Body>
decltype(auto) in_library(Body&& body) {
  const InLibrary here;
  return std::forward<Body>(body)();
}

/// What a disk and the page cache do with the writes to a file; nullptr: nothing in particular.
class DiskModel {
 public:
  virtual ~DiskModel() = default;
  virtual void before_write(int fd, u64 offset, u64 length) = 0;
  virtual void flushed(int fd) = 0;
  virtual void flush_failed(int fd) = 0;
  virtual void cache_dropped(int fd) = 0;
};
void model_disk(DiskModel* model);

}  // namespace perdura::test
