#include "store/recovery.hpp"

#include <algorithm>

#include "commit/pins.hpp"
#include "commit/replay.hpp"
#include "store/identity.hpp"
#include "store/pinned.hpp"

namespace perdura::store {
namespace {

constexpr u64 kDefaultLogLimit = 128 * kMiB;
constexpr u64 kLogSegmentsMin = 2;

}  // namespace

Result<std::unique_ptr<region::Volume>> open_volume(std::unique_ptr<media::Medium> medium,
                                                    bool create, u64 segment_bytes) {
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
  PERDURA_TRY(volume->begin_session());
  // A restore that ended early, or was removed, has left the identity of its original. Nobody else
  // has the volume yet: what a region writes has the identity from its first byte.
  if (!blank && create && volume->regions().empty()) PERDURA_TRY(become_another(*volume));
  return volume;
}

Result<std::unique_ptr<media::Medium>> open_existing(std::string_view uri,
                                                     media::MediumOptions options) {
  options.create = false;
  PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri, options));
  return std::move(opened.medium);
}

Result<std::unique_ptr<region::Volume>> open_volume_to_read(std::unique_ptr<media::Medium> medium) {
  PERDURA_ASSIGN(const bool blank, region::Volume::is_blank(*medium));
  if (blank)
    return Failure{Code::kNotFound, "'" + medium->name() + "' holds no store: it is empty"};
  return region::Volume::open_to_read(std::move(medium));
}

namespace {

/// What is home from now on of the versions that a recovery has found, beside readers that let it.
Status bring_home(region::Volume& volume, const format::RegionRecord& region,
                  std::span<const log::LoggedVersion> versions, log::Space& space) {
  const u64 newest = versions.back().number;
  PERDURA_ASSIGN(auto home, region::HomeMap::of(volume, region));
  // As before each replay: rot in their log must not be taken for a crash from now on.
  PERDURA_TRY(volume.confirm(region.region, newest));
  commit::Replay replay(volume, region.limit_bytes);
  PERDURA_TRY(replay.run(std::move(home), versions, true));
  // Barrier: the home image is durable before the superblock says that the log is not needed.
  PERDURA_TRY(volume.medium().barrier(PERDURA_SITE("recovered home image")));
  PERDURA_TRY(volume.set_replayed(region.region, newest, space.live_generation_after(newest)));
  // A reader that began before that has pinned less, and reads the log of these versions.
  space.retire(std::min(newest, commit::Pins(volume.medium(), region.region).lowest()));
  return {};
}

}  // namespace

Result<Recovery> recover(region::Volume& volume, const format::RegionRecord& region,
                         u64 log_limit) {
  Recovery recovery;
  const u64 limit = std::max(log_limit != 0 ? log_limit : kDefaultLogLimit,
                             kLogSegmentsMin * volume.segment_bytes());
  recovery.space = std::make_unique<log::Space>(volume, region.region, limit);
  const u64 replayed = volume.replayed_version(region.region);
  if (volume.take_ended_log(region.region) && volume.confirmed_version(region.region) <= replayed) {
    // Not even the heads of its segments are looked at: each would be a read of its own.
    recovery.log.durable_version = replayed;
    return recovery;
  }
  // What readers keep from coming home is put over the home image in memory. Its log is given back
  // when they have gone, which nobody waits for: so it is in memory as well.
  const u64 pinned = commit::Pins(volume.medium(), region.region).lowest();
  const bool is_read = pinned != media::Medium::kNoPin;
  using Where = log::Image::Where;
  PERDURA_ASSIGN(recovery.log, log::read(volume, region.region, replayed, *recovery.space,
                                         is_read ? Where::kInMemory : Where::kAsTheMediumHasIt));
  const u64 durable = recovery.log.durable_version;
  recovery.space->free_torn(durable, replayed);
  if (!volume.medium().geometry().byte_addressable) return recovery;
  std::vector<log::LoggedVersion>& versions = recovery.log.versions;
  const auto stays = std::ranges::find_if(
      versions, [pinned](const log::LoggedVersion& each) { return each.number > pinned; });
  if (stays == versions.begin()) return recovery;
  PERDURA_TRY(bring_home(volume, region, {versions.begin(), stays}, *recovery.space));
  versions.erase(versions.begin(), stays);
  if (versions.empty()) recovery.log.image.reset();
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
                 commit::recover_versions(volume, region, found, *recovery.space,
                                          commit::Pins(volume.medium(), region.region).lowest()));
  const u64 durable = recovery.durable_version();
  if (durable > volume.replayed_version(region.region))
    PERDURA_TRY(volume.set_replayed(region.region, durable, 0));
  return recovery;
}

Result<ChunkRecovery> recover_chunks_at(region::Volume& volume, const format::RegionRecord& region,
                                        u64 version) {
  PERDURA_ASSIGN(
      const std::vector<commit::FoundVersion> found,
      version != 0 ? pin_versions(volume, region, version) : pin_newest_version(volume, region));
  ChunkRecovery recovery;
  recovery.space = std::make_unique<region::ChunkSpace>(volume, region, 0, true);
  if (found.empty()) return recovery;
  const format::VersionRecord& record = found.front().record;
  PERDURA_ASSIGN(recovery.versions.map, commit::MapReader(volume, *recovery.space).read(record));
  recovery.versions.kept.push_back(record);
  return recovery;
}

}  // namespace perdura::store
