// A version of a region that is to be copied to another store: found, and kept as it is while it is
// read. Nothing of it is mapped, but where transactions are repeated that it does not have.
//
//   redo log   home image, each page verified; the lines of the log over it
//   copies     the newer copy, each page verified
//   chunks     chunks by the version's map, each verified
//
// Who reads beside a process that writes has pinned the version (store/pinned.hpp).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "commit/version_map.hpp"
#include "region/volume.hpp"

namespace perdura::store {

/// One thread.
class VersionSource {
 public:
  virtual ~VersionSource() = default;

  /// Of the region; at least one.
  virtual u64 version() const = 0;
  /// From the region's beginning to the end of its last part that has space on the medium.
  virtual u64 backed_bytes() const = 0;
  /// What read() takes is a multiple of it, at multiples of it.
  virtual u64 part_bytes() const { return kPageBytes; }
  /// [offset, offset + into.size()): what has no space is zero. kCorrupt where it is not what was
  /// written there.
  virtual Status read(u64 offset, media::MutableBytes into) = 0;
  /// Of a version in chunks the checksum of its record, which tells it from others of its number;
  /// else 0.
  virtual u64 record_checksum() const { return 0; }
  /// Whether this chunk is known to be as the version `compared_to` says had it. Without reading.
  virtual bool is_unchanged(u64 index) const {
    (void)index;
    return false;
  }
  /// From now on is_unchanged() compares with this version, if it is there still.
  virtual void compare_to(const format::VersionSource& version) { (void)version; }
  /// Of a version that was itself copied: from what.
  virtual format::VersionSource origin() const { return {}; }
};

/// Which version is wanted.
struct WantedVersion {
  u64 number = 0;            ///< 0: the newest one
  bool transactions = true;  ///< with those that have committed since
};

/// Of a volume that is open to be read, and outlives it. kNotFound where there is no such version,
/// kUnsupported where the region holds objects.
Result<std::unique_ptr<VersionSource>> open_version(region::Volume& volume,
                                                    const format::RegionRecord& region,
                                                    const WantedVersion& wanted);

/// The same, by how the region is kept: what is behind EngineKind::source().
Result<std::unique_ptr<VersionSource>> source_of_log(region::Volume& volume,
                                                     const format::RegionRecord& region,
                                                     const WantedVersion& wanted);
Result<std::unique_ptr<VersionSource>> source_of_copies(region::Volume& volume,
                                                        const format::RegionRecord& region,
                                                        const WantedVersion& wanted);
Result<std::unique_ptr<VersionSource>> source_of_chunks(region::Volume& volume,
                                                        const format::RegionRecord& region,
                                                        const WantedVersion& wanted);
/// The version `record` of a region in chunks, which keeps `kept`: nothing of them is given up.
Result<std::unique_ptr<VersionSource>> source_of_kept_chunks(region::Volume& volume,
                                                             const format::RegionRecord& region,
                                                             std::vector<commit::FoundVersion> kept,
                                                             const format::VersionRecord& record);
/// Of a region of objects.
Failure holds_no_versions(const region::Volume& volume, const format::RegionRecord& region);

}  // namespace perdura::store
