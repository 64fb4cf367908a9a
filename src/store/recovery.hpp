// What opening a store does on its medium, before any memory is mapped: the whole of recovery but
// for the patching of pages in memory. Opening after a clean close takes the same path.
#pragma once

#include <memory>
#include <string_view>

#include "commit/remap_engine.hpp"
#include "log/reader.hpp"
#include "region/chunk_space.hpp"
#include "region/volume.hpp"

namespace perdura::store {

/// The volume on a medium, made when it is blank and `create` allows it, with this opening counted.
Result<std::unique_ptr<region::Volume>> open_volume(std::unique_ptr<media::Medium> medium,
                                                    bool create, u64 segment_bytes);
/// The medium of a store that is there.
Result<std::unique_ptr<media::Medium>> open_existing(std::string_view uri,
                                                     media::MediumOptions options);
/// That of one that is there, to be read; nothing is written.
Result<std::unique_ptr<region::Volume>> open_volume_to_read(std::unique_ptr<media::Medium> medium);

/// Of a region with a redo log.
struct Recovery {
  std::unique_ptr<log::Space> space;
  /// Of its versions, those that are not home yet: none on NVM, where they have been replayed but
  /// for those that readers keep from it.
  log::Recovered log;
};

/// Find the durable version, and on NVM bring it home, as far as readers let it. `log_limit` in
/// bytes; 0: the default.
Result<Recovery> recover(region::Volume& volume, const format::RegionRecord& region, u64 log_limit);

/// Of a region in chunks.
struct ChunkRecovery {
  std::unique_ptr<region::ChunkSpace> space;
  commit::RecoveredVersions versions;
  u64 durable_version() const { return versions.kept.empty() ? 0 : versions.kept.back().version; }
  u64 backed_bytes() const { return versions.kept.empty() ? 0 : versions.kept.back().backed_bytes; }
};

/// Find the kept versions, and let the superblock know of the newest one.
Result<ChunkRecovery> recover_chunks(region::Volume& volume, const format::RegionRecord& region,
                                     u32 over_provisioning);
/// To read one of them, 0: the newest, from a volume that is open to be read.
Result<ChunkRecovery> recover_chunks_at(region::Volume& volume, const format::RegionRecord& region,
                                        u64 version);

}  // namespace perdura::store
