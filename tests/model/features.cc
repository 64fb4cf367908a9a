#include "features.hpp"

#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

namespace perdura::model {
namespace {

constexpr const char* kNames[] = {
    "redo log",     "chunks",     "copies",     "file",        "emulated",
    "reported",     "bitmap",     "userfault",  "sigbus",      "protect",
    "aliases",      "background", "typed",      "operation",   "nested op",
    "transaction",  "undo",       "relaxed",    "other ways",  "no durability",
    "thrown",       "or_else",    "nested tx",  "irrevocable", "retry",
    "allocate",     "free",       "reallocate", "flexible",    "large block",
    "small fields", "root",       "standard",   "new thread",  "parallel",
    "asynchronous", "timer",      "one root",   "moved",       "reopened",
    "recovered",    "fork",       "misuse",     "full",        "fault",
    "region",       "versions",   "container",  "C",           "no signals",
    "ends inside",  "deleted",    "full disk",  "pins",        "functions",
    "allocating",   "rollback",   "removed",    "FGCK",        "no files",
    "other build",  "HEAPO",      "F-STM",      "SoftPM",      "shared",
    "read only",    "no memory",  "memcached"};
static_assert(std::size(kNames) == kFeatures);

/// One of each group in a session: a store is of one kind.
const FeatureSet kGroups[] = {
    bit(Feature::kRedoLog) | bit(Feature::kChunks) | bit(Feature::kCopies),
    bit(Feature::kFile) | bit(Feature::kEmulated) | bit(Feature::kMemcached),
    bit(Feature::kReported) | bit(Feature::kBitmap) | bit(Feature::kUserfault) |
        bit(Feature::kSigbus) | bit(Feature::kProtect),
    bit(Feature::kReopened) | bit(Feature::kRecovered),
};

const FeatureSet kOfTransactions =
    bit(Feature::kTransaction) | bit(Feature::kUndoLogging) | bit(Feature::kRelaxed) |
    bit(Feature::kOtherDurability) | bit(Feature::kNoDurability) | bit(Feature::kThrown) |
    bit(Feature::kOrElse) | bit(Feature::kNestedTransaction) | bit(Feature::kIrrevocable) |
    bit(Feature::kRetry) | bit(Feature::kAllocatingTypes);

const FeatureSet kReporting = bit(Feature::kReported) | bit(Feature::kBitmap);

}  // namespace

const char* name_of(Feature feature) { return kNames[static_cast<u64>(feature)]; }

const char* impossible(Feature one, Feature other) {
  const FeatureSet both = bit(one) | bit(other);
  const auto meet = [&](const FeatureSet& some, const FeatureSet& others) {
    return ((bit(one) & some).any() && (bit(other) & others).any()) ||
           ((bit(other) & some).any() && (bit(one) & others).any());
  };
  for (const FeatureSet& group : kGroups)
    if ((both & ~group).none()) return "a session has one of them";
  if (meet(kOfTransactions, bit(Feature::kChunks) | bit(Feature::kCopies) | bit(Feature::kAliases)))
    return "transactions need a redo log and no aliases";
  if (meet(bit(Feature::kCheckpointRoot),
           ~bit(Feature::kAliases) & (bit(Feature::kReported) | bit(Feature::kBitmap))) ||
      meet(bit(Feature::kAliases), kReporting))
    return "aliases are for page trackers";
  if (meet(bit(Feature::kCheckpointRoot), kOfTransactions)) return "one root needs aliases";
  if (meet(bit(Feature::kCheckpointRoot), bit(Feature::kChunks))) return "one root is not a chunk";
  if (meet(bit(Feature::kStandard) | bit(Feature::kAllocatingTypes), kReporting))
    return "they do not report their stores";
  if (meet(bit(Feature::kStandard) | bit(Feature::kAllocatingTypes),
           bit(Feature::kTyped) | bit(Feature::kMoved)))
    return "blocks of the standard library are untyped";
  if (meet(bit(Feature::kDeletedFile), bit(Feature::kFault) | bit(Feature::kFullDisk)) ||
      meet(bit(Feature::kFault), bit(Feature::kFullDisk)))
    return "one thing is wrong with a file at a time";
  if (meet(bit(Feature::kOtherBuild),
           bit(Feature::kContainer) | bit(Feature::kPins) | bit(Feature::kFunctions)))
    return "another build has no part in the container";
  if (meet(bit(Feature::kNoDescriptors), bit(Feature::kParallel)))
    return "the limit is the process's, and other threads open regions";
  if (meet(bit(Feature::kMemoryLimit), bit(Feature::kParallel)))
    return "the limit is the process's, and other threads work without it";
  if (meet(bit(Feature::kMemcached), bit(Feature::kRedoLog) | bit(Feature::kCopies) |
                                         kOfTransactions | bit(Feature::kCheckpointRoot)))
    return "a server has stores in chunks alone";
  if (meet(bit(Feature::kMemcached), bit(Feature::kDeletedFile))) return "a server has no file";
  if (meet(bit(Feature::kVersions) | bit(Feature::kRollback),
           bit(Feature::kRedoLog) | bit(Feature::kCopies) | kOfTransactions |
               bit(Feature::kCheckpointRoot)))
    return "chunks alone keep older versions";
  if (meet(bit(Feature::kBackground), bit(Feature::kAliases) | bit(Feature::kCheckpointRoot)))
    return "aliases are captured while mutators stand still";
  return nullptr;
}

void Pairs::add(const FeatureSet& features) {
  for (u64 i = 0; i < kFeatures; ++i)
    if (features[i])
      for (u64 j = 0; j < i; ++j)
        if (features[j]) ++count_[i][j];
}

std::vector<u64> Pairs::counts() const {
  std::vector<u64> counts;
  for (u64 i = 0; i < kFeatures; ++i) counts.insert(counts.end(), count_[i], count_[i] + i);
  return counts;
}

void Pairs::add_counts(const std::vector<u64>& counts) {
  size_t next = 0;
  for (u64 i = 0; i < kFeatures; ++i)
    for (u64 j = 0; j < i; ++j) count_[i][j] += counts[next++];
}

u64 Pairs::possible() const {
  u64 count = 0;
  for (u64 i = 0; i < kFeatures; ++i)
    for (u64 j = 0; j < i; ++j)
      if (impossible(static_cast<Feature>(i), static_cast<Feature>(j)) == nullptr) ++count;
  return count;
}

u64 Pairs::crossed() const {
  u64 count = 0;
  for (u64 i = 0; i < kFeatures; ++i)
    for (u64 j = 0; j < i; ++j)
      if (count_[i][j] != 0 &&
          impossible(static_cast<Feature>(i), static_cast<Feature>(j)) == nullptr)
        ++count;
  return count;
}

double Pairs::share() const {
  return static_cast<double>(crossed()) / static_cast<double>(possible());
}

nlohmann::json Pairs::json() const {
  nlohmann::json pairs = nlohmann::json::array();
  for (u64 i = 0; i < kFeatures; ++i)
    for (u64 j = 0; j < i; ++j) {
      const char* const reason = impossible(static_cast<Feature>(i), static_cast<Feature>(j));
      nlohmann::json pair = {{"one", kNames[i]}, {"other", kNames[j]}, {"crossed", count_[i][j]}};
      if (reason != nullptr) pair["impossible"] = reason;
      pairs.push_back(std::move(pair));
    }
  return pairs;
}

std::string Pairs::table() const {
  std::ostringstream out;
  for (u64 i = 0; i < kFeatures; ++i) {
    u64 possible = 0;
    u64 met = 0;
    std::string missing;
    for (u64 j = 0; j < kFeatures; ++j) {
      if (i == j || impossible(static_cast<Feature>(i), static_cast<Feature>(j)) != nullptr)
        continue;
      ++possible;
      if (count_[std::max(i, j)][std::min(i, j)] != 0) ++met;
      else missing += (missing.empty() ? "" : ", ") + std::string(kNames[j]);
    }
    out << std::left << std::setw(14) << kNames[i] << std::right << std::setw(3) << met << " of "
        << std::setw(2) << possible
        << (met == 0          ? ""
            : missing.empty() ? ""
                              : "  not: " + missing)
        << "\n";
  }
  return out.str();
}

}  // namespace perdura::model
