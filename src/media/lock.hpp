// The writer's lock: one process opens a store, and the lock dies with it.
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
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}
  FileLock(FileLock&& other) noexcept = default;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  HeldFd fd_;
};

/// Take the exclusive lock of the file at `path` on a descriptor of its own, which is never mapped
/// (a mapping would keep the lock alive). kLocked names the process that holds it. `file` is an
/// open descriptor of the same path: a file exchanged meanwhile is refused.
Result<FileLock> lock_exclusively(const std::string& path, int file);

/// The owner record of this process, to be written at format::kOwnerOffset.
struct OwnerPage {
  alignas(4096) std::byte bytes[4096];
};
const OwnerPage& describe_owner();

/// Whether the process with this id and start (OwnerRecord's) still runs.
bool is_running(u64 pid, u64 start_time);

}  // namespace perdura::media
