#include "commit/version_map.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"

namespace perdura::commit {
namespace {

using format::ChunkEntry;
using format::kNodeBytes;
using format::kNodeEntries;
using format::VersionRecord;

constexpr size_t kNodesAtOnce = 256;

u64 record_checksum(const VersionRecord& record) {
  return checksum(reinterpret_cast<const std::byte*>(&record) + sizeof record.checksum,
                  sizeof record - sizeof record.checksum);
}

u64 wall_clock_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

bool record_fits(const VersionRecord& record, const region::Volume& volume,
                 const format::RegionRecord& region, u64 slot, u32 magic = format::kVersionMagic) {
  const u64 chunks = record.backed_bytes / region.chunk_bytes;
  return record.checksum == record_checksum(record) && record.magic == magic &&
         record.region == region.region && record.store_id == volume.store_id() &&
         record.version != 0 && record.version <= format::kCounterMax &&
         record.version % format::version_slots(region) == slot &&
         record.chunk_bytes == region.chunk_bytes &&
         record.backed_bytes % region.chunk_bytes == 0 &&
         record.backed_bytes <= region.limit_bytes && record.levels == format::levels_for(chunks);
}

u64 entries_at(u64 chunks, u32 level) {
  for (; level != 0; --level) chunks = (chunks + kNodeEntries - 1) / kNodeEntries;
  return chunks;
}

}  // namespace

Result<format::Extent> version_records(const region::Volume& volume,
                                       const format::RegionRecord& region) {
  const auto extents = volume.extents(format::ExtentKind::kVersions, region.region);
  if (!extents.empty()) return extents.front();
  return Failure{Code::kCorrupt, "the directory of '" + volume.name() +
                                     "' has no place for version records; restore the store from "
                                     "a copy"};
}

Result<std::vector<FoundVersion>> read_versions(region::Volume& volume,
                                                const format::RegionRecord& region,
                                                Newest newest_state) {
  PERDURA_ASSIGN(const format::Extent extent, version_records(volume, region));
  const u64 slots = format::version_slots(region);
  AlignedBuffer bytes(extent.length);
  PERDURA_TRY(volume.medium().load_pages(extent.medium_offset, bytes.first(extent.length)));

  std::vector<FoundVersion> found;
  for (u64 slot = 0; slot < slots; ++slot) {
    FoundVersion version;
    for (u64 copy = 0; copy < 2; ++copy) {
      const u64 offset = (copy * slots + slot) * format::kVersionRecordBytes;
      const auto& record = *reinterpret_cast<const VersionRecord*>(bytes.data() + offset);
      const bool whole = volume.medium().whole(
          extent.medium_offset + offset, bytes.data() + offset, sizeof record,
          PERDURA_SITE("version record"), [&](const std::byte* at) {
            return record_fits(*reinterpret_cast<const VersionRecord*>(at), volume, region, slot);
          });
      if (!whole) {
        if (!is_zero(bytes.data() + offset, sizeof record))
          version.copies[copy] = RecordState::kDamaged;
        continue;
      }
      // Torn in between, the two copies are of different versions.
      if (record.version < version.record.version) {
        version.copies[copy] = RecordState::kDamaged;
        continue;
      }
      if (version.record.version != 0 && record.version > version.record.version)
        version.copies[0] = RecordState::kDamaged;
      version.record = record;
      version.copies[copy] = RecordState::kWhole;
    }
    if (version.record.version != 0) found.push_back(version);
  }
  std::sort(found.begin(), found.end(), [](const FoundVersion& a, const FoundVersion& b) {
    return a.record.version < b.record.version;
  });
  const u64 newest = found.empty() ? 0 : found.back().record.version;
  const u64 known = volume.replayed_version(region.region);
  if (newest < known && newest_state == Newest::kIsThere) {
    const auto place = [&](u64 copy) {
      return std::to_string(extent.medium_offset +
                            format::version_record_offset(region, known, copy));
    };
    return Failure{
        Code::kCorrupt,
        "version " + std::to_string(known) + " of '" + volume.name() +
            "' was durable and both copies of its record (medium offsets " + place(0) + " and " +
            place(1) + ") are damaged; " +
            (newest == 0 ? std::string("no other one is left: restore the store from a copy")
                         : "the newest one left is " + std::to_string(newest) +
                               ": restore the store from a copy, or go back to that one with "
                               "`perdura rollback`")};
  }
  std::erase_if(found, [&](const FoundVersion& each) {
    return each.record.version + region.versions_kept <= newest;
  });
  return found;
}

Result<VersionRecord> find_version(const region::Volume& volume,
                                   const std::vector<FoundVersion>& found, u64 version) {
  for (const FoundVersion& each : found)
    if (each.record.version == version) return each.record;
  const std::string kept = found.empty()
                               ? "none"
                               : "versions " + std::to_string(found.front().record.version) +
                                     " to " + std::to_string(found.back().record.version);
  return Failure{Code::kNotFound, "'" + volume.name() + "' does not keep version " +
                                      std::to_string(version) + "; it keeps " + kept};
}

namespace {

/// Where a version's record is, twice.
std::array<u64, 2> places_of(const format::Extent& records, const format::RegionRecord& region,
                             u64 version) {
  return {records.medium_offset + format::version_record_offset(region, version, 0),
          records.medium_offset + format::version_record_offset(region, version, 1)};
}

Status write_copies(region::Volume& volume, const format::RegionRecord& region,
                    VersionRecord& record) {
  PERDURA_ASSIGN(const format::Extent extent, version_records(volume, region));
  record.time_ns = wall_clock_ns();
  record.checksum = record_checksum(record);
  alignas(kPageBytes) std::byte bytes[sizeof record];
  std::memcpy(bytes, &record, sizeof record);
  return volume.medium().write_record_copies(places_of(extent, region, record.version), bytes,
                                             PERDURA_SITE("version record"));
}

}  // namespace

Status write_version(region::Volume& volume, const format::RegionRecord& region,
                     VersionRecord record) {
  PERDURA_TRY(write_copies(volume, region, record));
  // Barrier: the record is durable before the version is acknowledged, and before the places of the
  // oldest one are written again.
  return volume.medium().barrier(PERDURA_SITE("version record"));
}

Status write_progress(region::Volume& volume, const format::RegionRecord& region,
                      VersionRecord record) {
  record.magic = format::kProgressMagic;
  return write_copies(volume, region, record);
}

Result<std::optional<VersionRecord>> read_progress(region::Volume& volume,
                                                   const format::RegionRecord& region,
                                                   u64 version) {
  PERDURA_ASSIGN(const format::Extent extent, version_records(volume, region));
  alignas(kPageBytes) std::byte bytes[sizeof(VersionRecord)];
  for (u64 copy = 0; copy < 2; ++copy) {
    const u64 place = extent.medium_offset + format::version_record_offset(region, version, copy);
    PERDURA_TRY(volume.medium().load_pages(place, bytes));
    const bool whole = volume.medium().whole(
        place, bytes, sizeof bytes, PERDURA_SITE("progress record"), [&](const std::byte* at) {
          return record_fits(*reinterpret_cast<const VersionRecord*>(at), volume, region,
                             version % format::version_slots(region), format::kProgressMagic);
        });
    VersionRecord record;
    std::memcpy(&record, bytes, sizeof record);
    if (whole && record.version == version) return std::optional(record);
  }
  return std::optional<VersionRecord>();
}

Status erase_version(region::Volume& volume, const format::RegionRecord& region, u64 version) {
  PERDURA_ASSIGN(const format::Extent extent, version_records(volume, region));
  alignas(kPageBytes) static constexpr std::byte kZeros[sizeof(VersionRecord)]{};
  PERDURA_TRY(volume.medium().write_record_copies(places_of(extent, region, version), kZeros,
                                                  PERDURA_SITE("version record erased")));
  // Barrier: nothing finds the version before another one gets its number, and its places.
  return volume.medium().barrier(PERDURA_SITE("version record erased"));
}

Status sign_versions(region::Volume& volume, const format::RegionRecord& region, u64 store_id,
                     u64 copy) {
  PERDURA_ASSIGN(const format::Extent extent, version_records(volume, region));
  PERDURA_ASSIGN(const std::vector<FoundVersion> found, read_versions(volume, region));
  for (const FoundVersion& each : found) {
    VersionRecord record = each.record;
    record.store_id = store_id;
    record.checksum = record_checksum(record);
    alignas(kPageBytes) std::byte bytes[sizeof record];
    std::memcpy(bytes, &record, sizeof record);
    PERDURA_TRY(volume.medium().write_record(
        extent.medium_offset + format::version_record_offset(region, record.version, copy), bytes,
        PERDURA_SITE("signed version record")));
  }
  // Barrier: this copy is durable before the superblock says that it is the one that counts, or the
  // other one is written.
  return volume.medium().barrier(PERDURA_SITE("signed version records"));
}

void VersionMap::resize(u64 chunks) {
  levels_.resize(format::levels_for(chunks) + 1);
  for (u32 level = 0; level < levels_.size(); ++level)
    levels_[level].resize(entries_at(chunks, level));
}

void VersionMap::fill_node(u32 level, u64 node, std::byte* bytes) const {
  const std::vector<ChunkEntry>& entries = levels_[level];
  const u64 first = node * kNodeEntries;
  const u64 count = std::min<u64>(kNodeEntries, entries.size() - first);
  std::memcpy(bytes, &entries[first], count * sizeof(ChunkEntry));
  std::memset(bytes + count * sizeof(ChunkEntry), 0, kNodeBytes - count * sizeof(ChunkEntry));
}

Failure MapReader::damaged(u32 level, u64 index, const ChunkEntry& entry, const char* what) const {
  const std::string name =
      level == 0 ? "the chunk at region offset " + std::to_string(index * space_.chunk_bytes())
                 : "a node of the map (level " + std::to_string(level) + ", number " +
                       std::to_string(index) + ")";
  return {Code::kCorrupt, name + " of '" + volume_.name() + "' (medium offset " +
                              std::to_string(entry.place) + ") " + what +
                              "; restore the store from a copy, or go back with `perdura rollback` "
                              "to an older version, if one does not share this place"};
}

Status MapReader::check_place(u32 level, u64 index, const ChunkEntry& entry) const {
  if (space_.holds(entry.place, level == 0 ? space_.chunk_bytes() : kNodeBytes)) return {};
  return damaged(level, index, entry, "is outside the space for chunks");
}

Status MapReader::read_nodes(u32 level, std::span<const Node> nodes, std::byte* into) {
  std::vector<media::ReadRequest> requests;
  requests.reserve(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    requests.push_back({nodes[i].entry.place, {into + i * kNodeBytes, kNodeBytes}});
  PERDURA_TRY(volume_.medium().load(requests));
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ChunkEntry& entry = nodes[i].entry;
    const bool whole = volume_.medium().whole(
        entry.place, into + i * kNodeBytes, kNodeBytes, PERDURA_SITE("map node"),
        [&](const std::byte* at) { return checksum(at, kNodeBytes) == entry.checksum; });
    if (!whole) return damaged(level, nodes[i].index, entry, "does not fit its checksum");
  }
  return {};
}

Status MapReader::walk(const VersionRecord& record, const Visit& visit) {
  const u64 chunks = record.backed_bytes / record.chunk_bytes;
  std::vector<Node> nodes;
  std::vector<Node> next;
  const auto take = [&](u32 level, u64 index, const ChunkEntry& entry) -> Status {
    if (entry == ChunkEntry{}) return {};
    if (index >= entries_at(chunks, level) || entry.place == 0)
      return damaged(level, index, entry, "is an impossible entry of the map");
    PERDURA_TRY(check_place(level, index, entry));
    PERDURA_ASSIGN(const bool descends, visit(level, index, entry));
    if (level != 0 && descends) next.push_back({index, entry});
    return {};
  };
  for (u64 i = 0; i < format::kTopEntries; ++i) PERDURA_TRY(take(record.levels, i, record.top[i]));
  AlignedBuffer buffer;
  for (u32 level = record.levels; level != 0; --level) {
    nodes.swap(next);
    next.clear();
    if (buffer.size() < std::min(nodes.size(), kNodesAtOnce) * kNodeBytes)
      buffer = AlignedBuffer(std::min(nodes.size(), kNodesAtOnce) * kNodeBytes);
    for (size_t at = 0; at < nodes.size(); at += kNodesAtOnce) {
      const std::span<const Node> batch(&nodes[at], std::min(kNodesAtOnce, nodes.size() - at));
      PERDURA_TRY(read_nodes(level, batch, buffer.data()));
      for (size_t i = 0; i < batch.size(); ++i) {
        const auto* entries = reinterpret_cast<const ChunkEntry*>(buffer.data() + i * kNodeBytes);
        for (u64 j = 0; j < kNodeEntries; ++j)
          PERDURA_TRY(take(level - 1, batch[i].index * kNodeEntries + j, entries[j]));
      }
    }
  }
  return {};
}

Result<VersionMap> MapReader::read(const VersionRecord& record) {
  VersionMap map;
  map.resize(record.backed_bytes / record.chunk_bytes);
  PERDURA_TRY(walk(record, [&](u32 level, u64 index, const ChunkEntry& entry) -> Result<bool> {
    map.at(level, index) = entry;
    return true;
  }));
  return map;
}

bool MapReader::fits(const ChunkEntry& entry, const std::byte* bytes) const {
  return volume_.medium().whole(
      entry.place, bytes, space_.chunk_bytes(), PERDURA_SITE("chunk"),
      [&](const std::byte* at) { return checksum(at, space_.chunk_bytes()) == entry.checksum; });
}

Failure MapReader::chunk_damaged(u64 index, const ChunkEntry& entry) const {
  return damaged(0, index, entry, "does not fit its checksum");
}

Status MapReader::check_chunk(u64 index, const ChunkEntry& entry, const std::byte* bytes) const {
  return fits(entry, bytes) ? Status{} : Status(chunk_damaged(index, entry));
}

Status MapReader::read_chunk(u64 index, const ChunkEntry& entry, media::MutableBytes into) {
  const media::ReadRequest request{entry.place, into};
  PERDURA_TRY(volume_.medium().load({&request, 1}));
  return check_chunk(index, entry, into.data());
}

}  // namespace perdura::commit
