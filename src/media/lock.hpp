// The writer's lock: one process opens a store, and the lock dies with it and with all it wrote.
// Several may look at a store that nobody writes to: they share a lock.
//
// It is a lock on an open file (F_OFD_SETLK), which the kernel keeps until nothing uses that open
// file any more. A write that is in flight when its process is killed uses the one that it goes
// through. So writes that the process does not wait for go through the open file with the lock:
// whoever has the lock next knows that none of them is still to come.
#pragma once

#include <string>
#include <utility>

#include "base/bits.hpp"
#include "base/result.hpp"
#include "media/held_fd.hpp"

namespace perdura::media {

/// A held lock. A forked child drops it at once: it would keep its parent's lock alive.
class FileLock {
 public:
  FileLock() = default;
  FileLock(UniqueFd fd, bool exclusive) : fd_(std::move(fd)), exclusive_(exclusive) {}
  FileLock(FileLock&& other) noexcept = default;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  /// Of the open file with the lock, to write through; -1 in a forked child.
  int fd() const { return fd_.get(); }
  /// Of one that was shared. Waits for other readers for a second.
  Status make_exclusive(const std::string& path);
  /// Writes are in flight that nobody can wait for: the lock stays until they are done.
  void leave_to_writes() { fd_ = HeldFd(); }

 private:
  HeldFd fd_;
  bool exclusive_ = false;
};

struct LockOptions {
  bool shared = false;  ///< by all who look, and write nothing
  u64 patience_ms = 0;  ///< to wait for the last writes of a process that is dead; for readers a
                        ///< second at most
};

/// Lock the file at `path` on `open_file`, which was opened for that and is never mapped (a mapping
/// would keep the lock alive). kLocked names the process that holds it; of one that is dead the
/// last writes are waited for. `file` is another descriptor of the same path, which reads through
/// the page cache: a file exchanged meanwhile is refused.
Result<FileLock> lock_file(const std::string& path, int file, UniqueFd open_file,
                           const LockOptions& options);
/// The same on an open file of its own, where writes are over when their calls return. `access` is
/// O_RDWR or O_RDONLY.
Result<FileLock> lock_file(const std::string& path, int file, int access,
                           const LockOptions& options);

/// The owner record of this process, to be written at format::kOwnerOffset.
struct OwnerPage {
  alignas(4096) std::byte bytes[4096];
};
const OwnerPage& describe_owner();

/// Whether the process with this id and start (OwnerRecord's) still runs. One that is dead does
/// not, also when its parent has not waited for it.
bool is_running(u64 pid, u64 start_time);

}  // namespace perdura::media
