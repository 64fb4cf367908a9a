// Where a version of another store's region is copied to. What it has already is not sent again.
//
//   begin ─ put ... put (save_progress) ... put ─ commit, or abandon
//         after a failure nothing more: what was saved is found by the next begin
//
// Until commit() has returned, the versions that the region has are the same as before: a region of
// a new store is unfinished meanwhile (region::Volume::add_unfinished_region).
#pragma once

#include <memory>

#include "format/remap_format.hpp"
#include "region/volume.hpp"

namespace perdura::store {

/// One thread.
class VersionTarget {
 public:
  virtual ~VersionTarget() = default;

  /// The newest version that it has; 0: none. And from what that was copied.
  virtual u64 newest() const = 0;
  virtual format::VersionSource newest_source() const { return {}; }
  /// What put() takes is a multiple of it, at multiples of it.
  virtual u64 part_bytes() const = 0;

  /// The version `version` from here on. An earlier attempt at it, whose progress was saved, is
  /// gone on with.
  virtual Status begin(u64 version, u64 backed_bytes, const format::VersionSource& source) = 0;
  /// After begin(): where the region ends there, at least where it was said to.
  virtual u64 backed_bytes() const = 0;
  /// What the region has from `offset` on, up to backed_bytes(). What is there already is compared,
  /// byte by byte.
  struct Put {
    u64 changed_bytes = 0;  ///< in parts that are not what was there
    u64 sent_bytes = 0;     ///< of these, written: parts of zeros are not
  };
  virtual Result<Put> put(u64 offset, media::Bytes bytes) = 0;
  /// What was put is not sent again after a crash, as far as it is durable by then.
  virtual Status save_progress() = 0;
  /// Instead of commit(), where nothing failed: the version is not to be after all.
  virtual void abandon() = 0;
  /// Durable when it returns. What was not put is as in the version before. Bytes that were
  /// written for it beside those that put() has said.
  virtual Result<u64> commit() = 0;
};

Result<std::unique_ptr<VersionTarget>> target_of_chunks(region::Volume& volume,
                                                        const format::RegionRecord& region);
/// Of a region that has one version alone, and none yet: `kind` is of its homes, kHome or kCopies.
Result<std::unique_ptr<VersionTarget>> target_of_home(region::Volume& volume,
                                                      const format::RegionRecord& region,
                                                      format::ExtentKind kind);

}  // namespace perdura::store
