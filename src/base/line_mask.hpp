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

/// Whether two lines, at multiples of their size, are the same. In line: of a page that is compared
/// 64 calls take as long as its bytes.
inline bool same_line(const std::byte* line, const std::byte* other) {
  using Part [[gnu::vector_size(16), gnu::may_alias]] = u64;
  const auto* const a = reinterpret_cast<const Part*>(line);
  const auto* const b = reinterpret_cast<const Part*>(other);
  const Part different = (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]);
  return (different[0] | different[1]) == 0;
}

/// Of the lines of two pages that `mask` has, those that differ. `meanwhile(line)` is called for
/// each: it may fetch what is compared next.
template <class Meanwhile>
u64 different_lines(const std::byte* page, const std::byte* other, u64 mask,
                    Meanwhile&& meanwhile) {
  u64 different = 0;
  for (u64 bits = mask; bits != 0; bits &= bits - 1) {
    const auto line = static_cast<u64>(std::countr_zero(bits));
    meanwhile(line);
    if (!same_line(page + line * kLineBytes, other + line * kLineBytes))
      different |= u64{1} << line;
  }
  return different;
}

inline u64 different_lines(const std::byte* page, const std::byte* other, u64 mask) {
  return different_lines(page, other, mask, [](u64) {});
}

/// Copies the lines that `mask` has from a page to another one.
inline void copy_lines(std::byte* to, const std::byte* page, u64 mask) {
  for (; mask != 0; mask &= mask - 1) {
    const auto line = static_cast<u64>(std::countr_zero(mask));
    std::memcpy(to + line * kLineBytes, page + line * kLineBytes, kLineBytes);
  }
}

}  // namespace perdura
