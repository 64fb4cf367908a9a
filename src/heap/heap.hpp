// The allocator of a region: size classes in slabs, one slab a thread and class, after Hoard.
//
//   small   bitmaps in the slab: allocate and free change one word each, never a freed block
//   large   runs of units
//   typed   blocks of which is known where their pointers are
//   roots   a list of named blocks
//   types   a list of what is known of types
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
// atomic or alone. Lock order: class, then units.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <perdura/store.hpp>

#include "base/assert.hpp"
#include "commit/checkpointer.hpp"
#include "heap/layout.hpp"
#include "heap/size_classes.hpp"
#include "heap/slab.hpp"
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
  /// The type that was allocated last.
  const perdura_type* type = nullptr;
  u32 type_number = 0;
};

/// What is known of a slab, by its first unit. Volatile.
struct SlabState {
  std::atomic<ThreadCache*> owner{nullptr};  ///< changes under the class's lock
  std::atomic<bool> announced{false};  ///< in `returned` of its owner or `partial` of its class
  bool listed = false;                 ///< its owner's: `current` or `available`
};

class Heap : public commit::EpochGuest {
 public:
  Heap(region::Region& region, std::string store_name);
  ~Heap() override;

  Status format(detail::Mutator& mutator) { return units_.format(mutator); }
  Status attach() { return units_.attach(name_); }

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
  /// With aliases: a block of whole lines for an object that may become durable by itself
  /// (RootSelection), so at a place that is free in the last version as well; or at any place where
  /// none such is found in a few attempts.
  Result<void*> allocate_apart(detail::Mutator& mutator, u64 size);
  void set_scatter(const track::Scatter* scatter) { scatter_ = scatter; }

  /// Zeroed, of a type with a record: `count` objects, or one of `bytes` bytes that ends with a
  /// flexible array. kTypeMismatch when the store knows another layout of the type.
  Result<void*> allocate_typed(detail::Mutator& mutator, const perdura_type& type, u64 count);
  Result<void*> allocate_flexible(detail::Mutator& mutator, const perdura_type& type, u64 bytes);
  /// A block of the same type and contents with space for `bytes`, instead of `block`.
  Result<void*> reallocate_typed(detail::Mutator& mutator, void* block, u64 bytes);
  /// What a typed block has at least: an object of its type.
  Result<u64> least_bytes(const void* block);
  /// kTypeMismatch when the store knows another layout of the type.
  Status expect_type(const perdura_type& type);
  /// The same of all types that the program is known to have: it takes objects of the store for
  /// what its own records say. Of several records of one name one is enough.
  Status expect_known_types();
  /// Ready for TypedWords, while nobody else uses the heap.
  Status load_typed();
  /// Of a typed block.
  Result<std::string> type_name(const void* block);
  /// What is known of types, by their numbers.
  Result<std::vector<Layout>> types() const;
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

  struct Usable {
    u64 bytes;
    bool typed;
  };
  /// Of a block that was given out, or a failure that says what is wrong with it.
  Result<Usable> usable(const void* block) const;

  /// Bytes of the allocated block at a region offset; 0 where there is none.
  u64 allocated_at(u64 offset) const;

