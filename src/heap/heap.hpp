// The allocator of a region: size classes in slabs, one slab a thread and class, after Hoard.
//
//   small   bitmaps in the slab: allocate and free change one word each, never a freed block
//   large   runs of units
//   typed   blocks of which is known where their pointers are
//
// Where blocks lie says its BlockMap, named blocks are in its Roots, and what types there are in
// its TypeList: parts of a heap, each for whoever needs no more of it.
//
// Everything that says what is allocated lives in the region, so that allocation rolls back with
// the data. Who owns a slab and which slabs have free blocks is volatile, and derived after
// opening.
//
// Ownership: a thread keeps the slabs it made or took over, until it ends, or they are empty and
// not those that it allocates from. The owner allocates from `free` and frees into it with plain
// stores. Any other thread frees into `remote` with an atomic or, and announces the slab: to its
// owner, who moves those bits over when it has nothing else, or to the slabs of the class that
// nobody owns. A slab is announced once until somebody looks at it, so that most frees are the
// atomic or alone. Lock order: roots or types, class, units.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <perdura/store.hpp>

#include "base/assert.hpp"
#include "commit/checkpointer.hpp"
#include "heap/block_map.hpp"
#include "heap/roots.hpp"
#include "heap/size_classes.hpp"
#include "heap/slab.hpp"
#include "heap/type_list.hpp"
#include "heap/units.hpp"
#include "heap/unversioned.hpp"
#include "track/scatter.hpp"

namespace perdura::heap {

/// What a thread allocates from. Volatile.
struct ThreadCache {
  struct Current {
    u64* word;        ///< free bits that are being used up
    std::byte* base;  ///< block of bit 0
    Slab* slab;
    u64 unit;
  };
  std::array<Current, kClasses> current;
  /// Other slabs of its own with free blocks, the oldest first: it had most time to get more.
  /// Entries may be outdated.
  std::array<std::deque<u64>, kClasses> available;
  /// The slab that transactions last got blocks from while there were notes (heap/unversioned.hpp);
  /// kNone, or perhaps outdated.
  std::array<u64, kClasses> versioned;
  static constexpr u64 kNone = ~u64{0};
  /// Slabs of its own that others announced; under the class's lock.
  std::array<std::vector<u64>, kClasses> returned;
  /// Types that were allocated lately, by their addresses.
  struct KnownNumber {
    const perdura_type* type = nullptr;
    u32 number = 0;
  };
  std::array<KnownNumber, 64> types;
  KnownNumber& known(const perdura_type& type) {
    const auto address = reinterpret_cast<std::uintptr_t>(&type);
    return types[(address >> 4 ^ address >> 10) % types.size()];
  }
};

/// What is known of a slab, or of a large block, by its first unit. Volatile.
struct SlabState {
  std::atomic<ThreadCache*> owner{nullptr};  ///< changes under the class's lock
  std::atomic<bool> announced{false};  ///< in `returned` of its owner or `partial` of its class
  bool listed = false;                 ///< its owner's: `current` or `available`
  /// So many blocks at the end were never given out, and are zero: of a slab of typed blocks, or of
  /// a large block, which is one. Its owner's, or whoever allocates it.
  u32 untouched = 0;
  /// Of another unit: how many before it the large block began that was found to have it.
  std::atomic<u32> into{0};

  /// A block of `count` is given out: whether it is zero as nobody had it before.
  bool touch(u32 index, u32 count) {
    const u32 behind = count - 1 - index;
    if (untouched <= behind) [[likely]]
      return false;
    untouched = behind;
    return true;
  }
};

class Heap : public commit::EpochGuest {
 public:
  Heap(region::Region& region, std::string store_name);
  ~Heap() override;

  Status format(detail::Mutator& mutator) { return units_.format(mutator); }
  Status attach() { return units_.attach(blocks_.store_name()); }

  const BlockMap& blocks() const { return blocks_; }
  const Roots& roots() const { return roots_; }
  Roots& roots() { return roots_; }
  const TypeList& types() const { return types_; }
  TypeList& types() { return types_; }

