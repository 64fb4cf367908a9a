#include "support/call_faults.hpp"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

namespace perdura::test {
namespace {

struct Armed {
  std::atomic<bool> counting{false};
  std::atomic<unsigned> call{kCalls};
  std::atomic<u64> nth{0};
  std::atomic<int> error{0};
  std::atomic<bool> for_ever{false};
  std::atomic<pid_t> only{0};  // calls of this thread, unless 0
  std::atomic<void (*)()> before{nullptr};
  std::array<std::atomic<u64>, kCalls> counts{};
  std::atomic<u64> failed{0};
  std::atomic<u64> flushes_failed{0};
  std::atomic<bool> no_direct{false};
  std::atomic<u64> filesystem{0};
  std::atomic<io_uring*> dead_ring{nullptr};
  std::atomic<bool> interrupted{false};
  std::atomic<int> put_off{-1};
  std::atomic<DiskModel*> disk{nullptr};
};
constinit Armed armed;
constinit thread_local bool counts_here = true;

// Allocates nothing: it runs inside of operator new and in signal handlers.
bool fails(Call call) noexcept {
  if (!counts_here || !armed.counting.load(std::memory_order_relaxed)) return false;
  const pid_t only = armed.only.load(std::memory_order_relaxed);
  if (only != 0 && only != ::gettid()) return false;
  const auto index = static_cast<unsigned>(call);
  const u64 number = armed.counts[index].fetch_add(1) + 1;
  if (armed.call.load() != index) return false;
  const u64 nth = armed.nth.load();
  if (number != nth && !(armed.for_ever.load() && number > nth)) return false;
  armed.failed.fetch_add(1);
  const auto before = armed.before.load();
  if (before != nullptr) before();
  return before == nullptr;
}

/// The error is in errno.
bool fails_with_errno(Call call) noexcept {
  if (!fails(call)) return false;
  errno = armed.error.load();
  return true;
}

/// Instead of what `entry` says: a read that ends when something is written to what is returned.
int read_empty_pipe(io_uring_sqe& entry) {
  static char ignored;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const u64 data = entry.user_data;
  io_uring_prep_read(&entry, ends[0], &ignored, 1, 0);
  entry.user_data = data;
  return ends[1];
}

u64 half_of(u64 length) { return round_down(length / 2, kPageBytes); }

}  // namespace

const char* name_of(Call call) {
  static constexpr const char* kNames[kCalls] = {
      "allocation", "mmap",       "mremap",     "mprotect",    "madvise",
      "fallocate",  "fdatasync",  "pread",      "pwrite",      "short write",
      "open",       "inspection", "ioctl",      "ring set-up", "submit",
      "late write", "dead ring",  "new thread", "membarrier",  "userfaultfd",
      "socket",     "connect",    "sendmsg",    "recv",        "poll"};
  return kNames[static_cast<unsigned>(call)];
}

void arm_calls(const CallFault* fault) {
  for (auto& count : armed.counts) count = 0;
  armed.failed = 0;
  armed.flushes_failed = 0;
  armed.dead_ring = nullptr;
  armed.interrupted = false;
  armed.call = kCalls;
  armed.only = fault != nullptr && fault->own ? ::gettid() : 0;
  if (fault != nullptr) {
    armed.nth = fault->nth;
    armed.error = fault->error;
    armed.for_ever = fault->for_ever;
    armed.before = fault->before;
    armed.call = static_cast<unsigned>(fault->call);
  }
  armed.counting = true;
}

void disarm_calls() {
  armed.call = kCalls;
  armed.counting = false;
}

u64 calls_counted(Call call) { return armed.counts[static_cast<unsigned>(call)]; }
u64 calls_failed() { return armed.failed; }
u64 flushes_failed() { return armed.flushes_failed; }
void refuse_direct_io() { armed.no_direct = true; }
void pretend_filesystem(u64 magic) { armed.filesystem = magic; }
void model_disk(DiskModel* model) { armed.disk = model; }

TestThread::TestThread() { counts_here = false; }
InLibrary::InLibrary() : before_(counts_here) { counts_here = true; }
InLibrary::~InLibrary() { counts_here = before_; }

namespace {

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (fails(Call::kAllocate)) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size != 0 ? size : 1);
  void* block = nullptr;
  return ::posix_memalign(&block, alignment, size) == 0 ? block : nullptr;
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  if (void* block = allocate(size, alignment)) return block;
  throw std::bad_alloc();
}

}  // namespace
}  // namespace perdura::test

using perdura::test::allocate;
using perdura::test::allocate_or_throw;
using perdura::test::armed;
using perdura::test::Call;
using perdura::test::fails;
using perdura::test::fails_with_errno;
using perdura::test::half_of;
using perdura::test::read_empty_pipe;

// --- the allocator -----------------------------------------------------------------------------

