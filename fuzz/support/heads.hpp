// The superblocks and the directory of an image.
#pragma once

#include "base/checksum.hpp"
#include "format/format.hpp"
#include "support/patch.hpp"

namespace perdura::fuzz {

struct Heads {
  u32 newest;  ///< superblock slot
  format::Superblock superblock;
  std::vector<format::RegionRecord> regions;
  std::vector<format::Extent> extents;
};

inline Heads read_heads(const Bytes& image) {
  Heads heads{};
  const auto first = load<format::Superblock>(image, format::kSuperblockOffset[0]);
  const auto second = load<format::Superblock>(image, format::kSuperblockOffset[1]);
  heads.newest = second.sequence > first.sequence ? 1 : 0;
  heads.superblock = heads.newest == 1 ? second : first;
  const u64 directory = format::kDirectoryOffset[heads.superblock.directory_slot];
  const auto header = load<format::DirectoryHeader>(image, directory);
  u64 at = directory + sizeof header;
  for (u64 i = 0; i < header.region_count; ++i, at += sizeof(format::RegionRecord))
    heads.regions.push_back(load<format::RegionRecord>(image, at));
  for (u64 i = 0; i < header.extent_count; ++i, at += sizeof(format::Extent))
    heads.extents.push_back(load<format::Extent>(image, at));
  return heads;
}

/// For patches: the newest superblock, the older one, the directory.
inline std::vector<Area> head_areas(const Heads& heads) {
  return {{{format::kSuperblockOffset[heads.newest]}, 256},
          {{format::kSuperblockOffset[heads.newest ^ 1]}, 256},
          {{format::kDirectoryOffset[heads.superblock.directory_slot]},
           heads.superblock.directory_bytes + sizeof(format::Extent)}};
}

// A region may be anywhere near its recorded place; elsewhere it would take the place of what the
// sanitizers map later.
inline void keep_addresses_apart(Bytes& image, u64 directory) {
  const auto header = load<format::DirectoryHeader>(image, directory);
  for (u64 i = 0; i < std::min(header.region_count, format::kRegionsMax); ++i) {
    const u64 place = directory + sizeof header + i * sizeof(format::RegionRecord) +
                      offsetof(format::RegionRecord, address);
    const u64 address = load<u64>(image, place);
    const bool reserved = address >= u64{1} << 47 || address < kPageBytes;
    if (!reserved) store(image, place, kRegionAddress | (address & 0xfff));
  }
}

/// Make the checksums fit.
inline void sum_heads(Bytes& image, bool directories, bool superblocks) {
  for (const u64 place : format::kSuperblockOffset) {
    auto superblock = load<format::Superblock>(image, place);
    const u64 directory = format::kDirectoryOffset[superblock.directory_slot & 1];
    keep_addresses_apart(image, directory);
    if (directories && superblock.directory_bytes <= format::kDirectoryBytes)
      superblock.directory_checksum =
          checksum(image.data() + directory, superblock.directory_bytes);
    constexpr size_t kFrom = offsetof(format::Superblock, format_version);
    if (superblocks)
      superblock.checksum =
          checksum(reinterpret_cast<const char*>(&superblock) + kFrom, sizeof superblock - kFrom);
    store(image, place, superblock);
  }
}

}  // namespace perdura::fuzz
