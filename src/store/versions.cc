#include "store/versions.hpp"

#include <algorithm>

#include "base/aligned_buffer.hpp"
#include "commit/version_map.hpp"
#include "store/recovery.hpp"
#include "store/shared_volume.hpp"
#include "store/storage.hpp"

namespace perdura::store {

using commit::FoundVersion;
using format::ChunkEntry;
using format::VersionRecord;

namespace {

Status verify(region::Volume& volume, const region::ChunkSpace& space, const VersionRecord& record,
              const Progress& progress) {
  commit::MapReader reader(volume, space);
  AlignedBuffer buffer(record.chunk_bytes);
  return reader.walk(record, [&](u32 level, u64 index, const ChunkEntry& entry) -> Result<bool> {
    if (level != 0) return true;
    progress("verifying the version", index * record.chunk_bytes, record.backed_bytes);
    PERDURA_TRY(reader.read_chunk(index, entry, buffer.first(record.chunk_bytes)));
    return true;
  });
}

// In a slot of its own, whatever versions there are.
u64 number_after(u64 newest, const VersionRecord& origin, const format::RegionRecord& region) {
  const u64 slots = format::version_slots(region);
  const u64 next = newest + 1;
  return next % slots == origin.version % slots ? next + 1 : next;
}

}  // namespace

Result<u64> roll_chunks_back(region::Volume& volume, const format::RegionRecord& region,
                             u64 version, const Progress& progress) {
  PERDURA_ASSIGN(const std::vector<FoundVersion> found,
                 commit::read_versions(volume, region, commit::Newest::kMayBeLost));
  PERDURA_ASSIGN(const VersionRecord origin, commit::find_version(volume, found, version));
  const region::ChunkSpace space(volume, region, 0);
  PERDURA_TRY(verify(volume, space, origin, progress));

  VersionRecord record = origin;
  record.version =
      number_after(std::max(found.back().record.version, volume.replayed_version(region.region)),
                   origin, region);
  record.origin = version;
  record.changed_chunks = record.changed_bytes = 0;
  PERDURA_TRY(commit::write_version(volume, region, record));
  PERDURA_TRY(volume.set_replayed(region.region, record.version, 0));
  return record.version;
}

// Its chunks are nobody's then; the next opening finds that.
Status take_chunks_back(region::Volume& volume, const format::RegionRecord& region, u64 version) {
  PERDURA_ASSIGN(const std::vector<FoundVersion> found, commit::read_versions(volume, region));
  if (found.size() < 2 || found.back().record.version != version ||
      found[found.size() - 2].record.version != version - 1)
    return Failure{Code::kMisuse, "version " + std::to_string(version) + " of '" + volume.name() +
                                      "' cannot be taken back: it is not the newest one, or the "
                                      "one before it is not kept"};
  return commit::erase_version(volume, region, version);
}

namespace {

Result<u64> try_roll_back(std::unique_ptr<media::Medium> medium, std::string_view name, u64 version,
                          const Progress& progress) {
  PERDURA_ASSIGN(auto volume, open_volume(std::move(medium), false, 0));
  PERDURA_ASSIGN(const format::RegionRecord region, find_region(*volume, name));
  PERDURA_TRY(volume->check_finished(region));
  PERDURA_ASSIGN(const u64 made, engine_kind(region).roll_back(*volume, region, version, progress));
  PERDURA_TRY(volume->end_session());
  return made;
}

}  // namespace

Result<u64> roll_back(std::string_view uri, std::string_view region, u64 version,
                      const media::MediumOptions& options, const Progress& progress) {
  return guarded([&]() -> Result<u64> {
    PERDURA_ASSIGN(auto medium, open_existing(uri, options));
    return try_roll_back(std::move(medium), region, version, progress);
  });
}

Result<u64> roll_back(std::unique_ptr<media::Medium> medium, std::string_view region, u64 version,
                      const Progress& progress) {
  return guarded([&] { return try_roll_back(std::move(medium), region, version, progress); });
}

Status remove_region(std::string_view uri, std::string_view region,
                     const media::MediumOptions& options) {
  return guarded([&]() -> Status {
    PERDURA_ASSIGN(auto medium, open_existing(uri, options));
    return remove_region(std::move(medium), region);
  });
}

Status remove_region(std::unique_ptr<media::Medium> medium, std::string_view region) {
  return guarded([&]() -> Status {
    if (region.empty())
      return Failure{Code::kInvalidArgument, "the name of the region to be removed is missing"};
    PERDURA_ASSIGN(auto volume, open_volume(std::move(medium), false, 0));
    PERDURA_ASSIGN(const format::RegionRecord record, find_region(*volume, region));
    PERDURA_TRY(volume->remove_region(record.region));
    return volume->end_session();
  });
}

}  // namespace perdura::store
