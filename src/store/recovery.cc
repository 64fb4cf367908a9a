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
  recovery.log = std::make_unique<commit::Log>(volume, region.region, limit);
  const u64 replayed = volume.replayed_version(region.region);
  PERDURA_ASSIGN(recovery.unreplayed,
                 commit::read_log(volume, region.region, replayed, *recovery.log));
  std::vector<commit::LoggedVersion>& versions = recovery.unreplayed.versions;
  recovery.durable_version = replayed + versions.size();
  PERDURA_ASSIGN(recovery.transactions,
                 commit::read_transactions(volume, recovery.unreplayed, recovery.durable_version));
  recovery.log->free_torn(recovery.durable_version, replayed);
  if (versions.empty() || !volume.medium().geometry().byte_addressable) return recovery;
  PERDURA_ASSIGN(auto home, region::HomeMap::of(volume, region));
  commit::Replay replay(volume, region.limit_bytes);
  PERDURA_TRY(replay.run(std::move(home), versions, true));
  // Barrier: the home image is durable before the superblock says that the log is not needed.
  PERDURA_TRY(volume.medium().barrier(PERDURA_SITE("recovered home image")));
  PERDURA_TRY(volume.set_replayed(region.region, recovery.durable_version,
                                  recovery.log->live_generation_after(recovery.durable_version)));
  recovery.log->retire(recovery.durable_version);
  recovery.unreplayed = {};
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
