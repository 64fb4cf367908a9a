// Stores as libraries of earlier format versions wrote them.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"
#include "format/format.hpp"
#include "media/medium.hpp"
#include "region/volume.hpp"

namespace perdura::test {

/// Version 2 does not say a region's engine; 3 differs in the records of transactions alone, which
/// stay as they are. What a failure has torn does too.
inline void make_earlier_version(media::Medium& medium, u32 version) {
  AlignedBuffer head(format::kDataBegin);
  value_or_throw(medium.read(0, head.first(format::kDataBegin)));
  const auto directory_of = [&](const format::Superblock& superblock) {
    return head.data() + format::kDirectoryOffset[superblock.directory_slot];
  };
  const auto sum_of = [&](const format::Superblock& superblock) {
    return checksum(directory_of(superblock), superblock.directory_bytes);
  };
  std::vector<std::pair<u64, format::Superblock>> slots;
  for (const u64 offset : format::kSuperblockOffset) {
    format::Superblock slot;
    std::memcpy(&slot, head.data() + offset, sizeof slot);
    if (slot.checksum == region::superblock_checksum(slot) &&
        slot.directory_checksum == sum_of(slot))
      slots.emplace_back(offset, slot);
  }
  for (const auto& [offset, slot] : slots) {
    format::DirectoryHeader header;
    std::memcpy(&header, directory_of(slot), sizeof header);
    auto* const regions =
        reinterpret_cast<format::RegionRecord*>(directory_of(slot) + sizeof header);
    for (u32 i = 0; version == 2 && i < header.region_count; ++i)
      regions[i].engine = format::EngineId::kUnsaid;
  }
  for (auto& [offset, slot] : slots) {
    slot.format_version = version;
    slot.directory_checksum = sum_of(slot);
    slot.checksum = region::superblock_checksum(slot);
    std::memcpy(head.data() + offset, &slot, sizeof slot);
  }
  value_or_throw(medium.write(0, head.first(format::kDataBegin), PERDURA_SITE("earlier version")));
  value_or_throw(medium.barrier(PERDURA_SITE("earlier version")));
}

}  // namespace perdura::test
