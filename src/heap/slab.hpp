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

  /// Nothing to allocate in `free`.
  bool full() {
    for (u32 word = 0; word < header.words; ++word)
      if (free()[word] != 0) return false;
    return true;
  }
  /// No block of it is allocated.
  bool empty(const ClassInfo& info) {
    for (u32 word = 0; word < info.words; ++word)
      if ((load(free()[word]) | load(remote()[word])) != usable_bits(info, word)) return false;
    return true;
  }
};

}  // namespace perdura::heap
