// Typed blocks, and the relocation that their types allow.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <unordered_set>

#include "base/threads.hpp"
#include "heap/heap.hpp"
#include "heap/members.hpp"

namespace perdura::heap {

using detail::Mutator;
using detail::report;
using format::kUnitBytes;
using format::UnitEntry;
using format::UnitKind;

namespace {

constexpr u64 kExpectedAtOnce = 2 * kMiB;
constexpr size_t kRunsAtOnce = 32;  // as many as that, of slabs

std::byte* page_of(std::byte* address) {
  return address - reinterpret_cast<std::uintptr_t>(address) % kPageBytes;
}

/// Of ordinary memory from so many bytes on: then it is zero where somebody touches it, as calloc's
/// is, which is sooner than to store to all of it. False: nothing was done.
constexpr u64 kZeroedByPages = kMiB;
bool give_pages_back(const region::Region& region, void* block, u64 bytes) {
  return region.is_volatile() && bytes >= kZeroedByPages &&
         ::madvise(block, bytes, MADV_DONTNEED) == 0;
}

/// Whether a tag is that of a block of one of `count` types.
bool is_type(u16 tag, u64 count) { return tag / 2 != 0 && tag / 2 <= count; }

}  // namespace

// --- typed blocks --------------------------------------------------------------------------------

Status Heap::load_typed() {
  PERDURA_TRY(load());
  return types_.load();
}

Result<std::string> Heap::type_name(const void* address) {
  PERDURA_ASSIGN(const Block block, blocks_.find_allocated(address));
  PERDURA_ASSIGN(const Layout* const layout, type_of(block));
  return layout->name;
}

Result<u64> Heap::least_bytes(const void* address) {
  PERDURA_ASSIGN(const Block block, blocks_.find_allocated(address));
  PERDURA_ASSIGN(const Layout* const layout, type_of(block));
  return layout->size;
}

// Of a typed one.
Result<const Layout*> Heap::type_of(const Block& block) {
  PERDURA_TRY(guarded([this] { return load(); }));
  PERDURA_ASSIGN(const Layout* const layout, types_.find(block.tag()));
  if (layout == nullptr) return blocks_.damaged("a block is of no known type");
  return layout;
}

Result<void*> Heap::allocate_typed(Mutator& mutator, const perdura_type& type, u64 count) {
  // A packed type's: pointers of the second object would lie across words.
  if (count > 1 && type.slot_count != 0 && type.size % sizeof(u64) != 0) {
    PERDURA_ASSIGN(const Layout layout, Layout::of(type));
    if (layout.has_pointers())
      return Failure{Code::kInvalidArgument,
                     "objects of type '" + readable_name(type.name) +
                         "' hold pointers and their size is no multiple of 8 bytes: allocate each "
                         "by itself, or do not pack the type"};
  }
  u64 bytes = 0;
  if (__builtin_mul_overflow(u64{type.size}, std::max<u64>(count, 1), &bytes))
    return Failure{Code::kNoSpace, std::to_string(count) + " objects of type '" +
                                       readable_name(type.name) + "' are larger than the region"};
  return allocate_of_type(mutator, type, bytes, false);
}

Result<void*> Heap::group(u64 bytes) const {
  const u64 offset = units_.header().group;
  if (offset == 0) return nullptr;
  const Failure damaged{Code::kCorrupt, "the header of the heap of '" + blocks_.store_name() +
                                            "' leads to no state of a group; restore the store "
                                            "from a copy"};
  if (offset >= region_.limit()) return damaged;
  void* const block = blocks_.shown_at(offset);
  const auto found = usable(block);
  if (!found || found->bytes < bytes) return damaged;
  return block;
}

void Heap::set_group(Mutator& mutator, const void* block) {
  store_reported(mutator, units_.header().group, region_.offset_of(block));
}

Result<void*> Heap::allocate_flexible(Mutator& mutator, const perdura_type& type, u64 bytes) {
  return allocate_of_type(mutator, type, std::max<u64>(bytes, type.size), true);
}

Result<void*> Heap::allocate_of_type(Mutator& mutator, const perdura_type& type, u64 bytes,
                                     bool flexible, bool zeroed) {
  return guarded([&]() -> Result<void*> {
    ThreadCache::KnownNumber& known = cache_of(mutator).known(type);
    if (known.type == &type) {
      const u16 tag = block_tag(known.number, flexible);
      return zeroed ? allocate_tagged(mutator, tag, bytes, type.alignment)
                    : place_tagged(mutator, tag, bytes, type.alignment);
    }
    // The block first: a type is not learnt for one that there is no space for.
    PERDURA_TRY(types_.expect(type));
    PERDURA_ASSIGN(void* const made, zeroed ? allocate_tagged(mutator, 0, bytes, type.alignment)
                                            : place_tagged(mutator, 0, bytes, type.alignment));
    // Without memory it throws, and the block would stay.
    const Result<u32> number = guarded([&] { return types_.number_of(mutator, type); });
    if (!number) {
      PERDURA_TRY(deallocate(mutator, made));
      return number.failure();
    }
    known = {&type, *number};
    PERDURA_ASSIGN(const Block block, blocks_.find(made));
    store(mutator, blocks_.tag_place(block), block_tag(*number, flexible));
    return made;
  });
}

void Heap::forget_types() {
  std::lock_guard lock(caches_mutex_);
  for (const auto& cache : caches_) cache->types.fill({});
}

Result<void*> Heap::reallocate_typed(Mutator& mutator, void* old, u64 bytes) {
  return guarded([&]() -> Result<void*> {
    PERDURA_ASSIGN(const Block block, blocks_.find_allocated(old));
    PERDURA_ASSIGN(const Layout* const layout, type_of(block));
    const u64 wanted = std::max<u64>(bytes, layout->size);
    PERDURA_ASSIGN(const Placed made, place(mutator, block.tag(), wanted, layout->alignment));
    const u64 kept = std::min(wanted, block.bytes());
    if (!made.is_zero) {
      const u64 from = kept / sizeof(u64) * sizeof(u64);
      zero(mutator, static_cast<std::byte*>(made.address) + from, made.bytes - from);
    }
    std::memcpy(made.address, old, kept);
    PERDURA_TRY(deallocate(mutator, old));
    return made.address;
  });
}

// All zero: what is not stored to holds no pointer.
Result<void*> Heap::allocate_tagged(Mutator& mutator, u16 tag, u64 bytes, u64 alignment) {
  PERDURA_ASSIGN(const Placed placed, place(mutator, tag, bytes, alignment));
  if (!placed.is_zero && !give_pages_back(region_, placed.address, placed.bytes))
    zero(mutator, static_cast<std::byte*>(placed.address), placed.bytes);
  return placed.address;
}

// With whatever its space held before.
Result<Heap::Placed> Heap::place(Mutator& mutator, u16 tag, u64 bytes, u64 alignment) {
  const unsigned size_class = class_for(bytes, alignment) + kSizes;
  PERDURA_ASSIGN(void* const address, allocate_in(mutator, size_class, bytes, alignment));
  if (size_class != kClasses) {
    const ClassInfo& info = kClassInfo[size_class];
    // Most are of the thread's current slab, but for a transaction's it may be another one.
    std::byte* const place = blocks_.place_of(address);
    const Block block = blocks_.slab_of(place);
    const auto offset = static_cast<u64>(place - reinterpret_cast<const std::byte*>(block.slab));
    const auto index = static_cast<u32>(offset * info.reciprocal >> 32);
    store(mutator, block.slab->types(info)[index], tag);
    return Placed{address, info.block_bytes, state(block.unit).touch(index, info.block_count)};
  }
  const u64 unit = units_.unit_of(blocks_.place_of(address));
  store(mutator, units_.table()[unit].mark, tag);
  const u64 block_bytes = u64{units_.entry(unit).units} * kUnitBytes;
  report(mutator, address, block_bytes);
  return Placed{address, block_bytes, state(unit).touch(0, 1)};
}

void Heap::deallocate_all(Mutator& mutator, u16 tag) {
  units_.for_each([&](u64 unit, const UnitEntry& entry) {
    const Block first{unit, entry, nullptr, 0};
    if (entry.kind == UnitKind::kSlab) deallocate_in_slab(mutator, first, tag);
    else if (entry.mark == tag) free_large(mutator, first);
    return true;
  });
}

// As if another thread than the slab's owner had freed them.
void Heap::deallocate_in_slab(Mutator& mutator, Block first, u16 tag) {
  const ClassInfo& info = first.info();
  if (info.types_at == 0) return;
  first.slab = units_.slab_at(first.unit);
  Slab& slab = *first.slab;
  const u16* const tags = slab.types(info);
  bool any = false;
  for (u32 word = 0; word < info.words; ++word) {
    u64 found = 0;
    for (u64 live = slab.live(info, word); live != 0; live &= live - 1) {
      const u64 bit = live & -live;
      if (tags[word * 64 + static_cast<u32>(std::countr_zero(bit))] == tag) found |= bit;
    }
    if (found == 0) continue;
    std::atomic_ref(slab.remote(info)[word]).fetch_or(found);
    any = true;
  }
  if (any) announce(mutator, first);
}

// What is wrong with the types and with the types of blocks, or "".
std::string Heap::check_types(u64& count) const {
  std::vector<Layout> types;
  if (std::string problem = types_.problem(types); !problem.empty()) return problem;
  count = types.size();
  std::string problem;
  blocks_.for_each_block([&](const std::byte* place, u64 bytes, u16 tag) {
    const bool known = tag == 0 || is_type(tag, count);
    if (known && (tag == 0 || bytes >= types[tag / 2 - 1].size)) return;
    problem = "the block at region offset " + std::to_string(region_.offset_of(place)) +
              (known ? " is smaller than an object of its type" : " is of no known type");
  });
  return problem;
}

// --- relocation ----------------------------------------------------------------------------------

Status Heap::relocate(Mutator& mutator, const BeforeStores& before_stores) {
  const u64 from = units_.header().address;
  const auto to = reinterpret_cast<std::uintptr_t>(region_.base());
  if (from == to) return {};
  return guarded([&]() -> Status {
    PERDURA_TRY(load_typed());
    PERDURA_TRY(require_types());
    const u64 length = region_.reserved_bytes();
    const auto move = [&](u64* word, bool) {
      if (*word - from >= length) return;
      report(mutator, word, sizeof *word);
      *word += to - from;
    };
    // A mutator reports for one thread.
    for_each_run(mutator.ignores_reports,
                 [&](std::span<const u64> runs) { move_words(runs, before_stores, move); });
    store(mutator, units_.header().address, u64{to});
    return {};
  });
}

template <class Move>
void Heap::move_words(std::span<const u64> runs, const BeforeStores& before_stores,
                      const Move& move) const {
  const Layouts layouts(types_.layouts());
  std::byte* expected = units_.address(runs.front());
  std::byte* const end = units_.address(runs.back()) + units_.entry(runs.back()).units * kUnitBytes;
  for_each_block_in(runs, [&](std::byte* place, u64 bytes, u16 tag) {
    const Layout* const layout = layouts.of(tag);
    if (layout == nullptr || !layout->has_pointers()) return;
    // Most pages change.
    if (place + bytes > expected) {
      std::byte* const first = std::max(expected, page_of(place));
      expected =
          std::min(end, std::max(page_of(place + bytes - 1) + kPageBytes, first + kExpectedAtOnce));
      before_stores(first, static_cast<u64>(expected - first));
    }
    layout->for_each_pointer(place, bytes, (tag & 1) != 0, move);
  });
}

// Calls work(runs), which must not throw, for all first units of slabs and large blocks, some at a
// time, in several threads if that is wanted.
template <class Work>
void Heap::for_each_run(bool in_threads, const Work& work) const {
  std::vector<u64> runs;
  units_.for_each([&](u64 unit, const UnitEntry&) {
    runs.push_back(unit);
    return true;
  });
  std::atomic<size_t> next{0};
  share_among_threads(in_threads ? runs.size() / kRunsAtOnce : 1, [&]() noexcept {
    for (;;) {
      const size_t first = next.fetch_add(kRunsAtOnce);
      if (first >= runs.size()) return;
      work(std::span<const u64>(&runs[first], std::min(kRunsAtOnce, runs.size() - first)));
    }
  });
}

template <class Visit>
void Heap::for_each_block_in(std::span<const u64> runs, const Visit& visit) const {
  for (const u64 unit : runs) blocks_.for_each_block_at(unit, units_.entry(unit), visit);
}

// Beside the heap's own blocks each must have a type. The list of types was checked.
Status Heap::require_types() const {
  const std::deque<Layout>& layouts = types_.layouts();
  std::unordered_set<u64> own;
  const auto is_own = [&own](u64 offset) { own.insert(offset); };
  types_.for_each_node(is_own);
  u64 count = 0;
  if (const std::string problem = roots_.problem(count); !problem.empty())
    return blocks_.damaged(problem);
  roots_.for_each_node(is_own);

  std::atomic<u64> untyped{0};
  std::atomic<bool> impossible{false};
  for_each_run(true, [&](std::span<const u64> runs) {
    for_each_block_in(runs, [&](const std::byte* place, u64 bytes, u16 tag) {
      if (tag == 0 && !own.contains(region_.offset_of(place))) ++untyped;
      if (tag != 0 && (!is_type(tag, layouts.size()) || bytes < layouts[tag / 2 - 1].size))
        impossible = true;
    });
  });
  if (impossible)
    return blocks_.damaged("a block is of no known type, or smaller than an object of it");
  if (untyped == 0) return {};
  return Failure{Code::kAddressTaken,
                 std::to_string(untyped) + " blocks of '" + blocks_.store_name() +
                     "' have no type record, so the pointers in them are not known, and neither "
                     "may objects move to another address nor be converted"};
}

}  // namespace perdura::heap
