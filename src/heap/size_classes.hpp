// Block sizes: 16 bytes apart to 128, then four to a doubling, to 32 KiB. At most a quarter of a
// block is lost to rounding. Each size is a class twice: of plain blocks, and of typed ones.
#pragma once

#include <array>
#include <bit>

#include "format/heap_format.hpp"

namespace perdura::heap {

constexpr u64 kSmallMax = 32 * kKiB;
constexpr unsigned kSizes = 40;
constexpr unsigned kClasses = 2 * kSizes;  ///< those from kSizes on are typed

constexpr u64 class_bytes(unsigned size_class) {
  if (size_class < 8) return (size_class + 1) * 16;
  const unsigned doubling = (size_class - 8) / 4;
  return (u64{128} << doubling) / 4 * (5 + (size_class - 8) % 4);
}
static_assert(class_bytes(8) == 160 && class_bytes(kSizes - 1) == kSmallMax);

/// `size` is 1 to kSmallMax.
constexpr unsigned class_of(u64 size) {
  if (size <= 128) return static_cast<unsigned>((size + 15) / 16 - 1);
  const auto power = static_cast<unsigned>(std::bit_width(size - 1)) - 1;  // 128 <= 2^power < size
  const u64 quarter = (size - 1) >> (power - 2) & 3;
  return 8 + (power - 7) * 4 + static_cast<unsigned>(quarter);
}
static_assert(class_of(129) == 8 && class_of(160) == 8 && class_of(161) == 9);
static_assert(class_of(256) == 11 && class_of(257) == 12 && class_of(kSmallMax) == kSizes - 1);

/// class_of without its branches: of size, by (size + 15) / 16.
constexpr std::array<u8, kSmallMax / 16 + 1> make_class_table() {
  std::array<u8, kSmallMax / 16 + 1> table{};
  for (u64 i = 1; i < table.size(); ++i) table[i] = static_cast<u8>(class_of(i * 16));
  return table;
}
inline constexpr std::array<u8, kSmallMax / 16 + 1> kClassOf = make_class_table();

/// Units of a slab: enough blocks that the header and the rest at the end cost little.
constexpr u32 slab_units(unsigned size_class) {
  const u64 bytes = class_bytes(size_class);
  return bytes <= 2048 ? 1 : bytes <= 8192 ? 4 : 8;
}

struct ClassInfo {
  u32 block_bytes;
  u32 units;
  u32 block_count;
  u32 words;
  u32 first_block;
  u32 usable_at;   ///< where its words begin in kUsable
  u32 types_at;    ///< in a slab, 0: its blocks are plain
  u64 reciprocal;  ///< offset * reciprocal >> 32 == offset / block_bytes, for offsets in a slab
};

constexpr std::array<ClassInfo, kClasses> make_classes() {
  std::array<ClassInfo, kClasses> all{};
  u32 usable_at = 0;
  for (unsigned i = 0; i < kClasses; ++i) {
    ClassInfo& info = all[i];
    info.block_bytes = static_cast<u32>(class_bytes(i % kSizes));
    info.units = slab_units(i % kSizes);
    info.block_count = static_cast<u32>(info.units * format::kUnitBytes / info.block_bytes);
    info.words = (info.block_count + 63) / 64;
    u64 header = sizeof(format::SlabHeader) + 2 * sizeof(u64) * info.words;
    if (i >= kSizes) {
      info.types_at = static_cast<u32>(header);
      header += sizeof(u16) * info.block_count;
    }
    info.first_block = static_cast<u32>((header + info.block_bytes - 1) / info.block_bytes);
    info.usable_at = usable_at;
    usable_at += info.words;
    info.reciprocal = (u64{1} << 32) / info.block_bytes + 1;
  }
  return all;
}
inline constexpr std::array<ClassInfo, kClasses> kClassInfo = make_classes();

/// The class of plain blocks for `size` bytes aligned so; kSizes: none, the block is a large one.
constexpr unsigned class_for(u64 size, u64 alignment) {
  if (size > kSmallMax || alignment > kPageBytes) return kSizes;
  unsigned size_class = class_of(size);
  // Blocks lie at multiples of their size from a 64 KiB boundary.
  while (size_class != kSizes && !is_aligned(kClassInfo[size_class].block_bytes, alignment))
    ++size_class;
  return size_class;
}

/// For each word of a class's bitmaps: the bits of blocks that can be given out.
constexpr u32 kBitmapWords = kClassInfo[kClasses - 1].usable_at + kClassInfo[kClasses - 1].words;
constexpr std::array<u64, kBitmapWords> make_usable() {
  std::array<u64, kBitmapWords> usable{};
  for (const ClassInfo& info : kClassInfo)
    for (u32 block = info.first_block; block < info.block_count; ++block)
      usable[info.usable_at + block / 64] |= u64{1} << block % 64;
  return usable;
}
inline constexpr std::array<u64, kBitmapWords> kUsable = make_usable();
constexpr u64 usable_bits(const ClassInfo& info, u32 word) {
  return kUsable[info.usable_at + word];
}

}  // namespace perdura::heap
