// Pages of which some lines are wanted, between being fetched and being used.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "base/line_mask.hpp"

namespace perdura::commit {

/// Lines of a page.
struct PageLines {
  u64 page;
  u64 mask;
};

/// Not of a whole page: the processor itself foresees these. (GCC takes a function that fetches
/// alone for one that does nothing, and drops calls of it.)
[[gnu::always_inline]] inline void prefetch_lines(const std::byte* page_bytes, u64 mask) {
  if (mask == kAllLines) return;
  for (; mask != 0; mask &= mask - 1)
    __builtin_prefetch(page_bytes + static_cast<u64>(std::countr_zero(mask)) * kLineBytes);
}

class PagesAhead {
 public:
  /// `page` is on its way; the one that came kAhead before it is used.
  template <class Use>
  Status add(const PageLines& page, Use&& use) {
    Status used;
    if (count_ >= kAhead) used = use(pages_[count_ % kAhead]);
    pages_[count_++ % kAhead] = page;
    return used;
  }
  template <class Use>
  Status use_rest(Use&& use) {
    for (size_t i = count_ - std::min(count_, kAhead); i < count_; ++i)
      PERDURA_TRY(use(pages_[i % kAhead]));
    count_ = 0;
    return {};
  }

 private:
  static constexpr size_t kAhead = 16;
  std::array<PageLines, kAhead> pages_;
  size_t count_ = 0;
};

}  // namespace perdura::commit
