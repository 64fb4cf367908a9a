// Short inputs need no wide vectors, but no call either: inlined here.
#include <emmintrin.h>

#include "base/checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace perdura {
namespace {

/// Pages are looked at one behind the other: the processor does not foresee beyond a page, and a
/// line's sum takes so many instructions that it does not come to many lines ahead by itself.
constexpr u64 kAheadBytes = kPageBytes;

bool is_zero(const char* line) {
  const auto* const at = reinterpret_cast<const __m128i*>(line);
  const __m128i any = _mm_or_si128(_mm_or_si128(_mm_loadu_si128(at), _mm_loadu_si128(at + 1)),
                                   _mm_or_si128(_mm_loadu_si128(at + 2), _mm_loadu_si128(at + 3)));
  return _mm_movemask_epi8(_mm_cmpeq_epi8(any, _mm_setzero_si128())) == 0xffff;
}

// The words are multiplied from where they lie: on their way through a variable they would wait for
// its memory, which takes as long again.
u64 sum_of(const char* line, u64 number) {
  return is_zero(line) ? 0 : XXH3_64bits_withSeed(line, kLineBytes, number);
}

}  // namespace

u64 line_checksum(const void* line, u64 line_number) noexcept {
  return sum_of(static_cast<const char*>(line), line_number);
}

u64 page_checksum(const void* page, u64 first_line_number) noexcept {
  const char* bytes = static_cast<const char*>(page);
  u64 sum = 0;
  for (u64 line = 0; line < kLinesPerPage; ++line) {
    __builtin_prefetch(bytes + kAheadBytes + line * kLineBytes);
    sum += sum_of(bytes + line * kLineBytes, first_line_number + line);
  }
  return sum;
}

}  // namespace perdura
