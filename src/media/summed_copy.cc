#include "media/summed_copy.hpp"

#include <immintrin.h>

#include <cstring>

#include "base/checksum.hpp"

// For XXH3's secret, and the end of its long hash.
#define XXH_INLINE_ALL
#include <xxhash.h>

// GCC 12 takes the undefined operand inside its own AVX-512 intrinsics for an uninitialized one.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace perdura::media {
namespace {

constexpr size_t kStripes = kPageBytes / XXH_STRIPE_LEN;
constexpr size_t kStripesPerBlock =
    (XXH_SECRET_DEFAULT_SIZE - XXH_STRIPE_LEN) / XXH_SECRET_CONSUME_RATE;
static_assert(XXH_STRIPE_LEN == kLineBytes && kStripes % kStripesPerBlock == 0);

// XXH3's long hash as its specification gives it, one stripe at a time, so that a stripe is summed
// from the register it is stored from.
__attribute__((target("avx512f"))) u64 copy_avx512(void* destination, const void* page) {
  alignas(64) xxh_u64 sums[XXH_ACC_NB] = XXH3_INIT_ACC;
  __m512i sum = _mm512_load_si512(sums);
  const xxh_u8* const secret = XXH3_kSecret;
  const xxh_u8* const secret_end = secret + XXH_SECRET_DEFAULT_SIZE - XXH_STRIPE_LEN;
  const __m512i prime = _mm512_set1_epi32(static_cast<int>(XXH_PRIME32_1));
  const char* from = static_cast<const char*>(page);
  char* to = static_cast<char*>(destination);
  for (size_t block = 0; block < kStripes; block += kStripesPerBlock) {
    for (size_t stripe = 0; stripe < kStripesPerBlock; ++stripe) {
      const size_t at = (block + stripe) * XXH_STRIPE_LEN;
      const bool last = block + stripe + 1 == kStripes;
      const __m512i line = _mm512_loadu_si512(from + at);
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), line);
      const __m512i key = _mm512_loadu_si512(last ? secret_end - XXH_SECRET_LASTACC_START
                                                  : secret + stripe * XXH_SECRET_CONSUME_RATE);
      const __m512i mixed = _mm512_xor_si512(line, key);
      const __m512i product = _mm512_mul_epu32(mixed, _mm512_srli_epi64(mixed, 32));
      const __m512i swapped = _mm512_shuffle_epi32(line, _MM_PERM_BADC);
      sum = _mm512_add_epi64(product, _mm512_add_epi64(sum, swapped));
    }
    if (block + kStripesPerBlock == kStripes) break;
    sum = _mm512_xor_si512(sum, _mm512_srli_epi64(sum, 47));
    sum = _mm512_xor_si512(sum, _mm512_loadu_si512(secret_end));
    const __m512i low = _mm512_mul_epu32(sum, prime);
    const __m512i high = _mm512_mul_epu32(_mm512_srli_epi64(sum, 32), prime);
    sum = _mm512_add_epi64(low, _mm512_slli_epi64(high, 32));
  }
  _mm512_store_si512(sums, sum);
  return XXH3_mergeAccs(sums, secret + XXH_SECRET_MERGEACCS_START, kPageBytes * XXH_PRIME64_1);
}

}  // namespace

u64 copy_page_summed(void* destination, const void* page, CopyLines copy) {
  static const CopyLines nontemporal = nontemporal_copy();
  static const bool wide = __builtin_cpu_supports("avx512f");
  if (wide && copy == nontemporal) return copy_avx512(destination, page);
  alignas(kLineBytes) std::byte bytes[kPageBytes];
  std::memcpy(bytes, page, sizeof bytes);
  copy(destination, bytes, sizeof bytes);
  return checksum(bytes, sizeof bytes);
}

}  // namespace perdura::media
