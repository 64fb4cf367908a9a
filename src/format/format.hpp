// Every durable structure of a store. docs/format/ describes them; nothing else defines bytes.
//
//   0        superblock slot 0        4 KiB
//   4 Ki     superblock slot 1        4 KiB
//   8 Ki     owner record             4 KiB   (who has the store open: for messages only)
//   64 Ki    directory slot 0        64 KiB
//   128 Ki   directory slot 1        64 KiB
//   192 Ki   extents: log segments, home images each followed by its page-checksum table; or home
//            images in pairs; or chunks and version records (remap_format.hpp)
//
// All integers are little-endian, the only byte order Perdura runs on.
#pragma once

#include <bit>
#include <cstddef>
#include <type_traits>

#include "base/bits.hpp"

namespace perdura::format {

constexpr char kMagic[8] = {'\x89', 'P', 'E', 'R', 'D', '\r', '\n', '\x1a'};
constexpr u32 kFormatVersion = 4;
constexpr u32 kFormatVersionMin = 2;  ///< stores of this and later ones become ones of this version
constexpr char kArchitecture[16] = "x86_64-le-64";

constexpr u64 kSuperblockBytes = 4096;
constexpr u64 kSuperblockOffset[2] = {0, 4096};
constexpr u64 kOwnerOffset = 8192;
constexpr u64 kDirectoryBytes = 64 * kKiB;
constexpr u64 kDirectoryOffset[2] = {64 * kKiB, 128 * kKiB};
constexpr u64 kDataBegin = 192 * kKiB;
constexpr u64 kExtentUnit = 4096;            ///< extents start and end at multiples of it
constexpr u64 kSegmentBytesMin = 32 * kKiB;  ///< log segments; a power of two
constexpr u64 kSegmentBytesMax = kMiB;

// Feature flags. A store with an incompatible flag that the program does not know is refused.
constexpr u64 kFeatureAliases = 1;   ///< a region holds addresses in its aliases
constexpr u64 kFeatureRemap = 2;     ///< a region lives in chunks
constexpr u64 kFeatureCopies = 8;    ///< a region lives in two copies
constexpr u64 kFeatureObjects = 32;  ///< a region holds objects; 4 and 16: early forms
/// Objects of a region may be in an overflow store; or it is the region of such a store.
constexpr u64 kFeatureOverflow = 64;
constexpr u64 kFeatureUnfinished = 128;  ///< copies to regions have not been completed
constexpr u64 kKnownIncompatible = kFeatureAliases | kFeatureRemap | kFeatureObjects |
                                   kFeatureCopies | kFeatureOverflow | kFeatureUnfinished;

constexpr u32 kRegionsMax = 16;  ///< numbered from 1
/// In Superblock::unfinished: of a backup, whose original the store is going to be.
constexpr u64 kUnfinishedRestore = u64{1} << 63;
static_assert(kRegionsMax < 63);
constexpr u64 kRegionBytesMax = u64{1} << 44;
constexpr u64 kAddressEnd = u64{1} << 47;  ///< of a program's address space
constexpr u32 kAliasesMax = 256;
constexpr u64 kChunkBytesMin = 4096;
constexpr u64 kChunkBytesMax = 4 * kMiB;
constexpr u32 kVersionsKeptMax = 1024;
constexpr u64 kCounterMax = u64{1} << 56;  ///< no store counts versions, updates or uses that far

/// What a region's recovery starts from.
struct RegionState {
  /// The version that the home image holds in full; in copies: the newest one, in the copy that its
  /// lowest bit says.
  u64 replayed_version;
  u64 live_generation;  ///< its log segments of earlier ones hold nothing that recovery needs
};
static_assert(sizeof(RegionState) == 16);
static_assert(offsetof(RegionState, live_generation) == 8);

/// Written to the two slots in turn; the valid one with the higher sequence counts.
struct Superblock {
  // These 64 bytes keep their meaning in every format version.
  char magic[8];
  u64 checksum;  ///< of the bytes that follow it, to the end of the superblock
  u32 format_version;
  u32 superblock_bytes;
  char architecture[16];
  u64 compatible_features;
  u64 incompatible_features;
  u64 reserved0;

