// The home image of a region and its checksums, seen in the same pages as working memory's views
// are: what a program is shown can be compared before it is shown. On NVM they are there; of a file
// they are mapped once more.
//
// A page may be looked at while a replay brings other pages home, not the page itself: it and its
// checksum change together only in the eyes of the thread that replays.
#pragma once

#include <algorithm>
#include <vector>

#include "base/mapping.hpp"
#include "region/home_map.hpp"
#include "region/volume.hpp"

namespace perdura::commit {

class HomeView {
 public:
  /// What a page is found to be.
  enum class Page : u8 {
    kGood,
    kDamaged,     ///< it does not fit its checksum
    kCondemned,   ///< it was found damaged before (format::kCondemnedPage)
    kUnreadable,  ///< the medium does not give it, or not its checksum
  };

  static Result<HomeView> create(region::Volume& volume, const region::HomeMap& home);

  /// Calls visit(page, Page) for each page of [begin, end), region offsets, that has a place at
  /// home. In any thread, perhaps in a signal handler.
  template <class Visit>
  void look_at(u64 begin, u64 end, Visit&& visit) const noexcept {
    for (const Part& part : parts_) {
      const u64 first = std::max(begin, part.begin);
      const u64 last = std::min(end, part.end);
      if (first >= last) continue;
      const bool readable = is_readable(part, first, last);
      for (u64 at = first; at < last; at += kPageBytes)
        visit(at / kPageBytes, readable || is_readable(part, at, at + kPageBytes)
                                   ? compare(part, at)
                                   : Page::kUnreadable);
    }
  }

 private:
  /// An extent of the home image.
  struct Part {
    u64 begin = 0;  ///< in the region
    u64 end = 0;
    const std::byte* pages = nullptr;  ///< and the checksums behind them
    Mapping mapped;                    ///< where they are, if not on NVM
  };

  static bool is_readable(const Part& part, u64 begin, u64 end) noexcept;
  static Page compare(const Part& part, u64 offset) noexcept;

  std::vector<Part> parts_;
};

}  // namespace perdura::commit
