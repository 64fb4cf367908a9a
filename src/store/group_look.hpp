// Which versions of a group a rank's store can be opened at, and which of them all ranks open.
//
//   each rank takes the writer's lock of its store, and some those of ranks that are no more, and
//   looks at them ─ all get all looks ─ each decides, by the same function of the same looks ─ who
//   is ahead takes back ─ all open
//
// A look writes nothing: nothing is brought home or given up before it is known what all have. The
// locks are held from before the looks: a process of the job that was, which nobody has killed,
// would go on with versions that a look has not seen.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <perdura/options.hpp>

#include "base/result.hpp"
#include "media/medium.hpp"
#include "store/runtime.hpp"

namespace perdura::store {

/// A version of a group. Two of the same number are the same version if they are of the same era.
/// Of number 0: nothing was stored yet.
struct GroupVersion {
  u64 era = 0;
  u64 number = 0;
  u32 ranks = 0;  ///< that have it
  u32 reserved = 0;

  bool is_same(const GroupVersion& other) const {
    return number == other.number && (number == 0 || (era == other.era && ranks == other.ranks));
  }
};

/// What one store is found to be. Sent to the others as it is.
struct GroupLook {
  enum class Kind : u32 {
    kBlank,   ///< nothing is there
    kNew,     ///< a store in which nothing was stored yet
    kMember,  ///< of a group
    kOther,   ///< a store of none
    kFailed,
  };
  Kind kind = Kind::kBlank;
  u32 rank = 0;  ///< that it says it is
  u8 group[16] = {};
  u64 region_version = 0;  ///< the newest
  u32 count = 0;           ///< of versions
  u32 code = 0;            ///< kFailed
  /// That it can be opened at, the newest first: region_version, and the one before.
  GroupVersion versions[2];
  char message[480] = {};  ///< kFailed

  /// Of a version that it has, the region's number.
  std::optional<u64> find(const GroupVersion& version) const;
  void fail(const Failure& failure);
  Failure failure() const;
};

/// The URI or region name of one rank's: %r and %n replaced.
std::string of_rank(std::string_view pattern, u32 rank, u32 ranks);

GroupLook look_at_group(const std::string& uri, const Options& options,
                        const detail::InternalOptions& internal);
/// The newest version of a store, which look_at_group has seen, never was.
Status take_back(std::unique_ptr<media::Medium> medium, const std::string& region, u64 version);
/// The same where this process has the store open for another region.
Status take_back_beside(const std::string& uri, const std::string& region, u64 version);

/// How many stores are to be looked at, of a group that had or has `ranks` ranks: rank 0's look
/// says how many there may have been.
u32 stores_to_look_at(const GroupLook& first, u32 ranks);

struct GroupDecision {
  GroupVersion version;  ///< that all open
  u8 group[16] = {};     ///< of a version that is not 0
};
/// Of the looks at all stores, of rank 0 first, of a group that is opened by `ranks` ranks; `names`
/// says which these are. The newest version that all have. The failure names the rank that lacks
/// it, its store, and what is to be done.
Result<GroupDecision> decide(std::span<const GroupLook> looks, u32 ranks,
                             std::span<const std::string> names);

}  // namespace perdura::store
