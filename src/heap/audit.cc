// Proof that the heap's metadata is sound: every unit has one owner, every block is either free or
// allocated, and every root points to an allocated block.
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
  if (const char* problem = slab.problem(entry.size_class)) return unit_problem(unit, problem);
  const ClassInfo& info = kClassInfo[entry.size_class];
  u64 free = 0;
  u64 usable = 0;
  for (u32 word = 0; word < info.words; ++word) {
    free += static_cast<u64>(std::popcount(slab.free()[word] | slab.remote(info)[word]));
    usable += static_cast<u64>(std::popcount(usable_bits(info, word)));
  }
  if (free != 0 && entry.mark == 0)
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
  audit.problem = units_.problem();
  if (!audit.problem.empty()) return audit;
  u64 used_units = 0;
  units_.for_each([&](u64 unit, const UnitEntry& entry) {
    used_units += entry.units;
    if (entry.kind == UnitKind::kSlab) {
      audit.problem = check_slab(*slab_at(unit), unit, entry, audit);
      return audit.problem.empty();
    }
    ++audit.large_blocks;
    ++audit.live_blocks;
    audit.live_bytes += u64{entry.units} * kUnitBytes;
    return true;
  });
  if (!audit.problem.empty()) return audit;
  audit.free_bytes += (units_.units_end() - used_units) * kUnitBytes;
  audit.problem = roots_.problem(audit.roots);
  if (audit.problem.empty()) audit.problem = roots_.problem_of_objects();
  if (audit.problem.empty()) audit.problem = check_types(audit.types);
  audit.largest_free_bytes = units_.largest_free() * kUnitBytes;
  audit.clean = audit.problem.empty();
  return audit;
}

}  // namespace perdura::heap
