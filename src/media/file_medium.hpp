// A file on a block device: O_DIRECT, io_uring for writes in flight, fdatasync as the barrier.
#pragma once

#include "media/medium.hpp"

namespace perdura::media {

Result<OpenedMedium> open_file(const std::string& path, const MediumOptions& options);

}  // namespace perdura::media