void* operator new(std::size_t size) { return allocate_or_throw(size, 0); }
void* operator new[](std::size_t size) { return allocate_or_throw(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }

// --- the system --------------------------------------------------------------------------------
// The linker makes the library's calls of X calls of __wrap_X, and __real_X the system's.

#define PERDURA_START_THREAD(prefix) \
  prefix##_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE

extern "C" {

void* __real_aligned_alloc(std::size_t alignment, std::size_t size);
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size) {
  return fails(Call::kAllocate) ? nullptr : __real_aligned_alloc(alignment, size);
}

void* __real_mmap(void* address, std::size_t length, int access, int flags, int fd, off_t offset);
void* __wrap_mmap(void* address, std::size_t length, int access, int flags, int fd, off_t offset) {
  return fails_with_errno(Call::kMap) ? MAP_FAILED
                                      : __real_mmap(address, length, access, flags, fd, offset);
}

void* __real_mremap(void* old, std::size_t old_length, std::size_t length, int flags, void* to);
void* __wrap_mremap(void* old, std::size_t old_length, std::size_t length, int flags, void* to) {
  return fails_with_errno(Call::kRemap) ? MAP_FAILED
                                        : __real_mremap(old, old_length, length, flags, to);
}

int __real_mprotect(void* address, std::size_t length, int access);
int __wrap_mprotect(void* address, std::size_t length, int access) {
  return fails_with_errno(Call::kProtect) ? -1 : __real_mprotect(address, length, access);
}

int __real_madvise(void* address, std::size_t length, int advice);
int __wrap_madvise(void* address, std::size_t length, int advice) {
  return fails_with_errno(Call::kAdvise) ? -1 : __real_madvise(address, length, advice);
}

int __real_fallocate(int fd, int mode, off_t offset, off_t length);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length) {
  return fails_with_errno(Call::kExtend) ? -1 : __real_fallocate(fd, mode, offset, length);
}

int __real_posix_fallocate(int fd, off_t offset, off_t length);
int __wrap_posix_fallocate(int fd, off_t offset, off_t length) {
  return fails_with_errno(Call::kExtend) ? errno : __real_posix_fallocate(fd, offset, length);
}

int __real_ftruncate(int fd, off_t length);
int __wrap_ftruncate(int fd, off_t length) {
  return fails_with_errno(Call::kExtend) ? -1 : __real_ftruncate(fd, length);
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd) {
  perdura::test::DiskModel* const disk = armed.disk;
  if (fails(Call::kFlush)) {
    armed.flushes_failed.fetch_add(1);
    if (disk != nullptr) disk->flush_failed(fd);
    errno = armed.error.load();
    return -1;
  }
  const int done = __real_fdatasync(fd);
  if (done == 0 && disk != nullptr) disk->flushed(fd);
  return done;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd) {
  if (fails_with_errno(Call::kFlush)) return -1;
  const int done = __real_fsync(fd);
  if (perdura::test::DiskModel* disk = armed.disk; disk != nullptr && done == 0) disk->flushed(fd);
  return done;
}

int __real_posix_fadvise(int fd, off_t offset, off_t length, int advice);
int __wrap_posix_fadvise(int fd, off_t offset, off_t length, int advice) {
  if (perdura::test::DiskModel* disk = armed.disk; disk != nullptr && advice == POSIX_FADV_DONTNEED)
    disk->cache_dropped(fd);
  if (fails(Call::kAdvise)) return armed.error.load();
  return __real_posix_fadvise(fd, offset, length, advice);
}

ssize_t __real_pread(int fd, void* into, std::size_t length, off_t offset);
ssize_t __wrap_pread(int fd, void* into, std::size_t length, off_t offset) {
  return fails_with_errno(Call::kRead) ? -1 : __real_pread(fd, into, length, offset);
}

ssize_t __real_pwrite(int fd, const void* data, std::size_t length, off_t offset);
ssize_t __wrap_pwrite(int fd, const void* data, std::size_t length, off_t offset) {
  if (fails_with_errno(Call::kWrite)) return errno != 0 ? -1 : 0;
  if (half_of(length) != 0 && fails(Call::kShortWrite)) length = half_of(length);
  if (perdura::test::DiskModel* disk = armed.disk)
    disk->before_write(fd, static_cast<perdura::u64>(offset), length);
  return __real_pwrite(fd, data, length, offset);
}

int __real_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if ((flags & O_DIRECT) != 0 && armed.no_direct) {
    errno = EINVAL;
    return -1;
  }
  return fails_with_errno(Call::kOpen) ? -1 : __real_open(path, flags, mode);
}

int __real_fstat(int fd, struct stat* into);
int __wrap_fstat(int fd, struct stat* into) {
  return fails_with_errno(Call::kInspect) ? -1 : __real_fstat(fd, into);
}

int __real_fstatfs(int fd, struct statfs* into);
int __wrap_fstatfs(int fd, struct statfs* into) {
  if (fails_with_errno(Call::kInspect)) return -1;
  const int done = __real_fstatfs(fd, into);
  if (const perdura::u64 magic = armed.filesystem; magic != 0)
    into->f_type = static_cast<decltype(into->f_type)>(magic);
  return done;
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) {
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  return fails_with_errno(Call::kInspect) ? -1 : __real_fcntl(fd, command, argument);
}

