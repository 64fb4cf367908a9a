#include "media/lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/checksum.hpp"
#include "format/format.hpp"

namespace perdura::media {
namespace {

// Field 22 of /proc/PID/stat; the name in field 2 may hold spaces and parentheses.
u64 start_time_of(u64 pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(text.substr(name_end + 1));
  std::string word;
  for (int field = 3; field <= 22; ++field) rest >> word;
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

std::string owner_of(int fd) {
  format::OwnerRecord owner;
  if (::pread(fd, &owner, sizeof owner, static_cast<off_t>(format::kOwnerOffset)) !=
          static_cast<ssize_t>(sizeof owner) ||
      owner.checksum != owner_checksum(owner))
    return "another process that has not signed it yet";
  std::string who = "process " + std::to_string(owner.pid) + " (" +
                    std::string(owner.program, strnlen(owner.program, sizeof owner.program)) + ")";
  if (owner.pid == static_cast<u64>(::getpid())) return who + ", which is this process";
  if (!is_running(owner.pid, owner.start_time))
    return "another process; the last one known was " + who;
  return who;
}

}  // namespace

bool is_running(u64 pid, u64 start_time) { return start_time_of(pid) == start_time; }

// Closing alone would leave it to a child forked just now, which has not dropped its copy yet.
FileLock::~FileLock() {
  if (fd_) (void)set_lock(fd_.get(), F_UNLCK);
}

Result<FileLock> lock_exclusively(const std::string& path, int file) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return system_failure(errno, "cannot open '" + path + "' to lock it");
  struct stat mine{};
  struct stat named{};
  if (::fstat(file, &mine) != 0 || ::fstat(fd.get(), &named) != 0)
    return system_failure(errno, "cannot inspect '" + path + "'");
  if (mine.st_dev != named.st_dev || mine.st_ino != named.st_ino)
    return Failure{Code::kLocked,
                   "'" + path + "' was replaced while it was being opened; try again"};
  if (set_lock(fd.get(), F_WRLCK) != 0) {
    if (errno != EAGAIN && errno != EACCES)
      return system_failure(errno, "cannot lock '" + path + "'");
    return Failure{Code::kLocked, "'" + path + "' is open in " + owner_of(fd.get()) +
                                      "; a store has one opener at a time: close it there first"};
  }
  return FileLock(std::move(fd));
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
