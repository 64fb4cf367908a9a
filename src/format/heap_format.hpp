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
  u64 types;    ///< region offset of the first TypeNode, 0: none
  u64 address;  ///< where the region was when the pointers in typed blocks were stored
  u64 type_count;
  u64 group;  ///< region offset of the GroupState, 0: it is of no group
  u64 reserved[5];
};
static_assert(sizeof(HeapHeader) == 128);
static_assert(offsetof(HeapHeader, limit_bytes) == 16 && offsetof(HeapHeader, roots) == 40);
static_assert(offsetof(HeapHeader, types) == 56 && offsetof(HeapHeader, group) == 80);

enum class UnitKind : u8 {
  kFree = 0,  ///< also the tail of a large block
  kSlab = 1,
  kSlabTail = 2,
  kLarge = 3,
};

struct UnitEntry {
  UnitKind kind;
  u8 size_class;  ///< of a slab
  /// kSlab: 0 when all of its blocks are allocated, 1 when one may be free. kLarge: its type.
  u16 mark;
  u32 units;  ///< kSlab, kLarge: length; kSlabTail: distance to the slab's first unit
};
static_assert(sizeof(UnitEntry) == 8);
static_assert(offsetof(UnitEntry, mark) == 2 && offsetof(UnitEntry, units) == 4);
/// Of a region with this limit.
constexpr u64 data_begin_for(u64 limit_bytes) {
  return round_up(kUnitTableOffset + limit_bytes / kUnitBytes * sizeof(UnitEntry), kUnitBytes);
}

/// Starts a slab; the blocks it covers are never given out. Followed by free[words], remote[words]:
/// block i is free when its bit is set in either. `remote` is set by threads that do not own the
/// slab. In a slab of typed blocks the types follow, a u16 for each block.
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
static_assert(offsetof(SlabHeader, block_count) == 12 && offsetof(SlabHeader, words) == 20);
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
static_assert(offsetof(RootNode, object) == 8 && offsetof(RootNode, name_length) == 24);

/// A type of which blocks may be; allocated in the heap, a singly linked list that only grows.
/// Followed by PointerRun[run_count], PointerRun[tail_run_count], PointerTag[tag_count],
/// char name[name_length], char text[text_length].
struct TypeNode {
  u64 next;         ///< region offset, 0: last
  u64 fingerprint;  ///< of everything behind the header but `text`
  u32 number;       ///< 1 to kTypesMax: a block's type is 2 * number, 2 * number + 1 if it ends
                    ///< with a flexible array
  u32 size;
  u32 alignment;
  u32 tail_offset;  ///< of the flexible array
  u32 tail_stride;  ///< of its elements; 0: it holds no pointers
  u32 run_count;
  u32 tail_run_count;
  u32 tag_count;
  u32 name_length;
  u32 text_length;
  u64 reserved;
};
static_assert(sizeof(TypeNode) == 64);
static_assert(offsetof(TypeNode, number) == 16 && offsetof(TypeNode, run_count) == 36);
static_assert(offsetof(TypeNode, text_length) == 52);
constexpr u32 kTypesMax = 32767;

/// `count` pointers, `stride` bytes from one to the next, from `offset` in an object or element.
struct PointerRun {
  u32 offset;
  u32 count;
  u32 stride;
  u16 maybe;  ///< 1: words that are pointers if they point into the region
  u16 tag_count;
  u32 first_tag;  ///< the pointers count while each of these tags fits
};
static_assert(sizeof(PointerRun) == 20);
static_assert(offsetof(PointerRun, maybe) == 12 && offsetof(PointerRun, first_tag) == 16);

/// An unsigned integer of `bytes` bytes, `stride` bytes from the one of a run's first pointer to
/// that of the next.
struct PointerTag {
  u64 value;
  u32 offset;
  u32 stride;  ///< 0: the same for all pointers of the run
  u32 bytes;   ///< with kTagDiffers: the tag fits while the integer is not `value`
  u32 reserved;
};
constexpr u32 kTagDiffers = 0x80000000;
static_assert(sizeof(PointerTag) == 24);
static_assert(offsetof(PointerTag, offset) == 8 && offsetof(PointerTag, bytes) == 16);

}  // namespace perdura::format