  /// All inside an operation of the mutator.
  Result<void*> allocate(detail::Mutator& mutator, u64 size, u64 alignment) {
    if (void* block = allocate_fast(mutator, size, alignment)) [[likely]]
      return block;
    return allocate_slow(mutator, size, alignment);
  }
  Status deallocate(detail::Mutator& mutator, void* block) {
    if (deallocate_fast(mutator, block)) [[likely]]
      return {};
    return deallocate_slow(mutator, block);
  }
  /// The part of allocate() that needs neither a lock nor memory: nullptr when more is to be done.
  void* allocate_fast(detail::Mutator& mutator, u64 size, u64 alignment);
  /// The same of deallocate(): false, with nothing done, when that is needed.
  bool deallocate_fast(detail::Mutator& mutator, void* block);
  /// A block for an object that may become durable by itself (RootSelection). With aliases it has
  /// whole lines, at a place that is free in the last version as well; or at any place where none
  /// such is found in a few attempts.
  Result<void*> allocate_apart(detail::Mutator& mutator, u64 size);
  void set_scatter(const track::Scatter* scatter) { scatter_ = scatter; }
  bool has_aliases() const { return scatter_ != nullptr; }

  /// Zeroed, of a type with a record: `count` objects, or one of `bytes` bytes that ends with a
  /// flexible array. kTypeMismatch when the store knows another layout of the type.
  Result<void*> allocate_typed(detail::Mutator& mutator, const perdura_type& type, u64 count);
  Result<void*> allocate_flexible(detail::Mutator& mutator, const perdura_type& type, u64 bytes);
  /// As many objects as have room in `bytes` bytes, for a container that stores to its blocks
  /// itself: not zeroed where `zeroed` is false, and then with whatever the space held before. With
  /// `flexible` one object of so many bytes.
  Result<void*> allocate_array(detail::Mutator& mutator, const perdura_type& type, u64 bytes,
                               bool zeroed, bool flexible = false) {
    if (void* block = allocate_array_fast(mutator, type, bytes, zeroed, flexible)) [[likely]]
      return block;
    return allocate_of_type(mutator, type, bytes, flexible, zeroed);
  }
  /// A block of the same type and contents with space for `bytes`, instead of `block`.
  Result<void*> reallocate_typed(detail::Mutator& mutator, void* block, u64 bytes);
  /// A block with a tag, of a type that the heap knows, or 0. Zeroed; or with whatever its space
  /// held before, for who stores to all of it.
  Result<void*> allocate_tagged(detail::Mutator& mutator, u16 tag, u64 bytes, u64 alignment);
  Result<void*> place_tagged(detail::Mutator& mutator, u16 tag, u64 bytes, u64 alignment) {
    PERDURA_ASSIGN(const Placed placed, place(mutator, tag, bytes, alignment));
    return placed.address;
  }
  /// Give back each typed block with this tag, while nobody else uses the heap: one without
  /// versions, since not all stores are reported.
  void deallocate_all(detail::Mutator& mutator, u16 tag);
  /// The block that holds an address, allocated or not; with no units: none does.
  Block block_at(const void* address) const;
  /// The tag of the large block that an address lies in, more than `into` bytes behind its
  /// beginning; 0: there is none. For who asks often.
  u16 tag_of_part(const void* address, u64 into) const;
  /// A typed block has this type from now on, if it is as large as an object of it.
  Status retype(detail::Mutator& mutator, const Block& block, const perdura_type& type,
                bool flexible);
  /// What a typed block has at least: an object of its type.
  Result<u64> least_bytes(const void* block);
  /// Of a typed block.
  Result<std::string> type_name(const void* block);
  /// What says which group of processes the heap is of, a block of `bytes` bytes or more; nullptr:
  /// it is of none. kCorrupt where there is no such block.
  Result<void*> group(u64 bytes) const;
  void set_group(detail::Mutator& mutator, const void* block);
  /// Ready for TypedWords, while nobody else uses the heap.
  Status load_typed();
  /// Whether pointers in the region hold where it is now.
  bool is_at_home() const {
    return units_.header().address == reinterpret_cast<std::uintptr_t>(region_.base());
  }
  /// Where they hold.
  u64 home_address() const { return units_.header().address; }
  /// Make them hold. kAddressTaken when a block has no type; then nothing was changed.
  /// `before_stores` is told of ranges most pages of which are about to be stored to, in several
  /// threads; it must not throw.
  using BeforeStores = std::function<void(std::byte* address, u64 length)>;
  Status relocate(detail::Mutator& mutator, const BeforeStores& before_stores);
  /// Threads find the numbers of types anew.
  void forget_types();
  /// kAddressTaken when a block has no type. After load_typed().
  Status require_types() const;

