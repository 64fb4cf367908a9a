#include "base/checksum.hpp"

#include <algorithm>

#include "base/assert.hpp"

// Chooses AVX-512, AVX2 or SSE2 at run time.
#include <xxh_x86dispatch.h>

namespace perdura {

u64 checksum(const void* data, size_t length) noexcept {
  return XXH3_64bits_dispatch(data, length);
}

u64 pieces_checksum(const void* data, size_t length, size_t piece_bytes) noexcept {
  constexpr size_t kBatch = 512;
  u64 sums[kBatch];
  size_t count = 0;
  const char* bytes = static_cast<const char*>(data);
  for (size_t at = 0; at < length; at += piece_bytes) {
    PERDURA_ASSERT(count < kBatch);
    sums[count++] = checksum(bytes + at, std::min(piece_bytes, length - at));
  }
  return checksum(sums, count * sizeof(u64));
}

}  // namespace perdura
