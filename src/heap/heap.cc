#include "heap/heap.hpp"

#include <cstdio>
#include <cstring>

#include "base/assert.hpp"
#include "heap/slab.hpp"

namespace perdura::heap {
namespace {

using detail::Mutator;
using detail::report;
using format::kUnitBytes;
using format::UnitEntry;
using format::UnitKind;

u64 no_free_word = 0;

}  // namespace

Heap::Heap(region::Region& region, std::string store_name)
    : region_(region),
      name_(std::move(store_name)),
      units_(region),
      owners_(value_or_throw(
          Mapping::anonymous(region.limit() / kUnitBytes * sizeof(std::atomic<u32>)))) {}

Heap::~Heap() = default;

// --- allocation --------------------------------------------------------------------------------

inline ThreadCache& Heap::cache_of(Mutator& mutator) {
  if (mutator.heap_cache != nullptr) [[likely]]
    return *static_cast<ThreadCache*>(mutator.heap_cache);
  return make_cache(mutator);
}

ThreadCache& Heap::make_cache(Mutator& mutator) {
  std::lock_guard lock(caches_mutex_);
  caches_.push_back(std::make_unique<ThreadCache>());
  ThreadCache& cache = *caches_.back();
  cache.owner = static_cast<u32>(caches_.size());
  cache.current.fill({&no_free_word, nullptr, nullptr, 0});
  mutator.heap_cache = &cache;
  return cache;
}

inline void* Heap::take(Mutator& mutator, ThreadCache::Current& current, u64 block_bytes) {
  const u64 bits = *current.word;
  std::byte* block = current.base + static_cast<u64>(std::countr_zero(bits)) * block_bytes;
  store(mutator, *current.word, bits & (bits - 1));
  report(mutator, block, block_bytes);
  return block;
}

Result<void*> Heap::allocate(Mutator& mutator, u64 size, u64 alignment) {
  if (!std::has_single_bit(alignment))
    return Failure{Code::kInvalidArgument,
                   "an alignment is a power of two, not " + std::to_string(alignment)};
  if (size == 0) size = 1;
  if (size > kSmallMax || alignment > kPageBytes) [[unlikely]]
    return allocate_large(mutator, size, alignment);
  unsigned size_class = class_of(size);
  // Blocks lie at multiples of their size from a 64 KiB boundary.
  while (alignment > 16 && !is_aligned(kClassInfo[size_class].block_bytes, alignment))
    if (++size_class == kClasses) return allocate_large(mutator, size, alignment);
  ThreadCache& cache = cache_of(mutator);
  ThreadCache::Current& current = cache.current[size_class];
  if (*current.word != 0) [[likely]]
    return take(mutator, current, kClassInfo[size_class].block_bytes);
  return allocate_slow(mutator, cache, size_class);
}

Result<void*> Heap::allocate_slow(Mutator& mutator, ThreadCache& cache, unsigned size_class) {
  const ClassInfo& info = kClassInfo[size_class];
  ThreadCache::Current& current = cache.current[size_class];
  for (;;) {
    if (current.slab != nullptr) {
      if (next_word(mutator, current, info)) return take(mutator, current, info.block_bytes);
      if (!disown_full(mutator, current, size_class)) continue;
    }
    PERDURA_ASSIGN(const u64 unit, acquire_slab(mutator, cache, size_class));
    Slab* slab = slab_at(unit);
    current = {slab->free(), slab->block(0), slab, unit};
    // With the first word: next_word starts behind the current one.
    if (*current.word != 0) return take(mutator, current, info.block_bytes);
  }
}

// Find a word of the slab with free blocks, first in `free`, then in what others freed.
bool Heap::next_word(Mutator& mutator, ThreadCache::Current& current, const ClassInfo& info) {
  Slab& slab = *current.slab;
  for (int round = 0; round < 2; ++round) {
    const auto at = static_cast<u32>(current.word - slab.free());
    for (u32 i = 1; i <= info.words; ++i) {
      const u32 word = (at + i) % info.words;
      if (slab.free()[word] == 0) continue;
      current.word = &slab.free()[word];
      current.base = slab.block(u64{word} * 64);
      return true;
    }
    if (round == 0 && !collect_remote(mutator, slab)) return false;
  }
  return false;
}

bool Heap::collect_remote(Mutator& mutator, Slab& slab) {
  bool any = false;
  for (u32 word = 0; word < slab.header.words; ++word) {
    u64& remote = slab.remote()[word];
    if (Slab::load(remote) == 0) continue;
    report(mutator, &remote, sizeof remote);
    const u64 bits = std::atomic_ref(remote).exchange(0, std::memory_order_acq_rel);
    store(mutator, slab.free()[word], slab.free()[word] | bits);
    any = true;
  }
  return any;
}

// False when another thread freed into the slab meanwhile, and it stays ours.
bool Heap::disown_full(Mutator& mutator, ThreadCache::Current& current, unsigned size_class) {
  std::lock_guard lock(classes_[size_class].mutex);
  // Marked full first: whoever frees into it from now on and finds no owner also finds the mark,
  // and waits for the lock to list the slab.
  set_has_free(mutator, current.unit, false);
  owner(current.unit).store(0, std::memory_order_seq_cst);
  if (collect_remote(mutator, *current.slab)) {
    set_has_free(mutator, current.unit, true);
    owner(current.unit).store(static_cast<ThreadCache*>(mutator.heap_cache)->owner);
    return false;
  }
  current = {&no_free_word, nullptr, nullptr, 0};
  return true;
}

void Heap::set_has_free(Mutator& mutator, u64 unit, bool value) {
  u8& flag = units_.table()[unit].has_free;
  if ((std::atomic_ref(flag).load(std::memory_order_relaxed) != 0) != value)
    store<u8>(mutator, flag, value ? 1 : 0);
}

Result<u64> Heap::acquire_slab(Mutator& mutator, ThreadCache& cache, unsigned size_class) {
  Class& all = classes_[size_class];
  {
    std::lock_guard lock(all.mutex);
    if (!all.loaded) load_partial(size_class);
    while (!all.partial.empty()) {
      const u64 unit = all.partial.back();
      all.partial.pop_back();
      const UnitEntry entry = units_.entry(unit);
      if (entry.kind != UnitKind::kSlab || entry.size_class != size_class || entry.has_free == 0 ||
          owner(unit).load(std::memory_order_relaxed) != 0)
        continue;
      owner(unit).store(cache.owner, std::memory_order_seq_cst);
      collect_remote(mutator, *slab_at(unit));
      return unit;
    }
  }
  return make_slab(mutator, cache, size_class);
}

void Heap::load_partial(unsigned size_class) {
  std::lock_guard lock(units_mutex_);
  units_.for_each([&](u64 unit, const UnitEntry& entry) {
    if (entry.kind == UnitKind::kSlab && entry.size_class == size_class && entry.has_free != 0)
      classes_[size_class].partial.push_back(unit);
    return true;
  });
  classes_[size_class].loaded = true;
}

Result<u64> Heap::make_slab(Mutator& mutator, ThreadCache& cache, unsigned size_class) {
  const ClassInfo& info = kClassInfo[size_class];
  std::lock_guard lock(units_mutex_);
  PERDURA_ASSIGN(const u64 unit, units_.allocate(mutator, info.units, 1));
  Slab* slab = slab_at(unit);
  report(mutator, slab, sizeof(format::SlabHeader) + 2 * sizeof(u64) * info.words);
  slab->header = {.magic = format::kSlabMagic,
                  .size_class = size_class,
                  .block_bytes = info.block_bytes,
                  .block_count = info.block_count,
                  .first_block = info.first_block,
                  .words = info.words,
                  .reserved = {}};
  for (u32 word = 0; word < info.words; ++word) {
    slab->free()[word] = usable_bits(info, word);
    slab->remote()[word] = 0;
  }
  // Owned before it looks like a slab: the class may still list these units from an earlier life.
  owner(unit).store(cache.owner, std::memory_order_seq_cst);
  units_.set_entry(mutator, unit, {UnitKind::kSlab, static_cast<u8>(size_class), 1, 0, info.units});
  for (u32 i = 1; i < info.units; ++i)
    units_.set_entry(mutator, unit + i, {UnitKind::kSlabTail, 0, 0, 0, i});
  return unit;
}

Result<void*> Heap::allocate_large(Mutator& mutator, u64 size, u64 alignment) {
  if (size > region_.limit())
    return Failure{Code::kNoSpace, "an allocation of " + std::to_string(size) +
                                       " bytes is larger than the region's limit of " +
                                       std::to_string(region_.limit()) + " bytes"};
  const u64 units = round_up(size, kUnitBytes) / kUnitBytes;
  const u64 alignment_units = std::max<u64>(1, alignment / kUnitBytes);
  // Units are aligned from the start of the data, which is as aligned as a unit.
  if (!is_aligned(reinterpret_cast<std::uintptr_t>(units_.address(0)), alignment))
    return Failure{Code::kInvalidArgument, "the region is not aligned to " +
                                               std::to_string(alignment) +
                                               " bytes, so its blocks cannot be"};
  std::lock_guard lock(units_mutex_);
  PERDURA_ASSIGN(const u64 unit, units_.allocate(mutator, units, alignment_units));
  units_.set_entry(mutator, unit, {UnitKind::kLarge, 0, 0, 0, static_cast<u32>(units)});
  std::byte* block = units_.address(unit);
  report(mutator, block, size);
  return static_cast<void*>(block);
}

// --- freeing -----------------------------------------------------------------------------------

Failure Heap::misuse(const void* block, const char* what) const {
  char address[32];
  std::snprintf(address, sizeof address, "%p", block);
  return Failure{Code::kMisuse, std::string(address) + " in '" + name_ + "': " + what};
}

Result<Heap::Block> Heap::find(const void* address) const {
  if (!region_.contains(address))
    return misuse(address, "not a block of this store; give it back to where it came from");
  Block block;
  block.unit = units_.unit_of(address);
  if (block.unit == ~u64{0}) return misuse(address, "never allocated");
  block.entry = units_.entry(block.unit);
  if (block.entry.kind == UnitKind::kSlabTail) {
    block.unit -= block.entry.units;
    block.entry = units_.entry(block.unit);
  }
  const auto offset =
      static_cast<u64>(static_cast<const std::byte*>(address) - units_.address(block.unit));
  if (block.entry.kind == UnitKind::kLarge) {
    if (offset != 0) return misuse(address, "inside a block, not its beginning");
    return block;
  }
  if (block.entry.kind != UnitKind::kSlab)
    return misuse(address, "not allocated: freed before, or not a block's beginning");
  const ClassInfo& info = kClassInfo[block.entry.size_class];
  block.slab = slab_at(block.unit);
  block.index = static_cast<u32>(offset * info.reciprocal >> 32);
  if (u64{block.index} * info.block_bytes != offset || block.index < info.first_block ||
      block.index >= info.block_count)
    return misuse(address, "inside a block, not its beginning");
  return block;
}

Status Heap::deallocate(Mutator& mutator, void* address) {
  if (address == nullptr) return {};
  PERDURA_ASSIGN(const Block block, find(address));
  if (block.slab == nullptr) {
    free_large(mutator, block);
    return {};
  }
  ThreadCache& cache = cache_of(mutator);
  const u32 word = block.index / 64;
  const u64 bit = u64{1} << block.index % 64;
  if (((Slab::load(block.slab->free()[word]) | Slab::load(block.slab->remote()[word])) & bit) != 0)
    return misuse(address, "freed before");
  if (owner(block.unit).load(std::memory_order_relaxed) == cache.owner)
    return free_own(mutator, cache, block);
  return free_remote(mutator, block);
}

inline Status Heap::free_own(Mutator& mutator, ThreadCache&, const Block& block) {
  u64& word = block.slab->free()[block.index / 64];
  store(mutator, word, word | u64{1} << block.index % 64);
  return {};
}

Status Heap::free_remote(Mutator& mutator, const Block& block) {
  u64& word = block.slab->remote()[block.index / 64];
  const u64 bit = u64{1} << block.index % 64;
  report(mutator, &word, sizeof word);
  const u64 before = std::atomic_ref(word).fetch_or(bit, std::memory_order_seq_cst);
  if ((before & bit) != 0) return misuse(block.slab->block(block.index), "freed before");
  // An owner finds the bit when it runs out. Without one, somebody must learn of the free block,
  // and an empty slab goes back; both concern few frees.
  if (owner(block.unit).load(std::memory_order_seq_cst) != 0) return {};
  const UnitEntry entry = units_.entry(block.unit);
  const bool listed = entry.has_free != 0;
  const u64 usable = usable_bits(kClassInfo[block.entry.size_class], block.index / 64);
  const bool word_empty =
      ((before | bit | Slab::load(block.slab->free()[block.index / 64])) & usable) == usable;
  if (!listed || word_empty) tidy_unowned(mutator, block);
  return {};
}

void Heap::tidy_unowned(Mutator& mutator, const Block& block) {
  const unsigned size_class = block.entry.size_class;
  const ClassInfo& info = kClassInfo[size_class];
  std::lock_guard lock(classes_[size_class].mutex);
  // Since our bit was set, another thread may have taken the slab, or emptied and released it.
  const UnitEntry entry = units_.entry(block.unit);
  if (entry.kind != UnitKind::kSlab || entry.size_class != size_class ||
      owner(block.unit).load(std::memory_order_relaxed) != 0)
    return;
  bool empty = true;
  for (u32 word = 0; word < info.words && empty; ++word)
    empty = (Slab::load(block.slab->free()[word]) | Slab::load(block.slab->remote()[word])) ==
            usable_bits(info, word);
  if (empty) {
    release_slab(mutator, block.unit);
  } else if (entry.has_free == 0) {
    set_has_free(mutator, block.unit, true);
    if (classes_[size_class].loaded) classes_[size_class].partial.push_back(block.unit);
  }
}

void Heap::release_slab(Mutator& mutator, u64 unit) {
  std::lock_guard lock(units_mutex_);
  const u32 units = units_.entry(unit).units;
  for (u32 i = 0; i < units; ++i) units_.set_entry(mutator, unit + i, {});
  units_.release(unit, units);
}

void Heap::free_large(Mutator& mutator, const Block& block) {
  std::lock_guard lock(units_mutex_);
  units_.set_entry(mutator, block.unit, {});
  units_.release(block.unit, block.entry.units);
}

Result<u64> Heap::usable_size(const void* address) const {
  PERDURA_ASSIGN(const Block block, find(address));
  if (block.slab == nullptr) return u64{block.entry.units} * kUnitBytes;
  return u64{kClassInfo[block.entry.size_class].block_bytes};
}

std::string Heap::describe(const void* address) const {
  const u64 unit = units_.unit_of(address);
  if (unit == ~u64{0}) return " (in the heap's own tables)";
  UnitEntry entry = units_.entry(unit);
  const u64 head = entry.kind == UnitKind::kSlabTail ? unit - entry.units : unit;
  entry = units_.entry(head);
  if (entry.kind != UnitKind::kSlab) return " (in a large block)";
  const ClassInfo& info = kClassInfo[entry.size_class];
  const auto offset =
      static_cast<u64>(static_cast<const std::byte*>(address) - units_.address(head));
  const u64 index = offset / info.block_bytes;
  if (index < info.first_block) return " (in the heap's own bitmaps)";
  char text[96];
  std::snprintf(text, sizeof text, " (in the block of %u bytes at %p)", info.block_bytes,
                static_cast<void*>(slab_at(head)->block(index)));
  return text;
}

void Heap::release_cache(Mutator& mutator) {
  if (mutator.heap_cache == nullptr) return;
  ThreadCache& cache = *static_cast<ThreadCache*>(mutator.heap_cache);
  for (unsigned size_class = 0; size_class < kClasses; ++size_class) {
    ThreadCache::Current& current = cache.current[size_class];
    if (current.slab == nullptr) continue;
    Class& all = classes_[size_class];
    std::lock_guard lock(all.mutex);
    set_has_free(mutator, current.unit, false);  // as in disown_full
    owner(current.unit).store(0, std::memory_order_seq_cst);
    collect_remote(mutator, *current.slab);
    bool any = false;
    for (u32 word = 0; word < current.slab->header.words; ++word)
      any = any || current.slab->free()[word] != 0;
    set_has_free(mutator, current.unit, any);
    if (any && all.loaded) all.partial.push_back(current.unit);
    current = {&no_free_word, nullptr, nullptr, 0};
  }
}

}  // namespace perdura::heap
