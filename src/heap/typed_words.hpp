// Visits the words of a heap's typed blocks that may be pointers, by the place they lie at. While
// nobody allocates or frees in the heap, except as said below.
#pragma once

#include <algorithm>
#include <vector>

#include "heap/heap.hpp"
#include "track/dirty_map.hpp"

namespace perdura::heap {

class TypedWords {
 public:
  /// Of a heap whose types are loaded. Large blocks that are made later are not found.
  explicit TypedWords(Heap& heap) : heap_(heap) {
    heap.units_.for_each([this](u64 unit, const format::UnitEntry& entry) {
      if (entry.kind == format::UnitKind::kLarge) large_.push_back(unit);
      return true;
    });
  }

  /// The block that holds an address of the region; with no units when none does.
  Heap::Block find(const void* address) const {
    Heap::Block block;
    const u64 unit = heap_.units_.unit_of(address);
    if (unit == ~u64{0}) return block;
    format::UnitEntry entry = heap_.units_.entry(unit);
    if (entry.kind == format::UnitKind::kSlab || entry.kind == format::UnitKind::kSlabTail) {
      const u64 first = entry.kind == format::UnitKind::kSlab ? unit : unit - entry.units;
      entry = heap_.units_.entry(first);
      const ClassInfo& info = kClassInfo[entry.size_class];
      Slab* const slab = heap_.slab_at(first);
      const auto offset = static_cast<u64>(static_cast<const std::byte*>(address) -
                                           reinterpret_cast<const std::byte*>(slab));
      const u64 index = offset * info.reciprocal >> 32;
      if (index < info.first_block || index >= info.block_count || slab->is_free(info, index))
        return block;
      return {first, entry, slab, static_cast<u32>(index)};
    }
    const auto after = std::upper_bound(large_.begin(), large_.end(), unit);
    if (after == large_.begin()) return block;
    entry = heap_.units_.entry(*(after - 1));
    if (entry.kind != format::UnitKind::kLarge || unit - *(after - 1) >= entry.units) return block;
    return {*(after - 1), entry, nullptr, 0};
  }
  std::byte* place_of(const Heap::Block& block) const {
    return block.slab != nullptr
               ? block.slab->block(kClassInfo[block.entry.size_class], block.index)
               : heap_.units_.address(block.unit);
  }

  /// visit(word, maybe) of each word in [begin, end) of the region, and of some beside it. Blocks
  /// may be made meanwhile; their words may be visited or not.
  template <class Visit>
  void for_each_in(u64 begin, u64 end, Visit&& visit) const {
    const u64 data = heap_.units_.header().data_begin;
    for (u64 at = std::max(begin, data); at < end;) {
      const Heap::Block first = block_at(at);
      if (first.entry.units == 0) {
        at = round_down(at - data, format::kUnitBytes) + data + format::kUnitBytes;
        if (heap_.units_.unit_of(heap_.region_.base() + at) == ~u64{0}) return;
        continue;
      }
      const u64 head = data + first.unit * format::kUnitBytes;
      const u64 next = head + first.entry.units * format::kUnitBytes;
      if (first.slab == nullptr)
        visit_block(heap_.units_.address(first.unit), head, next - head, first.entry.mark, begin,
                    end, visit);
      else visit_slab(first, at, std::min(end, next), visit);
      at = next;
    }
  }

  /// The same of each page in the set.
  template <class Visit>
  void for_each_in(const track::DirtyMap& pages, Visit&& visit) const {
    u64 begin = 0;
    u64 end = 0;
    pages.for_each_page([&](u64 page, u64) {
      if (page * kPageBytes != end) {
        if (begin != end) for_each_in(begin, end, visit);
        begin = page * kPageBytes;
      }
      end = (page + 1) * kPageBytes;
    });
    if (begin != end) for_each_in(begin, end, visit);
  }

 private:
  /// The slab or large block that holds a region offset.
  Heap::Block block_at(u64 offset) const {
    Heap::Block block;
    const u64 unit = heap_.units_.unit_of(heap_.region_.base() + offset);
    if (unit == ~u64{0}) return block;
    format::UnitEntry entry = heap_.units_.entry(unit);
    if (entry.kind == format::UnitKind::kSlabTail || entry.kind == format::UnitKind::kSlab) {
      block.unit = entry.kind == format::UnitKind::kSlab ? unit : unit - entry.units;
      block.entry = heap_.units_.entry(block.unit);
      block.slab = heap_.slab_at(block.unit);
      return block;
    }
    return find(heap_.region_.base() + offset);
  }

  template <class Visit>
  void visit_slab(const Heap::Block& block, u64 begin, u64 end, Visit& visit) const {
    const ClassInfo& info = kClassInfo[block.entry.size_class];
    if (info.types_at == 0) return;
    Slab& slab = *block.slab;
    const u64 base = heap_.region_.offset_of(block.slab);
    const u64 first = std::max<u64>(info.first_block, (begin - base) / info.block_bytes);
    const u64 last = std::min<u64>(info.block_count, (end - base - 1) / info.block_bytes + 1);
    for (u64 word = first / 64; word * 64 < last; ++word) {
      u64 live = slab.live(info, static_cast<u32>(word));
      if (word == first / 64) live &= ~u64{0} << first % 64;
      if (last - word * 64 < 64) live &= (u64{1} << (last - word * 64)) - 1;
      for (; live != 0; live &= live - 1) {
        const u64 index = word * 64 + static_cast<u64>(std::countr_zero(live));
        visit_block(slab.block(info, index), base + index * info.block_bytes, info.block_bytes,
                    slab.types(info)[index], begin, end, visit);
      }
    }
  }

  template <class Visit>
  void visit_block(std::byte* place, u64 at, u64 bytes, u16 tag, u64 begin, u64 end,
                   Visit& visit) const {
    const Layout* const layout = layouts_.of(tag);
    if (layout == nullptr) return;
    const bool flexible = (tag & 1) != 0;
    if (begin <= at && at + bytes <= end) layout->for_each_pointer(place, bytes, flexible, visit);
    else
      layout->for_each_pointer(place, bytes, flexible, begin > at ? begin - at : 0,
                               std::min(end - at, bytes), visit);
  }

  Heap& heap_;
  Layouts layouts_{heap_.types_};
  std::vector<u64> large_;  ///< first units, ascending
};

}  // namespace perdura::heap
