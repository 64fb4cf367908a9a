// Visits the words of a heap's typed blocks that may be pointers, by the place they lie at. While
// nobody allocates or frees in the heap, except as said below. Several threads may visit at once.
#pragma once

#include <algorithm>
#include <vector>

#include "base/mutant.hpp"
#include "heap/heap.hpp"
#include "track/dirty_map.hpp"

namespace perdura::heap {

class TypedWords {
 public:
  /// Of a heap whose types are loaded. Large blocks that are made later are not found.
  explicit TypedWords(const Heap& heap)
      : blocks_(heap.blocks()), units_(blocks_.units()), types_(heap.types().layouts()) {
    units_.for_each([this](u64 unit, const format::UnitEntry& entry) {
      if (entry.kind == format::UnitKind::kLarge) large_.push_back(unit);
      return true;
    });
  }

  /// The block that holds an address of the region; with no units when none does.
  Block find(const void* address) const {
    Block block = run_at(address);
    if (block.slab == nullptr) return block;
    const ClassInfo& info = block.info();
    const auto offset = static_cast<u64>(static_cast<const std::byte*>(address) -
                                         reinterpret_cast<const std::byte*>(block.slab));
    block.index = static_cast<u32>(offset * info.reciprocal >> 32);
    const bool allocated =
        block.index >= info.first_block && block.index < info.block_count && !block.is_free();
    return allocated ? block : Block{};
  }
  std::byte* place_of(const Block& block) const { return blocks_.place_of(block); }

  /// visit(word, maybe) of each word in [begin, end) of the region, once: whoever changes a word
  /// must not meet what it stored. Blocks may be made meanwhile; their words may be visited or not.
  template <class Visit>
  void for_each_in(u64 begin, u64 end, Visit&& visit) const {
    const Layouts layouts(types_);
    const u64 data = units_.header().data_begin;
    for (u64 at = std::max(begin, data); at < end;) {
      const Block first = run_at(blocks_.region().base() + at);
      if (first.entry.units == 0) {
        at = round_down(at - data, format::kUnitBytes) + data + format::kUnitBytes;
        if (units_.unit_of(blocks_.region().base() + at) == ~u64{0}) return;
        continue;
      }
      const u64 head = data + first.unit * format::kUnitBytes;
      const u64 next = head + first.entry.units * format::kUnitBytes;
      if (first.slab == nullptr)
        visit_block(layouts, units_.address(first.unit), head, next - head, first.entry.mark, begin,
                    end, visit);
      else visit_slab(layouts, first, at, std::min(end, next), visit);
      at = next;
    }
  }

  /// The same of each page in the set.
  template <class Visit>
  void for_each_in(const track::DirtyMap& pages, Visit&& visit) const {
    for_each_range([&](auto&& add) { pages.for_each_page(add); }, visit);
  }
  /// The same of each page in a group of the set.
  template <class Visit>
  void for_each_in(const track::DirtyMap& pages, u64 group, Visit&& visit) const {
    for_each_range([&](auto&& add) { pages.visit_group(group, add); }, visit);
  }

 private:
  /// Pages that follow each other are visited as one range: a block of several has one visit.
  template <class ForEachPage, class Visit>
  void for_each_range(ForEachPage&& for_each_page, Visit& visit) const {
    u64 begin = 0;
    u64 end = 0;
    for_each_page([&](u64 page, u64) {
      if (page * kPageBytes != end) {
        for_each_in(begin, end, visit);
        begin = page * kPageBytes;
      }
      end = (page + 1) * kPageBytes;
    });
    for_each_in(begin, end, visit);
  }

  /// The slab or large block that holds an address of the region; with no units when none does.
  Block run_at(const void* address) const {
    const Block block = blocks_.slab_of(static_cast<const std::byte*>(address));
    if (block.slab != nullptr) return block;
    const auto after = std::upper_bound(large_.begin(), large_.end(), block.unit);
    if (block.unit == ~u64{0} || after == large_.begin()) return {};
    const u64 first = *(after - 1);
    const format::UnitEntry entry = units_.entry(first);
    if (entry.kind != format::UnitKind::kLarge || block.unit - first >= entry.units) return {};
    return {first, entry, nullptr, 0};
  }

  template <class Visit>
  void visit_slab(const Layouts& layouts, const Block& block, u64 begin, u64 end,
                  Visit& visit) const {
    const ClassInfo& info = block.info();
    if (info.types_at == 0) return;
    Slab& slab = *block.slab;
    const u64 base = blocks_.region().offset_of(block.slab);
    const u64 first = std::max<u64>(info.first_block, (begin - base) / info.block_bytes);
    const u64 last = std::min<u64>(info.block_count, (end - base - 1) / info.block_bytes + 1);
    for (u64 word = first / 64; word * 64 < last; ++word) {
      u64 live = slab.live(info, static_cast<u32>(word));
      if (word == first / 64) live &= ~u64{0} << first % 64;
      if (last - word * 64 < 64) live &= (u64{1} << (last - word * 64)) - 1;
      for (; live != 0; live &= live - 1) {
        const u64 index = word * 64 + static_cast<u64>(std::countr_zero(live));
        visit_block(layouts, slab.block(info, index), base + index * info.block_bytes,
                    info.block_bytes, slab.types(info)[index], begin, end, visit);
      }
    }
  }

  template <class Visit>
  static void visit_block(const Layouts& layouts, std::byte* place, u64 at, u64 bytes, u16 tag,
                          u64 begin, u64 end, Visit& visit) {
    const Layout* const layout = layouts.of(tag);
    if (layout == nullptr) return;
    const bool flexible = (tag & 1) != 0;
    if (begin <= at && at + bytes <= end) {
      layout->for_each_pointer(place, bytes, flexible, visit);
      return;
    }
    // A layout visits whole objects, and one may lie in several ranges that are visited.
    const u64 from = begin > at ? begin - at : 0;
    const u64 to = std::min(end - at, bytes);
    layout->for_each_pointer(place, bytes, flexible, from, to, [&](u64* word, bool maybe) {
      const auto offset = static_cast<u64>(reinterpret_cast<std::byte*>(word) - place);
      const bool is_in_range = offset + sizeof *word > from && offset < to;
      if (is_in_range || is_mutant("container_word_twice")) visit(word, maybe);
    });
  }

  const BlockMap& blocks_;
  const Units& units_;
  const std::deque<Layout>& types_;
  std::vector<u64> large_;  ///< first units, ascending
};

}  // namespace perdura::heap
