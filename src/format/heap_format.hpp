// The heap's structures inside a region. docs/format/heap.md describes them.
//
//   region offset 0       HeapHeader                      one page
//   4096                  unit table: 8 B for each unit the region can ever hold
//   data_begin            units of 64 KiB
//
// A unit is free, part of a slab of equal blocks, or part of a large block.
#pragma once

#include <cstddef>

#include "base/bits.hpp"

namespace perdura::format {

constexpr u64 kHeapMagic = 0x50414548'41445250;  // "PRDAHEAP"
constexpr u32 kHeapVersion = 1;
constexpr u64 kUnitBytes = 64 * kKiB;
constexpr u64 kUnitTableOffset = 4096;

struct HeapHeader {
  u64 magic;
  u32 version;
  u32 reserved0;
  u64 limit_bytes;
  u64 data_begin;  ///< region offset of unit 0
  u64 units_end;   ///< units from here on were never used; their entries are 0
  u64 roots;       ///< region offset of the first RootNode, 0: none
  u64 root_count;
  u64 reserved1;
};
static_assert(sizeof(HeapHeader) == 64);

enum class UnitKind : u8 {
  kFree = 0,  ///< also the tail of a large block
  kSlab = 1,
  kSlabTail = 2,
  kLarge = 3,
};

struct UnitEntry {
  UnitKind kind;
  u8 size_class;  ///< of a slab
  u8 has_free;    ///< slab: 0 when all of its blocks are allocated, 1 when one may be free
  u8 reserved;
  u32 units;  ///< kSlab, kLarge: length; kSlabTail: distance to the slab's first unit
};
static_assert(sizeof(UnitEntry) == 8);

/// Starts a slab; the blocks it covers are never given out. Followed by free[words], remote[words]:
/// block i is free when its bit is set in either. `remote` is set by threads that do not own the
/// slab.
struct SlabHeader {
  u32 magic;
  u32 size_class;
  u32 block_bytes;
  u32 block_count;  ///< those covered by the header included
  u32 first_block;  ///< the first one that can be given out
  u32 words;
  u64 reserved[5];
};
static_assert(sizeof(SlabHeader) == 64);
constexpr u32 kSlabMagic = 0x42414c53;  // "SLAB"

/// A named entry point; allocated in the heap, a singly linked list.
struct RootNode {
  u64 next;    ///< region offset, 0: last
  u64 object;  ///< region offset
  u64 fingerprint;
  u32 name_length;
  u32 reserved;
  // char name[name_length]
};
static_assert(sizeof(RootNode) == 32);

}  // namespace perdura::format
