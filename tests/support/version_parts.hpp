// Where the versions of a store in chunks are on its medium, for tests that damage them.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "commit/version_map.hpp"
#include "region/chunk_space.hpp"
#include "region/volume.hpp"
#include "store/shared_volume.hpp"

namespace perdura::test {

/// Medium offsets.
struct VersionParts {
  std::array<u64, 2> records;  ///< both copies
  std::vector<u64> nodes;
  std::map<u64, u64> chunks;  ///< and what they hold: region offsets
};

/// Of each version of the region of a name that is kept; "" is the first one.
inline std::map<u64, VersionParts> find_parts(region::Volume& volume, std::string_view name = {}) {
  const format::RegionRecord region = value_or_throw(store::find_region(volume, name));
  const u64 begin = value_or_throw(commit::version_records(volume, region)).medium_offset;
  const region::ChunkSpace space(volume, region, 0, true);
  commit::MapReader reader(volume, space);
  std::map<u64, VersionParts> all;
  for (const auto& found : value_or_throw(commit::read_versions(volume, region))) {
    const u64 version = found.record.version;
    VersionParts& parts = all[version];
    for (u64 copy = 0; copy < 2; ++copy)
      parts.records[copy] = begin + format::version_record_offset(region, version, copy);
    value_or_throw(reader.walk(
        found.record, [&](u32 level, u64 index, const format::ChunkEntry& entry) -> Result<bool> {
          if (level == 0) parts.chunks[entry.place] = index * region.chunk_bytes;
          else parts.nodes.push_back(entry.place);
          return true;
        }));
  }
  return all;
}

}  // namespace perdura::test
