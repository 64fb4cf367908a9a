// What the file-backed media share: opening, extending, mapping privately.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <string>
#include <utility>

#include "base/unique_fd.hpp"
#include "media/medium.hpp"

namespace perdura::media {

struct OpenedFile {
  UniqueFd file;
  u64 size = 0;  ///< in whole pages
  bool writable = true;

  int access() const { return writable ? O_RDWR : O_RDONLY; }
};

/// Open or create a regular file for a store. Directories, devices and network file systems (unless
/// allowed) are refused with a sentence. What is opened to be read cannot be written through that.
Result<OpenedFile> open_store_file(const std::string& path, const MediumOptions& options);

/// A file whose content is to be found under its name in the next run; unless it had none when it
/// was opened, as memory files by /proc/self/fd.
class NamedFile {
 public:
  NamedFile(UniqueFd fd, std::string path);

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  /// In whole pages, now.
  Result<u64> size() const;
  /// Medium's functions.
  Status check_named() const;
  Status give_up_name();

 private:
  const UniqueFd fd_;
  const std::string path_;
  std::atomic<bool> nameless_{false};
};

/// Allocate [from, to) so that later writes cannot run out of space. It reads as zeros: what was
/// there is cut off. On failure the file is `from` bytes long again.
Status extend_file(int fd, const std::string& path, u64 from, u64 to);

/// Cut the file off at `size`.
Status cut_file(int fd, const std::string& path, u64 size);
/// [offset, offset + length) reads as zeros and takes no space; kUnsupported: the file system has
/// no holes.
Status make_hole(int fd, const std::string& path, u64 offset, u64 length);
/// The same has space again, where it had none, and keeps its content.
Status fill_hole(int fd, const std::string& path, u64 offset, u64 length);
/// What the file takes up; `size` where the system does not say.
u64 occupied_bytes(int fd, u64 size);

Status map_private(int fd, const std::string& path, void* address, u64 offset, u64 length);

}  // namespace perdura::media
