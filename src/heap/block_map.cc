#include "heap/block_map.hpp"

#include <cstdio>

namespace perdura::heap {

using format::UnitEntry;
using format::UnitKind;

Failure BlockMap::misuse(const void* block, const char* what) const {
  char address[32];
  std::snprintf(address, sizeof address, "%p", block);
  return Failure{Code::kMisuse, std::string(address) + " in '" + name_ + "': " + what};
}

Failure BlockMap::damaged(const std::string& what) const {
  return Failure{Code::kCorrupt, "the heap of '" + name_ + "' is damaged (" + what +
                                     "); run `perdura check` and restore the store from a copy"};
}

Result<Block> BlockMap::find(const void* address) const {
  if (!region_.contains(address))
    return misuse(address, "not a block of this store; give it back to where it came from");
  std::byte* const place = place_of(address);
  PERDURA_ASSIGN(const Block block, find_at(place, address));
  if (region_.shown(place) != address)
    return misuse(address, "not an address that this store gave out");
  return block;
}

Result<Block> BlockMap::find_at(const std::byte* place, const void* address) const {
  Block block;
  block.unit = units_.unit_of(place);
  if (block.unit == ~u64{0}) return misuse(address, "never allocated");
  block.entry = units_.entry(block.unit);
  if (block.entry.kind == UnitKind::kSlabTail && block.entry.units <= block.unit) {
    block.unit -= block.entry.units;
    block.entry = units_.entry(block.unit);
  }
  const auto offset = static_cast<u64>(place - units_.address(block.unit));
  const u64 units_left = units_.units_end() - block.unit;
  if (block.entry.kind == UnitKind::kLarge && block.entry.units <= units_left) {
    if (offset != 0) return misuse(address, "inside a block, not its beginning");
    return block;
  }
  if (block.entry.kind != UnitKind::kSlab || block.entry.size_class >= kClasses ||
      block.info().units > units_left)
    return misuse(address, "not allocated: freed before, or not a block's beginning");
  const ClassInfo& info = block.info();
  block.slab = units_.slab_at(block.unit);
  block.index = static_cast<u32>(offset * info.reciprocal >> 32);
  if (u64{block.index} * info.block_bytes != offset || block.index < info.first_block ||
      block.index >= info.block_count)
    return misuse(address, "inside a block, not its beginning");
  return block;
}

Result<Block> BlockMap::find_allocated(const void* address) const {
  PERDURA_ASSIGN(const Block block, find(address));
  if (block.is_free()) return misuse(address, "freed before");
  return block;
}

u64 BlockMap::allocated_at(u64 offset) const {
  if (offset >= region_.limit()) return 0;
  const Result<Block> block = find_at(region_.base() + offset);
  return block && !block->is_free() ? block->bytes() : 0;
}

bool BlockMap::is_allocated(u64 offset) const {
  const std::byte* const place = region_.base() + offset;
  const Block slab = slab_of(place);
  if (slab.slab != nullptr) {
    const ClassInfo& info = slab.info();
    const auto in_slab = static_cast<u64>(place - units_.address(slab.unit));
    const u64 index = in_slab * info.reciprocal >> 32;
    return index >= info.first_block && index < info.block_count &&
           !slab.slab->is_free(info, index);
  }
  if (slab.unit == ~u64{0}) return false;
  // The units of a large block but its first look free.
  u64 first = slab.unit;
  while (first != 0 && units_.entry(first).kind == UnitKind::kFree) --first;
  const UnitEntry entry = units_.entry(first);
  return entry.kind == UnitKind::kLarge && slab.unit - first < entry.units;
}

// Also of a table that nobody has checked.
std::string BlockMap::describe(const void* address) const {
  const std::byte* const place = place_of(address);
  const Block slab = slab_of(place);
  if (slab.unit == ~u64{0}) return " (in the heap's own tables)";
  if (slab.slab == nullptr) return " (in a large block)";
  const ClassInfo& info = slab.info();
  const auto offset = static_cast<u64>(place - units_.address(slab.unit));
  const u64 index = offset / info.block_bytes;
  if (index < info.first_block) return " (in the heap's own bitmaps)";
  char text[96];
  std::snprintf(text, sizeof text, " (in the block of %u bytes at %p)", info.block_bytes,
                static_cast<void*>(region_.shown(slab.slab->block(info, index))));
  return text;
}

}  // namespace perdura::heap