ssize_t __real_getrandom(void* into, std::size_t length, unsigned flags);
ssize_t __wrap_getrandom(void* into, std::size_t length, unsigned flags) {
  return fails_with_errno(Call::kInspect) ? -1 : __real_getrandom(into, length, flags);
}

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...) {
  va_list more;
  va_start(more, request);
  void* const argument = va_arg(more, void*);
  va_end(more);
  return fails_with_errno(Call::kControl) ? -1 : __real_ioctl(fd, request, argument);
}

long __real_syscall(long number, ...);
// Reads six arguments however many there are, as the C library's does, which is not instrumented.
__attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...) {
  long values[6];
  va_list more;
  va_start(more, number);
  for (long& value : values) value = va_arg(more, long);
  va_end(more);
  // The kernel refuses a command that it does not know, and may lack memory for this one.
  if (number == SYS_membarrier && values[0] != MEMBARRIER_CMD_GLOBAL &&
      fails_with_errno(Call::kMembarrier))
    return -1;
  if (number == SYS_userfaultfd && fails_with_errno(Call::kUserfault)) return -1;
  return __real_syscall(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol) {
  return fails_with_errno(Call::kSocket) ? -1 : __real_socket(domain, type, protocol);
}

int __real_connect(int fd, const sockaddr* address, socklen_t length);
int __wrap_connect(int fd, const sockaddr* address, socklen_t length) {
  return fails_with_errno(Call::kConnect) ? -1 : __real_connect(fd, address, length);
}

ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);
ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  if (fails_with_errno(Call::kSend)) return -1;
  const iovec first = message->msg_iov[0];
  if (first.iov_len < 2 || !fails(Call::kShortWrite)) return __real_sendmsg(fd, message, flags);
  iovec piece{first.iov_base, first.iov_len / 2};
  msghdr half = *message;
  half.msg_iov = &piece;
  half.msg_iovlen = 1;
  return __real_sendmsg(fd, &half, flags);
}

ssize_t __real_recv(int fd, void* into, std::size_t length, int flags);
ssize_t __wrap_recv(int fd, void* into, std::size_t length, int flags) {
  if (fails_with_errno(Call::kReceive)) return errno != 0 ? -1 : 0;
  return __real_recv(fd, into, length, flags);
}

int __real_poll(pollfd* waiting, nfds_t count, int timeout_ms);
int __wrap_poll(pollfd* waiting, nfds_t count, int timeout_ms) {
  if (fails_with_errno(Call::kPoll)) return errno != 0 ? -1 : 0;
  return __real_poll(waiting, count, timeout_ms);
}

int __real_io_uring_queue_init(unsigned entries, io_uring* ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, io_uring* ring, unsigned flags) {
  return fails(Call::kRingSetup) ? -armed.error.load()
                                 : __real_io_uring_queue_init(entries, ring, flags);
}

int __real___io_uring_get_cqe(io_uring* ring, io_uring_cqe** cqe, unsigned submit, unsigned wait_nr,
                              sigset_t* signals);
int __wrap___io_uring_get_cqe(io_uring* ring, io_uring_cqe** cqe, unsigned submit, unsigned wait_nr,
                              sigset_t* signals) {
  if (armed.dead_ring == ring)
    return armed.interrupted.exchange(true) ? -armed.error.load() : -EINTR;
  const int put_off = armed.put_off.exchange(-1);
  if (put_off >= 0 && ::write(put_off, "", 1) != 1) std::abort();
  const int error = __real___io_uring_get_cqe(ring, cqe, submit, wait_nr, signals);
  if (put_off >= 0 && error == 0) (*cqe)->res = -armed.error.load();
  return error;
}

int __real_io_uring_submit(io_uring* ring);
int __wrap_io_uring_submit(io_uring* ring) {
  // As the library does when the kernel refuses: entries stay in the ring.
  if (fails(Call::kRingSubmit)) return -armed.error.load();
  io_uring_sqe& last = ring->sq.sqes[(ring->sq.sqe_tail - 1) & *ring->sq.kring_mask];
  if (perdura::test::DiskModel* disk = armed.disk;
      disk != nullptr && last.opcode == IORING_OP_WRITE)
    disk->before_write(last.fd, last.off, last.len);
  if (fails(Call::kRingLate)) {
    if (armed.error == ENOSPC) last.len = 0;
    else if (armed.error == EAGAIN || armed.error == EINTR) armed.put_off = read_empty_pipe(last);
    else last.fd = -1;
  }
  if (fails(Call::kRingDead)) {
    read_empty_pipe(last);
    armed.dead_ring = ring;
  }
  if (last.opcode == IORING_OP_WRITE && half_of(last.len) != 0 && fails(Call::kShortWrite))
    last.len = static_cast<unsigned>(half_of(last.len));
  return __real_io_uring_submit(ring);
}

void PERDURA_START_THREAD(__real_)(std::thread*, std::thread::_State_ptr, void (*)());
void PERDURA_START_THREAD(__wrap_)(std::thread* thread, std::thread::_State_ptr state,
                                   void (*depend)()) {
  if (fails(Call::kThread))
    throw std::system_error(armed.error.load(), std::generic_category(), "thread");
  PERDURA_START_THREAD(__real_)(thread, std::move(state), depend);
}

}  // extern "C"