  struct Usable {
    u64 bytes;
    bool typed;
  };
  /// Of a block that was given out, or a failure that says what is wrong with it.
  Result<Usable> usable(const void* block) const;

  /// Where a block is, for another process that gets it there.
  struct Place {
    u64 offset;  ///< in the region
    u32 unit;    ///< the first of its slab, or its own
    u32 units;   ///< of a large block; 0: it is in a slab
    u32 size_class;
    u32 tag;  ///< of its type
  };
  Result<Place> place_of_block(const void* block) const;
  /// Make it allocated, while nobody else uses the heap; it may be already. A typed one is zero
  /// then. kCorrupt where other blocks have its place.
  Status claim(detail::Mutator& mutator, const Place& place);
  /// Give back the block that begins at a region offset, if there is one. The same.
  Status disclaim(detail::Mutator& mutator, u64 offset);

  // --- transactions (heap/unversioned.hpp)
  /// Before the first one, while mutators stand still. A version is to follow.
  Status note_unversioned();
  /// Whether operations have changed anything that no version has.
  bool has_unversioned() const { return unversioned_ != nullptr && unversioned_->any(); }
  /// Whether the block that holds an address was allocated by an operation that no version has. In
  /// a store with transactions.
  bool is_unversioned(const void* address) const;
  /// From now on version_required() until a version is durable that is cut after this call.
  void require_version() { unversioned_->require_version(); }
  bool version_required() const { return unversioned_->version_required(); }
  /// While mutators stand still: the empty slabs that threads keep are units again.
  void release_kept(detail::Mutator& mutator);
  void epoch_begins() noexcept override;
  void epoch_settled(bool durable) noexcept override;
  /// It is told what the heap is told, from now on and for as long as there are checkpoints.
  void tell_of_epochs(commit::EpochGuest& guest) {
    PERDURA_ASSERT(guest_.load() == nullptr);  // there is one whom it tells
    guest_ = &guest;
  }

  /// Walk all metadata. No thread may allocate meanwhile.
  HeapAudit audit() const;

  /// A thread ends: its slabs are anybody's.
  void release_cache(detail::Mutator& mutator);

 private:
  /// Slabs of a class that nobody owns and that have free blocks; entries may be outdated.
  struct alignas(64) Class {
    std::mutex mutex;
    std::vector<u64> partial;
  };

  Result<void*> allocate_slow(detail::Mutator& mutator, u64 size, u64 alignment);
  Result<void*> allocate_new(detail::Mutator& mutator, u64 size, u64 alignment);
  Result<void*> allocate_in(detail::Mutator& mutator, unsigned size_class, u64 size, u64 alignment);
  bool release_empty(detail::Mutator& mutator, ThreadCache& cache);
  Result<void*> allocate_small(detail::Mutator& mutator, unsigned size_class);
  Result<void*> allocate_versioned(detail::Mutator& mutator, unsigned size_class);
  void* take_versioned(detail::Mutator& mutator, u64 unit, const ClassInfo& info);
  Result<u64> versioned_slab(detail::Mutator& mutator, ThreadCache& cache, unsigned size_class);
  bool note_taken(detail::Mutator& mutator, const ThreadCache::Current& current);
  bool notes(const detail::Mutator& mutator) const {
    return unversioned_ != nullptr && !mutator.by_transaction;
  }
  Result<Units::Run> allocate_units(detail::Mutator& mutator, u64 count, u64 alignment_units);
  void adopt_partial(detail::Mutator& mutator, ThreadCache& cache, u64 unit, unsigned size_class);
  Result<void*> allocate_large(detail::Mutator& mutator, u64 size, u64 alignment);
  void* take(detail::Mutator& mutator, ThreadCache::Current& current, u64 block_bytes);
  struct Placed {
    void* address;
    u64 bytes;
    bool is_zero;  ///< nobody had it before
  };
  Result<Placed> place(detail::Mutator& mutator, u16 tag, u64 bytes, u64 alignment);
  /// A block that the thread has just got, in whole words.
  static void zero(detail::Mutator& mutator, std::byte* block, u64 bytes);
  ThreadCache& cache_of(detail::Mutator& mutator);

