#include "media/lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "base/checksum.hpp"
#include "base/clock.hpp"
#include "format/format.hpp"

namespace perdura::media {
namespace {

constexpr std::chrono::milliseconds kLockRetry(1);
/// For readers, of whom nothing is known: one that was killed has its lock until its reads in
/// flight are done.
constexpr u64 kReadersPatienceMs = 1000;

// Field 22 of /proc/PID/stat; the name in field 2 may hold spaces and parentheses. 0 where there is
// no such process, or one that is dead and that its parent has not waited for.
u64 start_time_of(u64 pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text, '\0');
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(text.substr(name_end + 1));
  std::string word;
  rest >> word;
  if (word == "Z" || word == "X") return 0;
  for (int field = 4; field <= 22; ++field) rest >> word;
  return std::strtoull(word.c_str(), nullptr, 10);
}

void copy_first_line(char* into, size_t size, const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::strncpy(into, line.c_str(), size - 1);
}

u64 owner_checksum(const format::OwnerRecord& owner) {
  return checksum(reinterpret_cast<const char*>(&owner) + sizeof(u64), sizeof owner - sizeof(u64));
}

int set_lock(int fd, short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return ::fcntl(fd, F_OFD_SETLK, &lock);
}

/// Who is in the way of a lock now.
enum class Holder { kNobody, kReaders, kWriter };
Holder holder_of(int fd) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(fd, F_OFD_GETLK, &lock) != 0) return Holder::kWriter;
  return lock.l_type == F_UNLCK   ? Holder::kNobody
         : lock.l_type == F_RDLCK ? Holder::kReaders
                                  : Holder::kWriter;
}

Failure being_read(const std::string& path) {
  return Failure{Code::kLocked,
                 "'" + path +
                     "' is being looked at: by `perdura info`, `check` or `versions`, or by a "
                     "program that has an old version of it open; open it when that is over"};
}

/// Who signed a file last: it may be open in another process, which has not signed it yet.
struct LastOwner {
  std::string text = "another process that has not signed it yet";
  bool dead = false;
};

LastOwner last_owner(int fd) {
  format::OwnerRecord owner;
  if (::pread(fd, &owner, sizeof owner, static_cast<off_t>(format::kOwnerOffset)) !=
          static_cast<ssize_t>(sizeof owner) ||
      owner.checksum != owner_checksum(owner))
    return {};
  const std::string who = "process " + std::to_string(owner.pid) + " (" +
                          std::string(owner.program, strnlen(owner.program, sizeof owner.program)) +
                          ")";
  if (owner.pid == static_cast<u64>(::getpid())) return {who + ", which is this process"};
  if (is_running(owner.pid, owner.start_time)) return {who};
  return {"another process; the last one known was " + who +
              ", which is dead, but its last writes may be in flight",
          true};
}

}  // namespace

bool is_running(u64 pid, u64 start_time) { return start_time_of(pid) == start_time; }

// Closing alone would leave it to a child forked just now, which has not dropped its copy yet.
FileLock::~FileLock() {
  if (fd_) (void)set_lock(fd_.get(), F_UNLCK);
}

Status FileLock::make_exclusive(const std::string& path) {
  if (exclusive_) return {};
  const u64 end_ns = now_ns() + kReadersPatienceMs * 1'000'000;
  while (set_lock(fd_.get(), F_WRLCK) != 0) {
    // EBADF: it could not be opened to be written.
    if (errno != EAGAIN && errno != EACCES)
      return system_failure(errno == EBADF ? EACCES : errno, "cannot write to '" + path + "'");
    if (now_ns() >= end_ns) return being_read(path);
    std::this_thread::sleep_for(kLockRetry);
  }
  exclusive_ = true;
  return {};
}

Result<FileLock> lock_file(const std::string& path, int file, int access,
                           const LockOptions& options) {
  UniqueFd fd(::open(path.c_str(), access | O_CLOEXEC));
  if (!fd) return system_failure(errno, "cannot open '" + path + "' to lock it");
  return lock_file(path, file, std::move(fd), options);
}

Result<FileLock> lock_file(const std::string& path, int file, UniqueFd fd,
                           const LockOptions& options) {
  struct stat mine{};
  struct stat named{};
  if (::fstat(file, &mine) != 0 || ::fstat(fd.get(), &named) != 0)
    return system_failure(errno, "cannot inspect '" + path + "'");
  if (mine.st_dev != named.st_dev || mine.st_ino != named.st_ino)
    return Failure{Code::kLocked,
                   "'" + path + "' was replaced while it was being opened; try again"};
  constexpr u64 kPatienceMsMax = std::numeric_limits<u32>::max();
  const u64 begin_ns = now_ns();
  const u64 end_ns = begin_ns + std::min(options.patience_ms, kPatienceMsMax) * 1'000'000;
  const u64 readers_end_ns = std::min(end_ns, begin_ns + kReadersPatienceMs * 1'000'000);
  bool waited_for_readers = false;
  while (set_lock(fd.get(), options.shared ? F_RDLCK : F_WRLCK) != 0) {
    if (errno != EAGAIN && errno != EACCES)
      return system_failure(errno, "cannot lock '" + path + "'");
    const Holder holder = holder_of(fd.get());
    if (holder == Holder::kNobody && waited_for_readers) continue;  // they have gone since
    waited_for_readers = holder == Holder::kReaders;
    if (waited_for_readers) {
      if (now_ns() >= readers_end_ns) return being_read(path);
    } else if (const LastOwner owner = last_owner(file); !owner.dead || now_ns() >= end_ns) {
      return Failure{Code::kLocked, "'" + path + "' is open in " + owner.text +
                                        "; a store has one opener at a time: close it there first"};
    }
    std::this_thread::sleep_for(kLockRetry);
  }
  return FileLock(std::move(fd), !options.shared);
}

namespace {

OwnerPage describe_this_process() {
  format::OwnerRecord owner{};
  owner.pid = static_cast<u64>(::getpid());
  owner.start_time = start_time_of(owner.pid);
  copy_first_line(owner.boot_id, sizeof owner.boot_id, "/proc/sys/kernel/random/boot_id");
  copy_first_line(owner.program, sizeof owner.program, "/proc/self/comm");
  owner.checksum = owner_checksum(owner);
  OwnerPage page;
  std::memcpy(page.bytes, &owner, sizeof owner);
  return page;
}

}  // namespace

// Read from /proc once in a process; a forked child is another one.
const OwnerPage& describe_owner() {
  struct Known {
    pid_t pid;
    OwnerPage page;
  };
  static std::atomic<const Known*> known{nullptr};
  const Known* found = known.load(std::memory_order_acquire);
  if (found == nullptr || found->pid != ::getpid()) {
    // Never freed: another thread may be reading it.
    found = new Known{::getpid(), describe_this_process()};
    known.store(found, std::memory_order_release);
  }
  return found->page;
}

}  // namespace perdura::media
