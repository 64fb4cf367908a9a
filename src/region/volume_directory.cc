// The directory of a volume: reading it without trust, and writing it.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"
#include "region/engine_rules.hpp"
#include "region/volume.hpp"

namespace perdura::region {
namespace {

using format::DirectoryHeader;
using format::Extent;
using format::ExtentKind;
using format::RegionRecord;
using format::Superblock;

// Counters that would soon wrap around were not counted.
bool counters_plausible(const Superblock& superblock) {
  u64 highest = std::max({superblock.sequence, superblock.directory_sequence, superblock.session});
  for (const format::RegionState& state : superblock.regions)
    highest = std::max({highest, state.replayed_version, state.live_generation});
  return highest <= format::kCounterMax;
}

}  // namespace

Status Volume::read_directory(const Superblock& superblock) {
  const auto damaged = [&](const std::string& what) {
    return Failure{Code::kCorrupt,
                   "the directory of '" + name() + "' at offset " +
                       std::to_string(format::kDirectoryOffset[superblock.directory_slot & 1]) +
                       " is damaged (" + what + "); restore the store from a copy"};
  };
  if (!counters_plausible(superblock))
    return Failure{Code::kCorrupt, "the superblock of '" + name() +
                                       "' holds impossible counters; restore the store from a "
                                       "copy"};
  if (superblock.directory_slot > 1 || superblock.directory_bytes < sizeof(DirectoryHeader) ||
      superblock.directory_bytes > format::kDirectoryBytes ||
      !std::has_single_bit(superblock.segment_bytes) ||
      superblock.segment_bytes < format::kSegmentBytesMin ||
      superblock.segment_bytes > format::kSegmentBytesMax)
    return damaged("its superblock describes no directory");
  AlignedBuffer bytes(superblock.directory_bytes);
  PERDURA_ASSIGN(const bool whole,
                 medium_->verified_read(format::kDirectoryOffset[superblock.directory_slot],
                                        bytes.first(superblock.directory_bytes),
                                        superblock.directory_checksum, PERDURA_SITE("directory")));
  if (!whole) return damaged("its checksum does not fit");
  DirectoryHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const u64 expected = sizeof header + header.region_count * sizeof(RegionRecord) +
                       header.extent_count * sizeof(Extent);
  if (header.magic != format::kDirectoryMagic || header.region_count > format::kRegionsMax ||
      expected != superblock.directory_bytes || header.sequence != superblock.directory_sequence)
    return damaged("its header does not fit its length");
  regions_.resize(header.region_count);
  extents_.resize(header.extent_count);
  const std::byte* at = bytes.data() + sizeof header;
  if (!regions_.empty()) std::memcpy(regions_.data(), at, regions_.size() * sizeof(RegionRecord));
  at += regions_.size() * sizeof(RegionRecord);
  if (!extents_.empty()) std::memcpy(extents_.data(), at, extents_.size() * sizeof(Extent));
  superblock_ = superblock;
  if (superblock.format_version == 2)
    for (RegionRecord& record : regions_)
      if (!name_engine(record)) return impossible_region(record);
  PERDURA_TRY(check_regions());
  PERDURA_TRY(check_extents());
  return check_homes();
}

u64 Volume::features_of_regions() const {
  u64 features = superblock_.unfinished != 0 ? format::kFeatureUnfinished : 0;
  for (const RegionRecord& record : regions_) {
    if (record.aliases != 0) features |= format::kFeatureAliases;
    features |= engine_rules(record).feature;
  }
  return features;
}

Status Volume::check_regions() const {
  const bool features_fit = superblock_.incompatible_features == features_of_regions();
  for (auto record = regions_.begin(); record != regions_.end(); ++record) {
    const bool twice = std::any_of(regions_.begin(), record, [&](const RegionRecord& other) {
      return other.region == record->region ||
             std::strncmp(other.name, record->name, sizeof other.name) == 0;
    });
    if (twice || !features_fit || record->region == 0 || record->region > format::kRegionsMax ||
        record->name[0] == '\0' || record->name[format::kRegionNameMax] != '\0' ||
        record->address == 0 || !is_aligned(record->address, kPageBytes) ||
        record->limit_bytes == 0 || !is_aligned(record->limit_bytes, kMiB) ||
        record->limit_bytes > format::kRegionBytesMax ||
        !engine_rules(*record).record_fits(*record) ||
        (engine_rules(*record).needs_bytes && medium_->linear() == nullptr) ||
        (record->aliases & (record->aliases - 1)) != 0 || record->aliases > format::kAliasesMax ||
        record->address > format::kAddressEnd ||
        format::reserved_bytes(*record) > format::kAddressEnd - record->address)
      return impossible_region(*record);
  }
  return {};
}

Failure Volume::impossible_region(const RegionRecord& record) const {
  return Failure{Code::kCorrupt,
                 "the directory of '" + name() + "' holds an impossible region (number " +
                     std::to_string(record.region) + "); restore the store from a copy"};
}

Failure Volume::impossible_extent(const Extent& extent) const {
  return Failure{Code::kCorrupt,
                 "the directory of '" + name() + "' holds an impossible extent at offset " +
                     std::to_string(extent.medium_offset) + "; restore the store from a copy"};
}

Status Volume::check_extents() const {
  u64 free_from = format::kDataBegin;
  for (const Extent& extent : extents_) {
    const u64 unit =
        extent.kind == ExtentKind::kLog ? superblock_.segment_bytes : format::kExtentUnit;
    // The length by itself first: sums of what it is must not wrap around.
    if (extent.medium_offset < free_from || extent.length == 0 ||
        extent.length > superblock_.medium_bytes || extent.length % unit != 0 ||
        !is_aligned(extent.medium_offset, format::kExtentUnit) ||
        extent.medium_offset > superblock_.medium_bytes ||
        format::extent_end(extent) > superblock_.medium_bytes || !has_region(extent))
      return impossible_extent(extent);
    free_from = format::extent_end(extent);
  }
  return {};
}

bool Volume::has_region(const Extent& extent) const {
  const auto record = std::find_if(regions_.begin(), regions_.end(),
                                   [&](const auto& each) { return each.region == extent.region; });
  return record != regions_.end() && engine_rules(*record).extent_fits(*record, extent);
}

// Each part of a region has one home.
Status Volume::check_homes() const {
  for (const RegionRecord& record : regions_) {
    std::vector<Extent> homes;
    for (const Extent& extent : extents_)
      if (format::has_homes(extent.kind) && extent.region == record.region) homes.push_back(extent);
    std::sort(homes.begin(), homes.end(),
              [](const Extent& a, const Extent& b) { return a.region_offset < b.region_offset; });
    u64 free_from = 0;
    for (const Extent& extent : homes) {
      if (extent.region_offset < free_from || !is_aligned(extent.region_offset, kPageBytes) ||
          extent.region_offset > record.limit_bytes ||
          extent.length > record.limit_bytes - extent.region_offset)
        return impossible_extent(extent);
      free_from = extent.region_offset + extent.length;
    }
  }
  return {};
}

Status Volume::write_directory() {
  const u64 length = sizeof(DirectoryHeader) + regions_.size() * sizeof(RegionRecord) +
                     extents_.size() * sizeof(Extent);
  if (length > format::kDirectoryBytes)
    return Failure{Code::kNoSpace, "the directory of '" + name() +
                                       "' is full; its regions grew in too many pieces: copy the "
                                       "store's content into a new one"};
  AlignedBuffer bytes(round_up(length, kPageBytes));
  std::memset(bytes.data(), 0, bytes.size());
  DirectoryHeader header{};
  header.magic = format::kDirectoryMagic;
  header.region_count = static_cast<u32>(regions_.size());
  header.extent_count = static_cast<u32>(extents_.size());
  header.sequence = superblock_.directory_sequence + 1;
  std::byte* at = bytes.data();
  std::memcpy(at, &header, sizeof header);
  at += sizeof header;
  if (!regions_.empty()) std::memcpy(at, regions_.data(), regions_.size() * sizeof(RegionRecord));
  at += regions_.size() * sizeof(RegionRecord);
  if (!extents_.empty()) std::memcpy(at, extents_.data(), extents_.size() * sizeof(Extent));

  const Superblock before = superblock_;
  superblock_.format_version = format::kFormatVersion;
  superblock_.incompatible_features = features_of_regions();
  superblock_.directory_slot ^= 1;
  superblock_.directory_bytes = static_cast<u32>(length);
  superblock_.directory_sequence = header.sequence;
  superblock_.directory_checksum = checksum(bytes.data(), length);
  // The superblock that was written last refers to the other place.
  Status written = guarded([&] {
    return medium_->write_pages(format::kDirectoryOffset[superblock_.directory_slot], bytes.span(),
                                PERDURA_SITE("directory"));
  });
  if (written) written = write_superblock();
  // Once one slot refers to the new directory, the next one goes to the other place.
  if (!written && superblock_.sequence == before.sequence) superblock_ = before;
  return written;
}

}  // namespace perdura::region
