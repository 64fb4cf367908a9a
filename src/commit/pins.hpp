// The versions of a region that readers in this process and in others have open, as its writer sees
// them.
#pragma once

#include <atomic>

#include "media/medium.hpp"

namespace perdura::commit {

/// Thread-safe. Nobody tells of a pin that comes or goes, so whoever is about to give something up
/// asks, after the medium says that it is not needed: a reader that pins a version later looks at
/// the medium later still, and does without it.
class Pins {
 public:
  Pins(media::Medium& medium, u32 region) : medium_(medium), region_(region) {}

  /// No reader needs what only older versions consist of; kNoPin: there is no reader.
  u64 lowest() const noexcept {
    const u64 pinned = medium_.lowest_pin(region_, 0);
    const bool may_be_another = pinned != 0 && pinned == failed_.load(std::memory_order_relaxed);
    return may_be_another ? pinned - 1 : pinned;
  }
  /// A reader has a version that is not there: an attempt at it was on the medium, and was
  /// discarded.
  bool any_above(u64 newest) const noexcept {
    return medium_.lowest_pin(region_, newest + 1) != media::Medium::kNoPin;
  }
  /// An attempt at a version has failed, and may be on the medium all the same: who has pinned that
  /// number may have the attempt, and not the version that gets it.
  void note_failed(u64 version) noexcept { failed_.store(version, std::memory_order_relaxed); }

 private:
  media::Medium& medium_;
  const u32 region_;
  std::atomic<u64> failed_{0};  ///< the last one that did
};

}  // namespace perdura::commit
