// Who has a store open: one process writes to it, or several that share it do, and any number read
// it beside them. All of it dies with the process, and with all that the process wrote.
//
// These are locks of byte ranges on an open file (F_OFD_SETLK), far behind all that is written:
//
//   [0, 2^62)                        exclusive: the writer. Of those who share, instead of it:
//     [0, 2^61)                        exclusive: who comes or goes, one at a time
//     2^61 + number                    exclusive: each of them, while it is there
//     2^62 - 1                         shared: each of them
//   2^62                             shared: each reader
//   2^62 + 2^57 × region + version   shared: a pin, the version of the region that a reader has
//
// Locks of the open file, not of the process (F_SETLK): those would go when the process closes any
// descriptor of the file, which a program may do that looks at its store.
//
// An earlier Perdura locks the whole file: it keeps out, and is kept out by, whoever is there.
//
// The kernel keeps a lock until nothing uses the open file any more. A write that is in flight when
// its process is killed uses the one that it goes through. So writes that the process does not wait
// for go through the open file with the lock: whoever writes next knows that none of them is still
// to come.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/bits.hpp"
#include "base/result.hpp"
#include "format/format.hpp"
#include "media/held_fd.hpp"

namespace perdura::media {

/// A held lock, of a writer or of a reader. A forked child drops it at once: it would keep its
/// parent's lock alive.
class FileLock {
 public:
  FileLock() = default;
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) { pins_.fill(kNoPin); }
  FileLock(FileLock&& other) noexcept = default;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  /// Of the open file with the lock, to read and write through; -1 in a forked child.
  int fd() const { return fd_.get(); }
  /// Writes are in flight that nobody can wait for: the lock stays until they are done.
  void leave_to_writes() { fd_ = HeldFd(); }

  static constexpr u64 kNoPin = ~u64{0};
  /// Of a reader: it has `version` of the region from now on, instead of the one that it had. One
  /// thread at a time.
  Status pin(const std::string& path, u32 region, u64 version);
  /// The lowest version of the region from `from` on that others have pinned; kNoPin: none. `from`
  /// where the system does not say. Any thread.
  u64 lowest_pin(u32 region, u64 from) const noexcept;
  /// Of a reader: whether anybody writes now.
  bool has_writer() const noexcept;
  /// Of a writer: whether anybody reads now.
  bool has_readers() const noexcept;

  // --- of one who shares (LockOptions::shares)

  /// Nobody else comes or goes until stay() or the end. Where another process does, it is waited
  /// for: kLocked after `patience_ms`.
  Status come_or_go(const std::string& path, u64 patience_ms);
  void stay();
  /// While one comes or goes: whether others share it. Where the system does not say, they do.
  bool has_others() const noexcept;
  /// The same of who comes, and is told why the system does not say.
  Result<bool> ask_for_others(const std::string& path) const;
  /// While one comes: of so many numbers one that nobody else has is its own; nothing: all are
  /// somebody's. `may_take`: of one, whether it may.
  Result<std::optional<u32>> take_number(const std::string& path, u32 count,
                                         const std::function<bool(u32)>& may_take);
  /// Whether another one has this number. Where the system does not say, one has. Any thread.
  bool others_has(u32 number) const noexcept;

 private:
  HeldFd fd_;
  std::array<u64, format::kRegionsMax> pins_{};
};

struct LockOptions {
  bool reads = false;   ///< beside whoever writes
  bool shares = false;  ///< beside others who share; come_or_go() has been called
  u64 patience_ms = 0;  ///< to wait for the last writes of a process that is dead
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
/// What such a page says; nothing: it is none.
std::optional<format::OwnerRecord> owner_in(const OwnerPage& page);
/// The process has run since this system was started: its id means something here.
bool is_of_this_boot(const format::OwnerRecord& owner);

/// Whether the process with this id and start (OwnerRecord's) still runs. One that is dead does
/// not, also when its parent has not waited for it.
bool is_running(u64 pid, u64 start_time);

}  // namespace perdura::media
