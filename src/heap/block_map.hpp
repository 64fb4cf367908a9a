// Where a heap's blocks lie and what they are, as the tables in its region say it: for the
// allocator itself, and for whoever looks for blocks or walks them without allocating any.
//
// A map changes nothing. What it finds is so at that moment: other threads may allocate meanwhile
// where nothing else is said, and who relies on more keeps mutators out.
#pragma once

#include <bit>
#include <string>
#include <vector>

#include "heap/slab.hpp"
#include "heap/units.hpp"

namespace perdura::heap {

/// Of a block of a type: what Block::tag() says then.
constexpr u16 block_tag(u32 type_number, bool flexible) {
  return static_cast<u16>(2 * type_number + (flexible ? 1 : 0));
}

/// What is known of a block from its address; without units: no block.
struct Block {
  u64 unit = 0;  ///< first of its slab or large block
  format::UnitEntry entry{};
  Slab* slab = nullptr;  ///< none: it is a large block
  u32 index = 0;         ///< in the slab

  const ClassInfo& info() const { return kClassInfo[entry.size_class]; }
  u64 bytes() const {
    return slab != nullptr ? u64{info().block_bytes} : u64{entry.units} * format::kUnitBytes;
  }
  bool is_free() const { return slab != nullptr && slab->is_free(info(), index); }
  /// The number of its type, times two, and one more for a flexible array at its end; 0: no type.
  u16 tag() const {
    if (slab == nullptr) return entry.mark;
    return info().types_at != 0 ? slab->types(info())[index] : u16{0};
  }
};

class BlockMap {
 public:
  BlockMap(const region::Region& region, const Units& units, std::string store_name)
      : region_(region), units_(units), name_(std::move(store_name)) {}

  const region::Region& region() const { return region_; }
  const Units& units() const { return units_; }
  const std::string& store_name() const { return name_; }

  /// In the first mapping, of an address in any.
  std::byte* place_of(const void* address) const {
    return region_.base() + region_.offset_of(address);
  }
  std::byte* place_of(const Block& block) const {
    return block.slab != nullptr ? block.slab->block(block.info(), block.index)
                                 : units_.address(block.unit);
  }
  /// The address that the program has for a place in a block, or at its beginning.
  std::byte* shown_at(u64 offset) const;
  /// Where the tag of a typed block is.
  u16& tag_place(const Block& block) const {
    if (block.slab == nullptr) return units_.table()[block.unit].mark;
    return block.slab->types(block.info())[block.index];
  }

  /// The block that the program knows by an address, or a free one there. kMisuse says what is
  /// wrong with the address.
  Result<Block> find(const void* address) const;
  Result<Block> find_allocated(const void* address) const;
  /// The same by its place.
  Result<Block> find_at(const std::byte* place) const { return find_at(place, place); }
  /// Bytes of the allocated block at a region offset; 0 where there is none.
  u64 allocated_at(u64 offset) const;
  /// Whether there is an allocated block at a region offset; also one that begins before it.
  bool is_allocated(u64 offset) const;
  /// The slab that holds a place, as a block of it without an index. Where none does it has none,
  /// and `unit` is the one that holds the place, ~0 beyond all of them.
  Block slab_of(const std::byte* place) const;

  /// visit(place, bytes, tag) of each allocated block.
  template <class Visit>
  void for_each_block(Visit&& visit) const {
    units_.for_each([&](u64 unit, const format::UnitEntry& entry) {
      for_each_block_at(unit, entry, visit);
      return true;
    });
  }
  /// The same of the slab or large block that begins at `unit`.
  template <class Visit>
  void for_each_block_at(u64 unit, const format::UnitEntry& entry, Visit&& visit) const;

  /// With aliases: the lines of a page that hold allocated blocks which start in the alias's part.
  /// While mutators stand still (track::Scatter).
  u64 visible_lines(u64 page, u64 alias) const;
  /// The blocks that lie in a page, or in part, and lines that they take up there.
  struct BlockLines {
    u64 start;  ///< of the block, in the page it starts in
    u64 lines;
    bool allocated;
  };
  void blocks_of_page(u64 page, std::vector<BlockLines>& into) const;
  /// Where an address lies: " (in the block of 64 bytes at 0x…)", or in the heap's own metadata.
  std::string describe(const void* address) const;

  Failure misuse(const void* block, const char* what) const;
  Failure damaged(const std::string& what) const;

 private:
  Result<Block> find_at(const std::byte* place, const void* address) const;

  const region::Region& region_;
  const Units& units_;
  const std::string name_;
};

inline Block BlockMap::slab_of(const std::byte* place) const {
  Block block;
  block.unit = units_.unit_of(place);
  if (block.unit == ~u64{0}) return block;
  block.entry = units_.entry(block.unit);
  const u64 own = block.unit;
  if (block.entry.kind == format::UnitKind::kSlabTail && block.entry.units <= block.unit)
    block.entry = units_.entry(block.unit -= block.entry.units);
  if (block.entry.kind != format::UnitKind::kSlab || block.entry.size_class >= kClasses)
    return block;
  const u64 units = block.info().units;
  if (own - block.unit < units && units <= units_.units_end() - block.unit)
    block.slab = units_.slab_at(block.unit);
  return block;
}

template <class Visit>
void BlockMap::for_each_block_at(u64 unit, const format::UnitEntry& entry, Visit&& visit) const {
  if (entry.kind == format::UnitKind::kLarge) {
    visit(units_.address(unit), entry.units * format::kUnitBytes, entry.mark);
    return;
  }
  const ClassInfo& info = kClassInfo[entry.size_class];
  Slab* const slab = units_.slab_at(unit);
  for (u32 word = 0; word < info.words; ++word) {
    for (u64 live = slab->live(info, word); live != 0; live &= live - 1) {
      const u64 index = u64{word} * 64 + static_cast<u64>(std::countr_zero(live));
      visit(slab->block(info, index), u64{info.block_bytes},
            info.types_at != 0 ? slab->types(info)[index] : u16{0});
    }
  }
}

}  // namespace perdura::heap
