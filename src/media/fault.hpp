// A decorator that makes chosen calls of a medium fail, and counts calls. For tests and tools.
//
// A failing write reaches the inner medium not at all, or in part (kShort). A failing submit shows
// at once, or at the next drain of its queue (kLate), as with a real disk. A failed barrier stays
// failed, whatever the plan says (rule 5 of media/medium.hpp).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "media/medium.hpp"

namespace perdura::media {

/// Calls that can fail, to be combined with |.
enum : unsigned {
  kFaultWrite = 1 << 0,
  kFaultSubmit = 1 << 1,
  kFaultDrain = 1 << 2,
  kFaultBarrier = 1 << 3,
  kFaultGrow = 1 << 4,
  kFaultRead = 1 << 5,
  kFaultMapHome = 1 << 6,
  kFaultAnything = (1 << 7) - 1,
};

enum class FaultKind {
  kIo,       ///< EIO, nothing was done
  kNoSpace,  ///< ENOSPC, nothing was done
  kShort,    ///< ENOSPC after half of the data was written; other calls: as kNoSpace
  kLate,     ///< EIO: a submit loses its data and the next drain says so; other calls: as kIo
};

struct Fault {
  unsigned calls = kFaultAnything;
  u64 nth = 1;  ///< counted from arming, from 1, over the chosen calls
  FaultKind kind = FaultKind::kIo;
  bool for_ever = false;  ///< also every chosen call after it
};

/// Thread-safe. Outlives the medium it wrapped.
class FaultPlan {
 public:
  std::unique_ptr<Medium> wrap(std::unique_ptr<Medium> inner);

  /// From now on; replaces what was armed, and forgets failed barriers. Counting starts anew.
  void arm(const Fault& fault);
  void disarm();
  /// Calls of the kinds in `calls` since the last arm or disarm.
  u64 count(unsigned calls = kFaultAnything) const;
  /// Calls made to fail since the last arm.
  u64 fired() const;
  /// A barrier failed since the last arm: no later one succeeds.
  bool barrier_failed() const;

 private:
  class FaultyMedium;
  class FaultyQueue;
  static constexpr unsigned kKinds = 7;

  /// Counts a call; what it is to fail with, if it is.
  std::optional<FaultKind> next(unsigned call);

  mutable std::mutex mutex_;
  std::optional<Fault> fault_;
  u64 counts_[kKinds] = {};
  u64 fired_ = 0;
  bool barrier_failed_ = false;
};

}  // namespace perdura::media
