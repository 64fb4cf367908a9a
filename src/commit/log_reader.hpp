// Finding the committed versions in a log after a crash or a clean close.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mapping.hpp"
#include "commit/log.hpp"

namespace perdura::commit {

/// The bytes of log blocks: in place on NVM, loaded into memory from block media.
class LogImage {
 public:
  explicit LogImage(region::Volume& volume)
      : medium_(volume.medium()), segment_bytes_(volume.segment_bytes()) {}

  /// Load the segments at `offsets`; NVM needs no loading. Calls visit(offset) for each, while
  /// later ones are still being read.
  Status load(
      const std::vector<u64>& offsets, const std::function<void(u64 offset)>& visit = [](u64) {});
  /// The bytes at a medium offset inside a loaded segment.
  const std::byte* at(u64 offset) const;

 private:
  struct Loaded {
    u64 offset;
    const std::byte* bytes;
  };
  media::Medium& medium_;
  const u64 segment_bytes_;
  Mapping memory_;
  std::vector<Loaded> segments_;  ///< sorted by offset
};

/// What the log held when the store was opened.
struct RecoveredLog {
  std::vector<LoggedVersion> versions;    ///< consecutive, from replayed + 1
  std::unique_ptr<LogImage> image;        ///< their blocks
  std::vector<u64> transaction_segments;  ///< offsets, in the image (transaction_log.hpp)
};

/// Read the log of `region`, whose home image holds `replayed`. Whole versions that follow it
/// without a hole are recovered; a torn last one is as if it had never been. Damage that tearing
/// cannot explain is kCorrupt: an acknowledged version is never dropped silently.
Result<RecoveredLog> read_log(region::Volume& volume, u32 region, u64 replayed, Log& log);

/// The header at `used` bytes into a segment in memory, when its checksum fits and a reader may
/// follow it; nullptr otherwise.
const format::LogBlockHeader* header_at(media::Medium& medium, u64 segment_offset,
                                        const std::byte* segment, u64 segment_bytes, u64 used,
                                        u64 store_id);

/// Check a block's data and runs, in memory at `block`, against its header.
bool block_fits(media::Medium& medium, u64 offset, const std::byte* block);

}  // namespace perdura::commit
