// Short inputs need no wide vectors, but no call either: inlined here.
#include <cstring>

#include "base/checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace perdura {
namespace {

/// Pages are looked at one behind the other: the processor does not foresee beyond a page, and a
/// line's sum takes so many instructions that it does not come to many lines ahead by itself.
constexpr u64 kAheadBytes = kPageBytes;

}  // namespace

u64 line_checksum(const void* line, u64 line_number) noexcept {
  u64 words[kLineBytes / sizeof(u64)];
  std::memcpy(words, line, sizeof words);
  u64 any = 0;
  for (u64 word : words) any |= word;
  return any == 0 ? 0 : XXH3_64bits_withSeed(words, sizeof words, line_number);
}

u64 page_checksum(const void* page, u64 first_line_number) noexcept {
  const char* bytes = static_cast<const char*>(page);
  u64 sum = 0;
  for (u64 line = 0; line < kLinesPerPage; ++line) {
    __builtin_prefetch(bytes + kAheadBytes + line * kLineBytes);
    sum += line_checksum(bytes + line * kLineBytes, first_line_number + line);
  }
  return sum;
}

}  // namespace perdura