  bool next_word(detail::Mutator& mutator, ThreadCache::Current& current, const ClassInfo& info);
  bool collect_remote(detail::Mutator& mutator, Slab& slab, const ClassInfo& info);
  bool mark_full(detail::Mutator& mutator, u64 unit);
  Result<u64> next_slab(detail::Mutator& mutator, ThreadCache& cache, unsigned size_class);
  Result<u64> make_slab(detail::Mutator& mutator, ThreadCache& cache, unsigned size_class);
  bool is_slab(u64 unit, unsigned size_class) const;
  bool owns(const ThreadCache& cache, u64 unit, unsigned size_class) const;
  void take_returned(detail::Mutator& mutator, ThreadCache& cache, unsigned size_class);
  void release_slab(detail::Mutator& mutator, u64 unit);
  void lay_out_slab(detail::Mutator& mutator, u64 unit, unsigned size_class, ThreadCache* owner);
  Status vacate(detail::Mutator& mutator, u64 first, u64 count);
  Status claim_in_slab(detail::Mutator& mutator, const Place& place);
  static void clear(detail::Mutator& mutator, std::byte* block, u64 bytes);
  Status load();
  void set_has_free(detail::Mutator& mutator, u64 unit, bool value);

  Status deallocate_slow(detail::Mutator& mutator, void* address);
  Status free_block(detail::Mutator& mutator, void* address);
  bool was_free(const std::byte* place) const;
  template <class T>
  T last(const T& place) const;
  void free_own(detail::Mutator& mutator, ThreadCache& cache, const Block& block);
  void release_if_empty(detail::Mutator& mutator, u64 unit, unsigned size_class);
  Status free_remote(detail::Mutator& mutator, const Block& block);
  void announce(detail::Mutator& mutator, const Block& block);
  void free_large(detail::Mutator& mutator, const Block& block);
  Result<const Layout*> type_of(const Block& block);
  Result<void*> allocate_of_type(detail::Mutator& mutator, const perdura_type& type, u64 bytes,
                                 bool flexible, bool zeroed = true);
  void* allocate_array_fast(detail::Mutator& mutator, const perdura_type& type, u64 bytes,
                            bool zeroed, bool flexible);
  void deallocate_in_slab(detail::Mutator& mutator, Block first, u16 tag);
  std::string check_types(u64& count) const;
  template <class Move>
  void move_words(std::span<const u64> runs, const BeforeStores& before_stores,
                  const Move& move) const;
  template <class Work>
  void for_each_run(bool in_threads, const Work& work) const;
  template <class Visit>
  void for_each_block_in(std::span<const u64> runs, const Visit& visit) const;

  template <class T>
  void store(detail::Mutator& mutator, T& field, T value) const {
    // A bitmap word changes many times an epoch: most reports would tell nothing new.
    if (scatter_ == nullptr || !scatter_->has_reported(&field))
      detail::report(mutator, &field, sizeof(T));
    std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
  }
  static constexpr u64 kNoUnit = ~u64{0};
  /// The first unit of the large block that has `unit`; kNoUnit: none has.
  u64 large_block_at(u64 unit) const;
  SlabState& state(u64 unit) const { return states_.as<SlabState>()[unit]; }
  Slab* slab_at(u64 unit) const { return units_.slab_at(unit); }

