// A histogram of the stops of all mutators, with buckets a sixteenth of a power of two wide.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "base/bits.hpp"

namespace perdura::commit {

class Pauses {
 public:
  void add(u64 ns) {
    ++buckets_[bucket(ns)];
    ++count_;
    max_ns_ = ns > max_ns_ ? ns : max_ns_;
  }
  u64 count() const { return count_; }
  u64 max_ns() const { return max_ns_; }
  /// An upper bound of the pauses of the given share, 6 % wide at most.
  u64 percentile_ns(double share) const {
    u64 left = static_cast<u64>(static_cast<double>(count_) * (1 - share));
    for (size_t i = buckets_.size(); i-- > 0;) {
      if (buckets_[i] > left) return std::min(upper_bound(i), max_ns_);
      left -= buckets_[i];
    }
    return 0;
  }

 private:
  static constexpr u64 kSteps = 16;

  static size_t bucket(u64 ns) {
    if (ns < kSteps) return ns;
    const auto power = static_cast<u64>(std::bit_width(ns)) - 5;  // ns >> power is 16 to 31
    return (power + 1) * kSteps + (ns >> power) - kSteps;
  }
  static u64 upper_bound(size_t bucket) {
    if (bucket < kSteps) return bucket;
    const u64 power = bucket / kSteps - 1;
    return ((bucket % kSteps + kSteps + 1) << power) - 1;
  }

  std::array<u64, 64 * kSteps> buckets_{};
  u64 count_ = 0;
  u64 max_ns_ = 0;
};

}  // namespace perdura::commit
