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
static_assert(kStripes == Gather::kLinesMax);

struct Page {
  const std::byte* page;
  const std::byte* line(size_t index) const { return page + index * kLineBytes; }
};
struct Places {
  const std::byte* const* lines;
  const std::byte* line(size_t index) const { return lines[index]; }
};

// Into the second level: the first one's few buffers are wanted for the stores.
void fetch(const std::byte* line) { __builtin_prefetch(line, 0, 2); }

// XXH3's long hash of a page as its specification gives it, one stripe at a time, so that a stripe
// is summed from the register it is stored from.
template <class From, class Ahead>
__attribute__((target("avx512f"))) u64 gather_avx512(std::byte* to, From from, Ahead ahead) {
  alignas(64) xxh_u64 sums[XXH_ACC_NB] = XXH3_INIT_ACC;
  __m512i sum = _mm512_load_si512(sums);
  const xxh_u8* const secret = XXH3_kSecret;
  const xxh_u8* const secret_end = secret + XXH_SECRET_DEFAULT_SIZE - XXH_STRIPE_LEN;
  const __m512i prime = _mm512_set1_epi32(static_cast<int>(XXH_PRIME32_1));
  for (size_t block = 0; block < kStripes; block += kStripesPerBlock) {
#pragma GCC unroll 16
    for (size_t stripe = 0; stripe < kStripesPerBlock; ++stripe) {
      const size_t at = block + stripe;
      const bool last = at + 1 == kStripes;
      fetch(ahead.line(at));
      const __m512i line = _mm512_loadu_si512(from.line(at));
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at * kLineBytes), line);
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

__attribute__((target("avx2"))) inline __m256i load(const void* at) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}

// The same in halves of a line.
template <class From, class Ahead>
__attribute__((target("avx2"))) u64 gather_avx2(std::byte* to, From from, Ahead ahead) {
  constexpr size_t kHalf = kLineBytes / 2;
  alignas(64) xxh_u64 sums[XXH_ACC_NB] = XXH3_INIT_ACC;
  __m256i sum[] = {load(sums), load(sums + XXH_ACC_NB / 2)};
  const xxh_u8* const secret = XXH3_kSecret;
  const xxh_u8* const secret_end = secret + XXH_SECRET_DEFAULT_SIZE - XXH_STRIPE_LEN;
  const __m256i prime = _mm256_set1_epi32(static_cast<int>(XXH_PRIME32_1));
  for (size_t block = 0; block < kStripes; block += kStripesPerBlock) {
#pragma GCC unroll 16
    for (size_t stripe = 0; stripe < kStripesPerBlock; ++stripe) {
      const size_t at = block + stripe;
      const bool last = at + 1 == kStripes;
      fetch(ahead.line(at));
      const std::byte* const line = from.line(at);
      const xxh_u8* const keys =
          last ? secret_end - XXH_SECRET_LASTACC_START : secret + stripe * XXH_SECRET_CONSUME_RATE;
#pragma GCC unroll 2
      for (size_t half = 0; half < 2; ++half) {
        const __m256i lanes = load(line + half * kHalf);
        _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at * kLineBytes + half * kHalf), lanes);
        const __m256i mixed = _mm256_xor_si256(lanes, load(keys + half * kHalf));
        const __m256i product = _mm256_mul_epu32(mixed, _mm256_srli_epi64(mixed, 32));
        const __m256i swapped = _mm256_shuffle_epi32(lanes, _MM_SHUFFLE(1, 0, 3, 2));
        sum[half] = _mm256_add_epi64(product, _mm256_add_epi64(sum[half], swapped));
      }
    }
    if (block + kStripesPerBlock == kStripes) break;
#pragma GCC unroll 2
    for (size_t half = 0; half < 2; ++half) {
      sum[half] = _mm256_xor_si256(sum[half], _mm256_srli_epi64(sum[half], 47));
      sum[half] = _mm256_xor_si256(sum[half], load(secret_end + half * kHalf));
      const __m256i low = _mm256_mul_epu32(sum[half], prime);
      const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(sum[half], 32), prime);
      sum[half] = _mm256_add_epi64(low, _mm256_slli_epi64(high, 32));
    }
  }
  for (size_t half = 0; half < 2; ++half)
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums) + half, sum[half]);
  return XXH3_mergeAccs(sums, secret + XXH_SECRET_MERGEACCS_START, kPageBytes * XXH_PRIME64_1);
}

using GatherPage = u64 (*)(std::byte* to, Page from, Page ahead);
using GatherPlaces = u64 (*)(std::byte* to, Places from, Places ahead);
struct Kernels {
  GatherPage page = nullptr;
  GatherPlaces places = nullptr;
};
// Those with the vectors that the copy has; none of the oldest processors, or of a copy through the
// caches.
Kernels kernels_of(CopyLines copy) {
  switch (vectors_of(copy)) {
    case Vectors::k512:
      return {gather_avx512<Page, Page>, gather_avx512<Places, Places>};
    case Vectors::k256:
      return {gather_avx2<Page, Page>, gather_avx2<Places, Places>};
    case Vectors::kOther:
      return {};
  }
  return {};
}

}  // namespace

u64 gather_summed(std::byte* destination, const Gather& gather) {
  if (gather.page != nullptr) {
    std::memcpy(destination, gather.page, kPageBytes);
    return checksum(destination, kPageBytes);
  }
  for (const std::byte* line : gather.ahead) fetch(line);
  std::byte* to = destination;
  for (const std::byte* line : gather.lines) {
    std::memcpy(to, line, kLineBytes);
    to += kLineBytes;
  }
  return checksum(destination, gather.lines.size() * kLineBytes);
}

u64 gather_summed(std::byte* destination, const Gather& gather, CopyLines copy) {
  const auto& [page, page_ahead, lines, ahead] = gather;
  if (const Kernels kernels = kernels_of(copy); kernels.page != nullptr) {
    // What was fetched before costs little to fetch again.
    if (page != nullptr)
      return kernels.page(destination, Page{page}, Page{page_ahead ? page_ahead : page});
    if (lines.size() == Gather::kLinesMax)
      return kernels.places(destination, Places{lines.data()},
                            Places{ahead.size() == lines.size() ? ahead.data() : lines.data()});
  }
  alignas(kLineBytes) std::byte bytes[Gather::kLinesMax * kLineBytes];
  const u64 sum = gather_summed(bytes, gather);
  copy(destination, bytes, gather.bytes());
  return sum;
}

}  // namespace perdura::media
