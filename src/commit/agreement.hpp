// Versions that are made by several processes together, or by none of them.
//
//   cut ─ capture ─ prepare ─ agree ─ publish, on all; or discard, on all
//
// Until all have agreed nothing is given up of the version before, on any: a crash meanwhile leaves
// each with both, or with the one before.
#pragma once

#include "base/result.hpp"

namespace perdura::commit {

/// Asked by the thread that makes a version.
class Agreement {
 public:
  virtual ~Agreement() = default;

  /// Whether this thread may begin a version now: kMisuse where the others do not.
  virtual Status may_begin() = 0;

  enum class Mine { kNothing, kPrepared };
  enum class All {
    kNothing,   ///< changed anywhere: there is no version
    kPrepare,   ///< who has nothing prepares a version all the same; then all are asked again
    kPrepared,  ///< it is durable everywhere
  };
  /// What has become of the version here, or why there is none; and what becomes of it. It waits
  /// for the others. A failure, which is one of theirs perhaps: it is to be discarded.
  virtual Result<All> agree(const Result<Mine>& mine) = 0;
};

}  // namespace perdura::commit
