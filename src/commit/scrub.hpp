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

#include <mutex>
#include <string>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "commit/engine.hpp"
#include "region/region.hpp"
#include "track/dirty_map.hpp"

namespace perdura::commit {

class Scrub {
 public:
  static constexpr u64 kWindowBytes = 256 * kKiB;

  /// A crash may have left pages with lines of `recovered`, if any, half written: nothing can be
  /// said of them before the next replay, which gives them new checksums.
  Scrub(region::Volume& volume, const track::DirtyMap* recovered)
      : volume_(volume), recovered_(recovered) {}

  /// Verify the next window. False when there was none left.
  bool step(const region::HomeMap& home);

  /// Any thread.
  Findings findings() const;

 private:
  void note(u64 region_offset, std::string what);

  region::Volume& volume_;
  const track::DirtyMap* const recovered_;
  u64 position_ = 0;  ///< region offset
  AlignedBuffer buffer_;
  mutable std::mutex mutex_;
  Findings findings_;
};

/// Of a page that was found damaged, to `findings`, which names the first thousand.
void note_damage(Findings& findings, u64 region_offset, std::string what);

/// The home page at `region_offset` is not what was written there.
Failure page_damaged(const region::Volume& volume, u64 region_offset);

}  // namespace perdura::commit
