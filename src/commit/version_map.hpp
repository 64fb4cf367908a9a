// The versions of a region in chunks, as they are on the medium: their records, and their maps.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/assert.hpp"
#include "format/remap_format.hpp"
#include "region/chunk_space.hpp"
#include "region/volume.hpp"

namespace perdura::commit {

/// What a version's record was found to be in each of the two copies.
enum class RecordState { kAbsent, kWhole, kDamaged };
struct FoundVersion {
  format::VersionRecord record{};
  RecordState copies[2] = {RecordState::kAbsent, RecordState::kAbsent};
};

enum class Newest { kIsThere, kMayBeLost };
/// The versions of which a copy is whole and that are kept, in rising order. Fails where the newest
/// one is older than the one that the superblock knows of, unless that may be lost.
Result<std::vector<FoundVersion>> read_versions(region::Volume& volume,
                                                const format::RegionRecord& region,
                                                Newest newest = Newest::kIsThere);
/// kNotFound says which there are.
Result<format::VersionRecord> find_version(const region::Volume& volume,
                                           const std::vector<FoundVersion>& found, u64 version);
/// Make a version durable; all that it consists of is. Fills in checksum and time.
Status write_version(region::Volume& volume, const format::RegionRecord& region,
                     format::VersionRecord record);
/// Say how far a copy is that will be this version. It is no version, what it consists of need not
/// be durable, and its places are free for everybody else: who goes on with the copy compares them.
Status write_progress(region::Volume& volume, const format::RegionRecord& region,
                      format::VersionRecord record);
/// What was said of this version last, if that is still there.
Result<std::optional<format::VersionRecord>> read_progress(region::Volume& volume,
                                                           const format::RegionRecord& region,
                                                           u64 version);
/// There is no such version from now on, durably.
Status erase_version(region::Volume& volume, const format::RegionRecord& region, u64 version);
/// Write one copy of the records of all kept versions once more, as those of the store with the id
/// `store_id`.
Status sign_versions(region::Volume& volume, const format::RegionRecord& region, u64 store_id,
                     u64 copy);
/// Where the records are.
Result<format::Extent> version_records(const region::Volume& volume,
                                       const format::RegionRecord& region);

/// Entries of a map, level by level: level 0 are the chunks, the last level is in the record.
class VersionMap {
 public:
  u64 chunks() const { return levels_[0].size(); }
  u32 levels() const { return static_cast<u32>(levels_.size()) - 1; }
  const std::vector<format::ChunkEntry>& level(u32 level) const { return levels_[level]; }
  format::ChunkEntry& at(u32 level, u64 index) {
    PERDURA_ASSERT(level < levels_.size() && index < levels_[level].size());
    return levels_[level][index];
  }
  const format::ChunkEntry& chunk(u64 index) const {
    PERDURA_ASSERT(index < levels_[0].size());
    return levels_[0][index];
  }

  /// For so many chunks, with as many levels as they need. New entries are zeros.
  void resize(u64 chunks);

  /// Entries [node * kNodeEntries, …) of `level`, as a node of the next one has them.
  void fill_node(u32 level, u64 node, std::byte* bytes) const;

 private:
  std::vector<std::vector<format::ChunkEntry>> levels_{{}};
};

/// Reads maps of versions, each node verified.
class MapReader {
 public:
  MapReader(region::Volume& volume, const region::ChunkSpace& space)
      : volume_(volume), space_(space) {}

  /// Called for each entry that is not zero, nodes before what is in them. Of a node: whether to
  /// visit that. A failure ends the walk.
  using Visit = std::function<Result<bool>(u32 level, u64 index, const format::ChunkEntry& entry)>;
  Status walk(const format::VersionRecord& record, const Visit& visit);

  Result<VersionMap> read(const format::VersionRecord& record);

  /// Whether a chunk that was loaded is what the entry says. Takes no memory from the allocator.
  bool fits(const format::ChunkEntry& entry, const std::byte* bytes) const;
  /// kCorrupt, of a chunk that does not fit.
  Failure chunk_damaged(u64 index, const format::ChunkEntry& entry) const;
  /// The two together.
  Status check_chunk(u64 index, const format::ChunkEntry& entry, const std::byte* bytes) const;
  /// Load and check one.
  Status read_chunk(u64 index, const format::ChunkEntry& entry, media::MutableBytes into);

 private:
  struct Node {
    u64 index;
    format::ChunkEntry entry;
  };
  Status check_place(u32 level, u64 index, const format::ChunkEntry& entry) const;
  Status read_nodes(u32 level, std::span<const Node> nodes, std::byte* into);
  Failure damaged(u32 level, u64 index, const format::ChunkEntry& entry, const char* what) const;

  region::Volume& volume_;
  const region::ChunkSpace& space_;
};

}  // namespace perdura::commit
