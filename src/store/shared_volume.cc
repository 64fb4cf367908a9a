#include "store/shared_volume.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "base/process.hpp"

namespace perdura::store {
namespace {

constexpr const char* kFirstName = "main";

std::string_view name_of(const format::RegionRecord& record) {
  return {record.name, ::strnlen(record.name, sizeof record.name)};
}

std::string names_of(const std::vector<format::RegionRecord>& regions) {
  if (regions.empty()) return "none";
  std::string names;
  for (const format::RegionRecord& record : regions) {
    if (!names.empty()) names += ", ";
    names += "'";
    names += name_of(record);
    names += "'";
  }
  return names;
}

}  // namespace

Result<format::RegionRecord> find_region(const region::Volume& volume, std::string_view name) {
  const std::vector<format::RegionRecord> regions = volume.regions();
  const auto found = std::find_if(regions.begin(), regions.end(), [&](const auto& each) {
    return name.empty() || name_of(each) == name;
  });
  if (found != regions.end()) return *found;
  return Failure{Code::kNotFound, "'" + volume.name() + "' has no region" +
                                      (name.empty() ? "" : " '" + std::string(name) + "'") +
                                      "; it has " + names_of(regions)};
}

/// A medium of this process. Its mutex is held while it is opened and closed, so that nobody finds
/// it half open.
struct SharedVolume::Opened {
  std::mutex mutex;
  std::unique_ptr<region::Volume> volume;  ///< nullptr: nobody has it open
  u64 users = 0;
  std::string occupant;               ///< of its place, when it was opened
  std::map<u32, std::string> claims;  ///< numbers and names of regions
  u64 generation = process_generation();
};

struct SharedVolume::Registry {
  std::mutex& mutex = process_mutex(ProcessMutex::kVolumes);
  std::map<std::string, std::shared_ptr<Opened>, std::less<>> opened;  ///< by their places

  /// Of what is there now, not of a file that has gone.
  std::shared_ptr<Opened> at(const std::string& place) {
    std::lock_guard lock(mutex);
    std::shared_ptr<Opened>& found = opened[place];
    if (!found) found = std::make_shared<Opened>();
    return found;
  }
  void replace(const std::string& place, const std::shared_ptr<Opened>& old) {
    std::lock_guard lock(mutex);
    std::shared_ptr<Opened>& found = opened[place];
    if (found == old) found = std::make_shared<Opened>();
  }
  void forget_unused() {
    std::lock_guard lock(mutex);
    std::erase_if(opened, [](const auto& each) { return each.second.use_count() == 1; });
  }
};

SharedVolume::Registry& SharedVolume::registry() {
  static constinit PerProcess<Registry> registry;
  return registry.get();
}

Result<std::unique_ptr<SharedVolume>> SharedVolume::of(std::string_view uri, const Open& open) {
  for (;;) {
    const std::string place = media::place_of(uri);
    const std::shared_ptr<Opened> opened = registry().at(place);
    std::lock_guard lock(opened->mutex);
    if (opened->volume == nullptr) {
      PERDURA_ASSIGN(opened->volume, open());
      opened->occupant = media::occupant_of(uri);
    } else if (opened->occupant != media::occupant_of(uri)) {
      registry().replace(place, opened);
      continue;
    } else {
      PERDURA_TRY(opened->volume->begin_session());
    }
    std::unique_ptr<SharedVolume> shared(new SharedVolume(opened));
    ++opened->users;
    return shared;
  }
}

std::unique_ptr<SharedVolume> SharedVolume::of_reader(std::unique_ptr<region::Volume> volume) {
  const auto opened = std::make_shared<Opened>();
  opened->volume = std::move(volume);
  opened->users = 1;
  return std::unique_ptr<SharedVolume>(new SharedVolume(opened));
}

// A forked child leaves its parent's alone.
SharedVolume::~SharedVolume() {
  if (!forked_since(opened_->generation)) {
    std::lock_guard lock(opened_->mutex);
    opened_->claims.erase(region_);
    if (--opened_->users == 0) opened_->volume.reset();
  }
  opened_.reset();
  registry().forget_unused();
}

region::Volume& SharedVolume::volume() const { return *opened_->volume; }

Result<SharedVolume::Claim> SharedVolume::claim(std::string_view name, bool create) {
  std::lock_guard lock(opened_->mutex);
  const region::Volume& volume = *opened_->volume;
  Claim claim{};
  auto found = find_region(volume, name);
  if (!found && !create) return found.failure();
  claim.is_new = !found;
  if (found) claim.record = *found;
  if (name.empty()) name = found ? name_of(claim.record) : kFirstName;
  for (const auto& [region, claimed] : opened_->claims)
    if (claimed == name)
      return Failure{Code::kLocked, "region '" + claimed + "' of '" + volume.name() +
                                        "' is open in process " + std::to_string(::getpid()) +
                                        " (" + program_invocation_short_name +
                                        "), which is this process; a region has one opener at a "
                                        "time: close it there first"};
  if (claim.is_new) {
    const std::vector<format::RegionRecord> regions = volume.regions();
    const auto taken = [&](u32 number) {
      return opened_->claims.contains(number) ||
             std::any_of(regions.begin(), regions.end(),
                         [number](const auto& each) { return each.region == number; });
    };
    claim.record.region = 1;
    while (taken(claim.record.region)) ++claim.record.region;
    if (claim.record.region > format::kRegionsMax)
      return Failure{Code::kNoSpace,
                     "'" + volume.name() + "' has " + std::to_string(format::kRegionsMax) +
                         " regions, as many as a store can have: " + names_of(regions) +
                         "; remove one, or use another store"};
    name.copy(claim.record.name, format::kRegionNameMax);
  }
  opened_->claims.emplace(claim.record.region, name);
  region_ = claim.record.region;
  return claim;
}

}  // namespace perdura::store
