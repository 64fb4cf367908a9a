// Sets of the lines of a page, a bit for each.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

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

/// Of the lines of two pages that `mask` has, those that differ.
inline u64 different_lines(const std::byte* page, const std::byte* other, u64 mask) {
  u64 different = 0;
  for (u64 bits = mask; bits != 0; bits &= bits - 1) {
    const auto line = static_cast<u64>(std::countr_zero(bits));
    if (std::memcmp(page + line * kLineBytes, other + line * kLineBytes, kLineBytes) != 0)
      different |= u64{1} << line;
  }
  return different;
}

/// Copies the lines that `mask` has from a page to another one.
inline void copy_lines(std::byte* to, const std::byte* page, u64 mask) {
  for (; mask != 0; mask &= mask - 1) {
    const auto line = static_cast<u64>(std::countr_zero(mask));
    std::memcpy(to + line * kLineBytes, page + line * kLineBytes, kLineBytes);
  }
}

}  // namespace perdura
