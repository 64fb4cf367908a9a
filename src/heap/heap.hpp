// The allocator of a region: size classes in slabs, one slab a thread and class, after Hoard.
//
//   small   bitmaps in the slab: allocate and free change one word each, never a freed block
//   large   runs of units
//   roots   a list of named blocks
//
// Everything that says what is allocated lives in the region, so that allocation rolls back with
// the data. Who owns a slab and which slabs have free blocks is volatile, and derived after
// opening.
//
// Ownership: the owner of a slab allocates from `free` and frees into it with plain stores. Any
// other thread frees into `remote` with an atomic or; the owner moves those bits over when `free`
// runs out. A slab without an owner changes under its class's lock. Lock order: class, then units.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <string_view>
#include <vector>

#include <perdura/store.hpp>

#include "heap/size_classes.hpp"
#include "heap/units.hpp"

namespace perdura::heap {

struct Slab;

/// The slabs a thread owns. Volatile.
struct ThreadCache {
  struct Current {
    u64* word;        ///< free bits that are being used up
    std::byte* base;  ///< block of bit 0
    Slab* slab;
    u64 unit;
  };
  std::array<Current, kClasses> current;
  u32 owner = 0;  ///< 1-based
};

class Heap {
 public:
  Heap(region::Region& region, std::string store_name);
  ~Heap();

  Status format(detail::Mutator& mutator) { return units_.format(mutator); }
  Status attach() { return units_.attach(name_); }

  /// All inside an operation of the mutator.
  Result<void*> allocate(detail::Mutator& mutator, u64 size, u64 alignment);
  Status deallocate(detail::Mutator& mutator, void* block);
  /// Bytes usable in a block that was given out, or a failure that says what is wrong with it.
  Result<u64> usable_size(const void* block) const;

  Result<void*> get_root(std::string_view name, u64 fingerprint) const;
  Status set_root(detail::Mutator& mutator, std::string_view name, void* object, u64 fingerprint);
  /// Where an address lies: " (in the block of 64 bytes at 0x…)", or in the heap's own metadata.
  std::string describe(const void* address) const;

  /// Every root, as (name, object, fingerprint).
  struct RootInfo {
    std::string name;
    const void* object;
    u64 fingerprint;
  };
  std::vector<RootInfo> roots() const;

  /// Walk all metadata. No thread may allocate meanwhile.
  HeapAudit audit() const;

  /// A thread ends: its slabs are anybody's.
  void release_cache(detail::Mutator& mutator);

 private:
  /// Slabs of a class that nobody owns and that have free blocks; entries may be outdated.
  struct alignas(64) Class {
    std::mutex mutex;
    std::vector<u64> partial;
    bool loaded = false;
  };
  /// What is known of a block from its address.
  struct Block {
    u64 unit = 0;  ///< first of its slab or large block
    format::UnitEntry entry{};
    Slab* slab = nullptr;
    u32 index = 0;  ///< in the slab
  };

  ThreadCache& cache_of(detail::Mutator& mutator);
  ThreadCache& make_cache(detail::Mutator& mutator);
  void* take(detail::Mutator& mutator, ThreadCache::Current& current, u64 block_bytes);
  Result<void*> allocate_slow(detail::Mutator& mutator, ThreadCache& cache, unsigned size_class);
  bool next_word(detail::Mutator& mutator, ThreadCache::Current& current, const ClassInfo& info);
  bool collect_remote(detail::Mutator& mutator, Slab& slab);
  bool disown_full(detail::Mutator& mutator, ThreadCache::Current& current, unsigned size_class);
  Result<u64> acquire_slab(detail::Mutator& mutator, ThreadCache& cache, unsigned size_class);
  Result<u64> make_slab(detail::Mutator& mutator, ThreadCache& cache, unsigned size_class);
  void load_partial(unsigned size_class);
  void set_has_free(detail::Mutator& mutator, u64 unit, bool value);
  Result<void*> allocate_large(detail::Mutator& mutator, u64 size, u64 alignment);

  Result<Block> find(const void* block) const;
  Status free_own(detail::Mutator& mutator, ThreadCache& cache, const Block& block);
  Status free_remote(detail::Mutator& mutator, const Block& block);
  void tidy_unowned(detail::Mutator& mutator, const Block& block);
  void release_slab(detail::Mutator& mutator, u64 unit);
  void free_large(detail::Mutator& mutator, const Block& block);
  Failure misuse(const void* block, const char* what) const;
  const format::RootNode* find_root(std::string_view name) const;

  template <class T>
  static void store(detail::Mutator& mutator, T& field, T value) {
    detail::report(mutator, &field, sizeof(T));
    std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
  }
  std::atomic<u32>& owner(u64 unit) const { return owners_.as<std::atomic<u32>>()[unit]; }
  Slab* slab_at(u64 unit) const { return reinterpret_cast<Slab*>(units_.address(unit)); }

  region::Region& region_;
  const std::string name_;
  Units units_;
  Mapping owners_;  ///< of each unit that starts a slab: its owner, 0 none
  std::array<Class, kClasses> classes_;
  mutable std::mutex units_mutex_;
  mutable std::mutex roots_mutex_;
  std::mutex caches_mutex_;
  std::vector<std::unique_ptr<ThreadCache>> caches_;
};

}  // namespace perdura::heap
