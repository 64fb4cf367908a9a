#include "media/summed_copy.hpp"

#include <immintrin.h>

#include <atomic>
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

// Whether it is the copy of a machine that has wide registers.
bool copies_wide(CopyLines copy) {
  static constinit std::atomic<CopyLines> nontemporal{nullptr};  // by several at once, perhaps
  if (!__builtin_cpu_supports("avx512f")) return false;
  CopyLines found = nontemporal.load(std::memory_order_relaxed);
  if (found == nullptr) nontemporal.store(found = nontemporal_copy(), std::memory_order_relaxed);
  return found == copy;
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
  if (copies_wide(copy)) {
    const auto& [page, page_ahead, lines, ahead] = gather;
    // What was fetched before costs little to fetch again.
    if (page != nullptr)
      return gather_avx512(destination, Page{page}, Page{page_ahead ? page_ahead : page});
    if (lines.size() == Gather::kLinesMax)
      return gather_avx512(destination, Places{lines.data()},
                           Places{ahead.size() == lines.size() ? ahead.data() : lines.data()});
  }
  alignas(kLineBytes) std::byte bytes[Gather::kLinesMax * kLineBytes];
  const u64 sum = gather_summed(bytes, gather);
  copy(destination, bytes, gather.bytes());
  return sum;
}

}  // namespace perdura::media