  const region::Region& region_;
  const track::Scatter* scatter_ = nullptr;
  Units units_;
  std::unique_ptr<Unversioned> unversioned_;  ///< none: the store has no transactions
  std::atomic<commit::EpochGuest*> guest_{nullptr};
  Mapping states_;  ///< SlabState by unit
  std::array<Class, kClasses> classes_;
  std::atomic<bool> loaded_{false};
  std::atomic<u64> released_slabs_{0};
  mutable std::mutex units_mutex_;
  const BlockMap blocks_;
  Roots roots_{*this};
  TypeList types_{*this};
  std::mutex caches_mutex_;
  std::vector<std::unique_ptr<ThreadCache>> caches_;
};

// Another transaction may still read what was in a transaction's block, until it finds that it is
// to begin again: there each word is stored at once.
inline void Heap::zero(detail::Mutator& mutator, std::byte* block, u64 bytes) {
  if (!mutator.by_transaction) [[likely]] {
    std::memset(block, 0, bytes);
    return;
  }
  for (u64 at = 0; at < bytes; at += sizeof(u64))
    std::atomic_ref(*reinterpret_cast<u64*>(block + at)).store(0, std::memory_order_relaxed);
}

inline void* Heap::take(detail::Mutator& mutator, ThreadCache::Current& current, u64 block_bytes) {
  const u64 bits = *current.word;
  if (bits == 0) __builtin_unreachable();  // the callers have looked
  std::byte* const block = current.base + static_cast<u64>(std::countr_zero(bits)) * block_bytes;
  store(mutator, *current.word, bits & (bits - 1));
  // With aliases the page tracker sees stores to blocks.
  if (region_.aliases() != 0) [[unlikely]]
    return region_.shown(block);
  detail::report(mutator, block, block_bytes);
  return block;
}

inline void* Heap::allocate_fast(detail::Mutator& mutator, u64 size, u64 alignment) {
  if (size > kSmallMax || alignment > 16 || mutator.heap_cache == nullptr) [[unlikely]]
    return nullptr;
  const unsigned size_class = kClassOf[(size + 15) / 16];
  auto& current = static_cast<ThreadCache*>(mutator.heap_cache)->current[size_class];
  if (*current.word == 0 || !std::has_single_bit(alignment)) [[unlikely]]
    return nullptr;
  if (unversioned_ != nullptr && !note_taken(mutator, current)) [[unlikely]]
    return nullptr;
  return take(mutator, current, kClassInfo[size_class].block_bytes);
}

/// As allocate_fast, of a type that the thread has allocated lately.
inline void* Heap::allocate_array_fast(detail::Mutator& mutator, const perdura_type& type,
                                       u64 bytes, bool zeroed, bool flexible) {
  if (bytes > kSmallMax || type.alignment > 16 || mutator.heap_cache == nullptr ||
      region_.aliases() != 0) [[unlikely]]
    return nullptr;
  auto& cache = *static_cast<ThreadCache*>(mutator.heap_cache);
  const ThreadCache::KnownNumber& known = cache.known(type);
  const unsigned size_class = kClassOf[(bytes + 15) / 16] + kSizes;
  auto& current = cache.current[size_class];
  if (known.type != &type || *current.word == 0) [[unlikely]]
    return nullptr;
  if (unversioned_ != nullptr && !note_taken(mutator, current)) [[unlikely]]
    return nullptr;
  const ClassInfo& info = kClassInfo[size_class];
  auto* const block = static_cast<std::byte*>(take(mutator, current, info.block_bytes));
  const auto offset = static_cast<u64>(block - reinterpret_cast<const std::byte*>(current.slab));
  const auto index = static_cast<u32>(offset * info.reciprocal >> 32);
  u16& tag = current.slab->types(info)[index];
  // Blocks of one type have mostly been of it before.
  if (const u16 wanted = block_tag(known.number, flexible); tag != wanted)
    store(mutator, tag, wanted);
  const bool is_zero = state(current.unit).touch(index, info.block_count);
  if (zeroed && !is_zero) zero(mutator, block, info.block_bytes);
  return block;
}

inline Block Heap::block_at(const void* address) const {
  const std::byte* const place = blocks_.place_of(address);
  Block block = blocks_.slab_of(place);
  if (block.unit == kNoUnit) return {};
  if (block.slab != nullptr) {
    const auto offset = static_cast<u64>(place - reinterpret_cast<const std::byte*>(block.slab));
    block.index = static_cast<u32>(offset * block.info().reciprocal >> 32);
    const bool is_one =
        block.index >= block.info().first_block && block.index < block.info().block_count;
    return is_one ? block : Block{};
  }
  const u64 head = large_block_at(block.unit);
  return head != kNoUnit ? Block{head, units_.entry(head), nullptr, 0} : Block{};
}

inline u64 Heap::large_block_at(u64 unit) const {
  const auto holds = [&](u64 head) {
    const format::UnitEntry entry = units_.entry(head);
    return entry.kind == format::UnitKind::kLarge && unit - head < entry.units;
  };
  if (holds(unit)) return unit;
  // Its units but the first look free.
  if (units_.entry(unit).kind != format::UnitKind::kFree) return kNoUnit;
  std::atomic<u32>& found = state(unit).into;
  const u32 into = found.load(std::memory_order_relaxed);
  if (into <= unit && holds(unit - into)) [[likely]]
    return unit - into;
  u64 head = unit;
  while (head != 0 && units_.entry(head).kind == format::UnitKind::kFree) --head;
  if (!holds(head)) return kNoUnit;
  found.store(static_cast<u32>(unit - head), std::memory_order_relaxed);
  return head;
}

inline u16 Heap::tag_of_part(const void* address, u64 into) const {
  const u64 unit = units_.unit_of(address);
  if (unit == kNoUnit) return 0;
  const u64 head = large_block_at(unit);
  if (head == kNoUnit ||
      static_cast<u64>(static_cast<const std::byte*>(address) - units_.address(head)) <= into)
    return 0;
  return units_.entry(head).mark;
}

inline Status Heap::retype(detail::Mutator& mutator, const Block& block, const perdura_type& type,
                           bool flexible) {
  if (block.bytes() < type.size) return {};
  ThreadCache::KnownNumber& known = cache_of(mutator).known(type);
  if (known.type != &type) [[unlikely]] {
    PERDURA_ASSIGN(const u32 number, types_.number_of(mutator, type));
    known = {&type, number};
  }
  const u16 tag = block_tag(known.number, flexible);
  if (block.tag() != tag) store(mutator, blocks_.tag_place(block), tag);
  return {};
}

/// False, with nothing done, unless the block is allocated and in a slab of this thread's that has
/// other free blocks and does not become empty.
inline bool Heap::deallocate_fast(detail::Mutator& mutator, void* address) {
  const auto* cache = static_cast<const ThreadCache*>(mutator.heap_cache);
  auto* place = static_cast<std::byte*>(address);
  if (region_.aliases() != 0) [[unlikely]] {
    place = region_.base() + region_.offset_of(address);
    if (region_.shown(place) != address) return false;
  }
  u64 unit = units_.unit_of(place);
  if (unit == ~u64{0} || cache == nullptr) [[unlikely]]
    return false;
  format::UnitEntry entry = units_.entry(unit);
  if (entry.kind == format::UnitKind::kSlabTail) {
    unit -= entry.units;
    entry = units_.entry(unit);
  }
  const SlabState& state = this->state(unit);
  if (entry.kind != format::UnitKind::kSlab ||
      state.owner.load(std::memory_order_relaxed) != cache || !state.listed) [[unlikely]]
    return false;
  const ClassInfo& info = kClassInfo[entry.size_class];
  Slab* slab = slab_at(unit);
  const auto offset = static_cast<u64>(place - reinterpret_cast<std::byte*>(slab));
  const auto index = static_cast<u32>(offset * info.reciprocal >> 32);
  if (u64{index} * info.block_bytes != offset || index >= info.block_count) [[unlikely]]
    return false;
  const u32 word = index / 64;
  const u64 bit = u64{1} << index % 64;
  const u64 free = slab->free()[word];
  const u64 all_free = free | Slab::load(slab->free()[info.words + word]);
  const u64 usable = usable_bits(info, word);
  if ((all_free & bit) != 0 || (usable & bit) == 0) [[unlikely]]
    return false;
  if ((all_free | bit) == usable && slab != cache->current[entry.size_class].slab) [[unlikely]]
    return false;
  if (notes(mutator)) [[unlikely]]
    unversioned_->note_block(unit, index);
  store(mutator, slab->free()[word], free | bit);
  return true;
}

}  // namespace perdura::heap
