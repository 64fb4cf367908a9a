// Reads the home image once after a store was opened, beside its work, and compares each page with
// its checksum: damage shows before anybody needs the page. (What working memory loads lazily is
// not verified by that.)
//
//   region   |verified ......|window|.............| backed end
//                            position
//
// Only the thread that writes home images may call step(), unless it is told otherwise: a page and
// its checksum change together only in its eyes.
#pragma once

#include "base/aligned_buffer.hpp"
#include "commit/home_guard.hpp"
#include "region/region.hpp"

namespace perdura::commit {

class Scrub {
 public:
  static constexpr u64 kWindowBytes = 256 * kKiB;

  /// What it finds goes to `guard`, which outlives it. `beside_writes`: other threads may call
  /// step() than the one that writes, as long as this one makes each page known to the guard before
  /// it writes to it; such pages are passed over.
  Scrub(region::Volume& volume, HomeGuard& guard, bool beside_writes = false)
      : volume_(volume), guard_(guard), beside_writes_(beside_writes) {}

  /// Verify the next window. False when there was none left.
  bool step(const region::HomeMap& home);

 private:
  region::Volume& volume_;
  HomeGuard& guard_;
  const bool beside_writes_;
  u64 position_ = 0;  ///< region offset
  AlignedBuffer buffer_;
};

}  // namespace perdura::commit
