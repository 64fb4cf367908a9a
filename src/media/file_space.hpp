// What the file-backed media share: opening, extending, mapping privately.
#pragma once

#include <string>

#include "base/unique_fd.hpp"
#include "media/medium.hpp"

namespace perdura::media {

struct OpenedFile {
  UniqueFd file;
  u64 size = 0;
};

/// Open or create a regular file for a store. Directories, devices and network file systems (unless
/// allowed) are refused with a sentence.
Result<OpenedFile> open_store_file(const std::string& path, const MediumOptions& options);

/// Allocate [from, to) so that later writes cannot run out of space. On failure the file is `from`
/// bytes long again.
Status extend_file(int fd, const std::string& path, u64 from, u64 to);

Status map_private(int fd, const std::string& path, void* address, u64 offset, u64 length);

}  // namespace perdura::media
