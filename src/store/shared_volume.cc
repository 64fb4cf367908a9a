#include "store/shared_volume.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "base/process.hpp"
#include "store/check_options.hpp"
#include "store/look_again.hpp"
#include "store/recovery.hpp"

namespace perdura::store {
namespace {

constexpr const char* kFirstName = "main";

std::string names_of(const std::vector<format::RegionRecord>& regions) {
  if (regions.empty()) return "none";
  std::string names;
  for (const format::RegionRecord& record : regions) {
    if (!names.empty()) names += ", ";
    names += "'";
    names += region::region_name(record);
    names += "'";
  }
  return names;
}

}  // namespace

Result<format::RegionRecord> find_region(const region::Volume& volume, std::string_view name) {
  const std::vector<format::RegionRecord> regions = volume.regions();
  const auto found = std::find_if(regions.begin(), regions.end(), [&](const auto& each) {
    return name.empty() || region::region_name(each) == name;
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
  std::shared_ptr<SharedMemory> memory;    ///< nullptr: it is this process's alone
  u64 users = 0;
  std::string occupant;  ///< of its place, when it was opened
  /// Of the claims. Not the other one, under which a store is left or joined that processes share:
  /// that takes the lock which all of them have, and who claims a region has it already.
  std::mutex claims_mutex;
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

struct SharedVolume::Opening {
  std::unique_ptr<region::Volume> volume;
  std::shared_ptr<SharedMemory> memory;
};

namespace {

constexpr u64 kSegmentBytes = format::kSegmentBytesMax;

}  // namespace

Result<std::unique_ptr<SharedVolume>> SharedVolume::of(std::string_view uri, const Open& open) {
  return of(uri, false, [&]() -> Result<Opening> {
    Opening opening;
    PERDURA_ASSIGN(opening.volume, open());
    // It has the store for itself; so those who shared it, if anybody did, have all died.
    constexpr u64 kObjects = format::kFeatureObjects | format::kFeatureOverflow;
    if ((opening.volume->superblock().incompatible_features & kObjects) != 0)
      SharedMemory::remove_left(*opening.volume);
    return opening;
  });
}

// The first one finds the store as a crash or a close has left it, alone; the others find it as it
// is said to be under the lock.
Result<std::unique_ptr<SharedVolume>> SharedVolume::among_processes(std::string_view uri,
                                                                    bool create,
                                                                    const OpenMedium& open) {
  return of(uri, true, [&]() -> Result<Opening> {
    Opening opening;
    for (int looks = 0;; ++looks) {
      PERDURA_ASSIGN(std::unique_ptr<media::Medium> medium, open());
      if (medium->sharing() == nullptr)
        return Failure{Code::kUnsupported, "'" + medium->name() +
                                               "' cannot be shared by processes; use file:, emu: "
                                               "or dax:"};
      media::FileLock& lock = *medium->sharing();
      PERDURA_ASSIGN(const bool has_others, lock.ask_for_others(medium->name()));
      if (!has_others) {
        PERDURA_ASSIGN(opening.volume, open_volume(std::move(medium), create, kSegmentBytes));
        PERDURA_ASSIGN(opening.memory, SharedMemory::create(*opening.volume));
        lock.stay();
        return opening;
      }
      auto volume = region::Volume::open(std::move(medium));
      if (volume) {
        opening.volume = std::move(*volume);
        PERDURA_ASSIGN(opening.memory, SharedMemory::join(*opening.volume));
        lock.stay();
        return opening;
      }
      if (looks == kLooksMax) return volume.failure();
      std::this_thread::sleep_for(kLookAgain);
    }
  });
}

Result<std::unique_ptr<SharedVolume>> SharedVolume::of(
    std::string_view uri, bool among_processes, const std::function<Result<Opening>()>& open) {
  // What may fail comes first: a store that is open has a user.
  std::unique_ptr<SharedVolume> shared(new SharedVolume(nullptr));
  for (;;) {
    const std::string place = media::place_of(uri);
    const std::shared_ptr<Opened> opened = registry().at(place);
    std::lock_guard lock(opened->mutex);
    if (opened->volume == nullptr) {
      PERDURA_ASSIGN(Opening opening, open());
      opened->occupant = media::occupant_of(uri);
      opened->volume = std::move(opening.volume);
      opened->memory = std::move(opening.memory);
    } else if (opened->occupant != media::occupant_of(uri)) {
      registry().replace(place, opened);
      continue;
    } else if (among_processes != (opened->memory != nullptr)) {
      return Failure{Code::kLocked,
                     "'" + opened->volume->name() + "' is open in this process, which " +
                         (among_processes ? "has it for itself" : "shares it with others") +
                         ": all of it is shared, as regions of objects, or none; close it first"};
    } else if (!among_processes) {
      PERDURA_TRY(opened->volume->begin_session());
    }
    shared->opened_ = opened;
    shared->has_unused_session_ = !among_processes;
    ++opened->users;
    return shared;
  }
}

namespace {

Failure region_is_open(const std::string& region, const std::string& name) {
  return {Code::kLocked, "region '" + region + "' of '" + name + "' is open in process " +
                             std::to_string(::getpid()) + " (" + program_invocation_short_name +
                             "), which is this process; a region has one opener at a time: close "
                             "it there first"};
}

}  // namespace

Result<bool> SharedVolume::is_open(std::string_view uri, std::string_view region) {
  const std::shared_ptr<Opened> opened = registry().at(media::place_of(uri));
  std::lock_guard lock(opened->mutex);
  if (opened->volume == nullptr || opened->occupant != media::occupant_of(uri)) return false;
  std::lock_guard claims_lock(opened->claims_mutex);
  const auto found = find_region(*opened->volume, region);
  if (found)
    if (const auto claim = opened->claims.find(found->region); claim != opened->claims.end())
      return region_is_open(claim->second, opened->volume->name());
  return true;
}

std::unique_ptr<SharedVolume> SharedVolume::of_reader(std::unique_ptr<region::Volume> volume) {
  const auto opened = std::make_shared<Opened>();
  opened->volume = std::move(volume);
  opened->users = 1;
  return std::unique_ptr<SharedVolume>(new SharedVolume(opened));
}

// A forked child leaves its parent's alone.
SharedVolume::~SharedVolume() {
  if (!opened_) return;
  if (!forked_since(opened_->generation)) {
    std::lock_guard lock(opened_->mutex);
    {
      std::lock_guard claims_lock(opened_->claims_mutex);
      opened_->claims.erase(region_);
    }
    // Of a use that was refused. Where this is not durable the next opening looks at all of it.
    if (has_unused_session_) (void)opened_->volume->end_session();
    if (--opened_->users == 0) {
      if (opened_->memory) opened_->memory->leave();
      opened_->memory.reset();
      opened_->volume.reset();
    }
  }
  opened_.reset();
  registry().forget_unused();
}

region::Volume& SharedVolume::volume() const { return *opened_->volume; }

const std::shared_ptr<SharedMemory>& SharedVolume::memory() const { return opened_->memory; }

// Where processes share it, the last one of them does so when it leaves.
Status SharedVolume::end_session() {
  has_unused_session_ = false;
  return opened_->memory ? Status{} : opened_->volume->end_session();
}

Result<SharedVolume::Claim> SharedVolume::claim(std::string_view name, bool create) {
  PERDURA_TRY(check_region_name(name));  // two that begin alike would be one in the directory
  std::lock_guard lock(opened_->claims_mutex);
  const region::Volume& volume = *opened_->volume;
  Claim claim{};
  auto found = find_region(volume, name);
  if (!found && !create) return found.failure();
  claim.is_new = !found;
  if (found) claim.record = *found;
  if (name.empty()) name = found ? region::region_name(claim.record) : kFirstName;
  for (const auto& [region, claimed] : opened_->claims)
    if (claimed == name) return region_is_open(claimed, volume.name());
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
  has_unused_session_ = false;
  return claim;
}

}  // namespace perdura::store
