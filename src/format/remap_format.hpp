// A region in chunks that are never overwritten: what is written at each version, and where it is.
//
//   version record (in a ring, two copies)
//     | entries of the top level
//     v
//   map nodes, each 256 entries ──▶ map nodes … ──▶ chunks
//
// An entry says where a node or a chunk is and what its checksum is. A version shares what did not
// change with those before it. docs/format/remap.md has the protocol.
#pragma once

#include "format/format.hpp"

namespace perdura::format {

/// Place 0: nothing but zeros, which take up no space.
struct ChunkEntry {
  u64 place;     ///< medium offset
  u64 checksum;  ///< of the node or the chunk; 0 at place 0
  friend bool operator==(const ChunkEntry&, const ChunkEntry&) = default;
};
static_assert(sizeof(ChunkEntry) == 16);

constexpr u64 kNodeBytes = 4096;
constexpr u64 kNodeEntries = kNodeBytes / sizeof(ChunkEntry);
constexpr u64 kTopEntries = 240;
constexpr u32 kLevelsMax = 4;  ///< enough for a region of kRegionBytesMax in the smallest chunks

constexpr u32 kVersionMagic = 0x53524556;   // "VERS"
constexpr u32 kProgressMagic = 0x54524150;  // "PART": a copy is being written; it is no version
constexpr u64 kVersionRecordBytes = 4096;

/// Of a version that was copied from another store: from which, and how its region was kept there.
/// Zeros: it was not.
struct VersionSource {
  u8 uuid[16];
  u64 version;          ///< there
  u64 record_checksum;  ///< of its record there, where that store has chunks; else 0
  u32 engine;           ///< EngineId
  u32 chunk_bytes;      ///< as in the region's record there
  u32 versions_kept;    ///< as well
  u32 reserved;
};
static_assert(sizeof(VersionSource) == 48);
static_assert(offsetof(VersionSource, version) == 16 && offsetof(VersionSource, engine) == 32);

/// A durable version. In slot (version mod (versions kept + 1)) of each copy of the ring.
struct VersionRecord {
  u64 checksum;  ///< of the bytes that follow it
  u32 magic;
  u32 region;
  u64 store_id;  ///< from the UUID: a record of another store is not ours
  u64 version;
  u64 backed_bytes;  ///< of the region, to the end of its last part that has space
  u64 time_ns;       ///< when it was made, since 1970: for people
  u64 origin;        ///< the version that a rollback made this one from; 0: none
  u64 changed_chunks;
  u64 changed_bytes;  ///< written for it, with map nodes
  u32 levels;         ///< of map nodes between `top` and the chunks
  u32 chunk_bytes;
  VersionSource source;
  u64 reserved[16];
  ChunkEntry top[kTopEntries];
};
static_assert(sizeof(VersionRecord) == kVersionRecordBytes);
static_assert(offsetof(VersionRecord, levels) == 72);
static_assert(offsetof(VersionRecord, source) == 80);
static_assert(offsetof(VersionRecord, top) == 256);

constexpr u64 version_slots(const RegionRecord& record) { return u64{record.versions_kept} + 1; }
/// Of both copies of the ring, one behind the other.
constexpr u64 version_records_bytes(const RegionRecord& record) {
  return 2 * version_slots(record) * kVersionRecordBytes;
}
/// Of the copy `copy` of a version, in the extent of the records.
constexpr u64 version_record_offset(const RegionRecord& record, u64 version, u64 copy) {
  return (copy * version_slots(record) + version % version_slots(record)) * kVersionRecordBytes;
}
/// Levels of map nodes that a region with so many chunks needs.
constexpr u32 levels_for(u64 chunks) {
  u32 levels = 0;
  for (u64 entries = chunks; entries > kTopEntries;
       entries = (entries + kNodeEntries - 1) / kNodeEntries)
    ++levels;
  return levels;
}

static_assert(levels_for(kRegionBytesMax / kChunkBytesMin) == kLevelsMax);

}  // namespace perdura::format
