// Stores copied, backed up and restored. All three are one thing: a version of each region, as a
// reader finds it, goes in parts to another store, which is there as a whole or not at all.
//
//               identity of the other store     its regions          may be repeated
//   backup      its own                         in chunks            sends what changed
//   copy        its own                         as in the original   until it is complete
//   restore     the original's                  as in the original   until it is complete
//
// Versions of a backup say from which version of which store they are (format::VersionSource).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <perdura/options.hpp>

#include "media/medium.hpp"
#include "store/inspect.hpp"
#include "store/version_source.hpp"
#include "store/version_target.hpp"

namespace perdura::store {

struct CopyOptions {
  media::MediumOptions from{};
  media::MediumOptions to{};
  std::string region{};      ///< this one alone; "": all of them
  u64 version = 0;           ///< as `perdura versions` lists it; 0: the newest one
  u64 bytes_per_second = 0;  ///< that are read of the source, at most; 0: as fast as it goes
  /// Backup: versions that a new region there keeps, 1 to 1024; 0: what it keeps already, or 8.
  u32 versions_kept = 0;
  /// Backup: the versions there may be another store's, or its own; it goes on with this one's.
  bool adopts = false;
  std::optional<Engine> engine{};  ///< copy, restore: instead of that of the original
  /// Of what is sent, until it is noted how far the copy is.
  u64 progress_bytes = u64{64} << 20;
  Progress progress = no_progress;
  /// For tests: decorators around the media.
  std::function<std::unique_ptr<media::Medium>(std::unique_ptr<media::Medium>)> wrap_from{};
  std::function<std::unique_ptr<media::Medium>(std::unique_ptr<media::Medium>)> wrap_to{};
};

/// By whatever names: one file is one place.
bool is_same_place(std::string_view one, std::string_view other);

struct CopiedRegion {
  std::string name;
  u64 source_version = 0;
  u64 version = 0;        ///< there
  bool is_new = false;    ///< it was made now: there was something to copy
  u64 region_bytes = 0;   ///< of the source, with space on its medium
  u64 read_bytes = 0;     ///< of these
  u64 changed_bytes = 0;  ///< in parts that were not there
  u64 sent_bytes = 0;     ///< written there, with all that describes them
};
struct Copied {
  std::string from;
  std::string to;
  std::vector<CopiedRegion> regions;
};

/// Of a store that is closed, or, not on servers, that another process or this one has open. Begun
/// again after it was cut short it goes on where it was. kMisuse where `to` has regions of these
/// names.
Result<Copied> copy(std::string_view from, std::string_view to, const CopyOptions& options);
/// kMisuse where `to` holds another store's versions, its own, or later ones of this.
Result<Copied> back_up(std::string_view from, std::string_view to, const CopyOptions& options);
/// Of a backup. The store gets the identity of the original, and goes on with its versions.
Result<Copied> restore(std::string_view from, std::string_view to, const CopyOptions& options);

// --- the parts of it ----------------------------------------------------------------------------

/// Called with what was read since the last time; a failure ends the copy.
using Pace = std::function<Status(u64 bytes)>;
/// One that waits as long as it takes; 0: not at all.
Pace pace_of(u64 bytes_per_second);

struct Sending {
  u64 version = 0;  ///< that it becomes
  format::VersionSource source{};
  u64 progress_bytes = u64{64} << 20;
  /// Of a part, counted from 0: it may differ from what the target has.
  std::function<bool(u64 part)> may_differ{};
  Pace pace{};
  Progress progress = no_progress;
};
/// All of a version. It is committed, unless nothing has changed and the target's newest version
/// is of the same source.
Result<CopiedRegion> send(VersionSource& from, VersionTarget& to, const Sending& sending);

/// Of a store that is open here: `source` is a version of the region `record` of `from`.
Result<CopiedRegion> back_up_version(VersionSource& source, region::Volume& from,
                                     const format::RegionRecord& record, std::string_view from_uri,
                                     std::string_view to, const CopyOptions& options);

/// What the chunks have that a region becomes in a backup.
u32 backup_chunk_bytes(const format::RegionRecord& record);
/// From which version of which store a copy is, whose region is `record` there.
format::VersionSource source_mark(const region::Volume& volume, const format::RegionRecord& record,
                                  u64 version, u64 record_checksum);
/// The region for backups of `record` of another store, in a session of the volume: found, or made,
/// with this number, 0: any that is free.
Result<format::RegionRecord> backup_region(region::Volume& volume,
                                           const format::RegionRecord& record, u32 versions_kept,
                                           u32 number = 0);
/// Where the original was opened at another address its pointers hold there, and in the copy.
Status follow_address(region::Volume& volume, const format::RegionRecord& there,
                      const format::RegionRecord& original);
/// Whether `to`, of `volume`, is of this store, and not later than this version.
Status check_lineage(const region::Volume& volume, const VersionTarget& to,
                     const std::string& source_name, const format::VersionSource& source);

}  // namespace perdura::store
