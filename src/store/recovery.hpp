// What opening a store does on its medium, before any memory is mapped: the whole of recovery but
// for the patching of pages in memory. Opening after a clean close takes the same path.
#pragma once

#include <memory>

#include "commit/log_reader.hpp"
#include "region/volume.hpp"

namespace perdura::store {

constexpr u32 kRegionId = 1;  ///< a store has one region

/// The volume on a medium, made when it is blank and `create` allows it, with this opening counted.
Result<std::unique_ptr<region::Volume>> open_volume(std::unique_ptr<media::Medium> medium,
                                                    bool create, u64 segment_bytes);

struct Recovery {
  std::unique_ptr<commit::Log> log;
  u64 durable_version = 0;
  /// Versions in the log that are not home yet: none on NVM, where they have been replayed.
  commit::RecoveredLog unreplayed;
};

/// Of a volume with a region: find the durable version, and on NVM bring it home. `log_limit` in
/// bytes; 0: the default.
Result<Recovery> recover(region::Volume& volume, u64 log_limit);

}  // namespace perdura::store
