#include "media/nvm.hpp"

#include <immintrin.h>

#include <cstring>

namespace perdura::media {
namespace {

__attribute__((target("avx512f"))) void copy_avx512(void* destination, const void* source,
                                                    size_t length) {
  auto* to = static_cast<char*>(destination);
  const auto* from = static_cast<const char*>(source);
  for (size_t at = 0; at < length; at += 64)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), _mm512_loadu_si512(from + at));
}

__attribute__((target("avx2"))) void copy_avx2(void* destination, const void* source,
                                               size_t length) {
  auto* to = static_cast<__m256i*>(destination);
  const auto* from = static_cast<const __m256i*>(source);
  for (size_t i = 0; i < length / 32; ++i)
    _mm256_stream_si256(to + i, _mm256_loadu_si256(from + i));
}

void copy_sse2(void* destination, const void* source, size_t length) {
  auto* to = static_cast<__m128i*>(destination);
  const auto* from = static_cast<const __m128i*>(source);
  for (size_t i = 0; i < length / 16; ++i) _mm_stream_si128(to + i, _mm_loadu_si128(from + i));
}

__attribute__((target("clwb"))) void flush_clwb(const void* lines, size_t length) {
  // The instruction changes nothing that a program sees, but its operand is not const.
  auto* const from = static_cast<char*>(const_cast<void*>(lines));
  for (size_t at = 0; at < length; at += kLineBytes) _mm_clwb(from + at);
}

__attribute__((target("clflushopt"))) void flush_clflushopt(const void* lines, size_t length) {
  auto* const from = static_cast<char*>(const_cast<void*>(lines));
  for (size_t at = 0; at < length; at += kLineBytes) _mm_clflushopt(from + at);
}

void flush_clflush(const void* lines, size_t length) {
  const auto* const from = static_cast<const char*>(lines);
  for (size_t at = 0; at < length; at += kLineBytes) _mm_clflush(from + at);
}

template <FlushLines kFlush>
void copy_and_flush(void* destination, const void* source, size_t length) {
  std::memcpy(destination, source, length);
  kFlush(destination, length);
}

}  // namespace

Processor this_processor() {
  unsigned a = 7, b = 0, c = 0, d = 0;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  // The system must save the vectors' registers as well, which the built-in function looks at.
  return {.avx512f = __builtin_cpu_supports("avx512f") != 0,
          .avx2 = __builtin_cpu_supports("avx2") != 0,
          .clwb = (b >> 24 & 1) != 0,
          .clflushopt = (b >> 23 & 1) != 0};
}

CopyLines nontemporal_copy(const Processor& processor) {
  if (processor.avx512f) return copy_avx512;
  if (processor.avx2) return copy_avx2;
  return copy_sse2;
}

Vectors vectors_of(CopyLines copy) {
  if (copy == copy_avx512) return Vectors::k512;
  return copy == copy_avx2 ? Vectors::k256 : Vectors::kOther;
}

CopyLines flushing_copy(Flush flush, const Processor& processor) {
  if (flush == Flush::kNonTemporal) return nontemporal_copy(processor);
  const FlushLines lines = flush_of(flush, processor);
  if (lines == flush_clwb) return copy_and_flush<flush_clwb>;
  if (lines == flush_clflushopt) return copy_and_flush<flush_clflushopt>;
  return copy_and_flush<flush_clflush>;
}

FlushLines flush_of(Flush flush, const Processor& processor) {
  const bool writes_back = flush == Flush::kClwb || flush == Flush::kNonTemporal;
  if (writes_back && processor.clwb) return flush_clwb;
  if (flush != Flush::kClflush && processor.clflushopt) return flush_clflushopt;
  return flush_clflush;
}

void store_fence() { _mm_sfence(); }

}  // namespace perdura::media
