// A slab's words in the region.
#pragma once

#include <atomic>
#include <bit>

#include "heap/size_classes.hpp"

namespace perdura::heap {

struct Slab {
  format::SlabHeader header;

  u64* free() { return reinterpret_cast<u64*>(this + 1); }
  u64* remote(const ClassInfo& info) { return free() + info.words; }
  u16* types(const ClassInfo& info) {
    return reinterpret_cast<u16*>(reinterpret_cast<std::byte*>(this) + info.types_at);
  }
  std::byte* block(const ClassInfo& info, u64 index) {
    return reinterpret_cast<std::byte*>(this) + index * info.block_bytes;
  }
  static u64 load(const u64& word) {
    return std::atomic_ref(const_cast<u64&>(word)).load(std::memory_order_relaxed);
  }

  /// What is wrong with it as a slab of a class; nullptr when nothing is.
  const char* problem(unsigned size_class) {
    const ClassInfo& info = kClassInfo[size_class];
    if (header.magic != format::kSlabMagic || header.size_class != size_class ||
        header.block_bytes != info.block_bytes || header.block_count != info.block_count ||
        header.first_block != info.first_block || header.words != info.words)
      return "the slab header does not fit its size class";
    for (u32 word = 0; word < info.words; ++word) {
      const u64 own = load(free()[word]);
      const u64 other = load(remote(info)[word]);
      if ((own & other) != 0) return "a block was freed twice";
      if (((own | other) & ~usable_bits(info, word)) != 0)
        return "a block that does not exist is free";
    }
    return nullptr;
  }

  /// Of a word: the blocks that are allocated.
  u64 live(const ClassInfo& info, u32 word) {
    return usable_bits(info, word) & ~(load(free()[word]) | load(remote(info)[word]));
  }

  bool is_free(const ClassInfo& info, u64 index) {
    return ((load(free()[index / 64]) | load(remote(info)[index / 64])) >> index % 64 & 1) != 0;
  }

  /// Nothing to allocate in `free`.
  bool full(const ClassInfo& info) {
    for (u32 word = 0; word < info.words; ++word)
      if (free()[word] != 0) return false;
    return true;
  }
  /// No block of it is allocated.
  bool empty(const ClassInfo& info) {
    for (u32 word = 0; word < info.words; ++word)
      if ((load(free()[word]) | load(remote(info)[word])) != usable_bits(info, word)) return false;
    return true;
  }
};

}  // namespace perdura::heap
