// Short inputs need no wide vectors, but no call either: inlined here.
#include <cstring>

#include "base/checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace perdura {

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
  for (u64 line = 0; line < kLinesPerPage; ++line)
    sum += line_checksum(bytes + line * kLineBytes, first_line_number + line);
  return sum;
}

}  // namespace perdura
