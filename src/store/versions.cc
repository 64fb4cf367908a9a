#include "store/versions.hpp"

#include <time.h>

#include <unordered_set>

#include "base/aligned_buffer.hpp"
#include "store/recovery.hpp"
#include "store/shared_volume.hpp"

namespace perdura::store {

using commit::FoundVersion;
using commit::RecordState;
using format::ChunkEntry;
using format::VersionRecord;

VersionDescription describe_version(const VersionRecord& record) {
  return {.number = record.version,
          .time_ns = record.time_ns,
          .origin = record.origin,
          .changed_chunks = record.changed_chunks,
          .written_bytes = record.changed_bytes,
          .backed_bytes = record.backed_bytes};
}

void VersionsCheck::run(region::Volume& volume, const format::RegionRecord& region,
                        const std::vector<FoundVersion>& versions, const region::ChunkSpace& space,
                        const Note& note, const Progress& progress) {
  if (versions.empty()) return;
  const auto records = commit::version_records(volume, region);
  if (!records) return;  // they were read
  commit::MapReader reader(volume, space);
  AlignedBuffer buffer(region.chunk_bytes);
  std::unordered_set<u64> seen;
  u64 done = 0;
  // The newest one first: what others share with it is seen once.
  for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
    const VersionRecord& record = version->record;
    const std::string number = std::to_string(record.version);
    for (u64 copy = 0; copy < 2; ++copy) {
      if (version->copies[copy] == RecordState::kWhole) continue;
      const u64 place =
          records->medium_offset + format::version_record_offset(region, record.version, copy);
      note({Finding::Severity::kNote, "versions",
            "copy " + std::to_string(copy + 1) + " of the record of version " + number +
                " does not fit its checksum (medium offset " + std::to_string(place) +
                "); the other copy is used, and a power failure while they were written explains "
                "it",
            region.name, place, std::nullopt});
    }
    const Status walked =
        reader.walk(record, [&](u32 level, u64 index, const ChunkEntry& entry) -> Result<bool> {
          if (!seen.insert(entry.place).second) return false;
          if (level != 0) {
            ++nodes;
            return true;
          }
          progress("verifying the chunks", done, space.total_bytes());
          done += region.chunk_bytes;
          const Status whole = reader.read_chunk(index, entry, buffer.first(region.chunk_bytes));
          if (whole) ++chunks;
          else
            note({Finding::Severity::kDamage, "chunks",
                  "version " + number + ": " + whole.failure().message, region.name, entry.place,
                  index * region.chunk_bytes});
          return true;
        });
    if (!walked)
      note({Finding::Severity::kDamage, "map",
            "version " + number + ": " + walked.failure().message, region.name, std::nullopt,
            std::nullopt});
  }
  progress("verifying the chunks", space.total_bytes(), space.total_bytes());
}

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

Result<std::unique_ptr<media::Medium>> open_existing(std::string_view uri,
                                                     media::MediumOptions options) {
  options.create = false;
  PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri, options));
  return std::move(opened.medium);
}

// In a slot of its own, whatever versions there are.
u64 number_after(u64 newest, const VersionRecord& origin, const format::RegionRecord& region) {
  const u64 slots = format::version_slots(region);
  const u64 next = newest + 1;
  return next % slots == origin.version % slots ? next + 1 : next;
}

Result<u64> try_roll_back(std::unique_ptr<media::Medium> medium, std::string_view name, u64 version,
                          const Progress& progress) {
  PERDURA_ASSIGN(auto volume, open_volume(std::move(medium), false, 0));
  PERDURA_ASSIGN(const format::RegionRecord region, find_region(*volume, name));
  if (region.chunk_bytes == 0)
    return Failure{Code::kUnsupported, "region '" + std::string(region.name) + "' of '" +
                                           volume->name() +
                                           "' has a redo log and keeps its newest version alone"};
  PERDURA_ASSIGN(const std::vector<FoundVersion> found,
                 commit::read_versions(*volume, region, commit::Newest::kMayBeLost));
  PERDURA_ASSIGN(const VersionRecord origin, commit::find_version(*volume, found, version));
  const region::ChunkSpace space(*volume, region, 0);
  PERDURA_TRY(verify(*volume, space, origin, progress));

  VersionRecord record = origin;
  record.version =
      number_after(std::max(found.back().record.version, volume->replayed_version(region.region)),
                   origin, region);
  record.origin = version;
  record.changed_chunks = record.changed_bytes = 0;
  PERDURA_TRY(commit::write_version(*volume, region, record));
  PERDURA_TRY(volume->set_replayed(region.region, record.version, 0));
  PERDURA_TRY(volume->end_session());
  return record.version;
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