  Result<void*> get_root(std::string_view name, u64 fingerprint) const;
  /// Also of a root with the fingerprint `earlier`, which gets the other one.
  Result<void*> get_root(detail::Mutator& mutator, std::string_view name, u64 fingerprint,
                         u64 earlier);
  Status set_root(detail::Mutator& mutator, std::string_view name, void* object, u64 fingerprint);
  /// The object of the root of this name; `object` becomes it where there is none. Of several
  /// threads that ask at once each gets the same.
  Result<void*> get_or_set_root(detail::Mutator& mutator, std::string_view name, void* object,
                                u64 fingerprint);
  /// Counts changes of roots.
  u64 root_changes() const { return root_changes_.load(std::memory_order_acquire); }
  /// With aliases: the lines of a page that hold allocated blocks which start in the alias's part.
  /// While mutators stand still (track::Scatter).
  u64 visible_lines(u64 page, u64 alias) const;
  /// The blocks that lie in a page, or in part, and lines that they take up there. Other threads
  /// may allocate meanwhile.
  struct BlockLines {
    u64 start;  ///< of the block, in the page it starts in
    u64 lines;
    bool allocated;
  };
  void blocks_of_page(u64 page, std::vector<BlockLines>& into) const;
  /// Where an address lies: " (in the block of 64 bytes at 0x…)", or in the heap's own metadata.
  std::string describe(const void* address) const;

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
  };
  /// What is known of a block from its address.
  struct Block {
    u64 unit = 0;  ///< first of its slab or large block
    format::UnitEntry entry{};
    Slab* slab = nullptr;
    u32 index = 0;  ///< in the slab
  };

  /// Where a root is in the list. Volatile.
  struct RootPlace {
    u64 node = 0;
    u64 before = 0;        ///< the node before it, 0: none
    bool durable = false;  ///< known to be in the last version, with its object
  };
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
  };
  /// Looking up a name takes no memory.
  using Roots = std::unordered_map<std::string, RootPlace, NameHash, std::equal_to<>>;
  friend class RootSelection;
  friend class BlockSource;
  friend class TagMap;
  friend class Closure;
  friend class TypedWords;

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
  Result<u64> allocate_units(detail::Mutator& mutator, u64 count, u64 alignment_units);
  void adopt_partial(detail::Mutator& mutator, ThreadCache& cache, u64 unit, unsigned size_class);
  Result<void*> allocate_large(detail::Mutator& mutator, u64 size, u64 alignment);
  void* take(detail::Mutator& mutator, ThreadCache::Current& current, u64 block_bytes);
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
  /// The allocated or free block that the program knows by an address, or has its place there.
  Result<Block> find(const void* address) const;
  Result<Block> find_allocated(const void* address) const;
  bool is_allocated(u64 offset) const;
  Result<Block> find_at(const std::byte* place, const void* address) const;
  std::byte* place_of(const void* address) const {
    return region_.base() + region_.offset_of(address);
  }
  std::byte* shown_at(u64 offset) const;
  Slab* slab_of(const std::byte* place, u64& unit, format::UnitEntry& entry) const;
  bool was_free(const std::byte* place) const;
  template <class T>
  T last(const T& place) const;
  void free_own(detail::Mutator& mutator, ThreadCache& cache, const Block& block);
  void release_if_empty(detail::Mutator& mutator, u64 unit, unsigned size_class);
  Status free_remote(detail::Mutator& mutator, const Block& block);
  void announce(detail::Mutator& mutator, const Block& block);
  void free_large(detail::Mutator& mutator, const Block& block);
  Failure misuse(const void* block, const char* what) const;
  Result<void*> look_up_root(std::string_view name, u64 fingerprint) const;
  Status put_root(detail::Mutator& mutator, std::string_view name, void* object, u64 fingerprint);
  Status add_root(detail::Mutator& mutator, std::string_view name, void* object, u64 fingerprint);
  Status remove_root(detail::Mutator& mutator, Roots::iterator root);
  format::RootNode& root_node(u64 offset) const {
    return *reinterpret_cast<format::RootNode*>(region_.base() + offset);
  }
  const format::TypeNode& type_node(u64 offset) const {
    return *reinterpret_cast<const format::TypeNode*>(region_.base() + offset);
  }
  RootPlace& place_of_node(u64 node);
  const format::RootNode* find_root(std::string_view name) const;
  Failure damaged(const std::string& what) const;

  static u64 bytes_of(const Block& block);
  std::string read_types(std::vector<Layout>& types) const;
  Status load_types();
  u32 find_type(std::string_view name) const;
  Failure other_layout(const Layout& stored, const Layout& wanted) const;
  Result<u32> known_number(const Layout& layout);
  Result<const Layout*> type_of(const Block& block);
  Result<u32> number_of(detail::Mutator& mutator, const perdura_type& type);
  Result<u32> number_of(detail::Mutator& mutator, const Layout& layout);
  Status add_type(detail::Mutator& mutator, const Layout& type, u32 number);
  Result<void*> allocate_of_type(detail::Mutator& mutator, const perdura_type& type, u64 bytes,
                                 bool flexible);
  Result<void*> allocate_tagged(detail::Mutator& mutator, u16 tag, u64 bytes, u64 alignment);
  Result<void*> place_tagged(detail::Mutator& mutator, u16 tag, u64 bytes, u64 alignment);
  u16& tag_place(const Block& block) const;
  u16 tag_of(const Block& block) const;
  template <class Visit>
  void for_each_block(Visit&& visit) const;
  /// Of the slab or large block that begins at `unit`.
  template <class Visit>
  void for_each_block_at(u64 unit, const format::UnitEntry& entry, Visit&& visit) const;
  std::string check_types(u64& count) const;
  Status require_types() const;
  template <class Move>
  void move_words(std::span<const u64> runs, const BeforeStores& before_stores,
                  const Move& move) const;
  template <class Work>
  void for_each_run(bool in_threads, const Work& work) const;
  template <class Visit>
  void for_each_block_in(std::span<const u64> runs, const Visit& visit) const;
  std::string check_roots(u64& count) const;
  std::string check_objects_of_roots() const;
  Status load_roots() const;

  template <class T>
  void store(detail::Mutator& mutator, T& field, T value) const {
    // A bitmap word changes many times an epoch: most reports would tell nothing new.
    if (scatter_ == nullptr || !scatter_->has_reported(&field))
      detail::report(mutator, &field, sizeof(T));
    std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
  }
  SlabState& state(u64 unit) const { return states_.as<SlabState>()[unit]; }
  Slab* slab_at(u64 unit) const { return reinterpret_cast<Slab*>(units_.address(unit)); }

  region::Region& region_;
  const std::string name_;
  const track::Scatter* scatter_ = nullptr;
  Units units_;
  std::unique_ptr<Unversioned> unversioned_;  ///< none: the store has no transactions
  std::atomic<commit::EpochGuest*> guest_{nullptr};
  Mapping states_;  ///< SlabState by unit
  std::array<Class, kClasses> classes_;
  std::atomic<bool> loaded_{false};
  std::atomic<u64> released_slabs_{0};
  mutable std::mutex units_mutex_;
  mutable std::mutex roots_mutex_;
  mutable bool roots_loaded_ = false;  ///< the list was checked
  mutable Roots roots_;
  std::atomic<u64> root_changes_{0};
  std::mutex types_mutex_;
  bool types_loaded_ = false;
  std::deque<Layout> types_;  ///< by their numbers, from 1; they stay where they are
  std::unordered_map<std::string_view, u32> names_;  ///< of types_, to numbers
  std::unordered_map<const perdura_type*, u32> numbers_;
  std::mutex caches_mutex_;
  std::vector<std::unique_ptr<ThreadCache>> caches_;
};

