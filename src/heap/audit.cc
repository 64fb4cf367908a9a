// Proof that the heap's metadata is sound: every unit has one owner, every block is either free or
// allocated, and every root points to an allocated block.
#include <set>

#include "heap/heap.hpp"
#include "heap/slab.hpp"

namespace perdura::heap {
namespace {

using format::kUnitBytes;
using format::UnitEntry;
using format::UnitKind;

std::string unit_problem(u64 unit, const char* what) {
  return "unit " + std::to_string(unit) + ": " + what;
}

std::string check_slab(Slab& slab, u64 unit, const UnitEntry& entry, HeapAudit& audit) {
  if (entry.size_class >= kClasses) return unit_problem(unit, "a slab of an unknown size class");
  const ClassInfo& info = kClassInfo[entry.size_class];
  const format::SlabHeader& header = slab.header;
  if (entry.units != info.units || header.magic != format::kSlabMagic ||
      header.size_class != entry.size_class || header.block_bytes != info.block_bytes ||
      header.block_count != info.block_count || header.first_block != info.first_block ||
      header.words != info.words)
    return unit_problem(unit, "the slab header does not fit its size class");
  u64 free = 0;
  u64 usable = 0;
  for (u32 word = 0; word < info.words; ++word) {
    const u64 own = slab.free()[word];
    const u64 remote = slab.remote()[word];
    if ((own & remote) != 0) return unit_problem(unit, "a block was freed twice");
    if (((own | remote) & ~usable_bits(info, word)) != 0)
      return unit_problem(unit, "a block that does not exist is free");
    free += static_cast<u64>(std::popcount(own | remote));
    usable += static_cast<u64>(std::popcount(usable_bits(info, word)));
  }
  if (free != 0 && entry.has_free == 0)
    return unit_problem(unit, "free blocks are lost: the slab is marked full");
  ++audit.slabs;
  audit.live_blocks += usable - free;
  audit.live_bytes += (usable - free) * info.block_bytes;
  audit.free_bytes += free * info.block_bytes;
  return {};
}

}  // namespace

HeapAudit Heap::audit() const {
  HeapAudit audit;
  const std::lock_guard lock(units_mutex_);
  const format::HeapHeader& header = units_.header();
  const UnitEntry* table = units_.table();
  const auto home = region_.home();
  for (u64 unit = 0; unit < header.units_end && audit.problem.empty();) {
    const UnitEntry& entry = table[unit];
    if (entry.kind == UnitKind::kFree) {
      audit.free_bytes += kUnitBytes;
      ++unit;
      continue;
    }
    if (entry.kind != UnitKind::kSlab && entry.kind != UnitKind::kLarge) {
      audit.problem = unit_problem(unit, "belongs to nothing that begins before it");
      break;
    }
    if (entry.units == 0 || entry.units > header.units_end - unit) {
      audit.problem = unit_problem(unit, "reaches beyond the end of the heap");
      break;
    }
    const u64 last_byte = header.data_begin + (unit + entry.units) * kUnitBytes - 1;
    if (home->find(header.data_begin + unit * kUnitBytes) == nullptr ||
        home->find(last_byte) == nullptr) {
      audit.problem = unit_problem(unit, "has no space on the medium");
      break;
    }
    for (u32 i = 1; i < entry.units && audit.problem.empty(); ++i) {
      const UnitEntry& tail = table[unit + i];
      const bool good = entry.kind == UnitKind::kSlab
                            ? tail.kind == UnitKind::kSlabTail && tail.units == i
                            : tail.kind == UnitKind::kFree;
      if (!good) audit.problem = unit_problem(unit + i, "has two owners");
    }
    if (!audit.problem.empty()) break;
    if (entry.kind == UnitKind::kSlab) {
      audit.problem = check_slab(*slab_at(unit), unit, entry, audit);
    } else {
      ++audit.large_blocks;
      ++audit.live_blocks;
      audit.live_bytes += u64{entry.units} * kUnitBytes;
    }
    unit += entry.units;
  }
  if (!audit.problem.empty()) return audit;

  std::set<u64> seen;
  for (u64 at = header.roots; at != 0;) {
    const auto allocated = [&](u64 offset) {
      const Result<Block> block = find(region_.base() + offset);
      if (!block) return false;
      if (block->slab == nullptr) return true;
      const u64 bit = u64{1} << block->index % 64;
      return ((block->slab->free()[block->index / 64] | block->slab->remote()[block->index / 64]) &
              bit) == 0;
    };
    if (!seen.insert(at).second || !allocated(at)) {
      audit.problem = "the list of roots is broken at region offset " + std::to_string(at);
      return audit;
    }
    const auto* node = reinterpret_cast<const format::RootNode*>(region_.base() + at);
    if (!region_.contains(region_.base() + node->object)) {
      audit.problem = "a root points outside the region";
      return audit;
    }
    ++audit.roots;
    at = node->next;
  }
  if (audit.roots != header.root_count) audit.problem = "the number of roots is wrong";
  audit.largest_free_bytes = units_.largest_free() * kUnitBytes;
  audit.clean = audit.problem.empty();
  return audit;
}

}  // namespace perdura::heap
