// The heap as transactions use it: what they may get, what they may rely on, and how recovery
// repeats what they did (heap/unversioned.hpp).
#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/mutant.hpp"
#include "heap/heap.hpp"

namespace perdura::heap {

using detail::Mutator;
using format::UnitEntry;
using format::UnitKind;

// --- notes ---------------------------------------------------------------------------------------

Status Heap::note_unversioned() {
  if (unversioned_ != nullptr) return {};
  PERDURA_TRY(load());
  PERDURA_ASSIGN(std::unique_ptr<Unversioned> made, Unversioned::create(units_.units_max()));
  // Mutators stand still. The version of an epoch that was cut before may be completed meanwhile:
  // of that there are no notes to settle.
  const std::lock_guard lock(units_mutex_);
  unversioned_ = std::move(made);
  return {};
}

// About to take the first free block of `current`. False: perhaps not for a transaction.
bool Heap::note_taken(Mutator& mutator, const ThreadCache::Current& current) {
  if (mutator.by_transaction) return !unversioned_->any() || is_mutant("freed_blocks_at_once");
  const auto word = static_cast<u32>(current.word - current.slab->free());
  unversioned_->note_block(current.unit,
                           word * 64 + static_cast<u32>(std::countr_zero(*current.word)));
  return true;
}

bool Heap::is_unversioned(const void* address) const {
  if (!region_.contains(address)) return false;
  const std::byte* const place = blocks_.place_of(address);
  u64 unit = units_.unit_of(place);
  if (unit == ~u64{0}) return false;
  if (unversioned_->has_large(unit)) return true;
  UnitEntry entry = units_.entry(unit);
  if (entry.kind == UnitKind::kSlabTail) {
    unit -= entry.units;
    entry = units_.entry(unit);
  }
  if (entry.kind != UnitKind::kSlab) return false;
  const u64 index =
      static_cast<u64>(place - units_.address(unit)) / kClassInfo[entry.size_class].block_bytes;
  return index < kClassInfo[entry.size_class].block_count &&
         unversioned_->has_block(unit, static_cast<u32>(index));
}

void Heap::epoch_begins() noexcept {
  if (unversioned_ == nullptr) return;
  if (commit::EpochGuest* const guest = guest_.load()) guest->epoch_begins();
  const std::lock_guard lock(units_mutex_);
  unversioned_->begin_epoch(units_.units_end());
}

void Heap::epoch_settled(bool durable) noexcept {
  if (commit::EpochGuest* const guest = guest_.load()) guest->epoch_settled(durable);
  const std::lock_guard lock(units_mutex_);
  if (unversioned_ == nullptr) return;
  unversioned_->settle(durable, units_.units_end(), [this](u64 unit) { units_.release(unit, 1); });
}

// --- allocation ----------------------------------------------------------------------------------

// With the units' lock. Where nothing else is left an operation gets units that the last version
// may still use: transactions wait for the next one then.
Result<Units::Run> Heap::allocate_units(Mutator& mutator, u64 count, u64 alignment_units) {
  Result<Units::Run> run = units_.allocate(mutator, count, alignment_units);
  if (run || run.failure().code != Code::kNoSpace || !notes(mutator)) return run;
  if (!unversioned_->reclaim(units_.units_end(), [this](u64 each) { units_.release(each, 1); }))
    return run;
  return units_.allocate(mutator, count, alignment_units);
}

// A free block of a slab that was free in the last version as well; nullptr: it has none.
void* Heap::take_versioned(Mutator& mutator, u64 unit, const ClassInfo& info) {
  Slab& slab = *slab_at(unit);
  for (u32 word = 0; word < info.words; ++word) {
    u64& free = slab.free()[word];
    const u64 bits = free & ~unversioned_->word(unit, word);
    if (bits == 0) continue;
    const auto bit = static_cast<unsigned>(std::countr_zero(bits));
    store(mutator, free, free & ~(u64{1} << bit));
    std::byte* const block = slab.block(info, u64{word} * 64 + bit);
    detail::report(mutator, block, info.block_bytes);
    return region_.shown(block);
  }
  return nullptr;
}

// For a transaction, while there are notes: slabs whose free blocks all have one are passed over.
Result<void*> Heap::allocate_versioned(Mutator& mutator, unsigned size_class) {
  const ClassInfo& info = kClassInfo[size_class];
  ThreadCache& cache = cache_of(mutator);
  ThreadCache::Current& current = cache.current[size_class];
  if (current.slab != nullptr)
    if (void* const block = take_versioned(mutator, current.unit, info)) return block;
  u64& last = cache.versioned[size_class];
  const auto is_listed = [&](u64 unit) {
    return owns(cache, unit, size_class) && state(unit).listed;
  };
  if (last != ThreadCache::kNone && is_listed(last)) {
    if (void* const block = take_versioned(mutator, last, info)) return block;
    // It was kept for the blocks that it had.
    if (slab_at(last) != current.slab) release_if_empty(mutator, last, size_class);
  }
  last = ThreadCache::kNone;
  take_returned(mutator, cache, size_class);
  for (const u64 unit : cache.available[size_class]) {
    if (!is_listed(unit)) continue;
    if (void* const block = take_versioned(mutator, unit, info)) {
      last = unit;
      return block;
    }
  }
  PERDURA_ASSIGN(const u64 unit, versioned_slab(mutator, cache, size_class));
  last = unit;
  cache.available[size_class].push_back(unit);
  void* const block = take_versioned(mutator, unit, info);
  PERDURA_ASSERT(block != nullptr);
  return block;
}

// Nobody's slab with such a block, or a new one.
Result<u64> Heap::versioned_slab(Mutator& mutator, ThreadCache& cache, unsigned size_class) {
  const ClassInfo& info = kClassInfo[size_class];
  {
    Class& all = classes_[size_class];
    const std::lock_guard lock(all.mutex);
    for (auto each = all.partial.begin(); each != all.partial.end(); ++each) {
      const u64 unit = *each;
      const SlabState& state = this->state(unit);
      if (!is_slab(unit, size_class) || !state.announced.load(std::memory_order_relaxed) ||
          state.owner.load(std::memory_order_relaxed) != nullptr)
        continue;
      if (const char* problem = slab_at(unit)->problem(size_class))
        return blocks_.damaged("unit " + std::to_string(unit) + ": " + problem);
      Slab& slab = *slab_at(unit);
      bool suits = false;
      for (u32 word = 0; word < info.words && !suits; ++word)
        suits = ((Slab::load(slab.free()[word]) | Slab::load(slab.remote(info)[word])) &
                 ~unversioned_->word(unit, word)) != 0;
      if (!suits) continue;
      all.partial.erase(each);
      adopt_partial(mutator, cache, unit, size_class);
      return unit;
    }
  }
  return make_slab(mutator, cache, size_class);
}

// --- blocks of another process -------------------------------------------------------------------

Result<Heap::Place> Heap::place_of_block(const void* address) const {
  PERDURA_ASSIGN(const Block block, blocks_.find(address));
  Place place{};
  place.offset = region_.offset_of(address);
  place.unit = static_cast<u32>(block.unit);
  if (block.slab == nullptr) place.units = block.entry.units;
  else place.size_class = block.entry.size_class;
  place.tag = block.tag();
  return place;
}

Status Heap::claim(Mutator& mutator, const Place& place) {
  PERDURA_TRY(load());
  if (place.size_class >= kClasses) return blocks_.damaged("a block of an unknown size class");
  const u64 units = place.units != 0 ? place.units : kClassInfo[place.size_class].units;
  if (u64{place.unit} + units > units_.units_max())
    return blocks_.damaged("a block that lies beyond the region's limit");
  if (place.tag != 0) {
    PERDURA_ASSIGN(const Layout* const type, types_.find(place.tag));
    if (type == nullptr) return blocks_.damaged("a block of an unknown type");
  }
  if (place.units == 0) return claim_in_slab(mutator, place);
  std::lock_guard lock(units_mutex_);
  const UnitEntry entry = units_.may_be_used(place.unit) ? units_.entry(place.unit) : UnitEntry{};
  if (entry.kind != UnitKind::kLarge || entry.units != place.units) {
    PERDURA_TRY(vacate(mutator, place.unit, place.units));
    PERDURA_TRY(units_.claim(mutator, place.unit, place.units));
    units_.set_entry(mutator, place.unit,
                     {UnitKind::kLarge, 0, static_cast<u16>(place.tag), place.units});
  }
  if (place.tag != 0) clear(mutator, units_.address(place.unit), place.units * format::kUnitBytes);
  return {};
}

// As who allocated a typed block found it. What was stored to it since then follows in the log.
void Heap::clear(Mutator& mutator, std::byte* block, u64 bytes) {
  detail::report(mutator, block, bytes);
  std::memset(block, 0, bytes);
}

Status Heap::claim_in_slab(Mutator& mutator, const Place& place) {
  const ClassInfo& info = kClassInfo[place.size_class];
  if (!is_slab(place.unit, place.size_class)) {
    std::lock_guard lock(units_mutex_);
    PERDURA_TRY(vacate(mutator, place.unit, info.units));
    PERDURA_TRY(units_.claim(mutator, place.unit, info.units));
    lay_out_slab(mutator, place.unit, place.size_class, nullptr);
  }
  SlabState& state = this->state(place.unit);
  if (!state.announced.load(std::memory_order_relaxed)) {
    classes_[place.size_class].partial.push_back(place.unit);
    state.announced.store(true, std::memory_order_relaxed);
  }
  Slab& slab = *slab_at(place.unit);
  const u64 in_slab = place.offset - static_cast<u64>(units_.address(place.unit) - region_.base());
  const u64 index = in_slab / info.block_bytes;
  if (in_slab % info.block_bytes != 0 || index < info.first_block || index >= info.block_count)
    return blocks_.damaged("a block that does not begin where one of its slab does");
  const u64 bit = u64{1} << index % 64;
  for (u64* const word : {&slab.free()[index / 64], &slab.remote(info)[index / 64]})
    if ((*word & bit) != 0) store(mutator, *word, *word & ~bit);
  if (info.types_at != 0) store(mutator, slab.types(info)[index], static_cast<u16>(place.tag));
  if (place.tag != 0) clear(mutator, slab.block(info, index), info.block_bytes);
  return {};
}

Status Heap::disclaim(Mutator& mutator, u64 offset) {
  PERDURA_TRY(load());
  if (blocks_.allocated_at(offset) == 0) return {};
  return deallocate(mutator, region_.shown(region_.base() + offset));
}

// What no transaction gives back has its place for good: only slabs without a block may be in the
// way, which their owner kept to allocate from.
Status Heap::vacate(Mutator& mutator, u64 first, u64 count) {
  const u64 end = std::min(first + count, units_.units_end());
  for (u64 unit = first; unit < end;) {
    UnitEntry entry = units_.entry(unit);
    if (entry.kind == UnitKind::kSlabTail) {
      unit -= entry.units;
      entry = units_.entry(unit);
    }
    // The units of a large block but its first look free.
    if (entry.kind == UnitKind::kFree && units_.may_be_used(unit)) {
      while (unit != 0 && units_.entry(unit).kind == UnitKind::kFree) --unit;
      entry = units_.entry(unit);
    }
    if (entry.kind == UnitKind::kFree) {
      ++unit;
      continue;
    }
    if (entry.kind == UnitKind::kLarge || !slab_at(unit)->empty(kClassInfo[entry.size_class]))
      return blocks_.damaged("unit " + std::to_string(unit) +
                             " is in use where a transaction of the log allocated a block");
    for (u32 i = 0; i < entry.units; ++i) units_.set_entry(mutator, unit + i, {});
    units_.release(unit, entry.units);
    state(unit).announced.store(false, std::memory_order_relaxed);
    unit += entry.units;
  }
  return {};
}

}  // namespace perdura::heap
