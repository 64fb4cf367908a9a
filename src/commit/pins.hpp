// The versions of a region that readers in this process and in others have open, as its writer sees
// them.
#pragma once

#include <algorithm>
#include <array>
#include <mutex>

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
    return may_have_failed(pinned) ? pinned - 1 : pinned;
  }
  /// A reader has a version that is not there: an attempt at it was on the medium, and was
  /// discarded.
  bool any_above(u64 newest) const noexcept {
    return medium_.lowest_pin(region_, newest + 1) != media::Medium::kNoPin;
  }
  /// An attempt at a version has failed, and may be on the medium all the same: who has pinned that
  /// number may have the attempt, and not the version that gets it.
  void note_failed(u64 version) noexcept {
    const std::lock_guard lock(mutex_);
    // Of an earlier number nobody finds an attempt any more: the version is there that got it.
    const auto end = std::remove_if(failed_.begin(), failed_.begin() + count_, [&](u64 each) {
      return each == version || medium_.lowest_pin(region_, each) > each;
    });
    count_ = static_cast<size_t>(end - failed_.begin());
    // With more of them one is taken to have failed that did not: it keeps a version too much.
    if (count_ == failed_.size()) all_from_ = std::min(all_from_, failed_[--count_]);
    failed_[count_++] = version;
  }

 private:
  bool may_have_failed(u64 pinned) const noexcept {
    if (pinned == 0 || pinned == media::Medium::kNoPin) return false;
    const std::lock_guard lock(mutex_);
    return pinned >= all_from_ ||
           std::find(failed_.begin(), failed_.begin() + count_, pinned) != failed_.begin() + count_;
  }

  media::Medium& medium_;
  const u32 region_;
  mutable std::mutex mutex_;
  std::array<u64, 64> failed_{};  ///< the last one that did, and those that readers have pinned
  size_t count_ = 0;
  u64 all_from_ = media::Medium::kNoPin;
};

}  // namespace perdura::commit
