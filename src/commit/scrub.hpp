// Reads the home image once after a store was opened, beside its work, and compares each page with
// its checksum: damage shows before anybody needs the page. (What working memory loads lazily is
// not verified, and `perdura check` wants the store closed.)
//
//   region   |verified ......|window|.............| backed end
//                            position
//
// Only the thread that writes home images may call step(): a page and its checksum change together
// only in its eyes.
#pragma once

#include "base/aligned_buffer.hpp"
#include "commit/home_guard.hpp"
#include "region/region.hpp"

namespace perdura::commit {

class Scrub {
 public:
  static constexpr u64 kWindowBytes = 256 * kKiB;

  /// What it finds goes to `guard`, which outlives it.
  Scrub(region::Volume& volume, HomeGuard& guard) : volume_(volume), guard_(guard) {}

  /// Verify the next window. False when there was none left.
  bool step(const region::HomeMap& home);

 private:
  region::Volume& volume_;
  HomeGuard& guard_;
  u64 position_ = 0;  ///< region offset
  AlignedBuffer buffer_;
};

}  // namespace perdura::commit
