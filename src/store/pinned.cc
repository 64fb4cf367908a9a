#include "store/pinned.hpp"

#include <algorithm>
#include <functional>

namespace perdura::store {
namespace {

using commit::FoundVersion;

// Each further attempt follows an update that the writer made during the one before: space that it
// took, a session that it began, a version that it brought home or kept no more.
constexpr int kAttemptsMax = 1000;

Failure too_busy(const region::Volume& volume) {
  return {Code::kLocked, "'" + volume.name() +
                             "' is written to so fast that no version of it could be pinned; try "
                             "again"};
}

// Its directory may have changed since the region was found in it.
Status check_is_there(const region::Volume& volume, const format::RegionRecord& region) {
  for (const format::RegionRecord& each : volume.regions())
    if (each.region == region.region && std::equal(each.name, std::end(each.name), region.name))
      return {};
  return Failure{Code::kNotFound, "region '" + std::string(region.name) + "' of '" + volume.name() +
                                      "' was removed while it was being opened"};
}

}  // namespace

// A session that has begun meanwhile may be another process's, which did not ask for pins when it
// found which of the log is free.
Result<PinnedLog> pin_log(region::Volume& volume, const format::RegionRecord& region) {
  const u32 number = region.region;
  media::Medium& medium = volume.medium();
  for (int attempts = 0; attempts < kAttemptsMax; ++attempts) {
    const u64 replayed = volume.replayed_version(number);
    PERDURA_TRY(medium.pin(number, replayed));
    PERDURA_TRY(volume.look_again());
    PERDURA_TRY(check_is_there(volume, region));
    if (volume.replayed_version(number) != replayed) continue;
    const region::Volume::State state = volume.state();
    auto log = log::read_beside_writer(volume, number, replayed);
    if (log) PERDURA_TRY(medium.pin(number, log->durable_version));
    PERDURA_TRY(volume.look_again());
    if (volume.state().session != state.session) continue;
    // Where the writer has taken space meanwhile what is there may be missed; what was read without
    // missing anything is whole all the same. To ask for more would never end beside a writer that
    // takes space all the time, which it does since what is pinned here does not come home.
    if (!log && volume.state() != state) continue;
    if (!log) return log.failure();
    return PinnedLog{std::move(*log), replayed};
  }
  return too_busy(volume);
}

// The writer looks for pins when its newest version is durable, before it writes the next one.
Result<u64> pin_copy(region::Volume& volume, const format::RegionRecord& region) {
  for (int attempts = 0; attempts < kAttemptsMax; ++attempts) {
    const u64 newest = volume.replayed_version(region.region);
    PERDURA_TRY(volume.medium().pin(region.region, newest));
    PERDURA_TRY(volume.look_again());
    PERDURA_TRY(check_is_there(volume, region));
    if (volume.replayed_version(region.region) == newest) return newest;
  }
  return too_busy(volume);
}

namespace {

/// `choose` says which is the lowest of those that are wanted; 0: there is none.
Result<std::vector<FoundVersion>> pin_from(
    region::Volume& volume, const format::RegionRecord& region,
    const std::function<Result<u64>(const std::vector<FoundVersion>&)>& choose) {
  for (int attempts = 0; attempts < kAttemptsMax; ++attempts) {
    PERDURA_TRY(check_is_there(volume, region));
    PERDURA_ASSIGN(std::vector<FoundVersion> found, commit::read_versions(volume, region));
    PERDURA_ASSIGN(const u64 lowest, choose(found));
    PERDURA_TRY(volume.medium().pin(region.region, lowest));
    PERDURA_TRY(volume.look_again());
    PERDURA_TRY(check_is_there(volume, region));
    PERDURA_ASSIGN(found, commit::read_versions(volume, region));
    const auto first = std::ranges::find_if(
        found, [lowest](const FoundVersion& each) { return each.record.version >= lowest; });
    const bool is_kept = first != found.end() && first->record.version == lowest;
    if (!is_kept && !(found.empty() && lowest == 0)) continue;
    found.erase(found.begin(), first);
    return found;
  }
  return too_busy(volume);
}

}  // namespace

Result<std::vector<FoundVersion>> pin_versions(region::Volume& volume,
                                               const format::RegionRecord& region, u64 version) {
  const auto choose = [&](const std::vector<FoundVersion>& found) -> Result<u64> {
    if (version == 0) return found.empty() ? 0 : found.front().record.version;
    PERDURA_ASSIGN(const format::VersionRecord record,
                   commit::find_version(volume, found, version));
    return record.version;
  };
  PERDURA_ASSIGN(std::vector<FoundVersion> found, pin_from(volume, region, choose));
  if (version != 0) found.resize(1);
  return found;
}

Result<std::vector<FoundVersion>> pin_newest_version(region::Volume& volume,
                                                     const format::RegionRecord& region) {
  const auto choose = [](const std::vector<FoundVersion>& found) -> Result<u64> {
    return found.empty() ? 0 : found.back().record.version;
  };
  PERDURA_ASSIGN(std::vector<FoundVersion> found, pin_from(volume, region, choose));
  if (!found.empty()) found.resize(1);
  return found;
}

}  // namespace perdura::store
