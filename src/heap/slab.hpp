// A slab's words in the region.
#pragma once

#include <atomic>
#include <bit>

#include "heap/size_classes.hpp"

namespace perdura::heap {

struct Slab {
  format::SlabHeader header;

  u64* free() { return reinterpret_cast<u64*>(this + 1); }
  u64* remote() { return free() + header.words; }
  std::byte* block(u64 index) {
    return reinterpret_cast<std::byte*>(this) + index * header.block_bytes;
  }
  static u64 load(const u64& word) {
    return std::atomic_ref(const_cast<u64&>(word)).load(std::memory_order_relaxed);
  }
  u64 header_bytes() const { return sizeof header + 2 * sizeof(u64) * header.words; }
};

/// The bits of word `word` that stand for blocks that can be given out.
constexpr u64 usable_bits(const ClassInfo& info, u32 word) {
  u64 bits = ~u64{0};
  const u32 first = word * 64;
  if (info.first_block > first)
    bits = info.first_block - first >= 64 ? 0 : bits << (info.first_block - first);
  if (info.block_count < first + 64) bits &= bit_range(0, info.block_count - first);
  return bits;
}

}  // namespace perdura::heap
