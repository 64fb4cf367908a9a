#include "heap/heap.hpp"

#include "base/assert.hpp"
#include "base/mutant.hpp"
#include "heap/slab.hpp"

namespace perdura::heap {
namespace {

using detail::Mutator;
using detail::report;
using format::kUnitBytes;
using format::UnitEntry;
using format::UnitKind;

u64 no_free_word = 0;
constexpr ThreadCache::Current kNoSlab{&no_free_word, nullptr, nullptr, 0};

/// False without memory. These lists make free blocks quick to find; a free must not fail for them.
template <class List>
bool try_push(List& list, u64 unit) noexcept {
  try {
    list.push_back(unit);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

Heap::Heap(region::Region& region, std::string store_name)
    : region_(region),
      units_(region),
      states_(value_or_throw(Mapping::anonymous(region.limit() / kUnitBytes * sizeof(SlabState)))),
      blocks_(region, units_, std::move(store_name)) {}

Heap::~Heap() = default;

// --- allocation --------------------------------------------------------------------------------

ThreadCache& Heap::cache_of(Mutator& mutator) {
  if (mutator.heap_cache != nullptr) return *static_cast<ThreadCache*>(mutator.heap_cache);
  std::lock_guard lock(caches_mutex_);
  caches_.push_back(std::make_unique<ThreadCache>());
  ThreadCache& cache = *caches_.back();
  cache.current.fill(kNoSlab);
  cache.versioned.fill(ThreadCache::kNone);
  mutator.heap_cache = &cache;
  return cache;
}

Result<void*> Heap::allocate_slow(Mutator& mutator, u64 size, u64 alignment) {
  return guarded([&] { return allocate_new(mutator, size, alignment); });
}

Result<void*> Heap::allocate_new(Mutator& mutator, u64 size, u64 alignment) {
  if (!std::has_single_bit(alignment))
    return Failure{Code::kInvalidArgument,
                   "an alignment is a power of two, not " + std::to_string(alignment)};
  if (size == 0) size = 1;
  const unsigned size_class = class_for(size, alignment);
  return allocate_in(mutator, size_class != kSizes ? size_class : kClasses, size, alignment);
}

// In a slab of the class, or with kClasses as a large block.
Result<void*> Heap::allocate_in(Mutator& mutator, unsigned size_class, u64 size, u64 alignment) {
  const auto attempt = [&] {
    return size_class != kClasses ? allocate_small(mutator, size_class)
                                  : allocate_large(mutator, size, alignment);
  };
  Result<void*> block = attempt();
  if (block || block.failure().code != Code::kNoSpace || !release_empty(mutator, cache_of(mutator)))
    return block;
  return attempt();
}

// Where space has run out: the slabs without an allocated block that a thread keeps, or nobody has
// taken since opening, are units again. False when there is none.
bool Heap::release_empty(Mutator& mutator, ThreadCache& cache) {
  if (!loaded_.load(std::memory_order_acquire)) return false;
  const u64 before = released_slabs_.load(std::memory_order_relaxed);
  for (unsigned size_class = 0; size_class < kClasses; ++size_class) {
    take_returned(mutator, cache, size_class);
    std::lock_guard lock(classes_[size_class].mutex);
    const auto release = [&](u64 unit) {
      Slab& slab = *slab_at(unit);
      if (slab.problem(size_class) == nullptr && slab.empty(kClassInfo[size_class]))
        release_slab(mutator, unit);
    };
    // The lists' entries are outdated then.
    for (const u64 unit : cache.available[size_class])
      if (owns(cache, unit, size_class)) release(unit);
    for (const u64 unit : classes_[size_class].partial)
      if (is_slab(unit, size_class) && state(unit).owner.load() == nullptr) release(unit);
    ThreadCache::Current& current = cache.current[size_class];
    if (current.slab == nullptr) continue;
    if (owns(cache, current.unit, size_class)) release(current.unit);
    if (!owns(cache, current.unit, size_class)) current = kNoSlab;
  }
  return released_slabs_.load(std::memory_order_relaxed) != before;
}

void Heap::release_kept(Mutator& mutator) {
  const std::lock_guard lock(caches_mutex_);
  for (const auto& cache : caches_) release_empty(mutator, *cache);
}

Result<void*> Heap::allocate_small(Mutator& mutator, unsigned size_class) {
  const ClassInfo& info = kClassInfo[size_class];
  PERDURA_TRY(load());
  ThreadCache& cache = cache_of(mutator);
  ThreadCache::Current& current = cache.current[size_class];
  for (;;) {
    if (*current.word != 0) {
      if (unversioned_ == nullptr || note_taken(mutator, current))
        return take(mutator, current, info.block_bytes);
      return allocate_versioned(mutator, size_class);
    }
    if (current.slab != nullptr) {
      if (next_word(mutator, current, info)) continue;
      if (!mark_full(mutator, current.unit)) continue;
      state(current.unit).listed = false;
      current = kNoSlab;
    }
    PERDURA_ASSIGN(const u64 unit, next_slab(mutator, cache, size_class));
    Slab* slab = slab_at(unit);
    current = {slab->free(), slab->block(info, 0), slab, unit};
  }
}

// Find a word of the slab with free blocks, first in `free`, then in what others freed.
bool Heap::next_word(Mutator& mutator, ThreadCache::Current& current, const ClassInfo& info) {
  Slab& slab = *current.slab;
  do {
    const auto at = static_cast<u32>(current.word - slab.free());
    for (u32 i = 1; i <= info.words; ++i) {
      const u32 word = (at + i) % info.words;
      if (slab.free()[word] == 0) continue;
      current.word = &slab.free()[word];
      current.base = slab.block(info, u64{word} * 64);
      return true;
    }
  } while (collect_remote(mutator, slab, info));
  return false;
}

bool Heap::collect_remote(Mutator& mutator, Slab& slab, const ClassInfo& info) {
  bool any = false;
  for (u32 word = 0; word < info.words; ++word) {
    u64& remote = slab.remote(info)[word];
    if (Slab::load(remote) == 0) continue;
    report(mutator, &remote, sizeof remote);
    const u64 bits = std::atomic_ref(remote).exchange(0, std::memory_order_acq_rel);
    store(mutator, slab.free()[word], slab.free()[word] | bits);
    any = true;
  }
  return any;
}

// By the owner, of a slab without free blocks; false when another thread freed into it meanwhile.
bool Heap::mark_full(Mutator& mutator, u64 unit) {
  u16& mark = units_.table()[unit].mark;
  report(mutator, &mark, sizeof mark);
  // A full fence. Another thread sets its bit and announces the slab before it looks at the mark:
  // either we see that, or it sees the mark gone.
  std::atomic_ref(mark).exchange(0, std::memory_order_seq_cst);
  const ClassInfo& info = kClassInfo[units_.entry(unit).size_class];
  const bool freed = collect_remote(mutator, *slab_at(unit), info);
  // Those who free into an announced slab leave the mark alone, so it stays.
  if (freed || state(unit).announced.load(std::memory_order_relaxed))
    set_has_free(mutator, unit, true);
  return !freed;
}

void Heap::set_has_free(Mutator& mutator, u64 unit, bool value) {
  u16& mark = units_.table()[unit].mark;
  if ((std::atomic_ref(mark).load(std::memory_order_relaxed) != 0) != value)
    store<u16>(mutator, mark, value ? 1 : 0);
}

bool Heap::is_slab(u64 unit, unsigned size_class) const {
  const UnitEntry entry = units_.entry(unit);
  return entry.kind == UnitKind::kSlab && entry.size_class == size_class;
}

bool Heap::owns(const ThreadCache& cache, u64 unit, unsigned size_class) const {
  return state(unit).owner.load(std::memory_order_relaxed) == &cache && is_slab(unit, size_class);
}

// A slab for `current`, with free blocks in `free`: of the thread's own, of nobody's, or a new one.
Result<u64> Heap::next_slab(Mutator& mutator, ThreadCache& cache, unsigned size_class) {
  auto& available = cache.available[size_class];
  if (available.empty()) take_returned(mutator, cache, size_class);
  while (!available.empty()) {
    const u64 unit = available.front();
    available.pop_front();
    if (owns(cache, unit, size_class) && state(unit).listed) return unit;
  }
  Class& all = classes_[size_class];
  {
    std::lock_guard lock(all.mutex);
    while (!all.partial.empty()) {
      const u64 unit = all.partial.back();
      all.partial.pop_back();
      SlabState& state = this->state(unit);
      if (!is_slab(unit, size_class) || !state.announced.load(std::memory_order_relaxed) ||
          state.owner.load(std::memory_order_relaxed) != nullptr)
        continue;
      if (const char* problem = slab_at(unit)->problem(size_class))
        return blocks_.damaged("unit " + std::to_string(unit) + ": " + problem);
      adopt_partial(mutator, cache, unit, size_class);
      return unit;
    }
  }
  return make_slab(mutator, cache, size_class);
}

// Under the class's lock, of a slab that nobody owns.
void Heap::adopt_partial(Mutator& mutator, ThreadCache& cache, u64 unit, unsigned size_class) {
  SlabState& state = this->state(unit);
  state.owner.store(&cache, std::memory_order_relaxed);
  state.listed = true;
  state.announced.store(false, std::memory_order_seq_cst);
  collect_remote(mutator, *slab_at(unit), kClassInfo[size_class]);
}

// Take what others freed, and keep the slabs that now have free blocks.
void Heap::take_returned(Mutator& mutator, ThreadCache& cache, unsigned size_class) {
  std::lock_guard lock(classes_[size_class].mutex);
  for (const u64 unit : cache.returned[size_class]) {
    SlabState& state = this->state(unit);
    if (!owns(cache, unit, size_class) || !state.announced.load(std::memory_order_relaxed))
      continue;
    // From here on the next free announces it again.
    state.announced.store(false, std::memory_order_seq_cst);
    const bool any = collect_remote(mutator, *slab_at(unit), kClassInfo[size_class]);
    if (state.listed) continue;
    if (!any && mark_full(mutator, unit)) continue;
    if (slab_at(unit)->empty(kClassInfo[size_class])) {
      release_slab(mutator, unit);
    } else {
      set_has_free(mutator, unit, true);
      state.listed = try_push(cache.available[size_class], unit);
    }
  }
  cache.returned[size_class].clear();
}

// Once after opening, before anything is given out or taken back: whether the unit table is sound,
// and the slabs that the last process left with free blocks. The fast paths trust the table. Nobody
// looks at the lists before this succeeded; without memory the next call goes on.
Status Heap::load() {
  if (loaded_.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(units_mutex_);
  if (loaded_.load(std::memory_order_relaxed)) return {};
  if (const std::string problem = units_.problem(); !problem.empty())
    return blocks_.damaged(problem);
  PERDURA_TRY(units_.load());
  const bool listed = units_.for_each([&](u64 unit, const UnitEntry& entry) {
    SlabState& state = this->state(unit);
    if (entry.kind != UnitKind::kSlab || entry.mark == 0 || state.announced.load()) return true;
    if (!try_push(classes_[entry.size_class].partial, unit)) return false;
    state.announced.store(true, std::memory_order_relaxed);
    return true;
  });
  if (!listed) return Failure{Code::kNoMemory, "out of memory"};
  loaded_.store(true, std::memory_order_release);
  return {};
}

Result<u64> Heap::make_slab(Mutator& mutator, ThreadCache& cache, unsigned size_class) {
  std::lock_guard lock(units_mutex_);
  const ClassInfo& info = kClassInfo[size_class];
  PERDURA_ASSIGN(const Units::Run run, allocate_units(mutator, info.units, 1));
  lay_out_slab(mutator, run.first, size_class, &cache);
  if (run.is_untouched) state(run.first).untouched = info.block_count;
  return run.first;
}

// In free units. The slab is listed by its owner, if it has one.
void Heap::lay_out_slab(Mutator& mutator, u64 unit, unsigned size_class, ThreadCache* owner) {
  const ClassInfo& info = kClassInfo[size_class];
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
    // A thread whose free made an earlier slab here empty may be about to look at its bitmaps.
    std::atomic_ref(slab->free()[word]).store(usable_bits(info, word), std::memory_order_relaxed);
    std::atomic_ref(slab->remote(info)[word]).store(0, std::memory_order_relaxed);
  }
  // Owned before it looks like a slab: lists may still have these units from an earlier life.
  state(unit).owner.store(owner, std::memory_order_seq_cst);
  state(unit).listed = owner != nullptr;
  state(unit).untouched = 0;
  units_.set_entry(mutator, unit, {UnitKind::kSlab, static_cast<u8>(size_class), 1, info.units});
  for (u32 i = 1; i < info.units; ++i)
    units_.set_entry(mutator, unit + i, {UnitKind::kSlabTail, 0, 0, i});
}

Result<void*> Heap::allocate_large(Mutator& mutator, u64 size, u64 alignment) {
  if (size > region_.limit())
    return Failure{Code::kNoSpace, "an allocation of " + std::to_string(size) +
                                       " bytes is larger than the region's limit of " +
                                       std::to_string(region_.limit()) + " bytes"};
  const u64 units = round_up(size, kUnitBytes) / kUnitBytes;
  const u64 alignment_units = std::max<u64>(1, alignment / kUnitBytes);
  // Which units are as aligned as several of them depends on where the region is; as aligned as one
  // are all, or none.
  if (!is_aligned(reinterpret_cast<std::uintptr_t>(units_.address(0)),
                  std::min(alignment, kUnitBytes)))
    return Failure{Code::kInvalidArgument, "the region is not aligned to " +
                                               std::to_string(alignment) +
                                               " bytes, so its blocks cannot be"};
  PERDURA_TRY(load());
  std::lock_guard lock(units_mutex_);
  PERDURA_ASSIGN(const Units::Run run, allocate_units(mutator, units, alignment_units));
  const u64 unit = run.first;
  state(unit).untouched = run.is_untouched ? 1 : 0;
  if (notes(mutator)) unversioned_->note_large(unit, units);
  units_.set_entry(mutator, unit, {UnitKind::kLarge, 0, 0, static_cast<u32>(units)});
  std::byte* block = region_.shown(units_.address(unit));
  report(mutator, block, size);
  return static_cast<void*>(block);
}

// --- freeing -----------------------------------------------------------------------------------

Status Heap::deallocate_slow(Mutator& mutator, void* address) {
  if (address == nullptr) return {};
  return guarded([&] { return free_block(mutator, address); });
}

Status Heap::free_block(Mutator& mutator, void* address) {
  // A free needs no memory: what load() could not list is found later.
  Status loaded = guarded([&] { return load(); });
  if (!loaded && loaded.failure().code != Code::kNoMemory) return loaded;
  PERDURA_ASSIGN(const Block block, blocks_.find(address));
  if (block.slab == nullptr) {
    free_large(mutator, block);
    return {};
  }
  const ClassInfo& info = kClassInfo[block.entry.size_class];
  if (block.slab->is_free(info, block.index)) return blocks_.misuse(address, "freed before");
  if (notes(mutator)) unversioned_->note_block(block.unit, block.index);
  // A thread that never allocated owns nothing.
  auto* cache = static_cast<ThreadCache*>(mutator.heap_cache);
  if (cache == nullptr || state(block.unit).owner.load(std::memory_order_relaxed) != cache)
    return free_remote(mutator, block);
  free_own(mutator, *cache, block);
  return {};
}

void Heap::free_own(Mutator& mutator, ThreadCache& cache, const Block& block) {
  const unsigned size_class = block.entry.size_class;
  u64& word = block.slab->free()[block.index / 64];
  store(mutator, word, word | u64{1} << block.index % 64);
  SlabState& state = this->state(block.unit);
  if (!state.listed) {
    set_has_free(mutator, block.unit, true);
    state.listed = try_push(cache.available[size_class], block.unit);
  }
  // What is allocated next comes from one of these. A slab that is released with notes about its
  // blocks is nobody's until the next version.
  if (block.slab == cache.current[size_class].slab ||
      (block.unit == cache.versioned[size_class] && state.listed && has_unversioned()))
    return;
  release_if_empty(mutator, block.unit, size_class);
}

// By the owner.
void Heap::release_if_empty(Mutator& mutator, u64 unit, unsigned size_class) {
  if (!slab_at(unit)->empty(kClassInfo[size_class])) return;
  std::lock_guard lock(classes_[size_class].mutex);
  release_slab(mutator, unit);
}

Status Heap::free_remote(Mutator& mutator, const Block& block) {
  const ClassInfo& info = kClassInfo[block.entry.size_class];
  u64& word = block.slab->remote(info)[block.index / 64];
  const u64 bit = u64{1} << block.index % 64;
  report(mutator, &word, sizeof word);
  const u64 before = std::atomic_ref(word).fetch_or(bit, std::memory_order_seq_cst);
  if ((before & bit) != 0)
    return blocks_.misuse(region_.shown(block.slab->block(info, block.index)), "freed before");
  SlabState& state = this->state(block.unit);
  // Somebody will look at an announced slab. One without an owner may also have become empty.
  if (state.announced.load(std::memory_order_seq_cst)) {
    const u64 free = before | bit | Slab::load(block.slab->free()[block.index / 64]);
    if (free != usable_bits(info, block.index / 64) ||
        state.owner.load(std::memory_order_relaxed) != nullptr)
      return {};
  }
  announce(mutator, block);
  return {};
}

void Heap::announce(Mutator& mutator, const Block& block) {
  // What is not announced now is found by the next free, or after opening.
  const bool loaded = loaded_.load(std::memory_order_acquire);
  const unsigned size_class = block.entry.size_class;
  std::lock_guard lock(classes_[size_class].mutex);
  // Since our bit was set, another thread may have emptied and released the slab.
  if (!is_slab(block.unit, size_class)) return;
  SlabState& state = this->state(block.unit);
  ThreadCache* owner = state.owner.load(std::memory_order_relaxed);
  if (owner == nullptr && block.slab->empty(kClassInfo[size_class])) {
    release_slab(mutator, block.unit);
  } else if (!state.announced.load(std::memory_order_relaxed)) {
    auto& list = owner != nullptr ? owner->returned[size_class] : classes_[size_class].partial;
    if (loaded && try_push(list, block.unit))
      state.announced.store(true, std::memory_order_seq_cst);
    set_has_free(mutator, block.unit, true);
  }
}

// Under the class's lock, of an empty slab.
void Heap::release_slab(Mutator& mutator, u64 unit) {
  state(unit).owner.store(nullptr, std::memory_order_relaxed);
  state(unit).listed = false;
  state(unit).announced.store(false, std::memory_order_relaxed);
  released_slabs_.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(units_mutex_);
  const u32 units = units_.entry(unit).units;
  for (u32 i = 0; i < units; ++i) units_.set_entry(mutator, unit + i, {});
  if (unversioned_ == nullptr || is_mutant("units_at_once") ||
      !unversioned_->hold_slab(unit, units))
    units_.release(unit, units);
}

void Heap::free_large(Mutator& mutator, const Block& block) {
  std::lock_guard lock(units_mutex_);
  units_.set_entry(mutator, block.unit, {});
  if (notes(mutator)) unversioned_->hold_units(block.unit, block.entry.units);
  else units_.release(block.unit, block.entry.units);
}

Result<Heap::Usable> Heap::usable(const void* address) const {
  PERDURA_ASSIGN(const Block block, blocks_.find_allocated(address));
  return Usable{block.bytes(), block.tag() != 0};
}

void Heap::release_cache(Mutator& mutator) {
  if (mutator.heap_cache == nullptr) return;
  ThreadCache& cache = *static_cast<ThreadCache*>(mutator.heap_cache);
  const bool loaded = loaded_.load(std::memory_order_acquire);
  const u64 units_end = units_.units_end();
  for (u64 unit = 0; unit < units_end; ++unit) {
    SlabState& state = this->state(unit);
    if (state.owner.load(std::memory_order_relaxed) != &cache) continue;
    const unsigned size_class = units_.entry(unit).size_class;
    std::lock_guard lock(classes_[size_class].mutex);
    state.announced.store(false, std::memory_order_seq_cst);
    collect_remote(mutator, *slab_at(unit), kClassInfo[size_class]);
    if (slab_at(unit)->empty(kClassInfo[size_class])) {
      release_slab(mutator, unit);
      continue;
    }
    state.listed = false;
    state.owner.store(nullptr, std::memory_order_relaxed);
    if (slab_at(unit)->full(kClassInfo[size_class]) && mark_full(mutator, unit)) continue;
    set_has_free(mutator, unit, true);
    if (loaded && try_push(classes_[size_class].partial, unit))
      state.announced.store(true, std::memory_order_seq_cst);
  }
  cache.current.fill(kNoSlab);
  cache.versioned.fill(ThreadCache::kNone);
  for (unsigned size_class = 0; size_class < kClasses; ++size_class) {
    cache.available[size_class].clear();
    std::lock_guard lock(classes_[size_class].mutex);
    cache.returned[size_class].clear();
  }
}

}  // namespace perdura::heap