  u8 uuid[16];
  u64 sequence;  ///< one more than the other slot's
  u64 session;   ///< counts openings; the log says which one wrote what
  u32 clean;     ///< 1: whoever had it open last closed it in order
  u32 segment_bytes;
  u64 medium_bytes;  ///< the medium is at least this long
  u32 directory_slot;
  u32 directory_bytes;
  u64 directory_sequence;
  u64 directory_checksum;
  u64 unfinished;  ///< a bit for each region (number 1 first) to which a copy was not completed
  RegionState regions[kRegionsMax];  ///< number 1 first
  /// Of each: so many versions behind the replayed one were durable. There may be more.
  u32 confirmed[kRegionsMax];
  /// Of a store that is clean, if that was its last session: a bit for each region (number 1 first)
  /// of whose log nothing is needed any more. Zeros while it is in use; earlier builds leave what
  /// they find.
  u64 ended_logs_session;
  u64 ended_logs;
  u8 reserved1[4096 - 160 - 20 * kRegionsMax];
};
static_assert(sizeof(Superblock) == kSuperblockBytes);
static_assert(offsetof(Superblock, uuid) == 64);
static_assert(offsetof(Superblock, sequence) == 80 && offsetof(Superblock, clean) == 96);
static_assert(offsetof(Superblock, medium_bytes) == 104);
static_assert(offsetof(Superblock, directory_slot) == 112);
static_assert(offsetof(Superblock, directory_checksum) == 128);
static_assert(offsetof(Superblock, unfinished) == 136);
static_assert(offsetof(Superblock, regions) == 144);
static_assert(offsetof(Superblock, confirmed) == 400);
static_assert(offsetof(Superblock, ended_logs_session) == 464);
static_assert(offsetof(Superblock, reserved1) <= 512);  // what changes lies in one sector
static_assert(std::is_trivially_copyable_v<Superblock>);

/// Who opened the store last. Read without trust, to name the owner in an error message.
struct OwnerRecord {
  u64 checksum;  ///< of the bytes that follow it
  u64 pid;
  u64 start_time;  ///< of the process, clock ticks since boot
  char boot_id[40];
  char program[64];
  u8 reserved[4096 - 128];
};
static_assert(sizeof(OwnerRecord) == 4096);
static_assert(offsetof(OwnerRecord, boot_id) == 24 && offsetof(OwnerRecord, program) == 64);

enum class ExtentKind : u32 {
  kLog = 1,          ///< whole log segments
  kHome = 2,         ///< `length` bytes of home image, then its page-checksum table
  kChunks = 3,       ///< chunks of a region, at multiples of their size
  kVersions = 4,     ///< version records of a region
  kObjectHeads = 5,  ///< a table of objects; of an overflow store's region whose it is
  kObjects = 6,      ///< copies, logs and functions of objects
  kCopies = 7,       ///< two home images of `length` bytes, each with its page-checksum table
};

struct Extent {
  ExtentKind kind;
  u32 region;
  u64 region_offset;  ///< kHome, kCopies: where in the region
  u64 length;         ///< bytes of it, without the tables
  u64 medium_offset;
};
static_assert(sizeof(Extent) == 32);
static_assert(offsetof(Extent, region) == 4 && offsetof(Extent, region_offset) == 8);
static_assert(offsetof(Extent, length) == 16 && offsetof(Extent, medium_offset) == 24);

/// How a region is kept, and its versions made.
enum class EngineId : u16 {
  kUnsaid = 0,              ///< of format version 2: chunk_bytes says it
  kRedoLog = 1,             ///< in a home image, with a redo log
  kRemap = 2,               ///< in chunks that are never overwritten
  kObjects = 3,             ///< as objects, each with copies and a log of its own
  kCopies = 4,              ///< in two home images that take turns
  kObjectsOverflowing = 5,  ///< as kObjects; the copies of some may be in another store's region
  kOverflow = 6,            ///< copies of objects of such a region, which has their heads
};

constexpr u64 kRegionNameMax = 31;  ///< bytes; at least one

struct RegionRecord {
  u32 region;
  u32 aliases;                    ///< 0: none; else a power of two up to kAliasesMax
  u64 address;                    ///< where the region was created and must be mapped
  u64 limit_bytes;                ///< address space it may use
  char name[kRegionNameMax + 1];  ///< unlike the others'
  u32 chunk_bytes;                ///< kRemap: the size of its chunks; kObjectsOverflowing:
                    ///< overflow_mark() of the store that has the others, or 0; else 0
  u16 versions_kept;  ///< kRemap: the newest one, and those before it; else 0
  EngineId engine;
};
static_assert(sizeof(RegionRecord) == 64);
static_assert(offsetof(RegionRecord, address) == 8 && offsetof(RegionRecord, name) == 24);
static_assert(offsetof(RegionRecord, chunk_bytes) == 56 && offsetof(RegionRecord, engine) == 62);

/// By which a region of objects knows its overflow store; 0: an earlier library made it, and did
/// not note that.
constexpr u32 overflow_mark(u64 store_id) {
  const auto low = static_cast<u32>(store_id);
  return low != 0 ? low : 1;
}

/// Distance from the memory of a region to its first alias, and from alias to alias.
constexpr u64 alias_stride(u64 limit_bytes) { return std::bit_ceil(limit_bytes); }
/// Address space of a region.
constexpr u64 reserved_bytes(const RegionRecord& record) {
  return record.aliases == 0 ? record.limit_bytes
                             : (u64{record.aliases} + 1) * alias_stride(record.limit_bytes);
}

constexpr u32 kDirectoryMagic = 0x52494450;  // "PDIR"

/// Regions and extents. Written to the two slots in turn; the superblock says which one counts and
/// holds its checksum.
struct DirectoryHeader {
  u32 magic;
  u32 region_count;
  u32 extent_count;
  u32 reserved;
  u64 sequence;
  u64 reserved1[5];
};
static_assert(sizeof(DirectoryHeader) == 64);
static_assert(offsetof(DirectoryHeader, region_count) == 4);
static_assert(offsetof(DirectoryHeader, sequence) == 16);
// DirectoryHeader, RegionRecord[region_count], Extent[extent_count]

/// Bytes of the page-checksum table of a home extent: 8 a page, whole pages.
constexpr u64 table_bytes(u64 home_bytes) {
  return round_up(home_bytes / kPageBytes * sizeof(u64), kPageBytes);
}

/// In the table, instead of a page's checksum: the page is condemned, as it was found damaged, and
/// nothing that is written to it since makes it good. But for a chance of 2^-64 no page has this
/// checksum.
constexpr u64 kCondemnedPage = 0x6567616d61446450;  // "PdDamage"

/// A home image with its table.
constexpr u64 home_bytes(u64 length) { return length + table_bytes(length); }

/// Of the medium, with what is behind `length`. Nobody has an extent of another kind.
constexpr u64 extent_bytes(const Extent& extent) {
  switch (extent.kind) {
    case ExtentKind::kHome:
      return home_bytes(extent.length);
    case ExtentKind::kCopies:
      return 2 * home_bytes(extent.length);
    case ExtentKind::kLog:
    case ExtentKind::kChunks:
    case ExtentKind::kVersions:
    case ExtentKind::kObjectHeads:
    case ExtentKind::kObjects:
      break;
  }
  return extent.length;
}
constexpr u64 extent_end(const Extent& extent) {
  return extent.medium_offset + extent_bytes(extent);
}

/// Parts of a region with a place of their own for each page.
constexpr bool has_homes(ExtentKind kind) {
  return kind == ExtentKind::kHome || kind == ExtentKind::kCopies;
}
/// Which copy a version is in.
constexpr u64 copy_of(u64 version) { return version & 1; }
/// One copy of both, as the home image that it is.
constexpr Extent home_in_copy(const Extent& copies, u64 copy) {
  return {ExtentKind::kHome, copies.region, copies.region_offset, copies.length,
          copies.medium_offset + copy * home_bytes(copies.length)};
}

constexpr u32 kLogBlockMagic = 0x474f4c50;  // "PLOG"
constexpr u32 kLogCommit = 1;               ///< flag: the last block of its version
constexpr u64 kLogPieceBytes = 4096;        ///< data are checksummed in pieces

/// One write of changed lines: LogBlockHeader, data, runs, padding. A version is the set of blocks
/// with its (version, session, ticket); it exists when its commit block and all the others are
/// whole.
struct LogBlockHeader {
  u64 checksum;       ///< of the rest of the header
  u64 data_checksum;  ///< of the array of the checksums of each 4 KiB of data
  u64 runs_checksum;  ///< of the runs
  u64 store_id;       ///< from the UUID: a block of another store is not ours
  u64 generation;     ///< of the segment's use: a block of an earlier use is not ours
  u64 version;
  u64 ticket;  ///< of this attempt at the version
  u64 chain;   ///< kLogCommit: sum of the other blocks' header checksums
  u32 magic;
  u32 flags;
  u32 region;
  u32 sequence;     ///< of this block in its version, from 0
  u32 block_count;  ///< kLogCommit: blocks in the version
  u32 run_count;
  u32 data_bytes;
  u32 block_bytes;  ///< distance to the next block of the segment
  u64 place;        ///< medium offset of the block: anywhere else it is not ours
  u64 session;      ///< that wrote it: a ticket or generation of another one is not the same
  u32 stream;       ///< kLogTransactions: whose records follow
  u32 records;      ///< kLogTransactions: the layout that they have; 0 before format version 4
  u64 reserved;
};
static_assert(sizeof(LogBlockHeader) == 128);
static_assert(offsetof(LogBlockHeader, store_id) == 24 && offsetof(LogBlockHeader, version) == 40);
static_assert(offsetof(LogBlockHeader, chain) == 56 && offsetof(LogBlockHeader, magic) == 64);
static_assert(offsetof(LogBlockHeader, block_count) == 80);
static_assert(offsetof(LogBlockHeader, block_bytes) == 92);
static_assert(offsetof(LogBlockHeader, place) == 96 && offsetof(LogBlockHeader, session) == 104);
static_assert(offsetof(LogBlockHeader, stream) == 112);

/// A run of changed lines: first line in the region | count << 44. Its data are the lines.
constexpr unsigned kRunCountShift = 44;
constexpr u64 kRunCountMax = (u64{1} << (64 - kRunCountShift)) - 1;
constexpr u64 make_run(u64 first_line, u64 count) { return first_line | count << kRunCountShift; }
constexpr u64 run_first(u64 run) { return run & ((u64{1} << kRunCountShift) - 1); }
constexpr u64 run_count(u64 run) { return run >> kRunCountShift; }

}  // namespace perdura::format
