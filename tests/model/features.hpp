// What programs are made of, and which two of these met between a version and the end of a session.
#pragma once

#include <bitset>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/bits.hpp"

namespace perdura::model {

enum class Feature : u8 {
  kRedoLog,
  kChunks,
  kCopies,
  kFile,
  kEmulated,
  kReported,
  kBitmap,
  kUserfault,
  kSigbus,
  kProtect,
  kAliases,
  kBackground,
  kTyped,
  kOperation,
  kNestedOperation,
  kTransaction,
  kUndoLogging,
  kRelaxed,
  kOtherDurability,  ///< per write, lazy bulk
  kNoDurability,
  kThrown,
  kOrElse,
  kNestedTransaction,
  kIrrevocable,
  kRetry,
  kAllocate,
  kFree,
  kReallocate,
  kFlexible,
  kLargeBlock,
  kSmallFields,
  kRoot,
  kStandard,
  kNewThread,
  kParallel,
  kAsynchronous,
  kTimer,
  kCheckpointRoot,
  kMoved,
  kReopened,
  kRecovered,
  kFork,
  kMisuse,
  kFull,
  kFault,
  kRegion,
  kVersions,
  kContainer,
  kCApi,
  kSignalsBlocked,
  kThreadEnds,
  kDeletedFile,
  kFullDisk,
  kPins,
  kFunctions,
  kAllocatingTypes,
  kRollback,
  kRemovedRegion,
  kFgck,
  kNoDescriptors,
  kOtherBuild,
  kHeapo,
  kFstm,
  kSoftpm,
  kShared,       ///< objects of another container
  kReadOnly,     ///< looked at by who may not write, or as it is open elsewhere
  kMemoryLimit,  ///< no memory for a while
  kMemcached,
  kCount,
};
constexpr u64 kFeatures = static_cast<u64>(Feature::kCount);

using FeatureSet = std::bitset<kFeatures>;
inline FeatureSet bit(Feature feature) { return FeatureSet().set(static_cast<size_t>(feature)); }
const char* name_of(Feature feature);

/// Why no program has both; nullptr: programs may.
const char* impossible(Feature one, Feature other);

/// Which pairs were crossed, and how often.
class Pairs {
 public:
  void add(const FeatureSet& features);
  /// As numbers, for another process: of all pairs, in order.
  std::vector<u64> counts() const;
  void add_counts(const std::vector<u64>& counts);
  u64 possible() const;
  u64 crossed() const;
  double share() const;
  nlohmann::json json() const;
  /// Of each feature: with how many of the possible ones it met, and those that it did not.
  std::string table() const;

 private:
  u64 count_[kFeatures][kFeatures] = {};
};

}  // namespace perdura::model
