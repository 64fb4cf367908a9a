#include "base/checksum.hpp"

#include <algorithm>

#include "base/assert.hpp"

// Chooses AVX-512, AVX2 or SSE2 at run time.
#include <xxh_x86dispatch.h>

namespace perdura {
namespace {

/// What libxxhash uses of AVX-512 leaves the upper halves of the vector registers in use. Until
/// somebody clears them the thread's code for SSE2, which is what programs are compiled for unless
/// they say otherwise, takes several times as long.
void clear_upper_halves() noexcept {
#if !defined(__AVX__)  // else there is no such code
  static const bool has_them = __builtin_cpu_supports("avx") != 0;
  if (has_them) asm volatile("vzeroupper" ::: "memory");
#endif
}

}  // namespace

u64 checksum(const void* data, size_t length) noexcept {
  const u64 sum = XXH3_64bits_dispatch(data, length);
  clear_upper_halves();
  return sum;
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
