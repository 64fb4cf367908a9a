// Sets of the lines of a page, a bit for each.
#pragma once

#include <bit>

#include "base/bits.hpp"
#include "base/result.hpp"

namespace perdura {

constexpr u64 kAllLines = ~u64{0};
static_assert(kLinesPerPage == 64, "a bit of a word each");

/// Calls visit(first, count) for each run of lines that `mask` has, until one fails.
template <class Visit>
Status for_each_run(u64 mask, Visit&& visit) {
  while (mask != 0) {
    const auto first = static_cast<unsigned>(std::countr_zero(mask));
    const auto count = static_cast<unsigned>(std::countr_one(mask >> first));
    PERDURA_TRY(visit(u64{first}, u64{count}));
    mask &= ~bit_range(first, count);
  }
  return {};
}

}  // namespace perdura