inline void* Heap::take(detail::Mutator& mutator, ThreadCache::Current& current, u64 block_bytes) {
  const u64 bits = *current.word;
  std::byte* block =
      region_.shown(current.base + static_cast<u64>(std::countr_zero(bits)) * block_bytes);
  store(mutator, *current.word, bits & (bits - 1));
  // With aliases the page tracker sees stores to blocks.
  if (region_.aliases() == 0) detail::report(mutator, block, block_bytes);
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

/// False, with nothing done, unless the block is allocated and in a slab of this thread's that has
/// other free blocks and does not become empty.
inline bool Heap::deallocate_fast(detail::Mutator& mutator, void* address) {
  const auto* cache = static_cast<const ThreadCache*>(mutator.heap_cache);
  std::byte* const place = place_of(address);
  u64 unit = units_.unit_of(place);
  if (unit == ~u64{0} || cache == nullptr || region_.shown(place) != address) [[unlikely]]
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

template <class Visit>
void Heap::for_each_block(Visit&& visit) const {
  units_.for_each([&](u64 unit, const format::UnitEntry& entry) {
    for_each_block_at(unit, entry, visit);
    return true;
  });
}

template <class Visit>
void Heap::for_each_block_at(u64 unit, const format::UnitEntry& entry, Visit&& visit) const {
  if (entry.kind == format::UnitKind::kLarge) {
    visit(units_.address(unit), entry.units * format::kUnitBytes, entry.mark);
    return;
  }
  const ClassInfo& info = kClassInfo[entry.size_class];
  Slab* const slab = slab_at(unit);
  for (u32 word = 0; word < info.words; ++word) {
    for (u64 live = slab->live(info, word); live != 0; live &= live - 1) {
      const u64 index = u64{word} * 64 + static_cast<u64>(std::countr_zero(live));
      visit(slab->block(info, index), u64{info.block_bytes},
            info.types_at != 0 ? slab->types(info)[index] : u16{0});
    }
  }
}

}  // namespace perdura::heap
