#include "store/recovery.hpp"

#include <algorithm>

#include "commit/replay.hpp"

namespace perdura::store {
namespace {

constexpr u64 kDefaultLogLimit = 128 * kMiB;
constexpr u64 kLogSegmentsMin = 2;

}  // namespace

Result<std::unique_ptr<region::Volume>> open_volume(std::unique_ptr<media::Medium> medium,
                                                    bool create, u64 segment_bytes,
                                                    bool read_only) {
  PERDURA_ASSIGN(const bool blank, region::Volume::is_blank(*medium));
  if (blank && !create)
    return Failure{Code::kNotFound,
                   "'" + medium->name() + "' holds no store yet; open it with create to make one"};
  std::unique_ptr<region::Volume> volume;
  if (blank) {
    PERDURA_ASSIGN(volume, region::Volume::create(std::move(medium), segment_bytes));
  } else {
    PERDURA_ASSIGN(volume, region::Volume::open(std::move(medium)));
  }
  if (!read_only) PERDURA_TRY(volume->begin_session());
  return volume;
}

Result<Recovery> recover(region::Volume& volume, const format::RegionRecord& region,
                         u64 log_limit) {
  Recovery recovery;
  const u64 limit = std::max(log_limit != 0 ? log_limit : kDefaultLogLimit,
                             kLogSegmentsMin * volume.segment_bytes());
  recovery.space = std::make_unique<log::Space>(volume, region.region, limit);
  const u64 replayed = volume.replayed_version(region.region);
  PERDURA_ASSIGN(recovery.log, log::read(volume, region.region, replayed, *recovery.space));
  const u64 durable = recovery.log.durable_version;
  recovery.space->free_torn(durable, replayed);
  if (durable == replayed || !volume.medium().geometry().byte_addressable) return recovery;
  PERDURA_ASSIGN(auto home, region::HomeMap::of(volume, region));
  commit::Replay replay(volume, region.limit_bytes);
  PERDURA_TRY(replay.run(std::move(home), recovery.log.versions, true));
  // Barrier: the home image is durable before the superblock says that the log is not needed.
  PERDURA_TRY(volume.medium().barrier(PERDURA_SITE("recovered home image")));
  PERDURA_TRY(
      volume.set_replayed(region.region, durable, recovery.space->live_generation_after(durable)));
  recovery.space->retire(durable);
  recovery.log.versions.clear();
  recovery.log.image.reset();
  return recovery;
}

// A record that was read is durable: counting the session had a barrier since it was written.
Result<ChunkRecovery> recover_chunks(region::Volume& volume, const format::RegionRecord& region,
                                     u32 over_provisioning) {
  ChunkRecovery recovery;
  recovery.space = std::make_unique<region::ChunkSpace>(volume, region, over_provisioning);
  PERDURA_ASSIGN(const std::vector<commit::FoundVersion> found,
                 commit::read_versions(volume, region));
  PERDURA_ASSIGN(recovery.versions,
                 commit::recover_versions(volume, region, found, *recovery.space));
  const u64 durable = recovery.durable_version();
  if (durable > volume.replayed_version(region.region))
    PERDURA_TRY(volume.set_replayed(region.region, durable, 0));
  return recovery;
}

Result<ChunkRecovery> recover_chunks_at(region::Volume& volume, const format::RegionRecord& region,
                                        u64 version) {
  PERDURA_ASSIGN(const std::vector<commit::FoundVersion> found,
                 commit::read_versions(volume, region));
  PERDURA_ASSIGN(const format::VersionRecord record, commit::find_version(volume, found, version));
  ChunkRecovery recovery;
  recovery.space = std::make_unique<region::ChunkSpace>(volume, region, 0, true);
  PERDURA_ASSIGN(recovery.versions.map, commit::MapReader(volume, *recovery.space).read(record));
  recovery.versions.kept.push_back(record);
  return recovery;
}

}  // namespace perdura::store
