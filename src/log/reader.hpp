// Reading a log back, after a crash or a clean close: its versions that were committed, and its
// records.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mapping.hpp"
#include "format/transaction_format.hpp"
#include "log/block.hpp"
#include "log/space.hpp"
#include "log/version_writer.hpp"
#include "media/medium.hpp"

namespace perdura::log {

/// The bytes of log blocks: in place on NVM, loaded into memory from block media.
class Image {
 public:
  /// In memory: what is loaded stays as it is when the log's space is used again.
  enum class Where { kAsTheMediumHasIt, kInMemory };
  explicit Image(region::Volume& volume, Where where = Where::kAsTheMediumHasIt);

  /// Load the segments at `offsets`, in place of what was loaded before; NVM needs no loading.
  /// Calls visit(offset) for each, while later ones are still being read.
  Status load(
      const std::vector<u64>& offsets, const std::function<void(u64 offset)>& visit = [](u64) {});
  /// The bytes at a medium offset inside a loaded segment.
  const std::byte* at(u64 offset) const;
  /// What it takes for that, until the next load() needs more.
  u64 memory_bytes() const { return memory_.length(); }
  /// The system may take the memory's pages where it needs some; the next load() has the others
  /// without asking for them again. Nothing is loaded any more.
  void let_go() noexcept;

 private:
  struct Loaded {
    u64 offset;
    const std::byte* bytes;
  };
  media::LinearMedium& medium_;
  const u64 segment_bytes_;
  const bool in_place_;
  Mapping memory_;
  std::vector<Loaded> segments_;  ///< sorted by offset
};

/// A record that a commit of the past left.
struct FoundRecord {
  u64 segment;  ///< on the medium
  u64 offset;   ///< of the record, on the medium
  u64 bytes;    ///< of it
  u64 time;
  u32 slot;
  u64 sequence;
  u64 durable_version;  ///< on which it relies
  std::vector<u64> entries;
};

/// What the log held when the store was opened.
struct Recovered {
  std::vector<LoggedVersion> versions;  ///< consecutive, from replayed + 1
  std::unique_ptr<Image> image;         ///< their blocks
  std::vector<FoundRecord> records;     ///< of any version, in the order of their commits
  /// Whole, but behind a hole, so that they never were; without their entries. Were the hole larger
  /// they might seem to count.
  std::vector<FoundRecord> dead_records;
  u64 durable_version = 0;  ///< the last of the versions, or what is home
};

/// Read the log of `region`, whose home image holds `replayed`. Whole versions that follow it
/// without a hole are recovered; a torn last one is as if it had never been, and so is a record
/// that is not whole. Damage that tearing cannot explain is kCorrupt, and so is a record that
/// relies on a later version than is found: what was acknowledged is never dropped silently.
Result<Recovered> read(region::Volume& volume, u32 region, u64 replayed, Space& space,
                       Image::Where where = Image::Where::kAsTheMediumHasIt);

/// The same, perhaps beside a process that appends to the log, and frees nothing of what follows
/// `replayed` meanwhile: the version that was durable when this was called, or a later one, and of
/// the records so many that none relies on one that is missing; among them all that were durable
/// then. What lies in space that the volume does not know yet is missing, which is taken for
/// damage.
Result<Recovered> read_beside_writer(region::Volume& volume, u32 region, u64 replayed);

/// The header at `used` bytes into a segment in memory, when its checksum fits and a reader may
/// follow it; nullptr otherwise.
const format::LogBlockHeader* header_at(media::Medium& medium, u64 segment_offset,
                                        const std::byte* segment, u64 segment_bytes, u64 used,
                                        u64 store_id);

/// Goes through a segment in memory, from block to block, and past what is damaged to what follows:
/// `visit(used, header)` at each place where one may begin, of nullptr where none can be read.
/// Returns whether the next one is behind this.
template <class Visit>
void for_each_block(media::Medium& medium, u64 segment_offset, media::Bytes segment, u64 store_id,
                    Visit&& visit) {
  const u64 step = medium.geometry().write_bytes;
  for (u64 used = 0; used + sizeof(format::LogBlockHeader) <= segment.size();) {
    const format::LogBlockHeader* const header =
        header_at(medium, segment_offset, segment.data(), segment.size(), used, store_id);
    used += visit(used, header) && header != nullptr ? header->block_bytes : step;
  }
}

/// Check a block's data and runs, in memory at `block`, against its header.
bool block_fits(media::Medium& medium, u64 offset, const std::byte* block);

}  // namespace perdura::log
