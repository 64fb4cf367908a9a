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
#include <memory>
#include <sstream>
#include <thread>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "base/clock.hpp"
#include "base/process.hpp"
#include "format/format.hpp"

namespace perdura::media {
namespace {

constexpr std::chrono::milliseconds kLockRetry(1);
constexpr u64 kSharersPatienceMs = 1000;

/// A range of bytes of the file, behind all that is written.
struct Range {
  off_t begin;
  off_t length;
};
constexpr off_t kReadersPlace = off_t{1} << 62;
constexpr off_t kVersionsOfRegion = off_t{1} << 57;
constexpr Range kWriter{0, kReadersPlace};
constexpr Range kComing{0, off_t{1} << 61};
constexpr Range kSharer{kReadersPlace - 1, 1};
constexpr Range kNumbers{kComing.length, kSharer.begin - kComing.length};
constexpr Range kReader{kReadersPlace, 1};
static_assert(format::kCounterMax < u64{kVersionsOfRegion});
static_assert(format::kRegionsMax < (kReadersPlace / kVersionsOfRegion) - 1);

off_t pins_of(u32 region) {
  PERDURA_ASSERT(region != 0 && region <= format::kRegionsMax);
  return kReadersPlace + static_cast<off_t>(region) * kVersionsOfRegion;
}
Range pin_of(u32 region, u64 version) {
  PERDURA_ASSERT(version <= format::kCounterMax);
  return {pins_of(region) + static_cast<off_t>(version), 1};
}

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

struct flock lock_of(short type, const Range& range) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = range.begin;
  lock.l_len = range.length;
  return lock;
}

int set_lock(int fd, short type, const Range& range) {
  struct flock lock = lock_of(type, range);
  return ::fcntl(fd, F_OFD_SETLK, &lock);
}

/// What another open file has that is in the way of a lock: l_type is F_UNLCK where there is
/// nothing. Where the system does not say, a lock on all of it is taken to be in the way.
struct flock in_the_way_of(int fd, short type, const Range& range) {
  struct flock lock = lock_of(type, range);
  if (::fcntl(fd, F_OFD_GETLK, &lock) == 0) return lock;
  return lock_of(F_WRLCK, range);
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

std::optional<format::OwnerRecord> owner_in(const OwnerPage& page) {
  format::OwnerRecord owner;
  std::memcpy(&owner, page.bytes, sizeof owner);
  if (owner.checksum != owner_checksum(owner)) return std::nullopt;
  return owner;
}

bool is_of_this_boot(const format::OwnerRecord& owner) {
  char boot_id[sizeof owner.boot_id] = {};
  copy_first_line(boot_id, sizeof boot_id, "/proc/sys/kernel/random/boot_id");
  return std::strncmp(boot_id, owner.boot_id, sizeof boot_id) == 0;
}

bool is_running(u64 pid, u64 start_time) { return start_time_of(pid) == start_time; }

// Closing alone would leave it to a child forked just now, which has not dropped its copy yet.
FileLock::~FileLock() {
  if (fd_) (void)set_lock(fd_.get(), F_UNLCK, {0, 0});
}

// The new one before the old one goes, so that whoever asks meanwhile finds one of them.
Status FileLock::pin(const std::string& path, u32 region, u64 version) {
  const Range pin = pin_of(region, version);
  u64& held = pins_[region - 1];
  if (held == version) return {};
  if (set_lock(fd_.get(), F_RDLCK, pin) != 0)
    return system_failure(
        errno, "cannot pin version " + std::to_string(version) + " of '" + path + "' to read it");
  // Where that fails the writer keeps more than it need.
  if (held != kNoPin) (void)set_lock(fd_.get(), F_UNLCK, pin_of(region, held));
  held = version;
  return {};
}

// The kernel tells of any of them: as long as there is a lower one, it is asked for that. Pins of
// one reader that lie side by side are one lock.
u64 FileLock::lowest_pin(u32 region, u64 from) const noexcept {
  const off_t first = pins_of(region);
  off_t end = first + kVersionsOfRegion;
  const off_t begin = first + static_cast<off_t>(std::min<u64>(from, kVersionsOfRegion));
  u64 lowest = kNoPin;
  while (end > begin) {
    const struct flock found = in_the_way_of(fd_.get(), F_WRLCK, {begin, end - begin});
    if (found.l_type == F_UNLCK) break;
    end = std::max(found.l_start, begin);
    lowest = static_cast<u64>(end - first);
  }
  return lowest;
}

Status FileLock::come_or_go(const std::string& path, u64 patience_ms) {
  for (const u64 begin_ns = now_ns(); set_lock(fd_.get(), F_WRLCK, kComing) != 0;) {
    if (errno != EAGAIN && errno != EACCES)
      return system_failure(errno, "cannot lock '" + path + "'");
    if ((now_ns() - begin_ns) / 1'000'000 >= patience_ms)
      return Failure{Code::kLocked, "another process opens or closes '" + path +
                                        "', which it shares, and does not come to an end: it "
                                        "stands still; end it, or let it go on"};
    std::this_thread::sleep_for(kLockRetry);
  }
  return {};
}

void FileLock::stay() { (void)set_lock(fd_.get(), F_UNLCK, kComing); }

bool FileLock::has_others() const noexcept {
  return in_the_way_of(fd_.get(), F_WRLCK, kNumbers).l_type != F_UNLCK;
}

Result<bool> FileLock::ask_for_others(const std::string& path) const {
  struct flock lock = lock_of(F_WRLCK, kNumbers);
  if (::fcntl(fd_.get(), F_OFD_GETLK, &lock) == 0) return lock.l_type != F_UNLCK;
  return system_failure(errno, "cannot ask who shares '" + path + "'");
}

Result<std::optional<u32>> FileLock::take_number(const std::string& path, u32 count,
                                                 const std::function<bool(u32)>& may_take) {
  for (u32 number = 0; number < count; ++number) {
    if (!may_take(number)) continue;
    if (set_lock(fd_.get(), F_WRLCK, {kNumbers.begin + number, 1}) == 0)
      return std::optional(number);
    if (errno != EAGAIN && errno != EACCES)
      return system_failure(errno, "cannot lock '" + path + "'");
  }
  return std::optional<u32>();
}

bool FileLock::others_has(u32 number) const noexcept {
  return in_the_way_of(fd_.get(), F_WRLCK, {kNumbers.begin + number, 1}).l_type != F_UNLCK;
}

bool FileLock::has_writer() const noexcept {
  return in_the_way_of(fd_.get(), F_RDLCK, kWriter).l_type != F_UNLCK;
}

bool FileLock::has_readers() const noexcept {
  return in_the_way_of(fd_.get(), F_WRLCK, kReader).l_type != F_UNLCK;
}

Result<FileLock> lock_file(const std::string& path, int file, int access,
                           const LockOptions& options) {
  UniqueFd fd(::open(path.c_str(), access | O_CLOEXEC));
  if (!fd) return system_failure(errno, "cannot open '" + path + "' to lock it");
  return lock_file(path, file, std::move(fd), options);
}

namespace {

// Whoever is in the way is a writer that is dead, whose writes are still to come.
Status require_writer_dying(const std::string& path, int file, int fd, const LockOptions& options,
                            u64 waited_ms) {
  const LastOwner owner = last_owner(file);
  const bool waits = owner.dead && waited_ms < options.patience_ms;
  // The first of them may be dead, and others be there: that does not last as long.
  if (waits && waited_ms < kSharersPatienceMs) return {};
  if (!options.reads && in_the_way_of(fd, F_WRLCK, kSharer).l_start == kSharer.begin)
    return Failure{Code::kLocked,
                   "'" + path + "' is shared by processes that have its objects open, the first " +
                       "of which was " + owner.text +
                       ": open it with ObjectsOptions::shared as well, or close it there first"};
  const struct flock holder =
      in_the_way_of(fd, options.reads ? F_RDLCK : F_WRLCK, options.reads ? kReader : kWriter);
  if (holder.l_type == F_RDLCK)
    return Failure{Code::kLocked,
                   "'" + path +
                       "' is being looked at by an earlier Perdura, which nobody can write "
                       "beside; open it when that is over"};
  if (waits) return {};
  return Failure{Code::kLocked,
                 "'" + path + "' is open in " + owner.text +
                     (options.reads    ? ", an earlier Perdura, which nobody can read beside"
                      : options.shares ? ", which does not share it"
                                       : "; a store has one writer at a time") +
                     ": close it there first"};
}

}  // namespace

Result<FileLock> lock_file(const std::string& path, int file, UniqueFd fd,
                           const LockOptions& options) {
  struct stat mine{};
  struct stat named{};
  if (::fstat(file, &mine) != 0 || ::fstat(fd.get(), &named) != 0)
    return system_failure(errno, "cannot inspect '" + path + "'");
  if (mine.st_dev != named.st_dev || mine.st_ino != named.st_ino)
    return Failure{Code::kLocked,
                   "'" + path + "' was replaced while it was being opened; try again"};
  const u64 begin_ns = now_ns();
  const Range range = options.reads ? kReader : options.shares ? kSharer : kWriter;
  const short type = options.reads || options.shares ? F_RDLCK : F_WRLCK;
  while (set_lock(fd.get(), type, range) != 0) {
    if (errno != EAGAIN && errno != EACCES)
      return system_failure(errno, "cannot lock '" + path + "'");
    PERDURA_TRY(
        require_writer_dying(path, file, fd.get(), options, (now_ns() - begin_ns) / 1'000'000));
    std::this_thread::sleep_for(kLockRetry);
  }
  FileLock lock(std::move(fd));
  if (options.shares) PERDURA_TRY(lock.come_or_go(path, options.patience_ms));
  return lock;
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
    u64 generation;  ///< a number that an ancestor had may be given again
    OwnerPage page;
    const Known* former;  ///< what a parent knew: never freed, since another thread may read it
  };
  static std::atomic<const Known*> known{nullptr};
  const Known* found = known.load(std::memory_order_acquire);
  while (found == nullptr || found->pid != ::getpid() || forked_since(found->generation)) {
    auto own = std::unique_ptr<const Known>(
        new Known{::getpid(), process_generation(), describe_this_process(), found});
    // Where another thread was first, its description is this process's too.
    if (known.compare_exchange_strong(found, own.get(), std::memory_order_acq_rel))
      found = own.release();
  }
  return found->page;
}

}  // namespace perdura::media
