// What a reader sees of a region, beside a process that writes to it: found, and pinned so that it
// stays.
//
//   redo log   pin what is home ─ look whether it still is ─ read the log ─ pin the last version
//              of it: the writer brings home none after that
//   copies     pin the newest version ─ look whether it still is: the writer does not write to its
//              copy before the one after the next
//   chunks     find a version ─ pin it ─ look whether it is still kept
//
// The writer asks for pins after the medium says that something is not needed any more
// (commit/pins.hpp), the reader looks at the medium after it has pinned what it needs. So either
// the writer sees the pin, or the reader sees that it came too late, and begins again.
#pragma once

#include <vector>

#include "commit/version_map.hpp"
#include "log/reader.hpp"
#include "region/volume.hpp"

namespace perdura::store {

/// The version of a region with a redo log that is durable now, pinned: `volume`, which is open to
/// be read, knows all the space that it is in. `replayed` is what it is over.
struct PinnedLog {
  log::Recovered log;
  u64 replayed = 0;
};
Result<PinnedLog> pin_log(region::Volume& volume, const format::RegionRecord& region);

/// The newest version of a region in two copies, pinned; 0: there is none yet.
Result<u64> pin_copy(region::Volume& volume, const format::RegionRecord& region);

/// The versions that a region in chunks keeps, in rising order, pinned: the one of this number
/// alone; 0: all of them. kNotFound says which there are.
Result<std::vector<commit::FoundVersion>> pin_versions(region::Volume& volume,
                                                       const format::RegionRecord& region,
                                                       u64 version);
/// The newest one alone; none where there is none yet.
Result<std::vector<commit::FoundVersion>> pin_newest_version(region::Volume& volume,
                                                             const format::RegionRecord& region);

}  // namespace perdura::store
